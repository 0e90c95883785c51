//! Integers modulo the prime p = 2^3072 - 1103717, the group in which set hashes multiply.
//!
//! # Invariants
//!
//! * A [`Num3072`] is always canonical: below p. Equal numbers have equal limbs and equal bytes.
//! * Running time depends on the values; nothing here is meant for secrets.

use std::fmt;

/// 64-bit limbs of a number.
const LIMBS: usize = 48;

/// What 2^3072 is congruent to modulo p: overflow past the top limb comes back multiplied by this.
const FOLD: u64 = 1_103_717;

/// Bits of p - 2 below its long run of ones.
const TAIL_BITS: u32 = 21;

/// The lowest [`TAIL_BITS`] bits of p - 2; all bits above them are ones.
const TAIL: u64 = (1 << TAIL_BITS) - (FOLD + 2);

/// A number below p, least significant limb first.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Num3072([u64; LIMBS]);

impl Num3072 {
    /// Bytes of the little-endian encoding.
    pub(super) const ENCODED_LEN: usize = LIMBS * 8;

    /// The neutral element of multiplication.
    pub(super) const ONE: Self = {
        let mut limbs = [0; LIMBS];
        limbs[0] = 1;
        Self(limbs)
    };

    /// The number congruent to any 3072-bit little-endian integer.
    pub(super) fn reduce_le_bytes(bytes: &[u8; Self::ENCODED_LEN]) -> Self {
        Self::canonical(limbs_of(bytes))
    }

    /// Inverse of [`Num3072::to_le_bytes`]; `None` when the integer is zero or not below p.
    pub(super) fn from_le_bytes(bytes: &[u8; Self::ENCODED_LEN]) -> Option<Self> {
        let limbs = limbs_of(bytes);
        let valid = limbs != [0; LIMBS] && !reaches_modulus(&limbs);
        valid.then_some(Self(limbs))
    }

    /// The little-endian bytes; one encoding for each number.
    pub(super) fn to_le_bytes(&self) -> [u8; Self::ENCODED_LEN] {
        let mut bytes = [0; Self::ENCODED_LEN];
        for (chunk, limb) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(&self.0) {
            *chunk = limb.to_le_bytes();
        }
        bytes
    }

    /// The product of two numbers.
    ///
    /// Two rows of the long multiplication share each pass: half the loads and stores, and two
    /// independent carry chains for the processor to overlap.
    pub(super) fn mul(&self, other: &Self) -> Self {
        let mut wide = [0; 2 * LIMBS];
        for (pair, rows) in self.0.as_chunks::<2>().0.iter().enumerate() {
            let (mut even_carry, mut odd_carry, mut previous) = (0, 0, 0);
            let columns = &mut wide[2 * pair..][..LIMBS];
            for (column, &limb) in columns.iter_mut().zip(&other.0) {
                let sum = multiply_add(*column, rows[0], limb, &mut even_carry);
                *column = multiply_add(sum, rows[1], previous, &mut odd_carry);
                previous = limb;
            }
            wide[2 * pair + LIMBS] = multiply_add(even_carry, rows[1], previous, &mut odd_carry);
            wide[2 * pair + LIMBS + 1] = odd_carry;
        }
        Self::reduce(&wide)
    }

    /// The product of a number with itself: every mixed product is computed once and doubled.
    fn square(&self) -> Self {
        let mut wide = [0; 2 * LIMBS];
        for (row, &factor) in self.0.iter().enumerate() {
            let mut carry = 0;
            let columns = &mut wide[2 * row + 1..LIMBS + row];
            for (column, &limb) in columns.iter_mut().zip(&self.0[row + 1..]) {
                *column = multiply_add(*column, factor, limb, &mut carry);
            }
            wide[LIMBS + row] = carry;
        }

        let (mut shifted_out, mut carry) = (0, 0);
        for (columns, &limb) in wide.as_chunks_mut::<2>().0.iter_mut().zip(&self.0) {
            let doubled = [columns[0] << 1 | shifted_out, columns[1] << 1 | columns[0] >> 63];
            shifted_out = columns[1] >> 63;
            columns[0] = multiply_add(doubled[0], limb, limb, &mut carry);
            let (sum, overflow) = doubled[1].overflowing_add(carry);
            columns[1] = sum;
            carry = u64::from(overflow);
        }
        Self::reduce(&wide)
    }

