//! Which move the marks of a source belong to: only that one changes them.
//!
//! A source names the target of the move that lists its changes, and the place that it was moved to.
//! Another target of the same source, such as half a copy that somebody left, has no say in them.

use super::{Move, MoveError, follow::stop_listing, mark::Mark};
use crate::{
    agreed::{CHANGES_LISTED, MOVED_AWAY, MOVED_TO},
    backend::{StoreReads, Touched},
    engine::NodeStore,
    error::StoreError,
    heights::WHOLE_STORE,
};
use utxokeep_core::node::{ChangeSet, NamedState};

/// What a source says of moves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct SourceMarks {
    /// The target that its changes are listed for.
    pub(super) listed_to: Option<String>,
    /// The place that it was moved to, where it was retired.
    pub(super) moved_to: Option<String>,
}

impl SourceMarks {
    /// As the store has them; inside a write they stay as they are until it is done.
    pub(super) fn read(view: &StoreReads<'_>) -> Result<Self, StoreError> {
        let text = |name: &str| -> Result<Option<String>, StoreError> {
            let value = view.state_kept(name)?;
            Ok(value.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
        };
        let is_retired = view.state_kept(MOVED_AWAY)?.is_some();
        let moved_to = text(MOVED_TO)?.filter(|_| is_retired);
        let moved_to = moved_to.or_else(|| is_retired.then(String::new));
        Ok(Self { listed_to: text(CHANGES_LISTED)?, moved_to })
    }

    pub(super) fn is_listed_for(&self, to: &str) -> bool {
        self.listed_to.as_deref() == Some(to)
    }

    /// Whether the move to a target has asked this source for anything.
    fn is_begun_for(&self, to: &str) -> bool {
        self.is_listed_for(to) || self.moved_to.as_deref() == Some(to)
    }

    /// Refuses marks that belong to the move to another target.
    fn check_for(&self, to: &str) -> Result<(), MoveError> {
        let other = |found: &Option<String>| found.clone().filter(|found| found != to);
        if let Some(to) = other(&self.moved_to) {
            return Err(MoveError::MovedAway { to });
        }
        other(&self.listed_to).map_or(Ok(()), |to| Err(MoveError::OtherTarget { to }))
    }
}

/// Writes values of a source, in the commit that compares its marks; the inner error has marks that are
/// not as they should be, and nothing was written.
pub(super) fn write_owned(
    source: &NodeStore,
    is_allowed: impl Fn(&SourceMarks) -> bool,
    states: &[NamedState],
) -> Result<Result<(), SourceMarks>, StoreError> {
    let mut found = SourceMarks::default();
    let mut is_written = false;
    source.backend.write(&Touched::Only(vec![WHOLE_STORE]), &mut |view| {
        found = SourceMarks::read(view)?;
        is_written = is_allowed(&found);
        let states = if is_written { states.to_vec() } else { Vec::new() };
        Ok(ChangeSet::of_states(states))
    })?;
    Ok(if is_written { Ok(()) } else { Err(found) })
}

/// Takes the retirement of a source back, whose move did not end, and its list of changes; answers
/// whether it was retired. Marks that name another target are left alone, and refused. The target stays
/// half a store.
pub fn abandon_move(
    source: &NodeStore,
    target: &NodeStore,
    options: &super::MoveOptions,
) -> Result<bool, MoveError> {
    let mark = target.read(|facts| Mark::read(facts.view))?;
    if mark.is_none_or(|mark| mark.from != options.from) {
        // It may be whole, and in use.
        return Err(MoveError::NotEmpty);
    }
    let to = options.to.as_str();
    let found = source.read(|facts| SourceMarks::read(facts.view))?;
    found.check_for(to)?;
    if found.is_begun_for(to) {
        let names = [MOVED_AWAY, MOVED_TO, CHANGES_LISTED].map(|name| (name.to_owned(), None));
        let is_ours = |marks: &SourceMarks| marks.check_for(to).is_ok();
        let written = source.change_compared(|| write_owned(source, is_ours, &names))?;
        if let Err(found) = written {
            found.check_for(to)?;
        }
    }
    stop_listing(source)?;
    Ok(found.moved_to.is_some())
}

impl Move<'_> {
    /// A source that lists its changes for this move, or was retired by it, goes on only if it is to be
    /// retired now, too.
    pub(super) fn refuse_unasked(&self) -> Result<(), MoveError> {
        if self.options.retires_source {
            return Ok(());
        }
        let found = self.source.read(|facts| SourceMarks::read(facts.view))?;
        if found.is_begun_for(&self.options.to) {
            return Err(MoveError::RetirementBegun);
        }
        Ok(())
    }

    /// Refuses to rest on a comparison that another run of the same move has taken back.
    pub(super) fn check_compared(&self) -> Result<(), MoveError> {
        let mark = self.target.read(|facts| Mark::read(facts.view))?;
        let is_compared = mark.is_some_and(|mark| mark.compared.is_some());
        if is_compared { Ok(()) } else { Err(MoveError::GivenUp) }
    }

    /// Refuses to end where the source is not retired for this move any more.
    pub(super) fn check_owned(&self) -> Result<(), MoveError> {
        self.check_compared()?;
        let found = self.source.read(|facts| SourceMarks::read(facts.view))?;
        let to = self.options.to.as_str();
        let is_ours = found.is_listed_for(to) && found.moved_to.as_deref() == Some(to);
        if is_ours { Ok(()) } else { Err(MoveError::GivenUp) }
    }
}
