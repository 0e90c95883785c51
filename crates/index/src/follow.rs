//! Following a source along the branch with the most work.
//!
//! # Invariants
//!
//! * A branch is left only when all blocks of the better one can be had.
//! * A block that breaks a rule is refused, its descendants with it, and the best valid branch is
//!   connected again: from its source, or from what was kept when it was disconnected.
//! * A reorganisation of up to a hundred blocks, if it fits into the memory of a batch, is one
//!   atomic batch: nobody sees the chain shrink, and a branch that turns out invalid changes
//!   nothing. Of larger ones every step is an atomic batch, so that a crash in the middle leaves a
//!   valid, shorter chain.

use std::borrow::Cow;

use rustc_hash::{FxHashMap, FxHashSet};
use utxokeep_chains::{BlockSource, SourceError};
use utxokeep_core::{Block, BlockHash, ChainWork, Header, HeaderTree, Height, Inserted, Node};
use utxokeep_kv::{Batch, Durability, Kv};

use crate::{
    ChainWriter,
    error::{ApplyError, FollowError, IndexError},
    query::block_entry,
    side::{self, Body},
    staging::ONE_COMMIT_BLOCKS_MAX,
    stats,
    tables::HEIGHTS,
};

/// After this many connected blocks, headers that can no longer matter are forgotten.
const FORGET_EVERY_BLOCKS: u64 = 256;

/// Headers that are looked up in one read.
const KNOWN_AT_ONCE: usize = 4_096;

/// Refused blocks that a report lists; the metric counts them all.
pub const REFUSED_LISTED_MAX: usize = 1_000;

/// A block that was not connected, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedBlock {
    /// The block, as its source announced it.
    pub hash: BlockHash,
    /// Height it would have had.
    pub height: Height,
    /// Why it was refused.
    pub reason: String,
    /// Its bytes are not what its header says: another copy may be good.
    pub is_damage: bool,
}

/// What following did so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FollowReport {
    /// Blocks connected.
    pub connected: u64,
    /// Blocks disconnected.
    pub disconnected: u64,
    /// Switches to a better branch.
    pub reorganisations: u64,
    /// The deepest of them, in blocks.
    pub deepest_reorganisation: u32,
    /// Blocks refused; of very many, the newest.
    pub refused: Vec<RefusedBlock>,
    /// Headers that wait for a parent that has not arrived.
    pub waiting: usize,
    /// Headers dropped because too many wait.
    pub dropped: u64,
}

/// Drives a writer along the best branch.
#[derive(Debug)]
pub struct Follower<K: Kv> {
    writer: ChainWriter<K>,
    tree: HeaderTree,
    /// Side blocks that have rows in the database.
    stored: FxHashSet<BlockHash>,
    report: FollowReport,
}

impl<K: Kv> Follower<K> {
    /// Takes over a writer. An empty database gets the network's first block; where chains do not
    /// all start with the same one, the caller has applied it.
    pub fn new(mut writer: ChainWriter<K>) -> Result<Self, FollowError> {
        if writer.tip().is_none() {
            let settings = writer.index().settings();
            let network = settings.network();
            let hash = network.hash(network.genesis_hash());
            let raw = settings.decoder.first_block().ok_or(FollowError::NoFirstBlock)?;
            let decoded = settings.decoder.decode(raw);
            let block = decoded.map_err(|source| FollowError::Decode { hash, source })?;
            writer.apply(&block)?;
        }
        // The tree is read from the tables, so staged blocks must be there.
        writer.flush()?;
        let read = writer.index().kv.as_ref();
        let tip = writer.tip().map_or(Height::GENESIS, |tip| tip.height);
        let root = writer.floor().min(tip);
        let node = |height: Height| -> Result<Node, IndexError> {
            let entry = block_entry(read, height)?
                .ok_or_else(|| IndexError::missing("chain_blocks", height))?;
            Ok(side::chain_node(height, &entry))
        };
        let mut tree = HeaderTree::new(node(root)?, writer.index().settings().waiting_headers_max);
        for raw in root.get() + 1..=tip.get() {
            tree.insert_known(node(Height::new(raw))?);
        }
        let mut stored = FxHashSet::default();
        for node in side::nodes(read)? {
            stored.insert(node.hash);
            if tree.get(&node.prev).is_some() {
                tree.insert_known(node);
            }
        }
        Ok(Self { writer, tree, stored, report: FollowReport::default() })
    }

