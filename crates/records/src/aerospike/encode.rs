//! Cells as records: which operations a write is, and what a record says.
//!
//! | bin | holds |
//! |---|---|
//! | `v` | version, as a signed number |
//! | `f` | fields: a map ordered by key |
//! | `x` | rows of indexes: see [`super::rows`] |
//! | `y` | scores that `x` has only in steps |
//! | `g` | 1 in the tombstone of a deleted cell, which has no other bin |

use std::collections::BTreeMap;

use ::aerospike::{
    BatchDeletePolicy, BatchOperation, BatchReadPolicy, BatchWritePolicy, Bin, Bins, CommitLevel,
    Expiration, Key as RecordKey, Record, RecordExistsAction, Value, expressions,
    operations::{
        self, Operation,
        maps::{self, MapOrder, MapPolicy, MapReturnType, MapWriteFlags},
    },
};

use super::{
    clock::Deadline,
    options::{AerospikeOptions, Consistency},
    rows::{checked, is_exact, place, row_key, step_of},
};
use crate::{
    error::RecordError,
    port::{
        Acknowledgement, Action, Cell, Expect, Field, Fields, IndexChange, Key, ReadCell, WriteCell,
    },
    version::Version,
};

const VERSION: &str = "v";
const FIELDS: &str = "f";
/// The bin that the secondary index is on.
pub(super) const ROWS: &str = "x";
pub(super) const SCORES: &str = "y";
const GONE: &str = "g";

const CLOCK: &str = "clock";
const UPDATED: &str = "updated";
const SINCE: &str = "since";

/// Turns calls of the port into operations.
#[derive(Debug, Clone)]
pub(super) struct Encoder {
    namespace: String,
    set: String,
    commit_level: CommitLevel,
    has_tombstones: bool,
    tombstone_ttl_s: u32,
}

fn bits(version: Version) -> i64 {
    version.bits().cast_signed()
}

fn blob(bytes: &[u8]) -> Value {
    Value::Blob(bytes.to_vec())
}

const MAPS: MapPolicy = MapPolicy::new(MapOrder::KeyOrdered, MapWriteFlags::DEFAULT);

fn emptied(bin: &str) -> Operation {
    operations::put(&Bin::new(bin, Value::Nil))
}

impl Encoder {
    pub(super) fn new(options: &AerospikeOptions) -> Self {
        Self {
            namespace: options.namespace.clone(),
            set: options.set.clone(),
            commit_level: match options.acknowledgement {
                Acknowledgement::Primary => CommitLevel::CommitMaster,
                Acknowledgement::Replica | Acknowledgement::Disk => CommitLevel::CommitAll,
            },
            has_tombstones: options.consistency == Consistency::Available,
            tombstone_ttl_s: options.tombstone_ttl_s,
        }
    }

    fn record_key(&self, user_key: Value) -> Result<RecordKey, RecordError> {
        RecordKey::new(self.namespace.as_str(), self.set.as_str(), user_key)
            .map_err(|error| RecordError::usage(format!("a key cannot be used: {error}")))
    }

    fn key(&self, key: &Key) -> Result<RecordKey, RecordError> {
        self.record_key(Value::Blob([&key.shard.to_be_bytes(), key.name.as_slice()].concat()))
    }

    pub(super) fn read(&self, read: &ReadCell) -> Result<BatchOperation, RecordError> {
        let (policy, key) = (BatchReadPolicy::default(), self.key(&read.key)?);
        let bins = |names: &[&str]| Bins::Some(names.iter().map(ToString::to_string).collect());
        Ok(match &read.fields {
            Fields::All => BatchOperation::read(&policy, key, bins(&[VERSION, FIELDS])),
            Fields::Named(names) if names.is_empty() => {
                BatchOperation::read(&policy, key, bins(&[VERSION]))
            }
            Fields::Named(names) => {
                let names = names.iter().map(|name| blob(name)).collect();
                let fields = maps::get_by_key_list(FIELDS, names, MapReturnType::KEY_VALUE);
                let ops = vec![operations::get_bin(VERSION), fields];
                BatchOperation::read_ops(&policy, key, ops)
            }
        })
    }

    fn policy(&self, write: &WriteCell, deadline: Deadline) -> BatchWritePolicy {
        let (record_exists_action, condition) = match write.expect {
            // The filter is asked only where there is a record: a tombstone gives way, a cell does
            // not.
            Expect::Absent => (RecordExistsAction::Update, expressions::bin_exists(GONE)),
            Expect::Version(read) => (RecordExistsAction::UpdateOnly, is_version(read)),
        };
        let expiration = match (write.action, write.expire_ms) {
            (Action::Keep, Some(ms)) => Expiration::Seconds(seconds(ms)),
            (Action::Delete | Action::Discard, _) if self.tombstone_ttl_s > 0 => {
                Expiration::Seconds(self.tombstone_ttl_s)
            }
            (Action::Keep | Action::Delete | Action::Discard, _) => Expiration::Never,
        };
        BatchWritePolicy {
            record_exists_action,
            commit_level: self.commit_level,
            expiration,
            filter_expression: Some(in_time(condition, deadline)),
            ..BatchWritePolicy::default()
        }
    }

