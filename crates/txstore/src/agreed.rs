//! Numbers that every program over one store must have in common: what one of them takes for safe to
//! delete, another must not need.
//!
//! They are written when the store is made, compared whenever it is opened and inside every commit that
//! prunes, and changed on purpose only, which is recorded. Where several programs may share a store,
//! every write asks whether they are still the same: heights of deletion are made with them.

use std::sync::atomic::Ordering;

pub use utxokeep_core::node::Disagreement;
use utxokeep_core::{
    Corrupt, Height,
    node::{ChangeSet, Policy, Retentions},
};

use crate::{backend::StoreReads, engine::NodeStore, error::StoreError};

const AGREED: &str = "agreed/";
const CHANGED: &str = "agreed_changed/";

/// Numbers that a store has at the most.
const AGREED_MAX: usize = 16;

/// Changes that are shown at most.
const CHANGES_MAX: usize = 1_000;

/// How often a change of numbers is begun anew.
const CHANGE_ATTEMPTS_MAX: usize = 10;

/// What to do where a program disagrees with the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Agreement {
    /// Refuse it.
    #[default]
    Compare,
    /// Change the store, and record when.
    Change {
        /// Now, in milliseconds since 1970.
        now_ms: u64,
    },
    /// Pass over it: somebody only looks at the numbers.
    Ignore,
    /// The store is moved or compared: numbers come with everything else, and one that is half a store
    /// or was moved away is opened all the same.
    Moving,
}

/// A number that was changed on purpose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgreedChange {
    /// The setting.
    pub name: String,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// What it was.
    pub from: u32,
    /// What it is since.
    pub to: u32,
}

/// The numbers of a store, and when they were changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Agreed {
    /// Settings by name.
    pub numbers: Vec<(String, u32)>,
    /// Changes, oldest first.
    pub changes: Vec<AgreedChange>,
}

/// In a store that was moved away: programs that still run see it with their next write.
pub(crate) const MOVED_AWAY: &str = "agreed/moved_away";

/// Beside it: the place that the store was moved to.
pub(crate) const MOVED_TO: &str = "moved_to";

/// In a store that is being moved: every write lists what it changes.
pub(crate) const CHANGES_LISTED: &str = "agreed/changes_listed";

/// Name of the number that pruners have in common.
pub(crate) const SAFETY_WINDOW: &str = "safety_window_blocks";

/// Name of the number that delete-at heights are made with.
const RETENTION: &str = "retention_blocks";

/// Whether numbers change that every program over the store has in common.
pub(crate) fn changes_agreed(changes: &ChangeSet) -> bool {
    changes.states.iter().any(|(name, _)| name.starts_with(AGREED))
}

