//! The few scripts of Bitcoin that the rules must look into.

/// Keys of a standard bare multisig.
const KEYS_MAX: usize = 3;
/// A longer script can never be spent.
const SCRIPT_BYTES_MAX: usize = 10_000;
const OP_PUSHDATA1: u8 = 0x4c;
const OP_PUSHDATA2: u8 = 0x4d;
const OP_PUSHDATA4: u8 = 0x4e;
const OP_1: u8 = 0x51;
const OP_2: u8 = 0x52;
const OP_16: u8 = 0x60;
/// A script that starts with it can never be spent.
const OP_RETURN: u8 = 0x6a;
/// From here on there are no opcodes outside of taproot.
const OP_UNKNOWN: u8 = 0xba;
/// The program of an output that anybody may spend, to pay for its transaction.
const ANCHOR: [u8; 2] = [0x4e, 0x73];
const OP_CHECKSIG: u8 = 0xac;
const OP_CHECKMULTISIG: u8 = 0xae;

/// How a script is spent, as far as its form tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ScriptKind {
    /// A hash of a public key, without segwit.
    KeyHash,
    /// A hash of a script, without segwit or around it.
    ScriptHash,
    /// A native segwit key.
    SegwitKey,
    /// A native segwit script.
    SegwitScript,
    /// Taproot.
    Taproot,
    /// Anything else.
    Other,
}

impl ScriptKind {
    /// The kind of a script.
    #[must_use]
    pub const fn of(script: &[u8]) -> Self {
        match (script, script.len()) {
            ([0x76, 0xa9, 20, .., 0x88, 0xac], 25) => Self::KeyHash,
            ([0xa9, 20, .., 0x87], 23) => Self::ScriptHash,
            ([0x00, 20, ..], 22) => Self::SegwitKey,
            ([0x00, 32, ..], 34) => Self::SegwitScript,
            ([OP_1, 32, ..], 34) => Self::Taproot,
            _ => Self::Other,
        }
    }

    /// The kind that most scripts have; of equals, the one that comes first.
    pub fn most_common<'s>(scripts: impl IntoIterator<Item = &'s [u8]>) -> Option<Self> {
        let mut counts: Vec<(Self, usize)> = Vec::new();
        for kind in scripts.into_iter().map(Self::of) {
            match counts.iter_mut().find(|(known, _)| *known == kind) {
                Some((_, count)) => *count += 1,
                None => counts.push((kind, 1)),
            }
        }
        counts.into_iter().rev().max_by_key(|(_, count)| *count).map(|(kind, _)| kind)
    }
}

/// Whether an output with `script` may be credited to the address with the script `owner`: it is
/// that script, or a standard bare multisig with the key that `owner` pays.
///
/// A key that a script merely carries, as data does, is not paid.
#[must_use]
pub fn is_paid(script: &[u8], owner: &[u8]) -> bool {
    if script == owner {
        return true;
    }
    match (multisig_keys(script), single_key(owner)) {
        (Some(keys), Some(key)) => keys.contains(&key),
        _ => false,
    }
}

/// Whether nodes relay outputs with this script: the usual forms, data, and witness programs of
/// versions to come.
#[must_use]
pub(super) fn is_relayed(script: &[u8]) -> bool {
    if ScriptKind::of(script) != ScriptKind::Other {
        return true;
    }
    match (witness_program(script), script) {
        (Some((OP_1, program)), _) => program == ANCHOR,
        (Some((OP_2..=OP_16, _)), _) => true,
        (Some(_), _) => false,
        (None, [OP_RETURN, data @ ..]) => {
            pushes(data).all(|opcode| opcode.is_some_and(|opcode| opcode <= OP_16))
        }
        (None, _) => single_key(script).is_some() || multisig_keys(script).is_some(),
    }
}

/// Whether it is certain that nobody can ever spend an output with this script.
#[must_use]
pub(super) fn is_unspendable(script: &[u8]) -> bool {
    let is_short_or_long = |program: &[u8]| !matches!(program.len(), 20 | 32);
    match (witness_program(script), script.first().copied()) {
        (Some((version, program)), _) => version == 0 && is_short_or_long(program),
        (None, Some(OP_RETURN | OP_UNKNOWN..)) => true,
        // A push that is cut off fails wherever it stands.
        (None, _) => script.len() > SCRIPT_BYTES_MAX || pushes(script).any(|op| op.is_none()),
    }
}

