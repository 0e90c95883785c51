//! What the pruner asks of a node store, once for all engines.

use utxokeep_core::{
    Corrupt, Height, OutPoint, Txid,
    node::{
        BlobKind, Blocking, ChangeSet, HeightIndex, NodeError, Policy, PruneRules, Pruned, Spends,
        TxRecord, Undo, Verdict, encode_body, encode_output, encode_record,
    },
};
use utxokeep_kv::KvError;
use utxokeep_records::RecordError;

use crate::{
    admit::Asks,
    agreed::{Agreement, Disagreement, SAFETY_WINDOW, compare, of_policy},
    backend::{ReadWork, StateWork, StoreReads, Touched},
    engine::NodeStore,
    error::StoreError,
    facts::{Facts, Work},
    files::{BLOB_DELETE, waits},
    store::TxStore,
};

/// Where deleted records wait to be restored.
const UNDO: &str = "undo/";

/// Rows that are counted or trimmed at a time.
const PAGE_ROWS: usize = 10_000;

/// Records that are past due.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PastDue {
    /// How many.
    pub total: u64,
    /// Height of the oldest.
    pub oldest: Option<Height>,
    /// For each age that was asked about: how many are at least that old, and younger than the
    /// next one.
    pub by_age: Vec<(u32, u64)>,
}

/// What became of some of the files that wait for their deletion.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BlobsDeleted {
    /// Files that were deleted.
    pub deleted: u64,
    /// Files that were gone already, which is just as well.
    pub missing: u64,
    /// Files whose transaction was stored again meanwhile; they stay.
    pub wanted: u64,
    /// Files that could not be deleted, and why. They wait for another attempt.
    pub failed: Vec<(Txid, String)>,
    /// Where to go on; `None` at the end of the queue.
    pub next: Option<String>,
}

/// How many preservations ended, and where to go on; `None` at the end.
pub type EndedKeeping = (u64, Option<(Height, Txid)>);

/// Records that are kept for children none of which waits, each with those children, and where to
/// go on; `None` at the end.
pub type KeptForNobody = (Vec<(Txid, Vec<Txid>)>, Option<(Height, Txid)>);

/// What a transaction spends from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParentsOf {
    /// These, each once for each input.
    Known(Vec<Txid>),
    /// There is no such transaction, or it is conflicting and needs nothing.
    Nobody,
    /// Its body cannot be read.
    Unreadable,
}

/// What became of the records that were pruned at a height and asked back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RestoredHeight {
    /// How many came back.
    pub restored: u64,
    /// How many were refused, and can be asked back again.
    pub refused: u64,
    /// The first of those, [`RestoredHeight::NAMED_MAX`] at most, and why.
    pub named: Vec<(Txid, NodeError)>,
}

impl RestoredHeight {
    /// Refused records that an answer names.
    pub const NAMED_MAX: usize = 100;
}

/// A node store that can be pruned. Every verdict is [`utxokeep_core::node`]'s.
pub trait PruneStore: TxStore {
    /// Finishes or takes back calls whose actor did not end them in time, at most `limit`; answers how
    /// many. Until then lists by height may lack what they wrote. Engines that commit a call at once
    /// have none.
    fn end_unfinished(&self, _limit: usize) -> Result<u64, StoreError> {
        Ok(0)
    }

    /// Records that may be deleted from a height up to `until` on, oldest first, behind `after`.
    fn due(
        &self,
        until: Height,
        after: Option<(Height, Txid)>,
        limit: usize,
    ) -> Result<Vec<(Height, Txid)>, StoreError>;

    /// Counts what is due at a height, by how many blocks it has been. `ages` ascend from 0.
    fn past_due(&self, until: Height, ages: &[u32]) -> Result<PastDue, StoreError>;

    /// Deletes those of the records that may go, with markers on surviving parents, in one commit.
    fn prune(
        &self,
        txids: &[Txid],
        rules: &PruneRules,
    ) -> Result<Result<Vec<Pruned>, NodeError>, StoreError>;

    /// What [`PruneStore::prune`] would do once the keeping of these records for children has ended,
    /// where none of them waits any more; and the bytes of each record. Changes nothing.
    fn rehearse(
        &self,
        txids: &[Txid],
        rules: &PruneRules,
    ) -> Result<Vec<(Verdict, u64)>, StoreError>;

