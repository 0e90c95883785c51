//! The status of a call over several cells: before it says committed nothing happened, afterwards
//! everything did.

use minicbor::{Decoder, Encoder};
use utxokeep_core::Corrupt;
use utxokeep_records::{Cell, Key, Version};

use super::{
    layout::{KEYS, STATE},
    patch::{opened, sealed},
};

const STATUS: &str = "status of a call";
const INFALLIBLE: &str = "writing to memory does not fail";

/// Keys that fit beside a status; a call over more of them has them in further cells.
pub(super) const KEYS_MAX: usize = 1_000;

/// An attempt of a call. Attempts of one call have its age: who began earlier goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct CallId {
    /// When the call began, by the servers' clock.
    pub(super) started_ms: u64,
    /// Tells calls of the same moment apart.
    pub(super) random: u64,
    pub(super) attempt: u32,
}

impl CallId {
    const LEN: usize = 20;

    pub(super) fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&self.started_ms.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.random.to_be_bytes());
        bytes[16..].copy_from_slice(&self.attempt.to_be_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, Corrupt> {
        let parts = bytes.split_first_chunk::<8>().and_then(|(started, rest)| {
            let (random, attempt) = rest.split_first_chunk::<8>()?;
            Some((*started, *random, <[u8; 4]>::try_from(attempt).ok()?))
        });
        let (started, random, attempt) =
            parts.ok_or_else(|| Corrupt::new(STATUS, "its id is not 20 bytes long"))?;
        Ok(Self {
            started_ms: u64::from_be_bytes(started),
            random: u64::from_be_bytes(random),
            attempt: u32::from_be_bytes(attempt),
        })
    }

    /// Whether the call of this attempt is older than that of another.
    pub(super) fn is_older(self, other: Self) -> bool {
        (self.started_ms, self.random) < (other.started_ms, other.random)
    }

    /// Whether this is a later attempt of the same call: its actor has given the other one up.
    pub(super) fn supersedes(self, other: Self) -> bool {
        (self.started_ms, self.random) == (other.started_ms, other.random)
            && self.attempt > other.attempt
    }

    /// The call itself as one that has given up all its attempts.
    pub(super) const fn given_up(self) -> Self {
        Self { attempt: u32::MAX, ..self }
    }

    /// What a cell keeps of the call that created it.
    pub(super) fn mark(self) -> Vec<u8> {
        self.to_bytes()[..16].to_vec()
    }
}

/// How far a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Pending,
    Committed,
    Aborted,
}

/// What the status cell of a call says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CallStatus {
    pub(super) state: State,
    /// From then on others may abort it while it is pending, by the servers' clock.
    pub(super) deadline_ms: u64,
    /// Cells with further keys.
    pub(super) pages: u32,
}

impl CallStatus {
    pub(super) fn encode(&self) -> Vec<u8> {
        let state = match self.state {
            State::Pending => 0,
            State::Committed => 1,
            State::Aborted => 2,
        };
        let mut out = Vec::with_capacity(16);
        let mut e = Encoder::new(&mut out);
        e.array(3).expect(INFALLIBLE).u8(state).expect(INFALLIBLE);
        e.u64(self.deadline_ms).expect(INFALLIBLE).u32(self.pages).expect(INFALLIBLE);
        sealed(out)
    }

    /// What a cell says; its field [`STATE`] was read.
    pub(super) fn of(cell: &Cell) -> Result<(Self, Version), Corrupt> {
        let damaged = || Corrupt::new(STATUS, "malformed");
        let bytes = cell.get(STATE).ok_or_else(damaged)?;
        let content = opened(STATUS, bytes)?;
        let mut d = Decoder::new(content);
        let mut read = || -> Result<Option<Self>, minicbor::decode::Error> {
            if d.array()? != Some(3) {
                return Ok(None);
            }
            let state = match d.u8()? {
                0 => State::Pending,
                1 => State::Committed,
                2 => State::Aborted,
                _ => return Ok(None),
            };
            Ok(Some(Self { state, deadline_ms: d.u64()?, pages: d.u32()? }))
        };
        let status = read().map_err(|error| Corrupt::new(STATUS, error))?.ok_or_else(damaged)?;
        if d.position() != content.len() {
            return Err(damaged());
        }
        Ok((status, cell.version))
    }
}