/// Version, as its opcode, and program of a script that is spent by a witness.
pub(super) fn witness_program(script: &[u8]) -> Option<(u8, &[u8])> {
    match script {
        [version @ (0 | OP_1..=OP_16), length, program @ ..]
            if (2..=40).contains(&program.len()) && usize::from(*length) == program.len() =>
        {
            Some((*version, program))
        }
        _ => None,
    }
}

/// The opcodes of a script without what they push; the last one is `None` where its push is cut
/// off.
fn pushes(script: &[u8]) -> impl Iterator<Item = Option<u8>> {
    let mut rest = script;
    std::iter::from_fn(move || {
        let (opcode, behind) = rest.split_first()?;
        let after = skip_push(*opcode, behind);
        rest = after.unwrap_or_default();
        Some(after.map(|_| *opcode))
    })
}

/// What follows behind the bytes that an opcode pushes, if they are all there.
fn skip_push(opcode: u8, behind: &[u8]) -> Option<&[u8]> {
    let width = match opcode {
        0..OP_PUSHDATA1 => return behind.get(usize::from(opcode)..),
        OP_PUSHDATA1 => 1,
        OP_PUSHDATA2 => 2,
        OP_PUSHDATA4 => 4,
        _ => return Some(behind),
    };
    let (length, data) = behind.split_at_checked(width)?;
    let length = length.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    data.get(length..)
}

/// The key of a script that asks for one signature and nothing else.
fn single_key(script: &[u8]) -> Option<&[u8]> {
    let (key, rest) = pushed_key(script)?;
    (rest == [OP_CHECKSIG]).then_some(key)
}

/// The keys of a standard bare multisig.
fn multisig_keys(script: &[u8]) -> Option<Vec<&[u8]>> {
    let (needed, mut rest) = script.split_first()?;
    let mut keys = Vec::with_capacity(KEYS_MAX);
    while let Some((key, behind)) = pushed_key(rest) {
        keys.push(key);
        rest = behind;
        if keys.len() > KEYS_MAX {
            return None;
        }
    }
    let count = OP_1 + u8::try_from(keys.len()).ok()?.checked_sub(1)?;
    let is_standard = (OP_1..=count).contains(needed) && rest == [count, OP_CHECKMULTISIG];
    is_standard.then_some(keys)
}

