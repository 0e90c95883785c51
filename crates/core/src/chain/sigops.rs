//! Signature operations in scripts of Bitcoin, counted as consensus counts them. Nothing is run.

const OP_PUSHDATA1: u8 = 0x4c;
const OP_PUSHDATA2: u8 = 0x4d;
const OP_PUSHDATA4: u8 = 0x4e;
const OP_1: u8 = 0x51;
const OP_16: u8 = 0x60;
const OP_HASH160: u8 = 0xa9;
const OP_EQUAL: u8 = 0x87;
const OP_CHECKSIG: u8 = 0xac;
const OP_CHECKSIGVERIFY: u8 = 0xad;
const OP_CHECKMULTISIG: u8 = 0xae;
const OP_CHECKMULTISIGVERIFY: u8 = 0xaf;

/// What an operation over several keys counts for where their number is not looked at.
const KEYS_MAX: u32 = 20;

/// How much more an operation outside of witnesses costs.
pub(crate) const LEGACY_SCALE: u32 = 4;

/// The first operation of a script, what it pushes, and what follows; `None` where a push is cut off.
fn split(script: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&op, rest) = script.split_first()?;
    let (len, rest) = match op {
        0..OP_PUSHDATA1 => (usize::from(op), rest),
        OP_PUSHDATA1 => {
            let (len, rest) = rest.split_first()?;
            (usize::from(*len), rest)
        }
        OP_PUSHDATA2 => {
            let (len, rest) = rest.split_first_chunk()?;
            (usize::from(u16::from_le_bytes(*len)), rest)
        }
        OP_PUSHDATA4 => {
            let (len, rest) = rest.split_first_chunk()?;
            (usize::try_from(u32::from_le_bytes(*len)).ok()?, rest)
        }
        _ => (0, rest),
    };
    let (pushed, rest) = rest.split_at_checked(len)?;
    Some((op, pushed, rest))
}

/// Operations of a script, up to a push that is cut off. With `exact`, an operation over several keys
/// counts for as many as the number before it says.
fn count(mut script: &[u8], exact: bool) -> u32 {
    let (mut sum, mut before) = (0u32, u8::MAX);
    while let Some((op, _, rest)) = split(script) {
        sum = sum.saturating_add(match op {
            OP_CHECKSIG | OP_CHECKSIGVERIFY => 1,
            OP_CHECKMULTISIG | OP_CHECKMULTISIGVERIFY => match before {
                OP_1..=OP_16 if exact => u32::from(before - OP_1) + 1,
                _ => KEYS_MAX,
            },
            _ => 0,
        });
        (before, script) = (op, rest);
    }
    sum
}

/// Operations of an input or output script as it stands in its transaction, before scaling.
#[must_use]
pub fn legacy_sigops(script: &[u8]) -> u32 {
    count(script, false)
}

/// Cost of the operations that spending an output adds to those in plain sight: in the script behind
/// a hash, and in witnesses. `script` is the script of the input, `last_witness` the last item of its
/// witness, empty if it has none.
#[must_use]
pub(crate) fn spending_sigop_cost(spent: &[u8], script: &[u8], last_witness: &[u8]) -> u32 {
    if !is_script_hash(spent) {
        return witness_sigops(spent, last_witness);
    }
    let Some(behind) = last_push(script) else { return 0 };
    let legacy = count(behind, true).saturating_mul(LEGACY_SCALE);
    legacy.saturating_add(witness_sigops(behind, last_witness))
}

fn is_script_hash(script: &[u8]) -> bool {
    script.len() == 23 && script[..2] == [OP_HASH160, 20] && script[22] == OP_EQUAL
}

fn witness_sigops(program: &[u8], last_witness: &[u8]) -> u32 {
    match (program.len(), program) {
        (22, [0, 20, ..]) => 1,
        (34, [0, 32, ..]) => count(last_witness, true),
        _ => 0,
    }
}

