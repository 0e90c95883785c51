//! A proof as JSON and as CBOR.
//!
//! Both are strict: whatever reads as a proof is written again in the same way, so that two
//! documents of one proof do not differ in what a reader skips.

use minicbor::{Decoder, Encoder};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};

use super::{MmrProof, MmrRule, NodeHash, ProvenState};
use crate::{Network, chain::record::INFALLIBLE, hex_decode, hex_encode};

/// Version of the document.
const VERSION: u32 = 1;
/// The longest document that is read.
pub const MMR_PROOF_BYTES_MAX: usize = 1 << 20;
/// A path is never longer: 63 levels, the bag to the right and the peaks to the left.
const PATH_MAX: u64 = 128;

/// Why a document is no proof.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a proof: {detail}")]
pub struct MmrProofError {
    detail: String,
}

impl MmrProofError {
    /// A complaint.
    #[allow(clippy::needless_pass_by_value)] // errors are moved in and printed
    pub fn new(detail: impl ToString) -> Self {
        Self { detail: detail.to_string() }
    }
}

/// The JSON document. Hashes of the chain are written as its people write them.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    version: u32,
    rule: String,
    network: String,
    height: u32,
    block_hash: String,
    leaves: u64,
    root: String,
    leaf: u64,
    /// A text: an enum would be read from `{"spent": null}` too.
    state: String,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "stated")]
    tx_hash: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "stated")]
    output_index: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "stated")]
    content: Option<String>,
    path: Vec<String>,
}

const UNSPENT: &str = "unspent";
const SPENT: &str = "spent";

/// A field that is left out or has a value; `null` is none.
fn stated<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// The network of a proof: it says how hashes are written, so that an unknown one cannot be read.
fn known_network(text: &str) -> Result<Network, MmrProofError> {
    text.parse().map_err(MmrProofError::new)
}

impl Document {
    fn of(proof: &MmrProof) -> Result<Self, MmrProofError> {
        let network = known_network(&proof.network)?;
        let output = match &proof.state {
            ProvenState::Unspent { txid, index, content } => Some((txid, index, content)),
            ProvenState::Spent => None,
        };
        Ok(Self {
            version: VERSION,
            rule: MmrRule::Tombstone.to_string(),
            network: proof.network.clone(),
            height: proof.height,
            block_hash: network.hash_text(&proof.block_hash),
            leaves: proof.leaves,
            root: hex_encode(&proof.root),
            leaf: proof.leaf,
            state: match &proof.state {
                ProvenState::Unspent { .. } => UNSPENT.to_owned(),
                ProvenState::Spent => SPENT.to_owned(),
            },
            tx_hash: output.map(|(txid, _, _)| network.hash_text(txid)),
            output_index: output.map(|(_, index, _)| *index),
            content: output.map(|(_, _, content)| hex_encode(content)),
            path: proof.path.iter().map(|hash| hex_encode(hash)).collect(),
        })
    }

    fn into_proof(self) -> Result<MmrProof, MmrProofError> {
        if self.version != VERSION {
            return Err(MmrProofError::new(format!("version {} is not known", self.version)));
        }
        if self.rule != MmrRule::Tombstone.to_string() {
            return Err(MmrProofError::new(format!("rule `{}` is not known", self.rule)));
        }
        let network = known_network(&self.network)?;
        let chain_hash = |text: &str| {
            let hash = network.parse_hash(text).map_err(MmrProofError::new)?;
            if network.hash_text(&hash) != text {
                return Err(MmrProofError::new("not lower-case hexadecimal"));
            }
            Ok(hash)
        };
        let state = match (self.state.as_str(), self.tx_hash, self.output_index, self.content) {
            (UNSPENT, Some(txid), Some(index), Some(content)) => ProvenState::Unspent {
                txid: chain_hash(&txid)?,
                index,
                content: lower_hex(&content)?,
            },
            (SPENT, None, None, None) => ProvenState::Spent,
            _ => {
                return Err(MmrProofError::new(
                    "the state is `unspent` with the name of the output, or `spent` without",
                ));
            }
        };
        Ok(MmrProof {
            height: self.height,
            block_hash: chain_hash(&self.block_hash)?,
            leaves: self.leaves,
            root: hash(&self.root)?,
            leaf: self.leaf,
            state,
            path: self.path.iter().map(|text| hash(text)).collect::<Result<_, _>>()?,
            network: self.network,
        })
    }
}