    /// What happened so far.
    pub const fn report(&self) -> &FollowReport {
        &self.report
    }

    /// The writer.
    pub const fn writer(&self) -> &ChainWriter<K> {
        &self.writer
    }

    /// The writer, for pruning and flushing between blocks.
    pub const fn writer_mut(&mut self) -> &mut ChainWriter<K> {
        &mut self.writer
    }

    /// Takes a header that arrived, and connects its branch when that is the best one.
    pub fn accept(&mut self, header: &Header, source: &dyn BlockSource) -> Result<(), FollowError> {
        self.accept_decoded(header, None, source)
    }

    /// The same with the block already decoded.
    pub(crate) fn accept_decoded(
        &mut self,
        header: &Header,
        block: Option<&Block>,
        source: &dyn BlockSource,
    ) -> Result<(), FollowError> {
        let before = self.report.connected;
        let is_new = self.place(header)?;
        // Also for a known header: a crash may have left a branch half way.
        self.advance(block, source)?;
        if !is_new {
            return Ok(());
        }
        // Headers that waited for this one may have lost as well.
        for hash in self.tree.take_attached() {
            self.store_if_side(&hash, source)?;
        }
        // Not while nothing is connected: a branch from below the floor must grow to be refused.
        if self.report.connected / FORGET_EVERY_BLOCKS > before / FORGET_EVERY_BLOCKS {
            self.tree.forget_below(self.writer.floor());
        }
        Ok(())
    }

    /// Puts the header into the tree; answers whether that may change the best branch.
    fn place(&mut self, header: &Header) -> Result<bool, FollowError> {
        if self.tree.get(&header.prev).is_none() {
            if self.writer.height_of(&header.hash)?.is_some() {
                return Ok(false);
            }
            // A branch from below the floor: it must be seen, if only to be refused.
            if let Some(height) = self.writer.height_of(&header.prev)? {
                self.writer.flush()?;
                let entry = block_entry(self.writer.index().kv.as_ref(), height)?
                    .ok_or_else(|| IndexError::missing("chain_blocks", height))?;
                self.tree.insert_known(side::chain_node(height, &entry));
            }
        }
        let inserted = self.tree.insert(header);
        self.report.waiting = self.tree.waiting();
        self.report.dropped += u64::from(inserted == Inserted::Dropped);
        if inserted == Inserted::Attached
            && let Some(node) = self.tree.get(&header.hash)
            && let Some(ancestor) = node.invalid
        {
            let reason = utxokeep_core::InvalidBlock::InvalidAncestor { ancestor };
            let reason = reason.text(self.writer.index().settings().network());
            let (hash, height) = (node.hash, node.height);
            self.refuse(hash, height, reason, false);
            return Ok(false);
        }
        Ok(inserted == Inserted::Attached)
    }

    fn refuse(&mut self, hash: BlockHash, height: Height, reason: String, is_damage: bool) {
        stats::refused();
        let text = self.writer.index().settings().network().hash_text(hash.as_bytes());
        tracing::warn!(hash = text, %height, reason, "block refused");
        if self.report.refused.len() >= REFUSED_LISTED_MAX {
            self.report.refused.remove(0);
        }
        self.report.refused.push(RefusedBlock { hash, height, reason, is_damage });
    }

    /// Connects the best branch, if it is not connected already.
    fn advance(
        &mut self,
        decoded: Option<&Block>,
        source: &dyn BlockSource,
    ) -> Result<(), FollowError> {
        loop {
            let Some(tip) = self.writer.tip() else { return Ok(()) };
            let Some(best) = self.tree.best().copied() else { return Ok(()) };
            if best.hash == tip.hash {
                return Ok(());
            }
            let Some(path) = self.tree.path(&tip.hash, &best.hash) else {
                // The fork lies below every block of the chain that the tree knows.
                let (fork, safe) = (self.fork_of(&best)?, self.writer.floor());
                return Err(self.too_deep(best.hash, fork, safe));
            };
            let fork = self.tree.get(&path.fork).map_or(tip.height, |node| node.height);
            if fork < tip.height && !self.can_leave(fork, &best, &path.connect, source)? {
                continue;
            }
            let mut switch = Switch { from: tip.height, fork, ..Switch::default() };
            let switched = self.switch(&mut switch, &path.connect, decoded, source);
            if switched.is_err() {
                // A second failure would hide the first, which is the one to tell.
                let _ = self.writer.abandon_staged();
            }
            switched?;
        }
    }

