//! The place of large bodies belongs to its node store: both remember the same number, so that a place
//! that was moved, exchanged or lost is named once, and not as one missing body after the other.
//!
//! # Invariants
//!
//! * The number is in the store before the file that says it, and the store says when it is written: a
//!   file that the store does not know is never its own.
//! * Nothing is written into a place that belongs to another store.
//! * A directory is looked at again with each file: one that was moved away under a running program is
//!   not made anew.

use utxokeep_core::{Corrupt, ErrorKind};

use crate::{
    backend::StoreReads, blobs::Blobs, engine::NodeStore, error::StoreError, files::random_bytes,
};

/// Name of the value of the store.
pub(crate) const BLOB_STORE: &str = "blob_store";

/// First byte of the value: the file is about to be written, or is.
const ANNOUNCED: u8 = 0;
const CLAIMED: u8 = 1;

/// How often the file is looked for after it was written.
const ROUNDS_MAX: usize = 5;

/// Length of the number.
const LEN: usize = 16;

/// Why a place for large bodies is not that of the store. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WrongBlobStore {
    /// What the store put there is gone.
    #[error(
        "{place} is not the blob store that this node store used: the file {mark} is not there. It was \
         moved, is not mounted, or is lost. Put it back, or set [txstore] blobs to where it is now. If it \
         is gone for good, `utxokeep tx adopt-blobs` takes the place as it is; bodies that are not there \
         stay missing",
        mark = Blobs::MARK
    )]
    Lost {
        /// The place.
        place: String,
    },
    /// It is that of another store.
    #[error(
        "{place} belongs to another node store, as its file {mark} says. Give each node store a place of \
         its own: one would delete the files of the other. If it is the right one, `utxokeep tx \
         adopt-blobs` takes it",
        mark = Blobs::MARK
    )]
    Foreign {
        /// The place.
        place: String,
    },
}

impl WrongBlobStore {
    /// What a caller can do about it.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Lost { .. } => ErrorKind::Corrupt,
            Self::Foreign { .. } => ErrorKind::Refused,
        }
    }
}

/// What a store remembers of its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    number: [u8; LEN],
    is_written: bool,
}

impl Known {
    fn read(view: &StoreReads<'_>) -> Result<Option<Self>, StoreError> {
        let Some(bytes) = view.state(BLOB_STORE)? else { return Ok(None) };
        let known = bytes.split_first().and_then(|(stage, number)| {
            let is_written = match *stage {
                ANNOUNCED => false,
                CLAIMED => true,
                _ => return None,
            };
            Some(Self { number: number.try_into().ok()?, is_written })
        });
        Ok(Some(known.ok_or_else(|| Corrupt::new("mark of the blob store", "not as written"))?))
    }

    fn to_bytes(self) -> Vec<u8> {
        let stage = if self.is_written { CLAIMED } else { ANNOUNCED };
        [&[stage], self.number.as_slice()].concat()
    }
}

/// What to do about a place, given what the store knows and what lies there.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// It is the right one.
    Done,
    /// The store remembers this, and then the file is written where it is not there.
    Remember(Known),
    Lost,
    Foreign,
}

fn decide(known: Option<Known>, found: Option<[u8; LEN]>, new: [u8; LEN], adopts: bool) -> Step {
    let written = |number| Known { number, is_written: true };
    match (known, found) {
        (None, None) => Step::Remember(Known { number: new, is_written: false }),
        (Some(known), Some(found)) if known == written(found) => Step::Done,
        (Some(known), Some(found)) if known.number == found => Step::Remember(written(found)),
        (Some(known), None) if adopts || !known.is_written => {
            Step::Remember(Known { is_written: false, ..known })
        }
        (Some(_), None) => Step::Lost,
        (_, Some(found)) if adopts => Step::Remember(written(found)),
        (_, Some(_)) => Step::Foreign,
    }
}

impl NodeStore {
    /// Makes sure that the place for large bodies is the one that the store used before. A store
    /// without one takes the place, if it is nobody else's. With `adopts` it takes it as it is. One
    /// that is only read takes nothing.
    pub fn claim_blobs(&self, adopts: bool) -> Result<Result<(), WrongBlobStore>, StoreError> {
        let Some(blobs) = &self.blobs else { return Ok(Ok(())) };
        let place = || blobs.place();
        for _ in 0..ROUNDS_MAX {
            let found = blobs.mark()?;
            let new = random_bytes();
            let known = self.read(|facts| Known::read(facts.view))?;
            // Nothing is written where nothing changes: the store may take no writes at present.
            let step = match decide(known, found, new, adopts) {
                // Whoever writes next takes the place.
                Step::Remember(_) if !self.backend.mode().may_write() => Step::Done,
                Step::Remember(_) => self.change_states(|view| {
                    let step = decide(Known::read(view)?, found, new, adopts);
                    let states = match &step {
                        Step::Remember(known) => {
                            vec![(BLOB_STORE.to_owned(), Some(known.to_bytes()))]
                        }
                        _ => Vec::new(),
                    };
                    Ok((step, states))
                })?,
                step => step,
            };
            match step {
                Step::Done | Step::Remember(Known { is_written: true, .. }) => {
                    if let Some(number) = found {
                        blobs.expect(number);
                    }
                    return Ok(Ok(()));
                }
                Step::Remember(known) => blobs.put_mark(&known.number)?,
                Step::Lost => return Ok(Err(WrongBlobStore::Lost { place: place() })),
                Step::Foreign => return Ok(Err(WrongBlobStore::Foreign { place: place() })),
            }
        }
        let reason = format!("the file {} was written and is not there", Blobs::MARK);
        Err(StoreError::Blob { what: "reading", reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: [u8; LEN] = [1; LEN];
    const OTHER: [u8; LEN] = [2; LEN];
    const NEW: [u8; LEN] = [3; LEN];

    #[test]
    fn a_place_is_taken_once_and_known_again() {
        let known = |number, is_written| Some(Known { number, is_written });
        let announced = |number| Step::Remember(Known { number, is_written: false });
        let claimed = |number| Step::Remember(Known { number, is_written: true });
        for (store, place, strict, adopting) in [
            (None, None, announced(NEW), announced(NEW)),
            (None, Some(OTHER), Step::Foreign, claimed(OTHER)),
            // A program died before or after it wrote the file.
            (known(OURS, false), None, announced(OURS), announced(OURS)),
            (known(OURS, false), Some(OURS), claimed(OURS), claimed(OURS)),
            (known(OURS, false), Some(OTHER), Step::Foreign, claimed(OTHER)),
            (known(OURS, true), Some(OURS), Step::Done, Step::Done),
            (known(OURS, true), None, Step::Lost, announced(OURS)),
            (known(OURS, true), Some(OTHER), Step::Foreign, claimed(OTHER)),
        ] {
            assert_eq!(decide(store, place, NEW, false), strict, "{store:?} {place:?}");
            assert_eq!(decide(store, place, NEW, true), adopting, "{store:?} {place:?}");
        }
    }

    #[test]
    fn bytes_are_pinned() {
        let known = Known { number: OURS, is_written: true };
        assert_eq!(known.to_bytes(), [1; 17]);
        assert_eq!(Known { is_written: false, ..known }.to_bytes()[0], 0);
    }
}