fn lower_hex(text: &str) -> Result<Vec<u8>, MmrProofError> {
    let bytes = hex_decode(text).filter(|bytes| hex_encode(bytes) == text);
    bytes.ok_or_else(|| MmrProofError::new("not lower-case hexadecimal"))
}

fn hash(text: &str) -> Result<NodeHash, MmrProofError> {
    let bytes = lower_hex(text)?.try_into();
    bytes.map_err(|_| MmrProofError::new("a hash is not 32 bytes long"))
}

impl Serialize for MmrProof {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Document::of(self).map_err(ser::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for MmrProof {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Document::deserialize(deserializer)?.into_proof().map_err(de::Error::custom)
    }
}

impl MmrProof {
    /// The proof as a CBOR map with integer keys; hashes are bytes in hash order.
    #[must_use]
    pub fn to_cbor(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256 + self.path.len() * 34);
        let mut e = Encoder::new(&mut out);
        let mut write = || -> Result<(), minicbor::encode::Error<std::convert::Infallible>> {
            let is_unspent = self.state != ProvenState::Spent;
            e.map(if is_unspent { 12 } else { 9 })?;
            e.u8(0)?.u32(VERSION)?;
            e.u8(1)?.str(&self.network)?;
            e.u8(2)?.u32(self.height)?;
            e.u8(3)?.bytes(&self.block_hash)?;
            e.u8(4)?.u64(self.leaves)?;
            e.u8(5)?.bytes(&self.root)?;
            e.u8(6)?.u64(self.leaf)?;
            e.u8(7)?.bool(is_unspent)?;
            if let ProvenState::Unspent { txid, index, content } = &self.state {
                e.u8(8)?.bytes(txid)?;
                e.u8(9)?.u32(*index)?;
                e.u8(10)?.bytes(content)?;
            }
            e.u8(11)?.array(self.path.len() as u64)?;
            for hash in &self.path {
                e.bytes(hash)?;
            }
            Ok(())
        };
        write().expect(INFALLIBLE);
        out
    }

    /// Inverse of [`MmrProof::to_cbor`].
    pub fn from_cbor(bytes: &[u8]) -> Result<Self, MmrProofError> {
        let proof = read_cbor(bytes).map_err(MmrProofError::new)?;
        known_network(&proof.network)?;
        if proof.to_cbor() != bytes {
            return Err(MmrProofError::new("it is not written as proofs are"));
        }
        Ok(proof)
    }
}

fn read_cbor(bytes: &[u8]) -> Result<MmrProof, minicbor::decode::Error> {
    let mut d = Decoder::new(bytes);
    let wrong = minicbor::decode::Error::message;
    let key = |d: &mut Decoder<'_>, number: u8| {
        if d.u8()? == number { Ok(()) } else { Err(wrong("fields are out of order")) }
    };
    let hash = |d: &mut Decoder<'_>| {
        NodeHash::try_from(d.bytes()?).map_err(|_| wrong("a hash is not 32 bytes long"))
    };
    d.map()?;
    key(&mut d, 0)?;
    if d.u32()? != VERSION {
        return Err(wrong("its version is not known"));
    }
    key(&mut d, 1)?;
    let network = d.str()?.to_owned();
    key(&mut d, 2)?;
    let height = d.u32()?;
    key(&mut d, 3)?;
    let block_hash = hash(&mut d)?;
    key(&mut d, 4)?;
    let leaves = d.u64()?;
    key(&mut d, 5)?;
    let root = hash(&mut d)?;
    key(&mut d, 6)?;
    let leaf = d.u64()?;
    key(&mut d, 7)?;
    let state = if d.bool()? {
        key(&mut d, 8)?;
        let txid = hash(&mut d)?;
        key(&mut d, 9)?;
        let index = d.u32()?;
        key(&mut d, 10)?;
        ProvenState::Unspent { txid, index, content: d.bytes()?.to_vec() }
    } else {
        ProvenState::Spent
    };
    key(&mut d, 11)?;
    let len = d.array()?.filter(|len| *len <= PATH_MAX).ok_or_else(|| wrong("no such path"))?;
    let path = (0..len).map(|_| hash(&mut d)).collect::<Result<_, _>>()?;
    Ok(MmrProof { network, height, block_hash, leaves, root, leaf, state, path })
}
