//! The genesis of a chain: known to the program, given in files, or kept in a database.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use utxokeep_chains::{BlockDecoder, cardano::Genesis};
use utxokeep_core::Network;
use utxokeep_index::Identity;

use super::{ChainConfig, ConfigError};

/// Genesis files are at most a few MiB long: the Byron file of mainnet has about one.
const GENESIS_BYTES_MAX: u64 = 64 << 20;

impl ChainConfig {
    /// The decoder for blocks of `network`. The genesis of a devnet is the one of the files, if
    /// they are stated, else the one of the database.
    pub(super) fn decoder(
        &self,
        network: Network,
        database: Option<&Identity>,
    ) -> Result<BlockDecoder, ConfigError> {
        let (byron, shelley) = (self.genesis_byron.as_deref(), self.genesis_shelley.as_deref());
        if network != Network::CardanoDevnet {
            return match byron.or(shelley) {
                Some(_) => Err(ConfigError::GenesisNotTaken { network }),
                None => Ok(BlockDecoder::new(network)),
            };
        }
        let kept = database.and_then(|identity| identity.genesis.as_deref());
        let genesis = match (byron, shelley, kept) {
            (byron, Some(shelley), _) => {
                let byron = byron.map(read).transpose()?;
                let genesis = Genesis::from_files(byron.as_deref(), &read(shelley)?)?;
                if genesis.network_id() != 0 {
                    let reason = "its networkId is that of the main network, whose addresses a \
                                  devnet does not take; make it Testnet";
                    return Err(ConfigError::GenesisKind { path: shelley.to_owned(), reason });
                }
                genesis
            }
            (None, None, Some(kept)) => Genesis::decode(kept)?,
            _ => return Err(ConfigError::NoGenesis),
        };
        Ok(BlockDecoder::with_genesis(network, genesis))
    }

    /// Takes genesis files in any order, and tells by their content which is which.
    pub fn set_genesis(&mut self, files: &[PathBuf]) -> Result<(), ConfigError> {
        if files.is_empty() {
            return Ok(());
        }
        (self.genesis_byron, self.genesis_shelley) = (None, None);
        for path in files {
            let wrong = |reason| ConfigError::GenesisKind { path: path.clone(), reason };
            let content: Value =
                serde_json::from_slice(&read(path)?).map_err(|_| wrong("the file is not JSON"))?;
            let has = |field| content.get(field).is_some();
            let kind = if has("protocolConsts") || has("blockVersionData") {
                &mut self.genesis_byron
            } else if has("protocolParams") || has("initialFunds") || has("epochLength") {
                &mut self.genesis_shelley
            } else {
                return Err(wrong("the file is of neither era"));
            };
            if kind.replace(path.clone()).is_some() {
                return Err(wrong("a second genesis file of the same era"));
            }
        }
        Ok(())
    }
}

fn read(path: &Path) -> Result<Vec<u8>, ConfigError> {
    let failed = |source| ConfigError::ReadGenesis { path: path.to_owned(), source };
    if fs::metadata(path).map_err(failed)?.len() > GENESIS_BYTES_MAX {
        let reason = "the file is too long for a genesis";
        return Err(ConfigError::GenesisKind { path: path.to_owned(), reason });
    }
    fs::read(path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn genesis_files_are_told_apart_by_their_content() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let byron = write("one.json", r#"{"protocolConsts":{}}"#);
        let shelley = write("two.json", r#"{"initialFunds":{}}"#);
        let mut chain = ChainConfig::default();
        chain.set_genesis(&[shelley.clone(), byron.clone()]).unwrap();
        assert_eq!(chain.genesis_byron.as_ref(), Some(&byron));
        assert_eq!(chain.genesis_shelley.as_ref(), Some(&shelley));

        let text = write("three.json", "hello");
        let alonzo = write("four.json", r#"{"collateralPercentage":150}"#);
        for (files, expected) in [
            (vec![text], "is not JSON"),
            (vec![alonzo], "of neither era"),
            (vec![byron.clone(), byron], "a second genesis file"),
            (vec![dir.path().join("absent")], "cannot read the genesis file"),
        ] {
            let error = chain.set_genesis(&files).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn only_a_devnet_takes_genesis_files_and_it_needs_them() {
        let mut chain = ChainConfig::default();
        let error = chain.decoder(Network::CardanoDevnet, None).unwrap_err().to_string();
        assert!(error.contains("--genesis FILE"), "{error}");
        chain.genesis_shelley = Some("shelley.json".into());
        for network in [Network::CardanoPreview, Network::BitcoinRegtest] {
            let error = chain.decoder(network, None).unwrap_err().to_string();
            assert!(error.contains("takes no genesis files"), "{error}");
        }
    }
}
