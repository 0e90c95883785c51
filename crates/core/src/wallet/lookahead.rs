//! How far a keychain is watched ahead, and when that may have been too short.
//!
//! The ledger cannot see a payment beyond the scripts that it watches. So it says when a payment
//! came close to the last of them, because then others may have gone beyond.

use crate::types::Height;

/// Scripts that are watched ahead when nobody says how many: what Bitcoin Core keeps ahead.
pub const LOOKAHEAD_DEFAULT: u32 = 1_000;
/// The most scripts that are watched ahead.
pub const LOOKAHEAD_MAX: u32 = 10_000;

/// What is stored of a keychain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeychainReach {
    /// 0 for payments by others, 1 for change.
    pub keychain: u32,
    /// How many scripts are watched ahead.
    pub lookahead: u32,
    /// Scripts below this number were handed out or paid.
    pub next_index: u32,
    /// Whether it stands for many scripts.
    pub is_ranged: bool,
}

/// What is asked of a keychain; what is `None` is left as it is, or to the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AskedReach {
    /// 0 for payments by others, 1 for change.
    pub keychain: Option<u32>,
    /// How many scripts are watched ahead.
    pub lookahead: Option<u32>,
    /// Scripts below this number were handed out.
    pub next_index: Option<u32>,
}

/// Why a keychain does not become what was asked for. It stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadReach {
    /// A lookahead out of range.
    #[error("the lookahead is between 1 and {LOOKAHEAD_MAX}, {asked} was asked for")]
    Lookahead {
        /// What was asked for.
        asked: u32,
    },
    /// A descriptor with one script has nothing ahead.
    #[error("the descriptor stands for one script; leave lookahead and next index out")]
    NotRanged,
    /// It is watched as another keychain.
    #[error(
        "the descriptor is watched already as keychain {stored}, not {asked}; leave the keychain out"
    )]
    OtherKeychain {
        /// What it is.
        stored: u32,
        /// What was asked for.
        asked: u32,
    },
    /// Scripts that are watched are not forgotten.
    #[error(
        "the descriptor is watched already with a lookahead of {stored}, which cannot be lowered to {asked}; leave it out or raise it"
    )]
    SmallerLookahead {
        /// What it is.
        stored: u32,
        /// What was asked for.
        asked: u32,
    },
    /// An address that was handed out stays handed out.
    #[error(
        "scripts of the descriptor below {stored} are in use already, which cannot be lowered to {asked}; leave the next index out or raise it"
    )]
    SmallerNextIndex {
        /// What it is.
        stored: u32,
        /// What was asked for.
        asked: u32,
    },
}

impl AskedReach {
    /// Refuses what fits no keychain of this form.
    pub fn check(&self, is_ranged: bool) -> Result<(), BadReach> {
        match self.lookahead {
            Some(asked) if asked == 0 || asked > LOOKAHEAD_MAX => {
                return Err(BadReach::Lookahead { asked });
            }
            _ => {}
        }
        let says_more = self.lookahead.is_some_and(|asked| asked > 1)
            || self.next_index.is_some_and(|asked| asked > 0);
        if !is_ranged && says_more { Err(BadReach::NotRanged) } else { Ok(()) }
    }
}

impl KeychainReach {
    /// What a known keychain becomes when it is asked for again: never less than it is.
    pub fn extended(self, asked: &AskedReach) -> Result<Self, BadReach> {
        asked.check(self.is_ranged)?;
        if let Some(asked) = asked.keychain.filter(|asked| *asked != self.keychain) {
            return Err(BadReach::OtherKeychain { stored: self.keychain, asked });
        }
        if !self.is_ranged {
            return Ok(self);
        }
        if let Some(asked) = asked.lookahead.filter(|asked| *asked < self.lookahead) {
            return Err(BadReach::SmallerLookahead { stored: self.lookahead, asked });
        }
        if let Some(asked) = asked.next_index.filter(|asked| *asked < self.next_index) {
            return Err(BadReach::SmallerNextIndex { stored: self.next_index, asked });
        }
        Ok(Self {
            lookahead: asked.lookahead.unwrap_or(self.lookahead),
            next_index: asked.next_index.unwrap_or(self.next_index),
            ..self
        })
    }
}

/// Whether a payment to script `index` lies in the last `percent` of the scripts that were watched
/// ahead, the last `lookahead` below `watched`. The very last one always does.
#[must_use]
pub fn is_near_edge(index: u32, watched: u32, lookahead: u32, percent: u32) -> bool {
    let part = u64::from(lookahead) * u64::from(percent.min(100)) / 100;
    let part = u32::try_from(part).unwrap_or(u32::MAX).max(1);
    index < watched && index >= watched.saturating_sub(part)
}