    /// Undoes the blocks above the fork and connects the better branch. Ends at a block that is
    /// refused: where all of it is staged, the chain stays as it was.
    fn switch(
        &mut self,
        switch: &mut Switch,
        connect: &[BlockHash],
        decoded: Option<&Block>,
        source: &dyn BlockSource,
    ) -> Result<(), FollowError> {
        if switch.fork < switch.from {
            self.leave_branch(switch)?;
        }
        for hash in connect {
            let ready = decoded.filter(|block| block.header.hash == *hash);
            if let Some(refusal) = self.connect(hash, ready, source)? {
                self.writer.abandon_staged()?;
                return self.take_refusal(refusal);
            }
            switch.connected.push(*hash);
            if !self.writer.is_staging() || self.writer.is_staging_full() || self.is_better(switch)
            {
                self.settle(switch)?;
            }
        }
        self.settle(switch)
    }

    /// Whether what is staged beats the branch that is left, for every reader.
    fn is_better(&self, switch: &Switch) -> bool {
        let (tip, entry) = (self.writer.tip(), self.writer.tip_entry());
        tip.is_some_and(|tip| tip.height >= switch.from)
            && entry.is_some_and(|entry| switch.work.is_some_and(|work| entry.work > work))
    }

    /// Commits what is staged, and reports what has become true with it.
    fn settle(&mut self, switch: &mut Switch) -> Result<(), FollowError> {
        self.writer.commit_staged()?;
        for hash in switch.connected.drain(..) {
            self.stored.remove(&hash);
            self.report.connected += 1;
        }
        let undone = std::mem::take(&mut switch.undone);
        if !undone.is_empty() {
            let depth = u32::try_from(undone.len()).unwrap_or(u32::MAX);
            self.stored.extend(undone);
            self.report.disconnected += u64::from(depth);
            self.report.reorganisations += 1;
            self.report.deepest_reorganisation = self.report.deepest_reorganisation.max(depth);
            stats::reorganised();
            let tip = self.writer.tip().map(|tip| tip.hash).unwrap_or_default();
            let to = self.writer.index().settings().network().hash_text(tip.as_bytes());
            tracing::info!(depth, fork = %switch.fork, to, "reorganisation");
        }
        Ok(())
    }

    fn too_deep(&self, tip: BlockHash, fork: Height, safe: Height) -> FollowError {
        stats::rollback_refused();
        let tip = self.writer.index().settings().network().hash(tip);
        FollowError::ReorganisationTooDeep { tip, fork, safe }
    }

    /// Height at which the branch of `node` left the chain.
    fn fork_of(&self, node: &Node) -> Result<Height, IndexError> {
        let mut prev = node.prev;
        loop {
            if let Some(height) = self.writer.height_of(&prev)? {
                return Ok(height);
            }
            let Some(parent) = self.tree.get(&prev) else { return Ok(Height::GENESIS) };
            prev = parent.prev;
        }
    }

    /// Those of some headers that are neither in the chain nor known as side blocks.
    pub(crate) fn unknown_of(&mut self, headers: &[Header]) -> Result<Vec<Header>, IndexError> {
        self.writer.flush()?;
        let read = self.writer.index().kv.as_ref();
        let mut unknown = Vec::new();
        for part in headers.chunks(KNOWN_AT_ONCE) {
            let mut hashes: Vec<BlockHash> = part.iter().map(|header| header.hash).collect();
            hashes.sort_unstable();
            let mut in_chain = FxHashSet::default();
            HEIGHTS.multi_get(read, &hashes, |at, value| {
                in_chain.extend(value.map(|_| hashes[at]));
            })?;
            // A side block whose parent was rolled back is not part of any branch yet.
            let is_side = |hash| self.stored.contains(hash) && self.tree.get(hash).is_some();
            let is_known = |hash| in_chain.contains(hash) || is_side(hash);
            unknown.extend(part.iter().filter(|header| !is_known(&header.hash)));
        }
        Ok(unknown)
    }

    /// Connects the best branch of what is known, if that was not finished.
    pub(crate) fn resume(&mut self, source: &dyn BlockSource) -> Result<(), FollowError> {
        self.advance(None, source)
    }

