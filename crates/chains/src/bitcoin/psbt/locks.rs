//! Which locks the descriptors of inputs ask for, so that their scripts let a transaction pass.
//!
//! A descriptor may be spent in several ways, some of them only later (`older`, `after`). The ways
//! that signatures open are planned with; preimages of hashes are only counted on where nothing
//! else opens.

use std::{cell::RefCell, collections::BTreeMap};

use ::bitcoin::{TapLeafHash, absolute, relative};
use miniscript::{
    Descriptor, MiniscriptKey,
    descriptor::{DefiniteDescriptorKey, DescriptorPublicKey, SinglePubKey},
    plan::{AssetProvider, Plan},
};
use utxokeep_core::{
    Network,
    wallet::{InputToLock, LockPlan, LockTime, NoLockPlan, RelativeLock, SpendLocks, plan_locks},
};

use super::{PsbtError, PsbtInput, PsbtRequest};
use crate::bitcoin::descriptor::{DescriptorError, definite_at, parse_branch};

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

/// The locks of every way to spend from one keychain; just none where one way needs none.
pub(in crate::bitcoin) fn spend_locks(
    branch: &str,
    network: Network,
) -> Result<Vec<SpendLocks>, DescriptorError> {
    // All scripts of one descriptor have the same locks.
    Ok(ways(&definite_at(&parse_branch(branch, network)?, 0)?))
}

/// Plans the locks of a transaction. `definite` are the descriptors of its inputs, where known.
pub(super) fn plan(
    request: &PsbtRequest,
    definite: &[Option<Descriptor<DefiniteDescriptorKey>>],
) -> Result<LockPlan, PsbtError> {
    let mut known: BTreeMap<&str, Vec<SpendLocks>> = BTreeMap::new();
    for (input, definite) in request.inputs.iter().zip(definite) {
        if let (Some(definite), Some(origin)) = (definite, &input.origin) {
            known.entry(&origin.descriptor).or_insert_with(|| ways(definite));
        }
    }
    let input = |input: &PsbtInput| InputToLock {
        ways: None,
        age: input.age,
        kept_sequence: input.sequence,
    };
    let mut inputs: Vec<InputToLock<'_>> = request.inputs.iter().map(input).collect();
    for (planned, input) in inputs.iter_mut().zip(&request.inputs) {
        let origin = input.origin.as_ref();
        planned.ways =
            origin.and_then(|origin| Some(known.get(origin.descriptor.as_str())?.as_slice()));
    }
    let (asked, version) = (request.lock_time, request.kept_version);
    plan_locks(&inputs, asked, version, request.next).map_err(|none| match none {
        NoLockPlan::Mixed => PsbtError::MixedLockTimes,
        NoLockPlan::Unspendable { input } => {
            PsbtError::Unspendable { outpoint: request.inputs[input].outpoint }
        }
    })
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
