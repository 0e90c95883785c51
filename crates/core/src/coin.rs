//! Digests of a set of outputs, as Bitcoin Core's `gettxoutsetinfo` defines them.

use sha2::{Digest, Sha256};

use crate::{MuHash, OutPoint, record::UtxoRecord};

/// Appends the bytes both digests commit to: outpoint, height and coinbase flag, amount, script.
pub fn coin_bytes_into(outpoint: OutPoint, record: &UtxoRecord<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(outpoint.txid().as_bytes());
    out.extend_from_slice(&outpoint.index().to_le_bytes());
    let code = record.height.get() << 1 | u32::from(record.is_coinbase);
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&record.value.to_le_bytes());
    let script_len = record.address.len() as u64;
    match script_len {
        0..=0xfc => out.push(script_len.to_le_bytes()[0]),
        0xfd..=0xffff => {
            out.push(0xfd);
            out.extend_from_slice(&script_len.to_le_bytes()[..2]);
        }
        _ => {
            out.push(0xfe);
            out.extend_from_slice(&script_len.to_le_bytes()[..4]);
        }
    }
    out.extend_from_slice(record.address);
}

/// Size of one output in the node's database-independent metric.
#[must_use]
pub const fn bogosize(script_len: usize) -> u64 {
    50 + script_len as u64
}

/// Running totals of a set of outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Number of outputs.
    pub txouts: u64,
    /// Sum of their amounts.
    pub total_amount: u64,
    /// Sum of their [`bogosize`].
    pub bogosize: u64,
}

impl Totals {
    /// Counts an output in.
    pub const fn add(&mut self, value: u64, script_len: usize) {
        self.txouts = self.txouts.wrapping_add(1);
        self.total_amount = self.total_amount.wrapping_add(value);
        self.bogosize = self.bogosize.wrapping_add(bogosize(script_len));
    }

    /// Counts an output out. The set holds what is removed, so the sums never go below zero; they
    /// wrap rather than panic on a damaged database, where `verify` then shows the difference.
    pub const fn sub(&mut self, value: u64, script_len: usize) {
        self.txouts = self.txouts.wrapping_sub(1);
        self.total_amount = self.total_amount.wrapping_sub(value);
        self.bogosize = self.bogosize.wrapping_sub(bogosize(script_len));
    }
}

/// Collects a scan of the whole set into every digest that was asked for.
#[derive(Debug)]
pub struct SetDigest {
    totals: Totals,
    muhash: Option<MuHash>,
    serialized: Option<Sha256>,
    buffer: Vec<u8>,
}

impl SetDigest {
    /// Starts with an empty set. `serialized` asks for `hash_serialized_3` as well, which needs
    /// the outputs in order of (transaction id bytes, index).
    #[must_use]
    pub fn new(muhash: bool, serialized: bool) -> Self {
        Self {
            totals: Totals::default(),
            muhash: muhash.then(MuHash::new),
            serialized: serialized.then(Sha256::new),
            buffer: Vec::new(),
        }
    }

    /// Adds an output.
    pub fn add(&mut self, outpoint: OutPoint, record: &UtxoRecord<'_>) {
        self.totals.add(record.value, record.address.len());
        if self.muhash.is_none() && self.serialized.is_none() {
            return;
        }
        self.buffer.clear();
        coin_bytes_into(outpoint, record, &mut self.buffer);
        if let Some(muhash) = &mut self.muhash {
            muhash.insert(&self.buffer);
        }
        if let Some(serialized) = &mut self.serialized {
            serialized.update(&self.buffer);
        }
    }

    /// Totals so far.
    #[must_use]
    pub const fn totals(&self) -> Totals {
        self.totals
    }

    /// The accumulator, when it was asked for.
    #[must_use]
    pub const fn muhash(&self) -> Option<&MuHash> {
        self.muhash.as_ref()
    }

    /// `hash_serialized_3` in hash order, when it was asked for.
    #[must_use]
    pub fn hash_serialized(&self) -> Option<[u8; 32]> {
        self.serialized.clone().map(|hasher| Sha256::digest(hasher.finalize()).into())
    }
}
