//! The store, the calls that are under way, and what a decision does to them.

use std::collections::BTreeMap;

use super::{
    actor::{Answer, Call},
    choices::{Choices, Decision, Grain, PendingCall, SimulationSettings, UnitState},
};
use crate::{
    error::RecordError,
    port::{Barrier, Cell, IndexPage, Key, ReadCell, ScanIndex, WriteCell, Written},
    shelf::{Shelf, Undo},
};

#[derive(Debug)]
struct Unit {
    items: Vec<usize>,
    state: UnitState,
    /// For each shard: the number of its writes that the answer rests on.
    marks: Vec<(u16, usize)>,
}

#[derive(Debug)]
struct Pending {
    call: Call,
    units: Vec<Unit>,
    cells: Vec<Option<Cell>>,
    written: Vec<Written>,
    pages: Vec<IndexPage>,
}

#[derive(Debug)]
struct ActorState {
    name: String,
    taken: usize,
    is_crashed: bool,
    pending: Option<Pending>,
    refused: usize,
}

/// Writes of a shard in order; the first `safe` of them cannot be lost.
#[derive(Debug, Default)]
struct History {
    safe: usize,
    newest: Vec<Undo>,
}

impl History {
    fn total(&self) -> usize {
        self.safe + self.newest.len()
    }
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) settings: SimulationSettings,
    shelf: Shelf,
    histories: BTreeMap<u16, History>,
    delayed: Vec<(usize, WriteCell)>,
    actors: Vec<ActorState>,
    now_ms: u64,
    step: usize,
    lines: Vec<String>,
}

/// Calls that a crashed actor may try before it is taken for one that never ends.
const REFUSED_MAX: usize = 10_000;

impl World {
    pub(super) fn new(settings: SimulationSettings) -> Self {
        Self {
            settings,
            shelf: Shelf::default(),
            histories: BTreeMap::new(),
            delayed: Vec::new(),
            actors: Vec::new(),
            now_ms: 0,
            step: 0,
            lines: Vec::new(),
        }
    }

    pub(super) fn add_actor(&mut self, name: &str) {
        let name = name.to_owned();
        let (taken, refused) = (0, 0);
        self.actors.push(ActorState { name, taken, is_crashed: false, pending: None, refused });
    }

    pub(super) fn lines(&self) -> &[String] {
        &self.lines
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.now_ms
    }

    pub(super) fn advance_ms(&mut self, ms: u64) {
        self.now_ms = self.now_ms.saturating_add(ms);
    }

    pub(super) fn keys(&self) -> Vec<Key> {
        self.shelf.keys(self.now_ms)
    }

    pub(super) fn unacknowledged(&self, shard: u16) -> usize {
        self.histories.get(&shard).map_or(0, |history| history.newest.len())
    }

    pub(super) fn read(&self, read: &ReadCell) -> Option<Cell> {
        self.shelf.read(read, self.now_ms)
    }

    pub(super) fn scan(&self, scan: &ScanIndex) -> IndexPage {
        self.shelf.scan(scan)
    }

    pub(super) fn write_safely(&mut self, write: &WriteCell) -> Written {
        let written = self.apply(write);
        self.make_safe(write.key.shard, usize::MAX);
        written
    }

    pub(super) fn choices(&self) -> Choices {
        let call = |(actor, state): (usize, &ActorState)| {
            let pending = state.pending.as_ref()?;
            let is_write = matches!(pending.call, Call::Write(..));
            let units = pending.units.iter().map(|unit| unit.state).collect();
            let is_pause = matches!(pending.call, Call::Pause(_));
            Some(PendingCall { actor, taken: state.taken, is_write, is_pause, units })
        };
        let open = |(shard, history): (&u16, &History)| {
            let count = history.newest.len();
            (count > 0).then_some((*shard, count))
        };
        Choices {
            step: self.step,
            now_ms: self.now_ms,
            calls: self.actors.iter().enumerate().filter_map(call).collect(),
            delayed: self.delayed.len(),
            unacknowledged: self.histories.iter().filter_map(open).collect(),
        }
    }

    /// Takes a call; answers at once where its actor has crashed.
    pub(super) fn arrive(&mut self, actor: usize, call: Call) -> Option<Answer> {
        let state = &mut self.actors[actor];
        if state.is_crashed {
            state.refused += 1;
            assert!(state.refused < REFUSED_MAX, "actor {actor} goes on after it crashed");
            return Some(Answer::Failed(RecordError::Closed));
        }
        state.pending = Some(Pending::new(call, self.settings.grain));
        None
    }

    pub(super) fn end(&mut self, actor: usize) {
        let state = &mut self.actors[actor];
        state.pending = None;
        self.lines.push(format!("{} ends", state.name));
    }

