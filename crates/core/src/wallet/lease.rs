//! Leases: how owners are named, and when a lease ends with the payment it was taken for.

use sha2::{Digest as _, Sha256};

use super::LeaseId;

/// Characters of the name of an owner.
pub const OWNER_NAME_CHARS_MAX: usize = 100;

/// A text that names no owner of leases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "an owner is 64 hexadecimal digits, or a name of 1 to {OWNER_NAME_CHARS_MAX} characters \
     without control characters and without spaces at its ends"
)]
pub struct BadOwner;

/// An owner as people write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseOwner {
    /// The 32 bytes that leases are stored with.
    pub id: LeaseId,
    /// The name, when the text was one; then the id is its SHA-256.
    pub name: Option<String>,
}

impl LeaseOwner {
    /// Reads 64 hexadecimal digits as the id itself, and any other text as a name whose SHA-256
    /// is the id.
    pub fn parse(text: &str) -> Result<Self, BadOwner> {
        if let Ok(id) = LeaseId::from_hex(text) {
            return Ok(Self { id, name: None });
        }
        let is_named = (1..=OWNER_NAME_CHARS_MAX).contains(&text.chars().count())
            && text.trim() == text
            && !text.chars().any(char::is_control);
        if !is_named {
            return Err(BadOwner);
        }
        let id = LeaseId::from_bytes(Sha256::digest(text.as_bytes()).into());
        Ok(Self { id, name: Some(text.to_owned()) })
    }
}

/// A lease on an input of a payment that is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputLease {
    /// Who holds it.
    pub owner: LeaseId,
    /// Whether a block has spent the output since the lease began.
    pub is_held: bool,
    /// Whether another transaction of the wallet spends the output.
    pub is_spent: bool,
    /// Whose payment that one is, if anybody's.
    pub spender: Option<LeaseId>,
    /// Whether other replacements wait to spend the output.
    pub is_awaited: bool,
}

/// What becomes of a lease when a payment is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseEnd {
    /// It stays.
    Stays,
    /// It ends.
    Ends,
    /// It goes back to this owner.
    GoesTo(LeaseId),
}

impl InputLease {
    /// What becomes of the lease when one of `payers` gives the payment up.
    ///
    /// Leases of anybody else stay: a lease keeps nobody from spending, so the output may be
    /// reserved for a payment that is still to come. One that is held stays too: a block had the
    /// payment already, and may have it again. A bump has taken the lease of a payment that goes on:
    /// it goes back to the owner of that one, unless another replacement waits for the output.
    #[must_use]
    pub fn after(&self, payers: &[LeaseId]) -> LeaseEnd {
        let is_kept = !payers.contains(&self.owner) || self.is_held || self.is_awaited;
        match (is_kept, self.is_spent, self.spender) {
            (false, false, _) => LeaseEnd::Ends,
            (false, true, Some(spender)) if spender != self.owner => LeaseEnd::GoesTo(spender),
            _ => LeaseEnd::Stays,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_an_id_and_everything_else_is_a_name() {
        let digits = "AB".repeat(32);
        let owner = LeaseOwner::parse(&digits).unwrap();
        assert_eq!(owner, LeaseOwner { id: LeaseId::from_bytes([0xab; 32]), name: None });
        let named = LeaseOwner::parse("payroll").unwrap();
        assert_eq!(named.name.as_deref(), Some("payroll"));
        // `printf payroll | sha256sum`
        let sum = "60f91a742458ae606572f40dd7df0a128e554acb023f6989fe5148872648fc56";
        assert_eq!(named.id.to_hex(), sum);
        assert_eq!(LeaseOwner::parse(&named.id.to_hex()).unwrap().id, named.id);
        assert_eq!(LeaseOwner::parse(&digits[1..]).unwrap().name.as_deref(), Some(&digits[1..]));
    }

    #[test]
    fn empty_long_and_invisible_names_are_refused() {
        let long = "n".repeat(OWNER_NAME_CHARS_MAX + 1);
        for wrong in ["", " ", " a", "a\t", "a\nb", "\u{7f}", &long] {
            assert_eq!(LeaseOwner::parse(wrong), Err(BadOwner), "{wrong:?}");
        }
        assert!(LeaseOwner::parse(&"é".repeat(OWNER_NAME_CHARS_MAX)).is_ok());
    }

    #[test]
    fn only_the_payers_own_idle_leases_end_with_a_payment() {
        let [payer, other] = [[1; 32], [2; 32]].map(LeaseId::from_bytes);
        let own = InputLease {
            owner: payer,
            is_held: false,
            is_spent: false,
            spender: None,
            is_awaited: false,
        };
        assert_eq!(own.after(&[payer]), LeaseEnd::Ends);
        assert_eq!(own.after(&[other, payer]), LeaseEnd::Ends);
        assert_eq!(own.after(&[other]), LeaseEnd::Stays);
        assert_eq!(InputLease { is_held: true, ..own }.after(&[payer]), LeaseEnd::Stays);
        assert_eq!(InputLease { is_spent: true, ..own }.after(&[payer]), LeaseEnd::Stays);
        assert_eq!(InputLease { is_awaited: true, ..own }.after(&[payer]), LeaseEnd::Stays);
    }

    #[test]
    fn a_lease_that_a_bump_took_goes_back_to_the_payment_that_goes_on() {
        let [first, second] = [[1; 32], [2; 32]].map(LeaseId::from_bytes);
        let moved = InputLease {
            owner: second,
            is_held: false,
            is_spent: true,
            spender: Some(first),
            is_awaited: false,
        };
        assert_eq!(moved.after(&[second]), LeaseEnd::GoesTo(first));
        assert_eq!(moved.after(&[first]), LeaseEnd::Stays);
        assert_eq!(InputLease { spender: Some(second), ..moved }.after(&[second]), LeaseEnd::Stays);
        assert_eq!(InputLease { is_held: true, ..moved }.after(&[second]), LeaseEnd::Stays);
        assert_eq!(InputLease { is_awaited: true, ..moved }.after(&[second]), LeaseEnd::Stays);
    }
}