    /// Every fact that keeps a record; none if it may go.
    fn explain(&self, txid: &Txid, rules: &PruneRules) -> Result<Vec<Blocking>, StoreError>;

    /// Transactions that these spend from.
    fn parents(&self, txids: &[Txid]) -> Result<Vec<ParentsOf>, StoreError>;

    /// Keeps those of the parents of old unmined transactions that are due until a height; answers
    /// how many are kept longer than before.
    fn preserve_parents(&self, parents: &[Txid], until: Height) -> Result<usize, StoreError>;

    /// Parents whose keeping [`PruneStore::end_keeping_for_children`] would end, of `limit` that are
    /// kept for children, behind `after`; and where to go on.
    fn kept_for_nobody(
        &self,
        after: Option<(Height, Txid)>,
        limit: usize,
    ) -> Result<KeptForNobody, StoreError>;

    /// Ends the keeping of parents whose children do not wait any more; looks at `limit` of those
    /// that are kept for children, behind `after`. Answers how many ended, and where to go on.
    fn end_keeping_for_children(
        &self,
        after: Option<(Height, Txid)>,
        limit: usize,
    ) -> Result<EndedKeeping, StoreError>;

    /// Deletes files whose transactions are gone, at most `limit`, behind `after`.
    fn delete_blobs(&self, after: Option<&str>, limit: usize) -> Result<BlobsDeleted, StoreError>;

    /// Files that wait for their deletion, at most `limit` of them counted.
    fn blobs_waiting(&self, limit: usize) -> Result<usize, StoreError>;

    /// Brings a record back that was pruned at a height up to `newest`, and preserves it until a
    /// height. Answers whether it did. One whose inputs belong to another transaction by now is
    /// refused, and can be restored once they do not.
    fn restore(
        &self,
        txid: &Txid,
        newest: Height,
        until: Height,
    ) -> Result<Result<bool, NodeError>, StoreError>;

    /// The same for everything that was pruned at a height.
    fn restore_height(&self, height: Height, until: Height) -> Result<RestoredHeight, StoreError>;

    /// Forgets what was pruned below a height; answers how many records.
    fn trim_undo(&self, below: Height) -> Result<u64, StoreError>;

    /// The numbers that the store works by.
    fn policy(&self) -> Policy;

