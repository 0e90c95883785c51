//! What parts of a Bitcoin transaction weigh, and below which amount an output is dust.

use super::{
    script::witness_program,
    select::{ChangePolicy, FeeRate},
};

/// Version, lock time, the marker of witnesses, and both counts.
pub(super) const BARE_WEIGHT: u64 = 42;

/// From this many on a count or a length takes two bytes more.
const LONG: usize = 253;

/// Weight of an output with this script.
#[must_use]
pub fn output_weight(script: &[u8]) -> u64 {
    let prefix = if script.len() < LONG { 1 } else { 3 };
    (8 + prefix + script.len() as u64) * 4
}

/// Weight of a transaction that pays these scripts, without its inputs, with room for the count of
/// `more` outputs.
#[must_use]
pub fn weight_without_inputs<'s>(scripts: impl IntoIterator<Item = &'s [u8]>, more: usize) -> u64 {
    let (mut outputs, mut weight) = (more, BARE_WEIGHT);
    for script in scripts {
        outputs += 1;
        weight += output_weight(script);
    }
    weight + count_weight(outputs)
}

/// What a count weighs on top of one byte.
#[must_use]
pub const fn count_weight(count: usize) -> u64 {
    if count < LONG { 0 } else { 8 }
}

/// Weight of an input that spends a standard Bitcoin script with one signature; scripts that are
/// not known count like the largest of these.
#[must_use]
pub fn estimated_spend_weight(script: &[u8]) -> u32 {
    match script {
        [0x00, 0x14, rest @ ..] if rest.len() == 20 => 272,
        [0x51, 0x20, rest @ ..] if rest.len() == 32 => 230,
        [0xa9, 0x14, rest @ ..] if rest.len() == 21 => 364,
        _ => 592,
    }
}

/// The least amount that nodes relay in an output with this script: what it costs to make and to
/// spend it at 3 for each virtual byte.
#[must_use]
pub fn dust_limit(script: &[u8]) -> u64 {
    let spend_bytes = if witness_program(script).is_some() { 67 } else { 148 };
    (output_weight(script) / 4 + spend_bytes) * 3
}

impl ChangePolicy {
    /// Change to this script. `spend_weight` is that of the input that will spend it one day,
    /// estimated when it is not known.
    #[must_use]
    pub fn to(script: &[u8], spend_weight: Option<u32>) -> Self {
        Self {
            output_weight: u32::try_from(output_weight(script)).unwrap_or(u32::MAX),
            spend_weight: spend_weight.unwrap_or_else(|| estimated_spend_weight(script)),
            min_value: dust_limit(script),
        }
    }

    /// The cost of change: the fee for its output at this rate. A payment without change leaves at
    /// most this and the least change on top of the fee that it has to pay.
    #[must_use]
    pub fn cost(&self, rate: FeeRate) -> u64 {
        rate.fee(u64::from(self.output_weight))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(start: &[u8], len: usize) -> Vec<u8> {
        let mut script = start.to_vec();
        script.resize(len, 7);
        script
    }

    #[test]
    fn change_to_a_native_segwit_key_is_the_usual_one() {
        assert_eq!(ChangePolicy::to(&script(&[0, 20], 22), None), ChangePolicy::default());
    }

    /// The limits that Bitcoin Core's nodes have by default.
    #[test]
    fn dust_depends_on_the_script() {
        for (start, len, dust) in [
            (&[0x76, 0xa9, 20][..], 25, 546),
            (&[0xa9, 20], 23, 540),
            (&[0, 20], 22, 294),
            (&[0, 32], 34, 330),
            (&[0x51, 32], 34, 330),
            (&[0x51, 2], 4, 240),
            (&[0x51, 33], 34, 573),
        ] {
            assert_eq!(dust_limit(&script(start, len)), dust, "{start:?}");
        }
    }

    #[test]
    fn long_lists_and_scripts_need_longer_counts() {
        assert_eq!(output_weight(&script(&[], 252)), (8 + 1 + 252) * 4);
        assert_eq!(output_weight(&script(&[], 253)), (8 + 3 + 253) * 4);
        let key = script(&[0, 20], 22);
        let weight = |outputs: usize, more| {
            weight_without_inputs(std::iter::repeat_n(key.as_slice(), outputs), more)
        };
        assert_eq!(weight(1, 1), 42 + 124);
        assert_eq!(weight(252, 0), 42 + 252 * 124);
        assert_eq!(weight(252, 1), 42 + 252 * 124 + 8, "change may be one more");
    }
}