/// A public key that is pushed first, and what follows it.
fn pushed_key(script: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = script.split_first()?;
    match (length, rest.first()?) {
        (33, 2 | 3) | (65, 4) => rest.split_at_checked(usize::from(*length)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_common_kind_wins_and_the_first_of_equals() {
        let taproot = [&[OP_1, 32][..], &[1; 32]].concat();
        let segwit = [&[0, 20][..], &[1; 20]].concat();
        let of = |scripts: &[&[u8]]| ScriptKind::most_common(scripts.iter().copied());
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[&taproot, &segwit]), Some(ScriptKind::Taproot));
        assert_eq!(of(&[&taproot, &segwit, &segwit]), Some(ScriptKind::SegwitKey));
        let hash = [&[0x76, 0xa9, 20][..], &[1; 20], &[0x88, 0xac]].concat();
        let nested = [&[0xa9, 20][..], &[1; 20], &[0x87]].concat();
        assert_eq!(ScriptKind::of(&hash), ScriptKind::KeyHash);
        assert_eq!(ScriptKind::of(&nested), ScriptKind::ScriptHash);
        assert_eq!(ScriptKind::of(&[&[0, 32][..], &[1; 32]].concat()), ScriptKind::SegwitScript);
        assert_eq!(ScriptKind::of(&segwit[1..]), ScriptKind::Other);
    }

    fn push(first: u8, fill: u8) -> Vec<u8> {
        let length = if first == 4 { 65 } else { 33 };
        let mut push = vec![length, first];
        push.resize(usize::from(length) + 1, fill);
        push
    }

    fn single(key: &[u8]) -> Vec<u8> {
        [key, &[OP_CHECKSIG]].concat()
    }

    fn multisig(needed: u8, keys: &[Vec<u8>]) -> Vec<u8> {
        let count = u8::try_from(keys.len()).unwrap();
        [&[0x50 + needed], keys.concat().as_slice(), &[0x50 + count, OP_CHECKMULTISIG]].concat()
    }

    #[test]
    fn members_of_a_bare_multisig_are_paid() {
        let keys = [push(2, 1), push(3, 2), push(4, 3)];
        for needed in 1..=3 {
            let script = multisig(needed, &keys);
            for key in &keys {
                assert!(is_paid(&script, &single(key)), "{needed}");
            }
            assert!(!is_paid(&script, &single(&push(2, 9))));
            assert!(is_paid(&script, &script));
        }
    }

    fn program(version: u8, length: u8) -> Vec<u8> {
        [&[version, length][..], &vec![7; usize::from(length)]].concat()
    }

    #[test]
    fn nodes_relay_the_usual_scripts() {
        let keys = [push(2, 1), push(3, 2), push(4, 3)];
        let long_data = [&[OP_RETURN, OP_PUSHDATA1, 80][..], &[0xff; 80]].concat();
        let relayed = [
            single(&keys[0]),
            single(&keys[2]),
            multisig(1, &keys[..1]),
            multisig(3, &keys),
            [&[0x76, 0xa9, 20][..], &[1; 20], &[0x88, 0xac]].concat(),
            [&[0xa9, 20][..], &[1; 20], &[0x87]].concat(),
            program(0, 20),
            program(0, 32),
            program(OP_1, 32),
            vec![OP_1, 2, 0x4e, 0x73],
            program(OP_2, 2),
            program(OP_16, 40),
        ];
        for script in relayed {
            assert!(is_relayed(&script) && !is_unspendable(&script), "{script:02x?}");
        }
        for data in [vec![OP_RETURN], vec![OP_RETURN, 1, 0xff, OP_16], long_data] {
            assert!(is_relayed(&data) && is_unspendable(&data), "{data:02x?}");
        }
    }

    #[test]
    fn nodes_do_not_relay_what_is_no_usual_script() {
        let keys = [push(2, 1), push(3, 2)];
        let four = [keys.clone(), keys.clone()].concat();
        let odd_key = [&[33, 5][..], &[1; 32]].concat();
        let spendable = [
            vec![],
            vec![OP_1],
            keys[0][1..].to_vec(),
            multisig(1, &four),
            single(&odd_key),
            program(OP_1, 2),
            program(OP_1, 31),
            program(OP_2, 41),
            program(OP_16, 1),
        ];
        for script in spendable {
            assert!(!is_relayed(&script) && !is_unspendable(&script), "{script:02x?}");
        }
        let lost = [
            vec![0xff],
            vec![0xde, 0xad, 0xbe, 0xef],
            program(0, 21),
            program(0, 40),
            vec![OP_1, 5, 1],
            vec![OP_PUSHDATA2, 1],
            vec![OP_PUSHDATA4, 0xff, 0xff, 0xff, 0xff, 1],
            vec![OP_1; SCRIPT_BYTES_MAX + 1],
            vec![OP_RETURN, 5, 1],
            vec![OP_RETURN, OP_CHECKSIG],
        ];
        for script in lost {
            assert!(!is_relayed(&script) && is_unspendable(&script), "{script:02x?}");
        }
        assert!(!is_unspendable(&vec![OP_1; SCRIPT_BYTES_MAX]));
    }

    #[test]
    fn what_only_looks_like_one_pays_nobody() {
        let key = push(2, 1);
        let keys = [key.clone(), push(3, 2)];
        let own = single(&key);
        let good = multisig(1, &keys);
        assert!(is_paid(&good, &own));
        // More signatures than keys, none, four keys, a wrong count, something behind, cut off.
        let four = [keys.clone(), keys.clone()].concat();
        let mut wrong_count = good.clone();
        let at = wrong_count.len() - 2;
        wrong_count[at] += 1;
        let behind = [good.as_slice(), &[0x51]].concat();
        let bad = [multisig(3, &keys), multisig(0, &keys), multisig(1, &four), wrong_count, behind];
        for script in bad {
            assert!(!is_paid(&script, &own), "{script:?}");
        }
        for length in 0..good.len() {
            assert!(!is_paid(&good[..length], &own), "{length}");
        }
        // Data that carries the key, and a script that is no key at all.
        assert!(!is_paid(&[&[0x6a], key.as_slice()].concat(), &own));
        assert!(!is_paid(&good, &[0x51]) && !is_paid(&[], &own));
    }
}
