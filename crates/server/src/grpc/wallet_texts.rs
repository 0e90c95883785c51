//! From the bytes of messages to the texts of requests to the wallet ledger.
//!
//! Requests hold hashes as people of a chain write them; messages hold bytes in internal order.
//! Hashes of answers know their bytes.

use utxokeep_core::{Network, hex_encode};

use super::{
    fault::{Fault, Within},
    from_proto as from, proto,
};

/// Conversions for one network.
#[derive(Debug, Clone, Copy)]
pub(super) struct Texts(pub(super) Network);

impl Texts {
    pub(super) fn hash(self, bytes: &[u8]) -> Result<String, Fault> {
        Ok(self.0.hash(from::hash(bytes)?).to_string())
    }

    pub(super) fn outpoint(self, outpoint: &proto::OutPoint) -> Result<String, Fault> {
        let txid = self.hash(&outpoint.txid).within("txid")?;
        Ok(format!("{txid}:{}", outpoint.vout))
    }
}

/// The owner of leases, who is the same on every chain.
pub(super) fn lease_owner(bytes: &[u8]) -> Result<String, Fault> {
    Ok(hex_encode(&from::hash(bytes)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_turned_round_where_people_read_them_so() {
        let mut bytes = [0; 32];
        bytes[0] = 0xab;
        for (network, text) in [
            (Network::BitcoinRegtest, format!("{}ab", "00".repeat(31))),
            (Network::CardanoPreview, format!("ab{}", "00".repeat(31))),
        ] {
            let texts = Texts(network);
            assert_eq!(texts.hash(&bytes), Ok(text.clone()));
            let outpoint = proto::OutPoint { txid: bytes.to_vec(), vout: 7 };
            assert_eq!(texts.outpoint(&outpoint), Ok(format!("{text}:7")));
        }
        assert!(Texts(Network::BitcoinRegtest).hash(&bytes[1..]).is_err());
    }
}
