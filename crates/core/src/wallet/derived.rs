//! What a ledger has stored about the scripts of a keychain, compared with what its descriptor
//! derives.

use super::{DerivedScript, estimated_spend_weight};

/// A stored script of a keychain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredScript {
    /// Its number in the keychain.
    pub index: u32,
    /// Output script, as the column has it.
    pub script: Vec<u8>,
    /// Its text form, if one is stored.
    pub address: Option<String>,
    /// Weight of an input that spends from it.
    pub spend_weight: u32,
    /// Whether it was added by hand too, and may have been given another text and weight then.
    pub is_imported: bool,
}

/// What a stored script contradicts its descriptor in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ScriptMismatch {
    /// The descriptor derives another script, or none.
    Script,
    /// The text is that of another script.
    Address,
    /// The weight of an input, and with it what spending costs.
    Weight,
    /// The descriptor derives a script that is not stored.
    Missing,
}

impl DerivedScript {
    /// What an input that spends from it weighs, as far as anybody can tell.
    #[must_use]
    pub fn weight(&self) -> u32 {
        self.spend_weight.unwrap_or_else(|| estimated_spend_weight(&self.script))
    }

    fn mismatch(&self, stored: &StoredScript) -> Option<ScriptMismatch> {
        if stored.script != self.script {
            return Some(ScriptMismatch::Script);
        }
        if stored.is_imported {
            return None;
        }
        if stored.address != self.address {
            return Some(ScriptMismatch::Address);
        }
        (stored.spend_weight != self.weight()).then_some(ScriptMismatch::Weight)
    }
}

/// Compares stored scripts with the derived ones of the same numbers, both ascending by number.
#[must_use]
pub fn script_mismatches(
    derived: &[DerivedScript],
    stored: &[StoredScript],
) -> Vec<(u32, ScriptMismatch)> {
    let mut found = Vec::new();
    let mut derived = derived.iter().peekable();
    for row in stored {
        while let Some(missing) = derived.next_if(|script| script.index < row.index) {
            found.push((missing.index, ScriptMismatch::Missing));
        }
        let mismatch = match derived.next_if(|script| script.index == row.index) {
            Some(script) => script.mismatch(row),
            None => Some(ScriptMismatch::Script),
        };
        found.extend(mismatch.map(|mismatch| (row.index, mismatch)));
    }
    found.extend(derived.map(|missing| (missing.index, ScriptMismatch::Missing)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn derived(index: u32) -> DerivedScript {
        let byte = u8::try_from(index).unwrap();
        DerivedScript {
            index,
            script: vec![byte; 22],
            address: Some(format!("address {index}")),
            spend_weight: Some(272),
        }
    }

    fn stored(index: u32) -> StoredScript {
        let DerivedScript { script, address, .. } = derived(index);
        StoredScript { index, script, address, spend_weight: 272, is_imported: false }
    }

    #[test]
    fn what_is_derived_is_sound() {
        let (derived, stored): (Vec<_>, Vec<_>) =
            (0..5).map(|at| (derived(at), stored(at))).unzip();
        assert_eq!(script_mismatches(&derived, &stored), []);
    }

    #[test]
    fn every_difference_is_found() {
        let derived = [derived(1), derived(2), derived(3), derived(4), derived(6)];
        let stored = [
            StoredScript { script: vec![9; 22], ..stored(1) },
            StoredScript { address: None, ..stored(2) },
            StoredScript { spend_weight: 1, ..stored(4) },
            stored(5),
        ];
        let expected = [
            (1, ScriptMismatch::Script),
            (2, ScriptMismatch::Address),
            (3, ScriptMismatch::Missing),
            (4, ScriptMismatch::Weight),
            (5, ScriptMismatch::Script),
            (6, ScriptMismatch::Missing),
        ];
        assert_eq!(script_mismatches(&derived, &stored), expected);
    }

    #[test]
    fn an_address_that_was_added_by_hand_may_have_its_own_text_and_weight() {
        let by_hand = StoredScript {
            address: Some("OTHER FORM".to_owned()),
            spend_weight: 500,
            is_imported: true,
            ..stored(1)
        };
        assert_eq!(script_mismatches(&[derived(1)], std::slice::from_ref(&by_hand)), []);
        let foreign = StoredScript { script: vec![9; 22], ..by_hand };
        let found = script_mismatches(&[derived(1)], &[foreign]);
        assert_eq!(found, [(1, ScriptMismatch::Script)]);
    }
}
