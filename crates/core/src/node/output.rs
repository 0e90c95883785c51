//! One output as the node store keeps it.

use crate::types::Txid;

/// Who spends an output: transaction and position of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpendingData {
    /// The spending transaction.
    pub txid: Txid,
    /// Position of the input in it.
    pub vin: u32,
}

impl SpendingData {
    /// Length of the bytes.
    pub const LEN: usize = 36;

    /// Transaction id, then the position in little endian, as Teranode writes it.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..32].copy_from_slice(self.txid.as_bytes());
        bytes[32..].copy_from_slice(&self.vin.to_le_bytes());
        bytes
    }

    /// Inverse of [`SpendingData::to_bytes`].
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (txid, vin) = bytes.split_at_checked(32)?;
        let vin = u32::from_le_bytes(vin.try_into().ok()?);
        Some(Self { txid: Txid::from_slice(txid)?, vin })
    }
}

/// What became of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputState {
    /// Nobody spent it.
    Unspent,
    /// Nobody may spend it until it is unfrozen.
    Frozen,
    /// Spent.
    Spent(SpendingData),
}

/// An output that can be spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputRecord {
    /// Commitment to the output.
    pub hash: [u8; 32],
    /// What became of it.
    pub state: OutputState,
    /// Not before this height, after it was given to another owner.
    pub spendable_at: Option<u32>,
}

impl OutputRecord {
    /// A new output.
    #[must_use]
    pub const fn new(hash: [u8; 32]) -> Self {
        Self { hash, state: OutputState::Unspent, spendable_at: None }
    }

    /// Who spent it.
    #[must_use]
    pub const fn spent_by(&self) -> Option<SpendingData> {
        match self.state {
            OutputState::Spent(by) => Some(by),
            OutputState::Unspent | OutputState::Frozen => None,
        }
    }
}