    /// Lets an actor's calls fail. Writes that are under way are delayed.
    pub(super) fn crash(&mut self, actor: usize) -> Option<Answer> {
        let state = &mut self.actors[actor];
        if !state.is_crashed {
            self.lines.push(format!("{} crashes", state.name));
        }
        state.is_crashed = true;
        let pending = state.pending.take()?;
        if let Call::Write(writes, _) = &pending.call {
            let sent = pending.units.iter().filter(|unit| unit.state == UnitState::Sent);
            let items = sent.flat_map(|unit| &unit.items).map(|&item| writes[item].clone());
            self.delayed.extend(items.map(|write| (actor, write)));
        }
        Some(Answer::Failed(RecordError::Closed))
    }

    /// Carries a decision out, and gives the answers that are ready then.
    pub(super) fn decide(&mut self, decision: Decision) -> Vec<(usize, Answer)> {
        self.step += 1;
        self.advance_ms(self.settings.tick_ms);
        match decision {
            Decision::Step { actor, unit } => self.piece(actor, unit, Fate::Answered),
            Decision::LoseAnswer { actor, unit } => self.piece(actor, unit, Fate::Lost),
            Decision::Delay { actor, unit } => self.piece(actor, unit, Fate::Delayed),
            Decision::Refuse { actor, unit } => self.piece(actor, unit, Fate::Refused),
            Decision::Deliver { delayed } => {
                if delayed < self.delayed.len() {
                    let (actor, write) = self.delayed.remove(delayed);
                    let written = self.apply(&write);
                    let name = &self.actors[actor].name;
                    self.lines.push(format!("late write of {name}: {} {written:?}", write.key));
                }
                Vec::new()
            }
            Decision::Crash { actor } => {
                self.crash(actor).map(|answer| (actor, answer)).into_iter().collect()
            }
            Decision::FailOver { shard, keep } => {
                self.fail_over(shard, keep);
                Vec::new()
            }
            Decision::Advance { ms } => {
                self.advance_ms(ms);
                self.lines.push(format!("{ms} ms pass"));
                Vec::new()
            }
        }
    }

    /// One step of a piece of an actor's call.
    fn piece(&mut self, actor: usize, unit: usize, fate: Fate) -> Vec<(usize, Answer)> {
        let Some(mut pending) = self.actors[actor].pending.take() else { return Vec::new() };
        self.actors[actor].taken += 1;
        let open = |unit: &Unit| unit.state != UnitState::Answered;
        let mut failed = None;
        if pending.units.get(unit).is_none_or(|unit| !open(unit)) {
            // A piece that is answered takes no further step.
        } else if fate != Fate::Answered && !matches!(pending.call, Call::Write(..)) {
            self.line(actor, "cannot read");
            failed = Some(RecordError::Unavailable { what: "simulated".to_owned() });
        } else {
            match pending.call.clone() {
                Call::Read(reads) => self.read_piece(actor, &reads, &mut pending, unit),
                Call::Write(writes, barrier) => {
                    self.write_piece(actor, (&writes, barrier), &mut pending, unit, fate);
                }
                Call::Scan(scans) => self.scan_piece(actor, &scans, &mut pending, unit),
                Call::Now(_) => pending.units[unit].state = UnitState::Answered,
                Call::Pause(ms) => {
                    self.advance_ms(ms);
                    self.line(actor, &format!("pauses for {ms} ms"));
                    pending.units[unit].state = UnitState::Answered;
                }
            }
        }
        if let Some(error) = failed {
            return vec![(actor, Answer::Failed(error))];
        }
        if !pending.units.iter().any(open) {
            return vec![(actor, pending.answer(self.now_ms))];
        }
        self.actors[actor].pending = Some(pending);
        Vec::new()
    }

    fn read_piece(&mut self, actor: usize, reads: &[ReadCell], pending: &mut Pending, unit: usize) {
        for &item in &pending.units[unit].items {
            let cell = self.read(&reads[item]);
            let version = cell.as_ref().map(|cell| cell.version);
            self.line(actor, &format!("reads {} {version:?}", reads[item].key));
            pending.cells[item] = cell;
        }
        pending.units[unit].state = UnitState::Answered;
    }

    fn scan_piece(
        &mut self,
        actor: usize,
        scans: &[ScanIndex],
        pending: &mut Pending,
        unit: usize,
    ) {
        for &item in &pending.units[unit].items {
            let (page, scan) = (self.scan(&scans[item]), &scans[item]);
            let text = format!("scans {}/{}: {} rows", scan.shard, scan.index, page.len());
            self.line(actor, &text);
            pending.pages[item] = page;
        }
        pending.units[unit].state = UnitState::Answered;
    }