    /// Compares numbers with those of the store, which takes those it does not have yet.
    fn agree(
        &self,
        numbers: &[(&'static str, u32)],
        agreement: Agreement,
    ) -> Result<Result<(), Disagreement>, StoreError>;

    /// Reads named values of the store as a whole, all as of one moment.
    fn read_states(&self, read: &mut ReadWork<'_>) -> Result<(), StoreError>;

    /// Changes named values of the store as a whole in one commit. `decide` reads them and answers
    /// what is written; nobody else changes such values in between. It may be run again, and then
    /// only its last answer counts.
    fn update_states(&self, decide: &mut StateWork<'_>) -> Result<(), StoreError>;
}

fn undo_prefix(height: Height) -> String {
    format!("{UNDO}{:010}/", height.get())
}

fn undo_name(height: Height, txid: &Txid) -> String {
    format!("{}{}", undo_prefix(height), txid.to_reversed_hex())
}

fn parse_undo(name: &str) -> Option<(Height, Txid)> {
    let (height, txid) = name.strip_prefix(UNDO)?.split_once('/')?;
    Some((height.parse().ok()?, Txid::from_reversed_hex(txid).ok()?))
}

fn parse_blob(name: &str) -> Option<(Txid, BlobKind)> {
    let (txid, extension) = name.strip_prefix(BLOB_DELETE)?.split_once('.')?;
    let kind = BlobKind::ALL.into_iter().find(|kind| kind.extension() == extension)?;
    Some((Txid::from_reversed_hex(txid).ok()?, kind))
}

fn damaged(name: &str) -> StoreError {
    Corrupt::new("name of a state", name.to_owned()).into()
}

/// What transactions spend. Bodies never change, so no lock is needed; one that cannot be read is
/// left out, and its record will be kept.
fn spends_of(facts: &Facts<'_>, txids: &[Txid]) -> Result<Spends, StoreError> {
    let mut spends = Spends::default();
    spends.reserve(txids.len());
    let beside = match facts.view.spends(txids) {
        Err(error) if error.is_about_one() => vec![None; txids.len()],
        beside => beside?,
    };
    for (txid, beside) in txids.iter().zip(beside) {
        if let Some(beside) = beside {
            spends.insert(*txid, beside);
            continue;
        }
        match facts.bodies(std::slice::from_ref(txid)) {
            Ok(bodies) => spends.extend(
                bodies
                    .iter()
                    .flatten()
                    .map(|body| (*txid, body.spends().map(|input| input.outpoint).collect())),
            ),
            Err(error) if error.is_about_one() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(spends)
}

impl NodeStore {
    /// Heights up to `newest` at which something was pruned that can be restored, lowest first. Its
    /// cost depends on what is stored, whatever height the caller names.
    fn undo_heights(&self, newest: Height) -> Result<Vec<Height>, StoreError> {
        let (mut heights, mut after) = (Vec::new(), None::<String>);
        loop {
            let next = self.read(|facts| facts.view.states(UNDO, after.as_deref(), 1))?;
            let Some((name, _)) = next.first() else { return Ok(heights) };
            let (height, _) = parse_undo(name).ok_or_else(|| damaged(name))?;
            if height > newest {
                return Ok(heights);
            }
            heights.push(height);
            // Behind every row of this height.
            after = Some(format!("{}\u{7f}", undo_prefix(height)));
        }
    }

    /// Brings one record back, if its row is still there. The row stays unless the record came back.
    fn restore_row(
        &self,
        height: Height,
        txid: &Txid,
        until: Height,
    ) -> Result<Result<bool, NodeError>, StoreError> {
        let name = undo_name(height, txid);
        let Some(bytes) = self.read(|facts| facts.view.state(&name))? else { return Ok(Ok(false)) };
        let undo = Undo::decode(*txid, &bytes)?;
        let touched = undo.relatives().into_iter().chain([*txid]).collect();
        let mut outcome = Ok(false);
        self.write_with_files(Asks::Numbers, &Touched::Only(touched), &mut |view, _| {
            outcome = Ok(false);
            if view.state(&name)?.as_ref() != Some(&bytes) {
                return Ok(ChangeSet::default());
            }
            let facts = self.facts(view);
            let mut workspace = facts.workspace();
            outcome = workspace.restore(txid, &undo, until)?;
            if outcome != Ok(true) {
                return Ok(ChangeSet::default());
            }
            let mut writes = workspace.into_changes();
            writes.states.push((name.clone(), None));
            Ok(writes)
        })?;
        Ok(outcome)
    }

    /// Deletes one file while its row is held, so that nobody names it meanwhile.
    pub(crate) fn delete_blob(
        &self,
        name: &str,
        done: &mut BlobsDeleted,
    ) -> Result<(), StoreError> {
        let (txid, kind) = parse_blob(name).ok_or_else(|| damaged(name))?;
        let holds_reads = self.backend.holds_reads();
        let claim = (!holds_reads).then(|| self.claim_file(name)).transpose()?;
        let mut outcome = Ok(None);
        self.commit(Asks::Place, &Touched::Only(vec![txid]), &mut |view: &StoreReads<'_>| {
            outcome = Ok(None);
            let row = view.state(name)?;
            let may_delete = match (&claim, row) {
                (_, None) => false,
                (Some(claim), Some(row)) => row == *claim,
                (None, Some(row)) => self.seen_files.may_delete(name, &row, (self.now)()),
            };
            if !may_delete {
                return Ok(ChangeSet::default());
            }
            let record = view.records(&[txid])?.into_iter().next().flatten();
            let is_wanted = record.is_some_and(|record| record.blob == Some(kind));
            if !is_wanted {
                let blobs = self.blobs.as_ref().ok_or(StoreError::NoBlobStore(txid));
                match blobs.and_then(|blobs| blobs.delete(&txid, kind)) {
                    Ok(was_there) => outcome = Ok(Some(was_there)),
                    Err(error) => {
                        outcome = Err(error.to_string());
                        let waits = claim.as_ref().map(|_| waits(&txid, kind));
                        return Ok(ChangeSet::of_states(waits.into_iter().collect()));
                    }
                }
            }
            Ok(ChangeSet::of_states(vec![(name.to_owned(), None)]))
        })?;
        match outcome {
            Ok(Some(true)) => done.deleted += 1,
            Ok(Some(false)) => done.missing += 1,
            Ok(None) => done.wanted += 1,
            Err(reason) => done.failed.push((txid, reason)),
        }
        Ok(())
    }
}

impl NodeStore {
    /// Refuses verdicts by numbers that the store does not have any more.
    fn compare_all(&self, view: &StoreReads<'_>, rules: &PruneRules) -> Result<(), StoreError> {
        compare(view, &of_policy(&self.settings.policy))?;
        compare(view, &[(SAFETY_WINDOW, rules.window_blocks)])
    }
}

impl StoreError {
    /// Whether it is about one transaction and not about the engine.
    #[must_use]
    pub const fn is_about_one(&self) -> bool {
        matches!(
            self,
            Self::Corrupt(_)
                | Self::BlobMissing(_)
                | Self::NoBlobStore(_)
                | Self::PageMissing { .. }
        )
    }

    /// Whether what is stored is damaged, so that only a copy helps.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        match self {
            Self::Corrupt(_)
            | Self::BlobMissing(_)
            | Self::PageMissing { .. }
            | Self::Records(RecordError::Corrupt { .. }) => true,
            Self::Sql(error) => error.is_damage(),
            Self::Kv(error) => error.is_damage(),
            _ => false,
        }
    }

    /// Whether the same call may work a little later.
    #[must_use]
    pub const fn may_pass(&self) -> bool {
        let is_lasting = matches!(
            self,
            Self::Kv(KvError::Poisoned | KvError::InUse { .. } | KvError::Corrupt { .. })
                | Self::Records(RecordError::Corrupt { .. } | RecordError::Closed)
                | Self::TooManyItems { .. }
                | Self::Disagreement(_)
        );
        !is_lasting && !self.is_about_one()
    }
}

impl PruneStore for NodeStore {
    fn end_unfinished(&self, limit: usize) -> Result<u64, StoreError> {
        self.backend.end_unfinished(limit)
    }

    fn due(
        &self,
        until: Height,
        after: Option<(Height, Txid)>,
        limit: usize,
    ) -> Result<Vec<(Height, Txid)>, StoreError> {
        self.read(|facts| facts.view.by_height(HeightIndex::Due, until, after, limit))
    }

    fn past_due(&self, until: Height, ages: &[u32]) -> Result<PastDue, StoreError> {
        self.read(|facts| {
            let by_age = ages.iter().map(|age| (*age, 0)).collect();
            let mut found = PastDue { by_age, ..PastDue::default() };
            let mut after = None;
            loop {
                let page = facts.view.by_height(HeightIndex::Due, until, after, PAGE_ROWS)?;
                for (due, _) in &page {
                    let age = due.depth_below(until).unwrap_or(0);
                    let bucket = found.by_age.iter_mut().rfind(|(from, _)| *from <= age);
                    if let Some((_, count)) = bucket {
                        *count += 1;
                    }
                    found.oldest.get_or_insert(*due);
                }
                found.total += page.len() as u64;
                after = page.last().copied();
                if page.len() < PAGE_ROWS {
                    return Ok(found);
                }
            }
        })
    }

    fn prune(
        &self,
        txids: &[Txid],
        rules: &PruneRules,
    ) -> Result<Result<Vec<Pruned>, NodeError>, StoreError> {
        self.check_len(txids.len())?;
        if rules.height == Height::GENESIS {
            return Ok(Err(NodeError::HeightZero));
        }
        let spends = self.read(|facts| spends_of(facts, txids))?;
        let parents = spends.values().flatten().map(OutPoint::txid);
        let touched = Touched::Only(txids.iter().chain(parents).copied().collect());
        let mut answer = Vec::new();
        // A verdict rests on children too, which show on the way: reading one holds it, and whoever
        // takes one that was known to be settled off the longest chain is noticed at the commit.
        self.write_with_files(Asks::Nothing, &touched, &mut |view, _| {
            // Somebody may have changed them since this program opened the store.
            self.compare_all(view, rules)?;
            let facts = self.facts(view);
            let mut workspace = facts.workspace();
            answer = workspace.prune(txids, &spends, rules)?;
            let mut writes = workspace.into_changes();
            writes.is_pruning = true;
            for (txid, pruned) in txids.iter().zip(&mut answer) {
                if let Pruned::Deleted { undo, .. } = pruned
                    && let Some(undo) = undo.take()
                {
                    writes.states.push((undo_name(rules.height, txid), Some(undo.encode())));
                }
            }
            Ok(writes)
        })?;
        Ok(Ok(answer))
    }

    fn rehearse(
        &self,
        txids: &[Txid],
        rules: &PruneRules,
    ) -> Result<Vec<(Verdict, u64)>, StoreError> {
        self.check_len(txids.len())?;
        self.read(|facts| {
            self.compare_all(facts.view, rules)?;
            let spends = spends_of(facts, txids)?;
            let mut workspace = facts.workspace();
            workspace.prefetch(txids, &[])?;
            for txid in txids {
                let _ = workspace.end_keeping_for_children(txid)?;
            }
            workspace.prefetch_prune(txids, rules)?;
            let mut answers = Vec::with_capacity(txids.len());
            for txid in txids {
                let verdict = workspace.prune_verdict(txid, &spends, rules)?;
                let bytes = match verdict {
                    Verdict::Delete => stored_bytes(&mut workspace, txid)?,
                    Verdict::Keep(_) => 0,
                };
                answers.push((verdict, bytes));
            }
            Ok(answers)
        })
    }

    fn explain(&self, txid: &Txid, rules: &PruneRules) -> Result<Vec<Blocking>, StoreError> {
        self.read(|facts| {
            self.compare_all(facts.view, rules)?;
            let spends = spends_of(facts, std::slice::from_ref(txid))?;
            let mut workspace = facts.workspace();
            // As a run does first.
            let _ = workspace.end_keeping_for_children(txid)?;
            workspace.explain(txid, &spends, rules)
        })
    }

    fn parents(&self, txids: &[Txid]) -> Result<Vec<ParentsOf>, StoreError> {
        self.check_len(txids.len())?;
        self.read(|facts| {
            let (spends, records) = (spends_of(facts, txids)?, facts.view.records(txids)?);
            let one = |(txid, record): (&Txid, Option<TxRecord>)| match spends.get(txid) {
                _ if record.is_none_or(|record| record.is_conflicting) => ParentsOf::Nobody,
                Some(spends) => {
                    ParentsOf::Known(spends.iter().map(|spend| *spend.txid()).collect())
                }
                None => ParentsOf::Unreadable,
            };
            Ok(txids.iter().zip(records).map(one).collect())
        })
    }

    fn preserve_parents(&self, parents: &[Txid], until: Height) -> Result<usize, StoreError> {
        self.count(parents, |workspace, txid| workspace.preserve_for_child(txid, until))
    }

    fn kept_for_nobody(
        &self,
        after: Option<(Height, Txid)>,
        limit: usize,
    ) -> Result<KeptForNobody, StoreError> {
        let latest = Height::new(u32::MAX);
        self.read(|facts| {
            let page = facts.view.by_height(HeightIndex::KeptForChild, latest, after, limit)?;
            let mut workspace = facts.workspace();
            let mut over = Vec::new();
            for (_, txid) in &page {
                let children = workspace.children_that_waited(txid)?;
                over.extend(children.map(|children| (*txid, children)));
            }
            Ok((over, page.last().copied().filter(|_| page.len() == limit)))
        })
    }

    fn end_keeping_for_children(
        &self,
        after: Option<(Height, Txid)>,
        limit: usize,
    ) -> Result<EndedKeeping, StoreError> {
        // Without locks first: most of them still wait.
        let (over, next) = self.kept_for_nobody(after, limit)?;
        let mut ended = 0;
        for (parent, children) in over {
            let touched = Touched::Only(children.into_iter().chain([parent]).collect());
            let has_ended =
                self.change(&touched, |workspace| workspace.end_keeping_for_children(&parent))?;
            ended += u64::from(has_ended);
        }
        Ok((ended, next))
    }

    fn delete_blobs(&self, after: Option<&str>, limit: usize) -> Result<BlobsDeleted, StoreError> {
        let page = self.read(|facts| facts.view.states(BLOB_DELETE, after, limit))?;
        let mut done = BlobsDeleted::default();
        for (name, _) in &page {
            self.delete_blob(name, &mut done)?;
        }
        done.next = page.last().filter(|_| page.len() == limit).map(|(name, _)| name.clone());
        Ok(done)
    }

    fn blobs_waiting(&self, limit: usize) -> Result<usize, StoreError> {
        self.read(|facts| Ok(facts.view.states(BLOB_DELETE, None, limit)?.len()))
    }

    fn restore(
        &self,
        txid: &Txid,
        newest: Height,
        until: Height,
    ) -> Result<Result<bool, NodeError>, StoreError> {
        for height in self.undo_heights(newest)?.into_iter().rev() {
            match self.restore_row(height, txid, until)? {
                Ok(false) => {}
                answer => return Ok(answer),
            }
        }
        Ok(Ok(false))
    }

    fn restore_height(&self, height: Height, until: Height) -> Result<RestoredHeight, StoreError> {
        let (prefix, mut after) = (undo_prefix(height), None::<String>);
        let mut done = RestoredHeight::default();
        loop {
            let page =
                self.read(|facts| facts.view.states(&prefix, after.as_deref(), PAGE_ROWS))?;
            for (name, _) in &page {
                let (_, txid) = parse_undo(name).ok_or_else(|| damaged(name))?;
                match self.restore_row(height, &txid, until)? {
                    Ok(is_restored) => done.restored += u64::from(is_restored),
                    Err(error) => {
                        done.refused += 1;
                        if done.named.len() < RestoredHeight::NAMED_MAX {
                            done.named.push((txid, error));
                        }
                    }
                }
            }
            after = page.last().map(|(name, _)| name.clone());
            if page.len() < PAGE_ROWS {
                return Ok(done);
            }
        }
    }

    fn trim_undo(&self, below: Height) -> Result<u64, StoreError> {
        let mut trimmed = 0;
        loop {
            let page = self.read(|facts| facts.view.states(UNDO, None, PAGE_ROWS))?;
            let old = page.iter().take_while(|(name, _)| *name < undo_prefix(below));
            let states: Vec<_> = old.map(|(name, _)| (name.clone(), None)).collect();
            let found = states.len();
            if found > 0 {
                self.commit(Asks::Place, &Touched::Only(Vec::new()), &mut |_| {
                    Ok(ChangeSet::of_states(states.clone()))
                })?;
            }
            trimmed += found as u64;
            if found < PAGE_ROWS {
                return Ok(trimmed);
            }
        }
    }

    fn policy(&self) -> Policy {
        self.settings.policy
    }

    fn agree(
        &self,
        numbers: &[(&'static str, u32)],
        agreement: Agreement,
    ) -> Result<Result<(), Disagreement>, StoreError> {
        self.agree_on(numbers, agreement)
    }

    fn read_states(&self, read: &mut ReadWork<'_>) -> Result<(), StoreError> {
        self.backend.read(read)
    }

    fn update_states(&self, decide: &mut StateWork<'_>) -> Result<(), StoreError> {
        self.change_states(|view| Ok(((), decide(view)?)))
    }
}

/// Bytes of a record with its outputs and its body, as they are stored.
fn stored_bytes(workspace: &mut Work<'_, '_>, txid: &Txid) -> Result<u64, StoreError> {
    let Some(record) = workspace.look(txid)? else { return Ok(0) };
    let mut bytes = encode_record(record).len();
    bytes += workspace.loaded_slots(txid).map(|slot| encode_output(slot).len()).sum::<usize>();
    // Of a record that nobody can read the body of only the rest is counted.
    let body = match workspace.body(txid) {
        Err(error) if error.is_about_one() => None,
        body => body?,
    };
    bytes += body.map_or(0, |body| encode_body(&body).len());
    Ok(bytes as u64)
}
