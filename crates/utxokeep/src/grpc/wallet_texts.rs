//! Between the bytes of messages and the texts of the models of the wallet ledger.
//!
//! The models hold hashes as people of a chain write them; messages hold bytes in internal order.
//! This is the only place that turns one into the other.

use utxokeep_core::{Network, hex_decode, hex_encode};

use super::{
    fault::{Fault, Within},
    from_proto as from, proto,
};

/// Why a text of an answer can always be read.
const OURS: &str = "answers of the ledger hold well-formed texts";

/// Conversions for one network.
#[derive(Debug, Clone, Copy)]
pub(super) struct Texts(pub(super) Network);

impl Texts {
    /// For a network that an answer names.
    pub(super) fn of(chain: &str, network: &str) -> Self {
        Self(Network::find(chain, network).expect(OURS))
    }

    pub(super) fn hash(self, bytes: &[u8]) -> Result<String, Fault> {
        Ok(self.0.hash_text(&from::hash(bytes)?))
    }

    pub(super) fn outpoint(self, outpoint: &proto::OutPoint) -> Result<String, Fault> {
        let txid = self.hash(&outpoint.txid).within("txid")?;
        Ok(format!("{txid}:{}", outpoint.vout))
    }

    pub(super) fn hash_bytes(self, text: &str) -> Vec<u8> {
        self.0.parse_hash(text).expect(OURS).to_vec()
    }

    pub(super) fn hashes_bytes(self, texts: &[String]) -> Vec<Vec<u8>> {
        texts.iter().map(|text| self.hash_bytes(text)).collect()
    }

    pub(super) fn outpoint_message(self, text: &str) -> proto::OutPoint {
        let (txid, vout) = text.rsplit_once(':').expect(OURS);
        proto::OutPoint { txid: self.hash_bytes(txid), vout: vout.parse().expect(OURS) }
    }
}

/// The owner of leases, who is the same on every chain.
pub(super) fn lease_owner(bytes: &[u8]) -> Result<String, Fault> {
    Ok(hex_encode(&from::hash(bytes)?))
}

/// Bytes that the models hold in hexadecimal.
pub(super) fn hex_bytes(text: &str) -> Vec<u8> {
    hex_decode(text).expect(OURS)
}

/// A number that the models hold as a text. One that does not fit is cut at the end of the range.
pub(super) fn signed(text: &str) -> i64 {
    let value: i128 = text.parse().expect(OURS);
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
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
            assert_eq!(texts.hash_bytes(&text), bytes);
            let outpoint = proto::OutPoint { txid: bytes.to_vec(), vout: 7 };
            assert_eq!(texts.outpoint(&outpoint), Ok(format!("{text}:7")));
            assert_eq!(texts.outpoint_message(&format!("{text}:7")), outpoint);
        }
        assert!(Texts(Network::BitcoinRegtest).hash(&bytes[1..]).is_err());
    }

    #[test]
    fn numbers_are_cut_at_the_ends() {
        assert_eq!(signed("-5"), -5);
        assert_eq!(signed("9223372036854775808"), i64::MAX);
        assert_eq!(signed("-9223372036854775809"), i64::MIN);
    }
}