    fn write_piece(
        &mut self,
        actor: usize,
        (writes, barrier): (&[WriteCell], Barrier),
        pending: &mut Pending,
        unit: usize,
        fate: Fate,
    ) {
        let Unit { items, state, marks } = &mut pending.units[unit];
        if *state == UnitState::Applied {
            let kept = marks.iter().all(|&(shard, mark)| mark <= self.total(shard));
            if kept && fate == Fate::Answered {
                for &(shard, mark) in marks.iter() {
                    self.make_safe(shard, mark);
                }
                self.line(actor, "reaches its barrier");
            } else {
                self.line(actor, "does not reach its barrier");
                for &item in items.iter() {
                    pending.written[item] = Written::InDoubt;
                }
            }
            *state = UnitState::Answered;
            return;
        }
        let mut is_open = false;
        for &item in items.iter() {
            let write = &writes[item];
            let (written, text) = match fate {
                Fate::Answered | Fate::Lost => {
                    let written = self.apply(write);
                    marks.push((write.key.shard, self.total(write.key.shard)));
                    is_open = barrier == Barrier::Safe && fate == Fate::Answered;
                    let is_lost = fate == Fate::Lost;
                    let answer = if is_lost { Written::InDoubt } else { written };
                    (answer, format!("{written:?}{}", if is_lost { ", answer lost" } else { "" }))
                }
                Fate::Delayed => {
                    self.delayed.push((actor, write.clone()));
                    (Written::InDoubt, "delayed".to_owned())
                }
                Fate::Refused => (Written::Unavailable, "refused".to_owned()),
            };
            let versions = format!("{:?} -> {:?}", write.expect, write.version);
            let action = write.action;
            self.line(actor, &format!("writes {} {action:?} {versions}: {text}", write.key));
            pending.written[item] = written;
        }
        if is_open && self.settings.splits_barriers {
            *state = UnitState::Applied;
        } else {
            if is_open {
                for &(shard, mark) in marks.iter() {
                    self.make_safe(shard, mark);
                }
            }
            *state = UnitState::Answered;
        }
    }

    fn line(&mut self, actor: usize, text: &str) {
        self.lines.push(format!("{} {text}", self.actors[actor].name));
    }

    fn apply(&mut self, write: &WriteCell) -> Written {
        let mut write = write.clone();
        write.not_after_ms = write.not_after_ms.filter(|_| self.settings.refuses_late_writes);
        let (written, undo) = self.shelf.write(&write, self.now_ms);
        self.histories.entry(write.key.shard).or_default().newest.extend(undo);
        written
    }

    fn total(&self, shard: u16) -> usize {
        self.histories.get(&shard).map_or(0, History::total)
    }

    /// A barrier covers everything that was written to its shard before it.
    fn make_safe(&mut self, shard: u16, mark: usize) {
        let history = self.histories.entry(shard).or_default();
        let count = mark.saturating_sub(history.safe).min(history.newest.len());
        history.newest.drain(..count);
        history.safe += count;
    }

    fn fail_over(&mut self, shard: u16, keep: usize) {
        let mut lost = 0;
        let history = self.histories.entry(shard).or_default();
        while history.newest.len() > keep
            && let Some(undo) = history.newest.pop()
        {
            self.shelf.undo(undo);
            lost += 1;
        }
        let (total, mut cut) = (history.total(), 0);
        // A later write takes the number of a lost one, so that a mark alone does not tell.
        for unit in self.actors.iter_mut().filter_map(|actor| actor.pending.as_mut()) {
            for mark in unit.units.iter_mut().flat_map(|unit| &mut unit.marks) {
                if mark.0 == shard && mark.1 > total {
                    mark.1 = usize::MAX;
                    cut += 1;
                }
            }
        }
        self.lines.push(format!("shard {shard} loses {lost} writes, {cut} of them awaited"));
    }
}

/// What becomes of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Answered,
    Lost,
    Delayed,
    Refused,
}

impl Pending {
    fn new(call: Call, grain: Grain) -> Self {
        let shards: Vec<u16> = match &call {
            Call::Read(reads) => reads.iter().map(|read| read.key.shard).collect(),
            Call::Write(writes, _) => writes.iter().map(|write| write.key.shard).collect(),
            Call::Scan(scans) => scans.iter().map(|scan| scan.shard).collect(),
            Call::Now(shard) => vec![*shard],
            Call::Pause(_) => vec![0],
        };
        let mut groups: BTreeMap<(u16, usize), Vec<usize>> = BTreeMap::new();
        for (item, shard) in shards.iter().enumerate() {
            let group = match grain {
                Grain::Call => (0, 0),
                Grain::Shard => (*shard, 0),
                Grain::Cell => (0, item),
            };
            groups.entry(group).or_default().push(item);
        }
        // A call about nothing takes a step too.
        if groups.is_empty() {
            groups.insert((0, 0), Vec::new());
        }
        let unit = |items| Unit { items, state: UnitState::Sent, marks: Vec::new() };
        let count = shards.len();
        Self {
            call,
            units: groups.into_values().map(unit).collect(),
            cells: vec![None; count],
            written: vec![Written::InDoubt; count],
            pages: vec![Vec::new(); count],
        }
    }

    fn answer(self, now_ms: u64) -> Answer {
        match self.call {
            Call::Read(_) => Answer::Read(self.cells),
            Call::Write(..) => Answer::Write(self.written),
            Call::Scan(_) => Answer::Scan(self.pages),
            Call::Now(_) => Answer::Now(now_ms),
            Call::Pause(_) => Answer::Paused,
        }
    }
}
