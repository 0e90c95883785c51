//! Which locks a transaction needs so that the scripts of its inputs let it pass.
//!
//! A descriptor may be spent in several ways, some of them only later (`older`, `after`). Of the
//! ways that signatures open, the one that is valid first is planned; preimages of hashes are only
//! counted on where nothing else opens.

use std::{cell::RefCell, collections::BTreeMap};

use ::bitcoin::{Sequence, TapLeafHash, absolute, relative};
use miniscript::{
    Descriptor, MiniscriptKey,
    descriptor::{DefiniteDescriptorKey, DescriptorPublicKey, SinglePubKey},
    plan::{AssetProvider, Plan},
};
use utxokeep_core::wallet::{LockTime, NextBlock, RelativeLock, SpendLocks, ValidFrom};

use super::{PsbtError, PsbtInput};

/// Different locks of each kind in one descriptor; of more, the shortest are tried.
const LOCKS_MAX: usize = 16;
/// Bytes of a Schnorr signature with a sighash type.
const SCHNORR_BYTES: usize = 65;
/// The point of BIP-341 whose secret nobody knows. Whoever wants no key path takes it, as it is or
/// as the root of an extended key, whose children nobody can sign for either.
const NOBODYS_KEY: [u8; 32] = [
    0x50, 0x92, 0x9b, 0x74, 0xc1, 0xa0, 0x49, 0x54, 0xb7, 0x8b, 0x4b, 0x60, 0x35, 0xe9, 0x7a, 0x5e,
    0x07, 0x8a, 0x5a, 0x0f, 0x28, 0xec, 0x96, 0xd5, 0x47, 0xbf, 0xee, 0x9a, 0xce, 0x80, 0x3a, 0xc0,
];

/// Sequence number of every input, the lock time, and when both are met.
pub(super) struct TxLocks {
    pub(super) sequences: Vec<Sequence>,
    pub(super) lock_time: LockTime,
    pub(super) valid_from: ValidFrom,
}

/// Plans the locks of a transaction. `definite` are the descriptors of its inputs, where known.
pub(super) fn plan_locks(
    inputs: &[PsbtInput],
    definite: &[Option<Descriptor<DefiniteDescriptorKey>>],
    asked: LockTime,
    next: NextBlock,
) -> Result<TxLocks, PsbtError> {
    let mut known: BTreeMap<&str, Vec<SpendLocks>> = BTreeMap::new();
    let mut lock_time = asked;
    let mut valid_from = ValidFrom::default();
    let mut sequences = Vec::with_capacity(inputs.len());
    for (input, definite) in inputs.iter().zip(definite) {
        let locks = match (definite, &input.origin) {
            // All scripts of one descriptor have the same locks.
            (Some(definite), Some(origin)) => known
                .entry(&origin.descriptor)
                .or_insert_with(|| ways(definite))
                .iter()
                .copied()
                .min_by_key(|locks| {
                    let from = locks.valid_from(input.age, next);
                    (!from.is_met(next), from)
                })
                .ok_or(PsbtError::Unspendable { outpoint: input.outpoint })?,
            _ => SpendLocks { relative: relative_lock(input.sequence), absolute: None },
        };
        if let Some(absolute) = locks.absolute {
            lock_time = lock_time.and(absolute).ok_or(PsbtError::MixedLockTimes)?;
        }
        valid_from = valid_from.and(locks.valid_from(input.age, next));
        sequences.push(sequence(locks.relative));
    }
    valid_from = valid_from.and(lock_time.valid_from());
    Ok(TxLocks { sequences, lock_time, valid_from })
}

/// Every sequence number says that the transaction may be replaced.
fn sequence(relative: Option<RelativeLock>) -> Sequence {
    match relative {
        None => Sequence::ENABLE_RBF_NO_LOCKTIME,
        Some(RelativeLock::Blocks(blocks)) => Sequence::from_height(blocks),
        Some(RelativeLock::Units(units)) => Sequence::from_512_second_intervals(units),
    }
}

/// The lock that a sequence number stands for.
fn relative_lock(sequence: Option<u32>) -> Option<RelativeLock> {
    let lock = Sequence::from_consensus(sequence?).to_relative_lock_time()?;
    Some(from_relative(lock)).filter(|lock| *lock != RelativeLock::Blocks(0))
}

fn from_relative(lock: relative::LockTime) -> RelativeLock {
    match lock {
        relative::LockTime::Blocks(blocks) => RelativeLock::Blocks(blocks.value()),
        relative::LockTime::Time(units) => RelativeLock::Units(units.value()),
    }
}