/// The lookahead to raise a keychain to whose edge was reached.
#[must_use]
pub fn wider_lookahead(lookahead: u32) -> u32 {
    lookahead.saturating_mul(2).clamp(LOOKAHEAD_DEFAULT, LOOKAHEAD_MAX)
}

/// From where the blocks have to be scanned for scripts that are watched from now on; `None` when
/// the ledger has passed no block that could pay them. A ledger that does not know its first block
/// is scanned from the start of the chain.
#[must_use]
pub fn scan_from(
    tip: Option<Height>,
    birthday: Option<Height>,
    first_block: Option<Height>,
) -> Option<Height> {
    let from = birthday.or(first_block).unwrap_or(Height::GENESIS);
    tip.filter(|tip| from <= *tip).map(|_| from)
}

/// A birthday above the last block of the ledger: payments below it could be missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the birthday {birthday} lies above the last block of the ledger, which is {tip}; give a block \
     that it has"
)]
pub struct BirthdayAboveTip {
    /// The height that was asked for.
    pub birthday: Height,
    /// The last block of the ledger.
    pub tip: Height,
}

/// Refuses a birthday above the tip; where there is none yet, nothing can be said.
pub fn check_birthday(
    birthday: Option<Height>,
    tip: Option<Height>,
) -> Result<(), BirthdayAboveTip> {
    match birthday.zip(tip) {
        Some((birthday, tip)) if birthday > tip => Err(BirthdayAboveTip { birthday, tip }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORED: KeychainReach =
        KeychainReach { keychain: 0, lookahead: 25, next_index: 7, is_ranged: true };

    #[test]
    fn nobody_is_born_above_the_tip() {
        let at = Height::new;
        assert_eq!(check_birthday(Some(at(7)), Some(at(7))), Ok(()));
        let refused = BirthdayAboveTip { birthday: at(8), tip: at(7) };
        assert_eq!(check_birthday(Some(at(8)), Some(at(7))), Err(refused));
        assert_eq!(check_birthday(Some(at(8)), None), Ok(()));
        assert_eq!(check_birthday(None, Some(at(7))), Ok(()));
    }

    #[test]
    fn every_option_of_a_known_keychain_is_honoured_or_refused() {
        let asked = AskedReach::default();
        assert_eq!(STORED.extended(&asked), Ok(STORED));
        let more = AskedReach { keychain: Some(0), lookahead: Some(1_000), next_index: Some(9) };
        let wider = KeychainReach { lookahead: 1_000, next_index: 9, ..STORED };
        assert_eq!(STORED.extended(&more), Ok(wider));
        let cases = [
            (
                AskedReach { keychain: Some(1), ..asked },
                BadReach::OtherKeychain { stored: 0, asked: 1 },
            ),
            (
                AskedReach { lookahead: Some(24), ..asked },
                BadReach::SmallerLookahead { stored: 25, asked: 24 },
            ),
            (
                AskedReach { next_index: Some(6), ..asked },
                BadReach::SmallerNextIndex { stored: 7, asked: 6 },
            ),
            (AskedReach { lookahead: Some(0), ..asked }, BadReach::Lookahead { asked: 0 }),
            (
                AskedReach { lookahead: Some(10_001), ..asked },
                BadReach::Lookahead { asked: 10_001 },
            ),
        ];
        for (asked, refused) in cases {
            assert_eq!(STORED.extended(&asked), Err(refused));
        }
        let single = KeychainReach { is_ranged: false, next_index: 1, ..STORED };
        assert_eq!(single.extended(&AskedReach { next_index: Some(0), ..asked }), Ok(single));
        assert_eq!(
            single.extended(&AskedReach { lookahead: Some(50), ..asked }),
            Err(BadReach::NotRanged)
        );
        let numbered = AskedReach { next_index: Some(1), ..asked };
        assert_eq!(single.extended(&numbered), Err(BadReach::NotRanged));
    }

    #[test]
    fn the_last_part_of_the_window_is_its_edge() {
        assert!(!is_near_edge(799, 1_000, 1_000, 20));
        assert!(is_near_edge(800, 1_000, 1_000, 20));
        assert!(is_near_edge(1_799, 1_800, 1_000, 20));
        assert!(!is_near_edge(1_599, 1_800, 1_000, 20));
        assert!(is_near_edge(1, 2, 2, 20), "the last script is always the edge");
        assert!(!is_near_edge(0, 2, 2, 20));
    }

    #[test]
    fn a_scan_starts_at_the_birthday_or_where_the_ledger_does() {
        let height = |height| Some(Height::new(height));
        assert_eq!(scan_from(None, height(1), height(2)), None);
        assert_eq!(scan_from(height(9), height(1), height(2)), height(1));
        assert_eq!(scan_from(height(9), None, height(2)), height(2));
        assert_eq!(scan_from(height(9), None, None), height(0));
        assert_eq!(scan_from(height(9), height(10), None), None);
    }
}
