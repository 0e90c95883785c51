//! Which Merkle mountain range the configuration and a database ask for together.

use utxokeep_core::mmr::MmrRule;
use utxokeep_index::Identity;

use super::{Config, ConfigError, MmrRuleName, Store};

const STORE: &str = "index.store";

impl From<MmrRuleName> for MmrRule {
    fn from(name: MmrRuleName) -> Self {
        match name {
            MmrRuleName::Tombstone => Self::Tombstone,
            MmrRuleName::Utreexo => Self::Utreexo,
        }
    }
}

impl Config {
    /// The structure that the file states, if it states one.
    #[must_use]
    pub fn stated_store(&self) -> Option<Store> {
        self.is_stated(STORE).then_some(self.index.store)
    }

    /// The rule that the file states, if it states one.
    #[must_use]
    pub fn stated_mmr_rule(&self) -> Option<MmrRule> {
        self.index.mmr_rule.map(MmrRule::from)
    }

    /// Rule of the tree that the index is opened with; `None` for an index without one. What the file
    /// does not state is as in the database.
    pub(super) fn mmr(&self, database: Option<&Identity>) -> Option<MmrRule> {
        let found = database.and_then(|identity| identity.mmr);
        match self.stated_store() {
            None => found,
            Some(Store::Classic) => None,
            Some(Store::Mmr) => Some(self.stated_mmr_rule().or(found).unwrap_or_default()),
        }
    }

    /// A rule without a tree would have no effect.
    pub(super) fn check_mmr(&self, file: &str) -> Result<(), ConfigError> {
        if self.index.mmr_rule.is_none() || self.index.store == Store::Mmr {
            return Ok(());
        }
        let detail = "index.mmr_rule needs index.store = \"mmr\": there is no tree whose rule it \
                      could be; add the store, or take the rule out";
        Err(ConfigError::Together { file: file.to_owned(), detail })
    }
}

#[cfg(test)]
mod tests {
    use utxokeep_core::{Filter, Network};

    use super::*;

    fn database(mmr: Option<MmrRule>) -> Identity {
        Identity {
            network: Network::BitcoinRegtest,
            enabled: true,
            address_index: true,
            muhash: false,
            mmr,
            payment_index: false,
            stake_index: false,
            filter: Filter::default(),
            genesis: None,
        }
    }

    #[test]
    fn what_the_file_does_not_state_is_as_in_the_database() {
        let (tombstone, utreexo) = (Some(MmrRule::Tombstone), Some(MmrRule::Utreexo));
        let cases = [
            ("", None, None),
            ("", utreexo, utreexo),
            ("store = \"classic\"", utreexo, None),
            ("store = \"mmr\"", None, tombstone),
            ("store = \"mmr\"", utreexo, utreexo),
            ("store = \"mmr\"\nmmr_rule = \"utreexo\"", None, utreexo),
            ("store = \"mmr\"\nmmr_rule = \"tombstone\"", utreexo, tombstone),
        ];
        for (text, found, expected) in cases {
            let config = Config::parse(&format!("[index]\n{text}"), "test.toml").unwrap();
            let opened =
                config.settings(Network::BitcoinRegtest, Some(&database(found))).unwrap().mmr;
            assert_eq!(opened, expected, "{text} over {found:?}");
        }
        let new = Config::parse("[index]\nstore = \"mmr\"", "test.toml").unwrap();
        assert_eq!(new.settings(Network::BitcoinRegtest, None).unwrap().mmr, tombstone);
    }
}