    /// A write that is carried out before the deadline or not at all.
    pub(super) fn write(
        &self,
        write: &WriteCell,
        deadline: Deadline,
    ) -> Result<BatchOperation, RecordError> {
        let key = self.key(&write.key)?;
        for change in &write.index {
            checked(change.index)?;
        }
        let ops = match write.action {
            Action::Keep => self.kept(write, deadline),
            Action::Delete if self.has_tombstones => {
                let emptied = [VERSION, FIELDS, ROWS, SCORES].map(emptied);
                let gone = operations::put(&Bin::new(GONE, Value::Int(1)));
                emptied.into_iter().chain([gone]).collect()
            }
            Action::Delete | Action::Discard => {
                let Expect::Version(read) = write.expect else {
                    return Err(RecordError::usage("an absent cell cannot be deleted"));
                };
                let policy = BatchDeletePolicy {
                    commit_level: self.commit_level,
                    durable_delete: !self.has_tombstones,
                    filter_expression: Some(in_time(is_version(read), deadline)),
                    ..BatchDeletePolicy::default()
                };
                return Ok(BatchOperation::delete(&policy, key));
            }
        };
        Ok(BatchOperation::write(&self.policy(write, deadline), key, ops))
    }

    fn kept(&self, write: &WriteCell, deadline: Deadline) -> Vec<Operation> {
        let is_new = write.expect == Expect::Absent;
        let version = bits(write.version);
        let mut ops = vec![if is_new {
            // No filter is asked where there is no record.
            let made = vec![is_before(deadline), expressions::int_val(version), never()];
            let flags = operations::exp::ExpWriteFlags::DEFAULT;
            operations::exp::write_exp(VERSION, expressions::cond(made), flags)
        } else {
            operations::put(&Bin::new(VERSION, Value::Int(version)))
        }];
        if is_new && self.has_tombstones {
            ops.push(emptied(GONE));
        }
        if !write.set.is_empty() {
            let pair = |(name, value): &(Field, Vec<u8>)| (blob(name), blob(value));
            let fields: BTreeMap<Value, Value> = write.set.iter().map(pair).collect();
            ops.push(maps::put_items(&MAPS, FIELDS, fields));
        }
        if !is_new && !write.unset.is_empty() {
            let names = write.unset.iter().map(|name| blob(name)).collect();
            ops.push(maps::remove_by_key_list(FIELDS, names, MapReturnType::NONE));
        }
        self.rows(write, is_new, &mut ops);
        ops
    }

    #[allow(clippy::unused_self, reason = "beside the others")]
    fn rows(&self, write: &WriteCell, is_new: bool, ops: &mut Vec<Operation>) {
        let (mut set, mut exact) = (BTreeMap::new(), BTreeMap::new());
        let (mut unset, mut inexact) = (Vec::new(), Vec::new());
        for IndexChange { index, member, score } in &write.index {
            let key = row_key(*index, member);
            let Some(score) = *score else {
                unset.push(key.clone());
                inexact.push(key);
                continue;
            };
            let at = place(*index, step_of(score), write.key.shard);
            set.insert(key.clone(), Value::Int(at));
            if is_exact(score) {
                inexact.push(key);
            } else {
                exact.insert(key, Value::Int(score.cast_signed()));
            }
        }
        for (bin, set) in [(ROWS, set), (SCORES, exact)] {
            if !set.is_empty() {
                ops.push(maps::put_items(&MAPS, bin, set));
            }
        }
        for (bin, unset) in [(ROWS, unset), (SCORES, inexact)] {
            if !is_new && !unset.is_empty() {
                ops.push(maps::remove_by_key_list(bin, unset, MapReturnType::NONE));
            }
        }
    }

    /// Looks which version a cell has.
    pub(super) fn look(&self, key: &Key) -> Result<BatchOperation, RecordError> {
        self.read(&ReadCell::version(key.clone()))
    }

    /// Looks which version a cell has, and writes it again as it is: what has just been written, and is
    /// on one node only, is then on all of them. Only what this write has made itself, or what was
    /// changed less than `fresh_ms` ago: a node that hung has an older copy, and writing that again
    /// would make it the newest of all.
    pub(super) fn secure(
        &self,
        write: &WriteCell,
        fresh_ms: u64,
        deadline: Deadline,
    ) -> Result<BatchOperation, RecordError> {
        let fresh_ms = expressions::int_val(i64::try_from(fresh_ms).unwrap_or(i64::MAX));
        let is_fresh = expressions::le(expressions::since_update(), fresh_ms);
        let is_secured = expressions::or(vec![is_version(write.version), is_fresh]);
        let policy = BatchWritePolicy {
            record_exists_action: RecordExistsAction::UpdateOnly,
            commit_level: self.commit_level,
            expiration: Expiration::DontUpdate,
            filter_expression: Some(in_time(is_secured, deadline)),
            ..BatchWritePolicy::default()
        };
        let ops = vec![operations::touch(), operations::get_bin(VERSION)];
        Ok(BatchOperation::write(&policy, self.key(&write.key)?, ops))
    }