    /// Orders headers that are about to arrive: first those whose branch leaves the chain where it
    /// can still be undone. The others have lost, and must not look like the best branch while the
    /// blocks that beat them are still to come.
    pub(crate) fn reachable_first(&self, headers: Vec<Header>) -> Vec<Header> {
        let mut children: FxHashMap<BlockHash, Vec<BlockHash>> = FxHashMap::default();
        let mut work_list = Vec::new();
        for header in &headers {
            if self.tree.get(&header.prev).is_some() {
                work_list.push(header.hash);
            } else {
                children.entry(header.prev).or_default().push(header.hash);
            }
        }
        let mut reachable = FxHashSet::default();
        while let Some(hash) = work_list.pop() {
            reachable.insert(hash);
            work_list.extend(children.remove(&hash).into_iter().flatten());
        }
        let (mut first, last): (Vec<_>, Vec<_>) =
            headers.into_iter().partition(|header| reachable.contains(&header.hash));
        first.extend(last);
        first
    }

    /// Whether the better branch can be had, and this one be left.
    fn can_leave(
        &mut self,
        fork: Height,
        best: &Node,
        connect: &[BlockHash],
        source: &dyn BlockSource,
    ) -> Result<bool, FollowError> {
        let safe = self.writer.rollback_floor();
        if fork < safe {
            return Err(self.too_deep(best.hash, fork, safe));
        }
        // Bodies of side blocks are read from the tables, so staged ones must be there.
        self.writer.flush()?;
        for hash in connect {
            let height = self.tree.get(hash).map_or(fork, |node| node.height);
            let is_stored = side::body(self.writer.index().kv.as_ref(), height, hash)?.is_some();
            if !is_stored && matches!(source.raw(hash), Err(SourceError::UnknownBlock { .. })) {
                self.tree.mark_invalid(*hash);
                let reason = "its body is not at hand; import the file that holds it".to_owned();
                self.refuse(*hash, height, reason, false);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Disconnects down to the fork.
    fn leave_branch(&mut self, switch: &mut Switch) -> Result<(), FollowError> {
        let leaving = self.chain_above(switch.fork)?;
        switch.work = self.writer.tip_entry().map(|entry| entry.work);
        let depth = switch.fork.depth_below(switch.from).unwrap_or(u32::MAX);
        if depth <= ONE_COMMIT_BLOCKS_MAX {
            self.writer.begin_staging()?;
        }
        self.writer.rollback_keeping(switch.fork, true)?;
        switch.undone = leaving;
        if !self.writer.is_staging() || self.writer.is_staging_full() {
            self.settle(switch)?;
        }
        Ok(())
    }

    fn chain_above(&mut self, fork: Height) -> Result<Vec<BlockHash>, IndexError> {
        self.writer.flush()?;
        let tip = self.writer.tip().map_or(fork, |tip| tip.height);
        let mut hashes = Vec::new();
        for raw in fork.get() + 1..=tip.get() {
            let entry = block_entry(self.writer.index().kv.as_ref(), Height::new(raw))?;
            hashes.extend(entry.map(|entry| entry.hash));
        }
        Ok(hashes)
    }

    /// Connects one block; answers why it was refused, if it was.
    fn connect(
        &mut self,
        hash: &BlockHash,
        decoded: Option<&Block>,
        source: &dyn BlockSource,
    ) -> Result<Option<Refusal>, FollowError> {
        let height = self.tree.get(hash).map_or_else(Height::default, |node| node.height);
        self.writer.with_next = Batch::new();
        if self.stored.contains(hash) {
            side::delete(&mut self.writer.with_next, height, hash);
        }
        let prev = self.tree.get(hash).map(|node| node.prev);
        let applied = match decoded {
            Some(block) => self.writer.apply(&linked(Cow::Borrowed(block), prev)).map(|_| ()),
            None => match self.body(hash, height, source)? {
                Ok(Fetched::Block(block)) => {
                    self.writer.apply(&linked(Cow::Owned(*block), prev)).map(|_| ())
                }
                Ok(Fetched::Redo(redo)) => self.writer.apply_redo(&redo).map_err(Into::into),
                Err(damage) => {
                    let (hash, reason) = (*hash, damage);
                    let is_of_block = false;
                    return Ok(Some(Refusal {
                        hash,
                        height,
                        reason,
                        is_damage: true,
                        is_of_block,
                    }));
                }
            },
        };
        match applied {
            Ok(()) => Ok(None),
            Err(ApplyError::Invalid { hash, height, reason }) => {
                let is_of_block = !reason.depends_on_witness();
                let reason = reason.text(hash.network());
                let hash = BlockHash::from_bytes(*hash.as_bytes());
                Ok(Some(Refusal { hash, height, reason, is_damage: false, is_of_block }))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Remembers a block that was refused. Bytes that are bad, and witnesses, say nothing of the
    /// block: another copy may be good.
    fn take_refusal(&mut self, refusal: Refusal) -> Result<(), FollowError> {
        let Refusal { hash, height, reason, is_damage, is_of_block } = refusal;
        self.tree.mark_invalid(hash);
        self.refuse(hash, height, reason, is_damage);
        if is_of_block {
            self.store_verdict(&hash)?;
        }
        Ok(())
    }

    fn body(
        &self,
        hash: &BlockHash,
        height: Height,
        source: &dyn BlockSource,
    ) -> Result<Result<Fetched, String>, FollowError> {
        let decoder = &self.writer.index().settings().decoder;
        let decode = |raw| {
            decoder
                .decode(raw)
                .map(|block| Fetched::Block(Box::new(block)))
                .map_err(|error| error.to_string())
        };
        match source.raw(hash) {
            Ok(raw) => return Ok(decode(raw)),
            Err(SourceError::UnknownBlock { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        match side::body(&self.writer.read(), height, hash)? {
            Some(Body::Raw(raw)) => Ok(decode(raw)),
            Some(Body::Redo(redo)) => Ok(Ok(Fetched::Redo(redo))),
            None => {
                let hash = decoder.network().hash(hash);
                Err(FollowError::MissingBody { hash, height })
            }
        }
    }

    /// Remembers that a block is invalid.
    fn store_verdict(&mut self, hash: &BlockHash) -> Result<(), IndexError> {
        self.writer.flush()?;
        let Some(node) = self.tree.get(hash) else { return Ok(()) };
        let mut batch = Batch::new();
        side::delete(&mut batch, node.height, hash);
        side::put_node(&mut batch, node);
        self.writer.index().kv.commit(batch, Durability::Buffered)?;
        self.stored.insert(*hash);
        Ok(())
    }

    /// Keeps a block that lost, so that its branch can still win later.
    fn store_if_side(
        &mut self,
        hash: &BlockHash,
        source: &dyn BlockSource,
    ) -> Result<(), FollowError> {
        if self.stored.contains(hash) || self.writer.height_of(hash)?.is_some() {
            return Ok(());
        }
        let Some(node) = self.tree.get(hash) else { return Ok(()) };
        if node.invalid.is_some() || node.height <= self.writer.floor() {
            return Ok(());
        }
        let mut batch = Batch::new();
        side::put_node(&mut batch, node);
        // One that was connected once has a body already, which readers of the log may still need.
        if side::undone(&self.writer.read(), node.height, hash)?.is_none() {
            match source.raw(hash) {
                Ok(raw) => side::put_raw(&mut batch, node.height, hash, &raw),
                Err(SourceError::UnknownBlock { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if self.writer.staged_blocks > 0 {
            // After a crash, a branch must not look better than the staged blocks that beat it.
            self.writer.side_rows.append(&batch);
        } else {
            self.writer.index().kv.commit(batch, Durability::Buffered)?;
        }
        self.stored.insert(*hash);
        Ok(())
    }

    /// Commits what is staged and gives the writer back.
    pub fn into_writer(mut self) -> Result<(ChainWriter<K>, FollowReport), FollowError> {
        self.writer.flush()?;
        Ok((self.writer, self.report))
    }
}

/// The block with the parent that its header was announced with: sources leave boundary blocks out
/// and link around them.
fn linked(mut block: Cow<'_, Block>, prev: Option<BlockHash>) -> Cow<'_, Block> {
    if let Some(prev) = prev.filter(|prev| *prev != block.header.prev) {
        block.to_mut().header.prev = prev;
    }
    block
}

/// A switch to a better branch, while it is under way.
#[derive(Debug, Default)]
struct Switch {
    /// Height of the tip before.
    from: Height,
    /// Work of the chain before, when blocks of it were undone.
    work: Option<ChainWork>,
    /// Height of the last common block.
    fork: Height,
    /// Blocks undone and not reported yet.
    undone: Vec<BlockHash>,
    /// Blocks connected and not reported yet.
    connected: Vec<BlockHash>,
}

/// A block that was not connected.
struct Refusal {
    hash: BlockHash,
    height: Height,
    reason: String,
    is_damage: bool,
    /// Whether every copy of the block is refused.
    is_of_block: bool,
}

enum Fetched {
    Block(Box<Block>),
    Redo(Box<side::Redo>),
}
