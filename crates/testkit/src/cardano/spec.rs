//! What goes into a transaction.

use super::{Era, blake, blake256, byron, cbor, shelley};

/// An output by transaction id and index.
pub type TxIn = ([u8; 32], u64);

/// A transaction to be made.
#[derive(Debug, Clone, Default)]
pub struct TxSpec {
    /// Outputs it spends, in the order written; repeats are written too.
    pub inputs: Vec<TxIn>,
    /// Outputs it creates.
    pub outputs: Vec<OutSpec>,
    /// Outputs it spends when its scripts fail.
    pub collateral: Vec<TxIn>,
    /// What it gives back when its scripts fail.
    pub collateral_return: Option<OutSpec>,
    /// The amount it says it loses when its scripts fail.
    pub total_collateral: Option<u64>,
    /// Outputs it only reads.
    pub reference_inputs: Vec<TxIn>,
    /// Its scripts fail. Has a place in blocks from Alonzo on.
    pub invalid: bool,
    /// Its fee; Byron does not write it.
    pub fee: u64,
    /// Tells otherwise equal transactions apart: lowers the last slot it is good for, or fills the
    /// attributes of a Byron transaction.
    pub salt: u64,
    /// More fields of the body by key, values in CBOR; a known key replaces what would be written.
    pub extra: Vec<(u64, Vec<u8>)>,
    /// How it is written.
    pub style: Encoding,
}

impl TxSpec {
    /// Spends `inputs` into `outputs`.
    pub fn new(inputs: &[TxIn], outputs: &[OutSpec]) -> Self {
        Self { inputs: inputs.to_vec(), outputs: outputs.to_vec(), ..Self::default() }
    }

    /// Its id in a block of `era`, so that the same block can spend its outputs.
    pub fn id(&self, era: Era) -> [u8; 32] {
        blake256(&self.body(era))
    }

    pub(super) fn body(&self, era: Era) -> Vec<u8> {
        if era < Era::Shelley { byron::tx(self) } else { shelley::body(self, era) }
    }
}

/// An output to be made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OutSpec {
    /// Bytes of the address. In a Byron transaction they must be one CBOR item.
    pub address: Vec<u8>,
    /// Lovelace.
    pub lovelace: u64,
    /// Policy, name and quantity, zero allowed. Policies are written in the order they first appear,
    /// each with all its names.
    pub assets: Vec<([u8; 28], Vec<u8>, u64)>,
    /// Its datum.
    pub datum: Option<DatumSpec>,
    /// The script it offers to other transactions.
    pub script: Option<ScriptSpec>,
    /// Written as an array although the era has maps.
    pub legacy: bool,
}

impl OutSpec {
    /// Only lovelace.
    pub fn new(address: &[u8], lovelace: u64) -> Self {
        Self { address: address.to_vec(), lovelace, ..Self::default() }
    }
}

/// A datum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatumSpec {
    /// Only its hash.
    Hash([u8; 32]),
    /// The datum itself, in CBOR.
    Inline(Vec<u8>),
}

impl DatumSpec {
    /// Its hash.
    pub fn hash(&self) -> [u8; 32] {
        match self {
            Self::Hash(hash) => *hash,
            Self::Inline(raw) => blake256(raw),
        }
    }
}

/// A script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScriptSpec {
    /// Native script, in CBOR.
    Native(Vec<u8>),
    /// Plutus V1 code.
    PlutusV1(Vec<u8>),
    /// Plutus V2 code.
    PlutusV2(Vec<u8>),
    /// Plutus V3 code.
    PlutusV3(Vec<u8>),
}

impl ScriptSpec {
    /// Its hash.
    pub fn hash(&self) -> [u8; 28] {
        let (language, content) = self.parts();
        blake(&[&[language], content].concat())
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let (language, content) = self.parts();
        let item = if language == 0 { content.to_vec() } else { cbor::bytes(content) };
        cbor::array(&[cbor::uint(language.into()), item])
    }

    fn parts(&self) -> (u8, &[u8]) {
        match self {
            Self::Native(raw) => (0, raw),
            Self::PlutusV1(code) => (1, code),
            Self::PlutusV2(code) => (2, code),
            Self::PlutusV3(code) => (3, code),
        }
    }
}

/// Ways to write the same content that the ledger accepts alike. Without effect in Byron, where
/// nodes know one way only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Encoding {
    /// Lists and maps end with a break instead of starting with their length.
    pub indefinite: bool,
    /// Sets carry tag 258; without effect before Conway.
    pub tagged_sets: bool,
    /// Maps are written back to front.
    pub odd_key_order: bool,
}

impl Encoding {
    /// Every combination.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..8u8).map(|bits| Self {
            indefinite: bits & 1 != 0,
            tagged_sets: bits & 2 != 0,
            odd_key_order: bits & 4 != 0,
        })
    }

    pub(super) fn array(self, items: &[Vec<u8>]) -> Vec<u8> {
        if self.indefinite { cbor::array_indefinite(items) } else { cbor::array(items) }
    }

    pub(super) fn set(self, era: Era, items: &[Vec<u8>]) -> Vec<u8> {
        let array = self.array(items);
        if self.tagged_sets && era >= Era::Conway { cbor::tag(258, &array) } else { array }
    }

    pub(super) fn map(self, entries: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>) -> Vec<u8> {
        let mut entries: Vec<_> =
            entries.into_iter().map(|(key, value)| [key, value].concat()).collect();
        if self.odd_key_order {
            entries.reverse();
        }
        if self.indefinite { cbor::map_indefinite(&entries) } else { cbor::map(&entries) }
    }
}