    fn clock(&self) -> Result<RecordKey, RecordError> {
        self.record_key(Value::String(CLOCK.to_owned()))
    }

    /// Makes the record that tells the time: one whose age the server knows.
    pub(super) fn start_clock(&self) -> Result<BatchOperation, RecordError> {
        let policy =
            BatchWritePolicy { expiration: Expiration::Never, ..BatchWritePolicy::default() };
        let ops = vec![operations::put(&Bin::new(CLOCK, Value::Int(1)))];
        Ok(BatchOperation::write(&policy, self.clock()?, ops))
    }

    /// Asks for the time.
    pub(super) fn time(&self) -> Result<BatchOperation, RecordError> {
        let flags = operations::exp::ExpReadFlags::DEFAULT;
        let ops = vec![
            operations::exp::read_exp(UPDATED, expressions::last_update(), flags),
            operations::exp::read_exp(SINCE, expressions::since_update(), flags),
        ];
        Ok(BatchOperation::read_ops(&BatchReadPolicy::default(), self.clock()?, ops))
    }
}

/// The time of the server, in milliseconds of the Unix epoch, is before the deadline. A server tells
/// no time in an expression, but when a record was changed last, and how long ago that was.
fn is_before(deadline: Deadline) -> expressions::Expression {
    let changed_ms =
        expressions::num_div(vec![expressions::last_update(), expressions::int_val(1_000_000)]);
    let now_ms = expressions::num_add(vec![changed_ms, expressions::since_update()]);
    expressions::le(now_ms, expressions::int_val(deadline.server_ms()))
}

fn in_time(condition: expressions::Expression, deadline: Deadline) -> expressions::Expression {
    expressions::and(vec![condition, is_before(deadline)])
}

/// Lets a write fail as a whole.
fn never() -> expressions::Expression {
    expressions::unknown()
}

fn is_version(version: Version) -> expressions::Expression {
    expressions::eq(expressions::int_bin(VERSION), expressions::int_val(bits(version)))
}

/// Times to live are in seconds, and end with the second that they begin in: a cell never expires
/// early.
fn seconds(ms: u64) -> u32 {
    u32::try_from(ms.div_ceil(1_000)).unwrap_or(u32::MAX).saturating_add(1).min(10 * 365 * 86_400)
}

/// About how many bytes a write sends.
pub(super) fn bytes_of(write: &WriteCell) -> usize {
    let set = write.set.iter().map(|(name, value)| name.len() + value.len() + 8);
    let unset = write.unset.iter().map(|name| name.len() + 4);
    let rows = write.index.iter().map(|row| row.member.len() + 16);
    200 + write.key.name.len() + set.chain(unset).chain(rows).sum::<usize>()
}

/// Entries of a map in any of the forms that the client gives it.
pub(super) fn entries(value: Value) -> Option<Vec<(Value, Value)>> {
    match value {
        Value::Nil => Some(Vec::new()),
        Value::HashMap(map) => Some(map.into_iter().collect()),
        Value::OrderedMap(map) => Some(map.into_iter().collect()),
        Value::SortedMap(map) => Some(map.into_iter().collect()),
        Value::KeyValueList(list) => Some(list),
        _ => None,
    }
}

/// The version that a record has; none in a tombstone.
pub(super) fn version(record: &Record) -> Option<Version> {
    match record.bins.get(VERSION) {
        Some(Value::Int(bits)) => Some(Version::new(bits.cast_unsigned())),
        _ => None,
    }
}

/// The cell that a record is, or what is wrong with it.
pub(super) fn cell(mut record: Record) -> Result<Option<Cell>, String> {
    let version = version(&record);
    let fields = record.bins.shift_remove(FIELDS).unwrap_or(Value::Nil);
    let entries = entries(fields).ok_or("its fields are no map")?;
    let field = |pair| match pair {
        (Value::Blob(name), Value::Blob(value)) => Ok((name, value)),
        _ => Err("a field is not made of bytes".to_owned()),
    };
    let mut fields = entries.into_iter().map(field).collect::<Result<Vec<_>, String>>()?;
    fields.sort_unstable();
    match version {
        Some(version) => Ok(Some(Cell { version, fields })),
        None if fields.is_empty() => Ok(None),
        None => Err("it has no version".to_owned()),
    }
}

/// Milliseconds of the Unix epoch, from the answer to [`Encoder::time`].
pub(super) fn now_ms(record: &Record) -> Option<u64> {
    let number = |name: &str| match record.bins.get(name) {
        Some(Value::Int(number)) => u64::try_from(*number).ok(),
        _ => None,
    };
    Some(number(UPDATED)? / 1_000_000 + number(SINCE)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_never_expires_early() {
        assert_eq!([1, 300, 1_000, 1_001, 32_000].map(seconds), [2, 2, 2, 3, 33]);
        assert_eq!(seconds(u64::MAX), 10 * 365 * 86_400);
    }
}