    /// The number whose product with `self` is one; zero, which has none, answers zero.
    ///
    /// By Fermat this is the power p - 2, and p - 2 is 3051 ones followed by [`TAIL`]. The power
    /// made of ones grows by doubling its length, so that nearly all the work is squarings.
    pub(super) fn invert(&self) -> Self {
        let run = 64 * LIMBS - TAIL_BITS as usize;

        let mut power = self.clone();
        for bit in (0..run.ilog2()).rev() {
            power = power.square_times(run >> (bit + 1)).mul(&power);
            if run >> bit & 1 == 1 {
                power = power.square().mul(self);
            }
        }
        for bit in (0..TAIL_BITS).rev() {
            power = power.square();
            if TAIL >> bit & 1 == 1 {
                power = power.mul(self);
            }
        }
        power
    }

    fn square_times(&self, count: usize) -> Self {
        (0..count).fold(self.clone(), |power, _| power.square())
    }

    /// The number congruent to a double-length integer.
    fn reduce(wide: &[u64; 2 * LIMBS]) -> Self {
        let mut limbs = [0; LIMBS];
        let mut carry = 0;
        let (low, high) = wide.split_at(LIMBS);
        for ((limb, &low), &high) in limbs.iter_mut().zip(low).zip(high) {
            *limb = multiply_add(low, high, FOLD, &mut carry);
        }
        // The carry is at most FOLD, so its fold fits a limb. A second overflow can only be one,
        // and leaves so small a number that the third addition has none.
        while carry != 0 {
            carry = add_limb(&mut limbs, carry * FOLD);
        }
        Self::canonical(limbs)
    }

    /// Subtracts p once if need be, which is enough because 2p exceeds 2^3072.
    fn canonical(mut limbs: [u64; LIMBS]) -> Self {
        if reaches_modulus(&limbs) {
            // Subtracting p is adding FOLD and dropping the carry out of the top.
            add_limb(&mut limbs, FOLD);
        }
        Self(limbs)
    }
}

/// Prints one hexadecimal integer.
impl fmt::Debug for Num3072 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("0x")?;
        self.0.iter().rev().try_for_each(|limb| write!(f, "{limb:016x}"))
    }
}

fn limbs_of(bytes: &[u8; Num3072::ENCODED_LEN]) -> [u64; LIMBS] {
    let mut limbs = [0; LIMBS];
    for (limb, chunk) in limbs.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *limb = u64::from_le_bytes(*chunk);
    }
    limbs
}

/// Whether the integer is p or more: p has all limbs full but the lowest.
fn reaches_modulus(limbs: &[u64; LIMBS]) -> bool {
    limbs[0] >= FOLD.wrapping_neg() && limbs[1..].iter().all(|&limb| limb == u64::MAX)
}

/// Low limb of `augend + left * right + carry`; the high limb becomes the carry. Never overflows.
#[expect(clippy::cast_possible_truncation, reason = "the low limb is what is wanted")]
#[inline]
fn multiply_add(augend: u64, left: u64, right: u64, carry: &mut u64) -> u64 {
    let sum = u128::from(left) * u128::from(right) + u128::from(augend) + u128::from(*carry);
    *carry = (sum >> 64) as u64;
    sum as u64
}

