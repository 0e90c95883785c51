//! The few scripts of Bitcoin that the rules must look into.

/// Keys of a standard bare multisig.
const KEYS_MAX: usize = 3;
const OP_1: u8 = 0x51;
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
