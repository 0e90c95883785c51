//! A small generator of numbers that are the same on every machine for the same seed.

use std::ops::RangeInclusive;

/// xoshiro256**, seeded through splitmix64.
#[derive(Debug, Clone)]
pub(super) struct Rng([u64; 4]);

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        let mut state = seed;
        Self(std::array::from_fn(|_| splitmix(&mut state)))
    }

    pub(super) fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.0;
        let result = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// A number below `bound`; zero when there is none.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        let scaled = (u128::from(self.next_u64()) * u128::from(bound)) >> 64;
        u64::try_from(scaled).expect("the upper half of 128 bits fits in 64")
    }

    /// A place in a list of `len` items.
    pub(super) fn place(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).expect("a place is below a length")
    }

    /// A place in a list of `len` items where early places are far more likely than late ones.
    pub(super) fn skewed_place(&mut self, len: usize) -> usize {
        let cubed = {
            let x = u128::from(self.next_u64() >> 32);
            (x * x * x) >> 32
        };
        let scaled = (cubed * len as u128) >> 64;
        usize::try_from(scaled).expect("a place is below a length")
    }

    pub(super) fn between(&mut self, range: &RangeInclusive<u32>) -> u32 {
        let (low, high) = (*range.start(), *range.end());
        let span = u64::from(high.saturating_sub(low)) + 1;
        low.saturating_add(u32::try_from(self.below(span)).unwrap_or(u32::MAX))
    }

    pub(super) fn percent(&mut self, percent: u32) -> bool {
        self.below(100) < u64::from(percent)
    }

    /// Appends `len` random bytes.
    pub(super) fn extend(&mut self, bytes: &mut Vec<u8>, len: usize) {
        let end = bytes.len() + len;
        while bytes.len() < end {
            let word = self.next_u64().to_le_bytes();
            let take = word.len().min(end - bytes.len());
            bytes.extend_from_slice(&word[..take]);
        }
    }
}

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut word = *state;
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_of_a_seed_is_pinned() {
        let mut rng = Rng::new(0);
        assert_eq!(rng.next_u64(), 0x99ec_5f36_cb75_f2b4);
        assert_eq!(Rng::new(7).next_u64(), Rng::new(7).next_u64());
        assert_ne!(Rng::new(7).next_u64(), Rng::new(8).next_u64());
    }

    #[test]
    fn draws_stay_in_their_range() {
        let mut rng = Rng::new(1);
        let mut early = 0;
        for _ in 0..10_000 {
            assert!(rng.below(7) < 7);
            assert!((3..=9).contains(&rng.between(&(3..=9))));
            early += usize::from(rng.skewed_place(1_000) < 10);
        }
        assert!(early > 1_500, "a cubed draw lands in the first percent one time in five: {early}");
    }
}