pub(super) fn encode_keys(keys: &[Key]) -> Vec<u8> {
    let mut out = Vec::with_capacity(keys.len() * 40);
    let mut e = Encoder::new(&mut out);
    e.array(keys.len() as u64).expect(INFALLIBLE);
    for key in keys {
        e.array(2).expect(INFALLIBLE).u16(key.shard).expect(INFALLIBLE);
        e.bytes(&key.name).expect(INFALLIBLE);
    }
    sealed(out)
}

/// Keys in a cell whose field [`KEYS`] was read.
pub(super) fn keys_of(cell: &Cell) -> Result<Vec<Key>, Corrupt> {
    let damaged = || Corrupt::new(STATUS, "its keys are malformed");
    let content = opened(STATUS, cell.get(KEYS).ok_or_else(damaged)?)?;
    let mut d = Decoder::new(content);
    let mut read = || -> Result<Option<Vec<Key>>, minicbor::decode::Error> {
        let mut keys = Vec::new();
        for _ in 0..d.array()?.unwrap_or(0) {
            if d.array()? != Some(2) {
                return Ok(None);
            }
            keys.push(Key::new(d.u16()?, d.bytes()?));
        }
        Ok(Some(keys))
    };
    let keys = read().map_err(|error| Corrupt::new(STATUS, error))?.ok_or_else(damaged)?;
    if d.position() == content.len() { Ok(keys) } else { Err(damaged()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(name: &[u8], value: Vec<u8>) -> Cell {
        Cell { version: Version::new(7), fields: vec![(name.to_vec(), value)] }
    }

    #[test]
    fn status_bytes_are_pinned_and_damage_is_refused() {
        let status = CallStatus { state: State::Committed, deadline_ms: 300, pages: 2 };
        let bytes = status.encode();
        assert_eq!(bytes, sealed(vec![0x83, 1, 0x19, 0x01, 0x2c, 2]));
        let read = CallStatus::of(&cell(STATE, bytes.clone())).unwrap();
        assert_eq!(read, (status, Version::new(7)));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(CallStatus::of(&cell(STATE, damaged)).is_err(), "byte {at}");
        }
        assert!(
            CallStatus::of(&cell(STATE, sealed(vec![0x83, 3, 0, 0]))).is_err(),
            "unknown state"
        );
        assert!(CallStatus::of(&cell(b"x", bytes)).is_err(), "no state");
    }

    #[test]
    fn keys_of_a_call_are_pinned_and_damage_is_refused() {
        let keys = vec![Key::new(5, *b"ua"), Key::new(300, *b"nb")];
        let bytes = encode_keys(&keys);
        let expected = vec![0x82, 0x82, 5, 0x42, b'u', b'a', 0x82, 0x19, 1, 0x2c, 0x42, b'n', b'b'];
        assert_eq!(bytes, sealed(expected));
        assert_eq!(keys_of(&cell(KEYS, bytes.clone())).unwrap(), keys);
        let mut damaged = bytes;
        damaged[3] ^= 1;
        assert!(keys_of(&cell(KEYS, damaged)).is_err());
    }

    #[test]
    fn attempts_of_a_call_have_its_age() {
        let id = |started_ms, random, attempt| CallId { started_ms, random, attempt };
        assert!(id(1, 9, 9).is_older(id(2, 0, 0)));
        assert!(id(1, 1, 9).is_older(id(1, 2, 0)));
        assert!(!id(1, 1, 0).is_older(id(1, 1, 1)), "both are the same call");
        let bytes = id(1, 2, 3).to_bytes();
        assert_eq!(CallId::from_bytes(&bytes).unwrap(), id(1, 2, 3));
        assert!(CallId::from_bytes(&bytes[1..]).is_err());
        assert_eq!(id(1, 2, 3).mark(), id(1, 2, 4).mark());
        assert!(
            id(1, 2, 4).supersedes(id(1, 2, 3)) && id(1, 2, 3).given_up().supersedes(id(1, 2, 3))
        );
        assert!(!id(1, 2, 3).supersedes(id(1, 2, 3)) && !id(1, 3, 4).supersedes(id(1, 2, 3)));
    }
}