/// The locks of every way to spend from a descriptor; just none where one way needs none.
fn ways(definite: &Descriptor<DefiniteDescriptorKey>) -> Vec<SpendLocks> {
    let seen = SeenLocks::default();
    // What is asked for is what matters, not the answer.
    drop(definite.clone().plan(&seen));
    let (older, after) = (seen.older.into_inner(), seen.after.into_inner());
    for with_preimages in [false, true] {
        let mut found = Vec::new();
        for older in choices(&older, relative::LockTime::to_consensus_u32) {
            for after in choices(&after, |lock| lock.to_consensus_u32()) {
                let signer = Signer { older, after, with_preimages };
                found.extend(definite.clone().plan(&signer).map(|plan| locks_of(&plan)).ok());
            }
        }
        found.sort_unstable();
        found.dedup();
        if found.first() == Some(&SpendLocks::default()) {
            found.truncate(1);
        }
        if !found.is_empty() {
            return found;
        }
    }
    Vec::new()
}

fn choices<L: Copy>(locks: &[L], number: impl Fn(&L) -> u32) -> Vec<Option<L>> {
    let mut locks = locks.to_vec();
    locks.sort_by_key(&number);
    locks.dedup_by_key(|lock| number(lock));
    std::iter::once(None).chain(locks.into_iter().take(LOCKS_MAX).map(Some)).collect()
}

fn locks_of(plan: &Plan) -> SpendLocks {
    let absolute = plan.absolute_timelock;
    SpendLocks {
        relative: plan.relative_timelock.map(from_relative),
        absolute: absolute.map(|lock| LockTime::from_number(lock.to_consensus_u32())),
    }
}

/// Whether somebody may have the secret of a key.
fn has_owner(key: &Key) -> bool {
    let point = match key.as_descriptor_public_key() {
        DescriptorPublicKey::Single(single) => match single.key {
            SinglePubKey::FullKey(key) => key.inner.x_only_public_key().0,
            SinglePubKey::XOnly(key) => key,
        },
        DescriptorPublicKey::XPub(key) => key.xkey.public_key.x_only_public_key().0,
        DescriptorPublicKey::MultiXPub(key) => key.xkey.public_key.x_only_public_key().0,
    };
    point.serialize() != NOBODYS_KEY
}

/// Somebody with all keys that can have an owner, who waits as long as told.
struct Signer {
    older: Option<relative::LockTime>,
    after: Option<absolute::LockTime>,
    with_preimages: bool,
}

type Key = DefiniteDescriptorKey;

impl AssetProvider<Key> for Signer {
    fn provider_lookup_ecdsa_sig(&self, key: &Key) -> bool {
        has_owner(key)
    }

    fn provider_lookup_tap_key_spend_sig(&self, key: &Key) -> Option<usize> {
        has_owner(key).then_some(SCHNORR_BYTES)
    }

    fn provider_lookup_tap_leaf_script_sig(&self, key: &Key, _: &TapLeafHash) -> Option<usize> {
        has_owner(key).then_some(SCHNORR_BYTES)
    }

    fn provider_lookup_sha256(&self, _: &<Key as MiniscriptKey>::Sha256) -> bool {
        self.with_preimages
    }

    fn provider_lookup_hash256(&self, _: &<Key as MiniscriptKey>::Hash256) -> bool {
        self.with_preimages
    }

    fn provider_lookup_ripemd160(&self, _: &<Key as MiniscriptKey>::Ripemd160) -> bool {
        self.with_preimages
    }

    fn provider_lookup_hash160(&self, _: &<Key as MiniscriptKey>::Hash160) -> bool {
        self.with_preimages
    }

    fn check_older(&self, wanted: relative::LockTime) -> bool {
        self.older.is_some_and(|lock| wanted.is_implied_by(lock))
    }

    fn check_after(&self, wanted: absolute::LockTime) -> bool {
        self.after.is_some_and(|lock| wanted.is_implied_by(lock))
    }
}

/// Notes every lock that a descriptor asks about.
#[derive(Default)]
struct SeenLocks {
    older: RefCell<Vec<relative::LockTime>>,
    after: RefCell<Vec<absolute::LockTime>>,
}

impl AssetProvider<Key> for SeenLocks {
    fn check_older(&self, wanted: relative::LockTime) -> bool {
        self.older.borrow_mut().push(wanted);
        true
    }

    fn check_after(&self, wanted: absolute::LockTime) -> bool {
        self.after.borrow_mut().push(wanted);
        true
    }
}