/// Adds one limb to an integer and returns the carry out of its top.
fn add_limb(limbs: &mut [u64; LIMBS], addend: u64) -> u64 {
    let mut carry = addend;
    for limb in limbs {
        let (sum, overflow) = limb.overflowing_add(carry);
        *limb = sum;
        carry = u64::from(overflow);
        if !overflow {
            break;
        }
    }
    carry
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: [u64; LIMBS] = {
        let mut limbs = [u64::MAX; LIMBS];
        limbs[0] = u64::MAX - (FOLD - 1);
        limbs
    };

    /// Doubles `sum` and adds `addend`, both below p, and takes off p by long subtraction.
    fn slow_double_add(sum: &[u64; LIMBS], addend: &[u64; LIMBS]) -> [u64; LIMBS] {
        slow_add(&slow_add(sum, sum), addend)
    }

    fn slow_add(left: &[u64; LIMBS], right: &[u64; LIMBS]) -> [u64; LIMBS] {
        let mut sum = [0; LIMBS];
        let mut carry = false;
        for i in 0..LIMBS {
            let (half, first) = left[i].overflowing_add(right[i]);
            let (full, second) = half.overflowing_add(u64::from(carry));
            (sum[i], carry) = (full, first || second);
        }
        if carry || sum.iter().rev().ge(P.iter().rev()) { slow_sub_p(&sum) } else { sum }
    }

    fn slow_sub_p(from: &[u64; LIMBS]) -> [u64; LIMBS] {
        let mut difference = [0; LIMBS];
        let mut borrow = false;
        for i in 0..LIMBS {
            let (half, first) = from[i].overflowing_sub(P[i]);
            let (full, second) = half.overflowing_sub(u64::from(borrow));
            (difference[i], borrow) = (full, first || second);
        }
        difference
    }

    fn bits_from_top(limbs: &[u64]) -> impl Iterator<Item = bool> {
        limbs.iter().rev().flat_map(|limb| (0..64).rev().map(move |bit| limb >> bit & 1 == 1))
    }

    fn slow_mul(left: &[u64; LIMBS], right: &[u64; LIMBS]) -> [u64; LIMBS] {
        bits_from_top(right).fold([0; LIMBS], |sum, bit| {
            slow_double_add(&sum, if bit { left } else { &[0; LIMBS] })
        })
    }

    fn slow_reduce(integer: &[u64]) -> [u64; LIMBS] {
        bits_from_top(integer).fold([0; LIMBS], |sum, bit| {
            slow_double_add(&sum, if bit { &Num3072::ONE.0 } else { &[0; LIMBS] })
        })
    }

    fn p_minus(less: u64) -> [u64; LIMBS] {
        let mut limbs = P;
        limbs[0] -= less;
        limbs
    }

    fn small(value: u64) -> [u64; LIMBS] {
        let mut limbs = [0; LIMBS];
        limbs[0] = value;
        limbs
    }

    fn scrambled<const N: usize>(seed: u64) -> [u64; N] {
        let mut state = seed;
        std::array::from_fn(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_889);
            state ^ state >> 29
        })
    }

    /// Integers of 3072 bits at every edge of the reduction, several of them not canonical.
    fn edge_integers() -> Vec<[u64; LIMBS]> {
        let mut top_bit = [0; LIMBS];
        top_bit[LIMBS - 1] = 1 << 63;
        let mut low_zero = [u64::MAX; LIMBS];
        low_zero[0] = 0;
        let mut high_zero = [u64::MAX; LIMBS];
        high_zero[LIMBS - 1] = 0;
        let mut just_above = P;
        just_above[0] += 1;
        vec![
            small(0),
            small(1),
            small(2),
            small(FOLD),
            small(u64::MAX),
            top_bit,
            low_zero,
            high_zero,
            p_minus(2),
            p_minus(1),
            P,
            just_above,
            [u64::MAX; LIMBS],
            scrambled(1),
            scrambled(2),
        ]
    }

    fn encode(limbs: &[u64; LIMBS]) -> [u8; Num3072::ENCODED_LEN] {
        Num3072(*limbs).to_le_bytes()
    }

    #[test]
    fn every_integer_becomes_the_canonical_number() {
        for integer in edge_integers() {
            assert_eq!(Num3072::reduce_le_bytes(&encode(&integer)).0, slow_reduce(&integer));
        }
    }

    #[test]
    fn products_agree_with_bitwise_multiplication() {
        let numbers: Vec<_> = edge_integers().into_iter().map(Num3072::canonical).collect();
        for left in &numbers {
            assert_eq!(left.square().0, slow_mul(&left.0, &left.0), "{left:?} squared");
            for right in &numbers {
                assert_eq!(left.mul(right).0, slow_mul(&left.0, &right.0), "{left:?} * {right:?}");
            }
        }
    }

    #[test]
    fn factors_with_every_limb_full_lose_no_carry() {
        let full = Num3072([u64::MAX; LIMBS]);
        let expected = small((FOLD - 1) * (FOLD - 1));
        assert_eq!(full.mul(&full).0, expected);
        assert_eq!(full.square().0, expected);
    }

    #[test]
    fn double_length_integers_reduce_even_when_the_fold_overflows_again() {
        let mut overflows_twice = [u64::MAX; 2 * LIMBS];
        overflows_twice[LIMBS - 1] = u64::MAX >> 1;
        overflows_twice[LIMBS..].fill(0);
        overflows_twice[2 * LIMBS - 1] = 1 << 63;
        let mut exactly_p = [0; 2 * LIMBS];
        exactly_p[..LIMBS].copy_from_slice(&P);

        for wide in [[u64::MAX; 2 * LIMBS], overflows_twice, exactly_p, scrambled(3), scrambled(4)]
        {
            assert_eq!(Num3072::reduce(&wide).0, slow_reduce(&wide));
        }
    }

    #[test]
    fn a_number_times_its_inverse_is_one() {
        for integer in edge_integers() {
            let number = Num3072::canonical(integer);
            let expected = if number.0 == small(0) { number.clone() } else { Num3072::ONE };
            assert_eq!(number.invert().mul(&number), expected, "{number:?}");
        }
    }

    #[test]
    fn only_canonical_nonzero_encodings_decode() {
        for integer in edge_integers() {
            let bytes = encode(&integer);
            let canonical = integer != small(0) && integer == slow_reduce(&integer);
            assert_eq!(Num3072::from_le_bytes(&bytes), canonical.then_some(Num3072(integer)));
        }
    }
}