/// What the last operation pushes, if the script does nothing but push.
fn last_push(mut script: &[u8]) -> Option<&[u8]> {
    let mut last: &[u8] = &[];
    while !script.is_empty() {
        let (op, pushed, rest) = split(script)?;
        if op > OP_16 {
            return None;
        }
        (last, script) = (pushed, rest);
    }
    Some(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    const P2SH: [u8; 23] = {
        let mut script = [7; 23];
        (script[0], script[1], script[22]) = (OP_HASH160, 20, OP_EQUAL);
        script
    };

    fn program(version: u8, len: u8) -> Vec<u8> {
        [vec![version, len], vec![9; usize::from(len)]].concat()
    }

    fn push(bytes: &[u8]) -> Vec<u8> {
        [vec![u8::try_from(bytes.len()).unwrap()], bytes.to_vec()].concat()
    }

    #[test]
    fn operations_in_pushed_bytes_and_behind_a_cut_push_do_not_count() {
        assert_eq!(legacy_sigops(&[0xac, 0xad, 0xac]), 3);
        assert_eq!(legacy_sigops(&[2, 0xac, 0xac, 0xac]), 1);
        assert_eq!(legacy_sigops(&[OP_PUSHDATA1, 2, 0xac, 0xac, 0xac]), 1);
        assert_eq!(legacy_sigops(&[OP_PUSHDATA2, 1, 0, 0xac, 0xac]), 1);
        assert_eq!(legacy_sigops(&[OP_PUSHDATA4, 1, 0, 0, 0, 0xac, 0xac]), 1);
        for cut in [&[0xac, 5, 0xac][..], &[0xac, OP_PUSHDATA2, 1], &[0xac, OP_PUSHDATA4, 9, 9]] {
            assert_eq!(legacy_sigops(cut), 1, "{cut:?}");
        }
        assert_eq!(legacy_sigops(&[]), 0);
    }

    #[test]
    fn several_keys_count_for_twenty_unless_they_are_looked_at() {
        let two_of_three = [0x52, 0x53, OP_CHECKMULTISIG];
        assert_eq!(count(&two_of_three, false), 20);
        assert_eq!(count(&two_of_three, true), 3);
        assert_eq!(count(&[OP_16, OP_CHECKMULTISIGVERIFY], true), 16);
        assert_eq!(count(&[0, OP_CHECKMULTISIG], true), 20);
        assert_eq!(count(&[OP_CHECKMULTISIG], true), 20);
    }

    #[test]
    fn scripts_behind_a_hash_cost_four_times_and_witnesses_once() {
        let cost = spending_sigop_cost;
        let behind = [0x52, 0x53, OP_CHECKMULTISIG];
        assert_eq!(cost(&P2SH, &push(&behind), &[]), 12);
        assert_eq!(cost(&P2SH, &[], &[]), 0);
        let not_only_pushes = [push(&behind), vec![0x61]].concat();
        assert_eq!(cost(&P2SH, &not_only_pushes, &[]), 0);
        let cut = [push(&behind), vec![5, 1]].concat();
        assert_eq!(cost(&P2SH, &cut, &[]), 0);
        // A number is pushed last, so that nothing is behind the hash.
        assert_eq!(cost(&P2SH, &[push(&behind), vec![OP_1]].concat(), &[]), 0);

        assert_eq!(cost(&program(0, 20), &[], &behind), 1);
        assert_eq!(cost(&program(0, 32), &[], &behind), 3);
        assert_eq!(cost(&program(0, 32), &[], &[]), 0);
        assert_eq!(cost(&program(0x51, 32), &[], &behind), 0);
        assert_eq!(cost(&P2SH, &push(&program(0, 20)), &behind), 1);
        assert_eq!(cost(&P2SH, &push(&program(0, 32)), &behind), 3);
        assert_eq!(cost(&[OP_CHECKSIG], &push(&behind), &behind), 0);
    }
}
