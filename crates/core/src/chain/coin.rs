//! Digests of a set of outputs: on Bitcoin as Bitcoin Core's `gettxoutsetinfo` defines them, on
//! Cardano Blake2b-256 over the outputs in order.

use blake2b_simd::Params;
use sha2::{Digest, Sha256};

use super::{
    cardano::canonical_address,
    details::Datum,
    record::{Corrupt, UtxoRecord},
};
use crate::{MuHash, Network, OutPoint, types::Txid};

/// Appends the bytes that digests commit to.
pub fn coin_bytes_into(
    outpoint: OutPoint,
    record: &UtxoRecord<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Corrupt> {
    if record.place.is_some() {
        return cardano_bytes_into(outpoint, record, out);
    }
    bitcoin_bytes_into(outpoint, record, out);
    Ok(())
}

/// Everything the ledger knows of an output, lengths in front of what varies.
fn cardano_bytes_into(
    outpoint: OutPoint,
    record: &UtxoRecord<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Corrupt> {
    let details = record.details.parse()?;
    let short = |len: usize| u16::try_from(len).unwrap_or(u16::MAX).to_be_bytes();
    let long = |len: usize| u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes();
    out.extend_from_slice(outpoint.txid().as_bytes());
    out.extend_from_slice(&short(outpoint.index() as usize));
    out.extend_from_slice(&record.value.to_be_bytes());
    let address = canonical_address(record.address);
    out.extend_from_slice(&short(address.len()));
    out.extend_from_slice(&address);
    out.extend_from_slice(&long(details.assets.len()));
    for asset in &details.assets {
        out.extend_from_slice(asset.policy);
        out.push(u8::try_from(asset.name.len()).unwrap_or(u8::MAX));
        out.extend_from_slice(asset.name);
        out.extend_from_slice(&asset.quantity.to_be_bytes());
    }
    match details.datum {
        Datum::None => out.push(0),
        Datum::Hash(hash) => {
            out.push(1);
            out.extend_from_slice(hash);
        }
        Datum::Inline(bytes) => {
            out.push(2);
            out.extend_from_slice(&long(bytes.len()));
            out.extend_from_slice(bytes);
        }
    }
    match &details.script {
        None => out.push(0),
        Some(script) => {
            out.push(1);
            out.extend_from_slice(script.hash);
        }
    }
    out.extend_from_slice(&record.slot().to_be_bytes());
    out.push(u8::from(details.is_collateral_return));
    Ok(())
}

/// Outpoint, height and coinbase flag, amount, script.
pub(crate) fn bitcoin_bytes_into(outpoint: OutPoint, record: &UtxoRecord<'_>, out: &mut Vec<u8>) {
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

    /// Counts all outputs of another part of the set in.
    const fn combine(&mut self, part: &Self) {
        self.txouts = self.txouts.wrapping_add(part.txouts);
        self.total_amount = self.total_amount.wrapping_add(part.total_amount);
        self.bogosize = self.bogosize.wrapping_add(part.bogosize);
    }
}

#[derive(Debug, Clone)]
enum Ordered {
    /// `hash_serialized_3`: SHA-256 twice.
    Sha256d(Sha256),
    Blake2b(Box<blake2b_simd::State>),
}

/// Collects a scan of the whole set into every digest that was asked for.
#[derive(Debug)]
pub struct SetDigest {
    totals: Totals,
    asset_entries: u64,
    muhash: Option<MuHash>,
    ordered: Option<Ordered>,
    buffer: Vec<u8>,
}

impl SetDigest {
    /// Starts with an empty set. `unordered` asks for `MuHash`, `ordered` for the hash that needs
    /// the outputs in order of (transaction id bytes, index).
    #[must_use]
    pub fn new(network: Network, unordered: bool, ordered: bool) -> Self {
        let hasher = || {
            if network.is_cardano() {
                Ordered::Blake2b(Box::new(Params::new().hash_length(32).to_state()))
            } else {
                Ordered::Sha256d(Sha256::new())
            }
        };
        Self {
            totals: Totals::default(),
            asset_entries: 0,
            muhash: unordered.then(MuHash::new),
            ordered: ordered.then(hasher),
            buffer: Vec::new(),
        }
    }

    /// Adds an output.
    pub fn add(&mut self, outpoint: OutPoint, record: &UtxoRecord<'_>) -> Result<(), Corrupt> {
        self.totals.add(record.value, record.address.len());
        if record.details.has_assets() {
            self.asset_entries += record.details.parse()?.assets.len() as u64;
        }
        if self.muhash.is_none() && self.ordered.is_none() {
            return Ok(());
        }
        self.buffer.clear();
        coin_bytes_into(outpoint, record, &mut self.buffer)?;
        if let Some(muhash) = &mut self.muhash {
            muhash.insert(&self.buffer);
        }
        match &mut self.ordered {
            Some(Ordered::Sha256d(hasher)) => hasher.update(&self.buffer),
            Some(Ordered::Blake2b(hasher)) => {
                hasher.update(&self.buffer);
            }
            None => {}
        }
        Ok(())
    }

    /// Adds the outputs of another part of the set. The ordered hash is lost: it cannot be made of
    /// those of parts.
    pub fn combine(&mut self, part: &Self) {
        self.ordered = None;
        self.totals.combine(&part.totals);
        self.asset_entries += part.asset_entries;
        if let (Some(whole), Some(part)) = (&mut self.muhash, &part.muhash) {
            whole.combine(part);
        }
    }

    /// Totals so far.
    #[must_use]
    pub const fn totals(&self) -> Totals {
        self.totals
    }

    /// Pairs of output and asset so far.
    #[must_use]
    pub const fn asset_entries(&self) -> u64 {
        self.asset_entries
    }

    /// The accumulator, when it was asked for.
    #[must_use]
    pub const fn muhash(&self) -> Option<&MuHash> {
        self.muhash.as_ref()
    }

    /// Digest of the accumulator, when it was asked for.
    #[must_use]
    pub fn unordered_hash(&self) -> Option<[u8; 32]> {
        self.muhash.as_ref().map(MuHash::digest)
    }

    /// The ordered hash in hash order, when it was asked for.
    #[must_use]
    pub fn ordered_hash(&self) -> Option<[u8; 32]> {
        Some(match self.ordered.as_ref()? {
            Ordered::Sha256d(hasher) => Sha256::digest(hasher.clone().finalize()).into(),
            Ordered::Blake2b(hasher) => {
                let hash = hasher.finalize();
                *Txid::from_slice(hash.as_bytes()).unwrap_or_default().as_bytes()
            }
        })
    }
}