/// What opening a store compares.
#[must_use]
pub fn of_policy(policy: &Policy) -> [(&'static str, u32); 3] {
    [
        (RETENTION, policy.retention_blocks),
        ("coinbase_maturity_blocks", policy.coinbase_maturity),
        ("unmined_retention_blocks", policy.unmined_retention_blocks),
    ]
}

fn number(bytes: &[u8]) -> Result<u32, StoreError> {
    let number = Height::from_key(bytes).map(Height::get);
    Ok(number.ok_or_else(|| Corrupt::new("number of the store", "not 4 bytes long"))?)
}

fn name_of(name: &str) -> String {
    format!("{AGREED}{name}")
}

fn parse_change(name: &str, value: &[u8]) -> Result<AgreedChange, StoreError> {
    let damaged = || Corrupt::new("change of a number", name.to_owned());
    let rest = name.strip_prefix(CHANGED).and_then(|rest| rest.split_once('/'));
    let (at_ms, setting) = rest.ok_or_else(damaged)?;
    let at_ms = at_ms.parse().map_err(|_| damaged())?;
    let (from, to) = value.split_at_checked(4).ok_or_else(damaged)?;
    Ok(AgreedChange { name: setting.to_owned(), at_ms, from: number(from)?, to: number(to)? })
}

/// Refuses to go on where the store has another number by now. One that it does not have is not
/// compared: nobody agreed on it. Inside a write they stay as they are until it is done.
pub(crate) fn compare(
    view: &StoreReads<'_>,
    numbers: &[(&'static str, u32)],
) -> Result<(), StoreError> {
    if view.state_kept(MOVED_AWAY)?.is_some() {
        return Err(moved_away(view)?);
    }
    for (name, configured) in numbers.iter().copied() {
        let stored = view.state_kept(&name_of(name))?.as_deref().map(number).transpose()?;
        if let Some(stored) = stored.filter(|stored| *stored != configured) {
            return Err(Disagreement { name, stored, configured }.into());
        }
    }
    Ok(())
}

/// The same for what does not delete, in one read that holds nothing: every write asks, and the
/// numbers hardly ever change. A write that began before they did may still end by the old ones.
/// Answers whether changes are listed for a move.
pub(crate) fn refuse_changed(
    view: &StoreReads<'_>,
    numbers: &[(&'static str, u32)],
) -> Result<bool, StoreError> {
    let mut is_listed = false;
    for (stored_name, value) in view.states(AGREED, None, AGREED_MAX)? {
        if stored_name == MOVED_AWAY {
            return Err(moved_away(view)?);
        }
        is_listed |= stored_name == CHANGES_LISTED;
        let named = numbers.iter().find(|(name, _)| stored_name.strip_prefix(AGREED) == Some(name));
        let Some((name, configured)) = named.copied() else { continue };
        let stored = number(&value)?;
        if stored != configured {
            return Err(Disagreement { name, stored, configured }.into());
        }
    }
    Ok(is_listed)
}

/// Where the store was moved to, if it was.
pub(crate) fn is_moved_away(view: &StoreReads<'_>) -> Result<Option<String>, StoreError> {
    if view.state(MOVED_AWAY)?.is_none() {
        return Ok(None);
    }
    let to = view.state(MOVED_TO)?.unwrap_or_default();
    Ok(Some(String::from_utf8_lossy(&to).into_owned()))
}

/// Refuses to write to a store that was moved to another place while this program runs.
pub(crate) fn refuse_moved(view: &StoreReads<'_>) -> Result<(), StoreError> {
    is_moved_away(view)?.map_or(Ok(()), |to| Err(StoreError::MovedAway { to }))
}

fn moved_away(view: &StoreReads<'_>) -> Result<StoreError, StoreError> {
    Ok(StoreError::MovedAway { to: is_moved_away(view)?.unwrap_or_default() })
}

/// The retentions that the store has ever had, as far as it remembers.
pub(crate) fn retentions(view: &StoreReads<'_>, policy: &Policy) -> Result<Retentions, StoreError> {
    let stored = view.state(&name_of(RETENTION))?.as_deref().map(number).transpose()?;
    let now = stored.unwrap_or(policy.retention_blocks);
    let mut found = Retentions { least_blocks: now, most_blocks: now };
    for (name, value) in view.states(CHANGED, None, CHANGES_MAX)? {
        let change = parse_change(&name, &value)?;
        if change.name == RETENTION {
            let Retentions { least_blocks, most_blocks } = found;
            found.least_blocks = least_blocks.min(change.from).min(change.to);
            found.most_blocks = most_blocks.max(change.from).max(change.to);
        }
    }
    Ok(found)
}

impl NodeStore {
    /// Compares numbers with those of the store, which takes those it does not have yet, unless it is
    /// only read.
    pub(crate) fn agree_on(
        &self,
        numbers: &[(&'static str, u32)],
        agreement: Agreement,
    ) -> Result<Result<(), Disagreement>, StoreError> {
        if matches!(agreement, Agreement::Ignore | Agreement::Moving) {
            return Ok(Ok(()));
        }
        let is_agreed = self.read(|facts| {
            let mut is_agreed = true;
            for (name, configured) in numbers {
                let stored =
                    facts.view.state(&name_of(name))?.as_deref().map(number).transpose()?;
                is_agreed &= stored == Some(*configured);
            }
            Ok(is_agreed)
        })?;
        // Nothing is written where nothing changes: the store may take no writes at present.
        if is_agreed {
            return Ok(Ok(()));
        }
        if !self.backend.mode().may_write() {
            return match self.read(|facts| compare(facts.view, numbers)) {
                Err(StoreError::Disagreement(disagreement)) => Ok(Err(disagreement)),
                compared => compared.map(Ok),
            };
        }
        if !matches!(agreement, Agreement::Change { .. }) {
            return self.write_agreed(numbers, agreement);
        }
        self.has_changed_numbers.store(true, Ordering::Release);
        self.change_compared(|| self.write_agreed(numbers, agreement))
    }

    /// Changes something that every write compares with: programs that compared before do it again.
    pub(crate) fn change_compared<T>(
        &self,
        change: impl Fn() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut attempt = 0;
        loop {
            self.backend.begin_change_of_numbers()?;
            let outcome = change();
            self.backend.end_change_of_numbers()?;
            attempt += 1;
            // Another program took what was begun for given up.
            if !matches!(outcome, Err(StoreError::Contended)) || attempt == CHANGE_ATTEMPTS_MAX {
                return outcome;
            }
        }
    }

    fn write_agreed(
        &self,
        numbers: &[(&'static str, u32)],
        agreement: Agreement,
    ) -> Result<Result<(), Disagreement>, StoreError> {
        self.change_states(|view| {
            let mut states = Vec::new();
            for (name, configured) in numbers.iter().copied() {
                let value = configured.to_be_bytes();
                let Some(stored) = view.state(&name_of(name))? else {
                    states.push((name_of(name), Some(value.to_vec())));
                    continue;
                };
                let stored = number(&stored)?;
                if stored == configured {
                    continue;
                }
                let Agreement::Change { now_ms } = agreement else {
                    return Ok((Err(Disagreement { name, stored, configured }), Vec::new()));
                };
                let record = [stored.to_be_bytes(), value].concat();
                states.push((format!("{CHANGED}{now_ms:020}/{name}"), Some(record)));
                states.push((name_of(name), Some(value.to_vec())));
            }
            Ok((Ok(()), states))
        })
    }

    /// The numbers that every program over the store has in common, and their changes.
    pub fn agreed(&self) -> Result<Agreed, StoreError> {
        self.read(|facts| {
            let mut agreed = Agreed::default();
            for (name, value) in facts.view.states(AGREED, None, CHANGES_MAX)? {
                if [MOVED_AWAY, CHANGES_LISTED].contains(&name.as_str()) {
                    continue;
                }
                let name = name.strip_prefix(AGREED).unwrap_or(&name).to_owned();
                agreed.numbers.push((name, number(&value)?));
            }
            for (name, value) in facts.view.states(CHANGED, None, CHANGES_MAX)? {
                agreed.changes.push(parse_change(&name, &value)?);
            }
            Ok(agreed)
        })
    }
}
