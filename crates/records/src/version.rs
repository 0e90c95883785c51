//! Versions of cells: random, so that a cell made anew never looks like the one before it.

use std::{
    fmt,
    hash::{BuildHasher as _, RandomState},
    sync::atomic::{AtomicU64, Ordering},
};

/// Which write a cell is the result of. A random 64-bit value, new in each write: a counter would
/// start again when a cell is deleted and made anew, and let a stalled writer take one for the
/// other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(u64);

impl Version {
    /// A version of these bits.
    #[must_use]
    pub const fn new(bits: u64) -> Self {
        Self(bits)
    }

    /// The bits.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// As stored, big-endian.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }

    /// Reads what [`Version::to_bytes`] wrote; `None` when these are not eight bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(|bytes| Self(u64::from_be_bytes(bytes)))
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{:016x}", self.0)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Where new versions, and other random numbers of a store, come from.
#[derive(Debug)]
pub struct Versions {
    /// `None` for a sequence that follows from its seed.
    keys: Option<RandomState>,
    counter: AtomicU64,
}

impl Versions {
    /// Random ones: a keyed hash of a counter, with 128 random bits of the system as its key.
    #[must_use]
    pub fn random() -> Self {
        Self { keys: Some(RandomState::new()), counter: AtomicU64::new(0) }
    }

    /// The same ones for the same seed, for simulations. Give each actor a seed of its own.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self { keys: None, counter: AtomicU64::new(mixed(seed.wrapping_add(GOLDEN))) }
    }

    /// One that was not given before.
    pub fn next(&self) -> Version {
        Version(self.next_u64())
    }

    /// Random bits for another purpose, such as an id or a fence.
    pub fn next_u64(&self) -> u64 {
        if let Some(keys) = &self.keys {
            return keys.hash_one(self.counter.fetch_add(1, Ordering::Relaxed));
        }
        let before = self.counter.fetch_add(GOLDEN, Ordering::Relaxed);
        mixed(before.wrapping_add(GOLDEN))
    }
}

/// 2⁶⁴ divided by the golden ratio: steps of it visit every number once.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finishing step of the generator known as splitmix64.
pub(crate) const fn mixed(state: u64) -> u64 {
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn versions_do_not_repeat_and_follow_from_a_seed() {
        let many = |versions: &Versions| (0..10_000).map(|_| versions.next()).collect::<Vec<_>>();
        let distinct = |list: &[Version]| list.iter().copied().collect::<BTreeSet<_>>().len();
        let (first, other) = (many(&Versions::seeded(1)), many(&Versions::seeded(2)));
        assert_eq!(first, many(&Versions::seeded(1)));
        assert_eq!(distinct(&[first, other].concat()), 20_000);
        let random = [many(&Versions::random()), many(&Versions::random())].concat();
        assert_eq!(distinct(&random), 20_000);
    }

    #[test]
    fn version_bytes_are_pinned() {
        let version = Version::new(0x0102_0304_0506_0708);
        assert_eq!(version.to_bytes(), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(Version::from_bytes(&version.to_bytes()), Some(version));
        assert_eq!(Version::from_bytes(&[1]), None);
    }
}
