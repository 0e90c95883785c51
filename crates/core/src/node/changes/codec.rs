//! Bytes of a change set.

use minicbor::{Decoder, Encoder, data::Type};

use super::ChangeSet;
use crate::{
    chain::record::{Corrupt, INFALLIBLE, array_len, end, map_len, txid as read_txid},
    node::codec::{
        decode_body, decode_output, decode_record, encode_body, encode_output, encode_record,
    },
    types::OutPoint,
};

const CHANGES: &str = "change set";

const RECORDS: u32 = 0;
const SLOTS: u32 = 1;
const BODIES: u32 = 2;
const MARKERS: u32 = 3;
const UNMARKED: u32 = 4;
const STATES: u32 = 5;
const PRUNING: u32 = 6;

type Write = Result<(), minicbor::encode::Error<std::convert::Infallible>>;

/// Begins a list; one that is empty is not written.
fn head(e: &mut Encoder<&mut Vec<u8>>, key: u32, len: usize) -> Write {
    if len > 0 {
        e.u32(key)?.array(len as u64)?;
    }
    Ok(())
}

fn put_optional(e: &mut Encoder<&mut Vec<u8>>, bytes: Option<Vec<u8>>) -> Write {
    match bytes {
        Some(bytes) => e.bytes(&bytes)?,
        None => e.null()?,
    };
    Ok(())
}

impl ChangeSet {
    /// CBOR: a map of the lists that are not empty, with integer keys. Records, outputs and bodies
    /// are in it as they are in rows; `null` stands for one that is not there.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        let mut e = Encoder::new(&mut out);
        self.write(&mut e).expect(INFALLIBLE);
        out
    }

    fn write(&self, e: &mut Encoder<&mut Vec<u8>>) -> Write {
        let lengths = [
            self.records.len(),
            self.slots.len(),
            self.bodies.len(),
            self.markers.len(),
            self.unmarked.len(),
            self.states.len(),
            usize::from(self.is_pruning),
        ];
        e.map(lengths.iter().filter(|len| **len > 0).count() as u64)?;
        head(e, RECORDS, self.records.len())?;
        for (txid, before, now) in &self.records {
            e.array(3)?.bytes(txid.as_bytes())?;
            put_optional(e, before.as_ref().map(encode_record))?;
            put_optional(e, now.as_ref().map(encode_record))?;
        }
        head(e, SLOTS, self.slots.len())?;
        for (outpoint, slot) in &self.slots {
            e.array(2)?.bytes(&outpoint.to_key())?;
            put_optional(e, slot.as_ref().map(encode_output))?;
        }
        head(e, BODIES, self.bodies.len())?;
        for (txid, body) in &self.bodies {
            e.array(2)?.bytes(txid.as_bytes())?;
            put_optional(e, body.as_ref().map(encode_body))?;
        }
        for (key, pairs) in [(MARKERS, &self.markers), (UNMARKED, &self.unmarked)] {
            head(e, key, pairs.len())?;
            for (parent, child) in pairs {
                e.array(2)?.bytes(parent.as_bytes())?.bytes(child.as_bytes())?;
            }
        }
        head(e, STATES, self.states.len())?;
        for (name, value) in &self.states {
            e.array(2)?.str(name)?;
            put_optional(e, value.clone())?;
        }
        if self.is_pruning {
            e.u32(PRUNING)?.bool(true)?;
        }
        Ok(())
    }

    /// Inverse of [`ChangeSet::encode`]. Bytes that are cut, or that hold a key that is not known, are
    /// refused.
    pub fn decode(bytes: &[u8]) -> Result<Self, Corrupt> {
        let mut d = Decoder::new(bytes);
        let (mut changes, mut after) = (Self::default(), None);
        for _ in 0..map_len(&mut d, CHANGES)? {
            let key = d.u32().map_err(corrupt)?;
            if after.is_some_and(|after| after >= key) {
                return Err(Corrupt::new(CHANGES, "its keys do not ascend"));
            }
            after = Some(key);
            if key == PRUNING {
                changes.is_pruning = d.bool().map_err(corrupt)?;
                continue;
            }
            for _ in 0..array_len(&mut d, CHANGES)? {
                changes.read_item(key, &mut d)?;
            }
        }
        end(&d, bytes, CHANGES)?;
        Ok(changes)
    }

    fn read_item(&mut self, key: u32, d: &mut Decoder<'_>) -> Result<(), Corrupt> {
        if array_len(d, CHANGES)? != if key == RECORDS { 3 } else { 2 } {
            return Err(Corrupt::new(CHANGES, "malformed"));
        }
        match key {
            RECORDS => {
                let txid = read_txid(d, CHANGES)?;
                let before = optional(d)?.map(decode_record).transpose()?;
                let now = optional(d)?.map(decode_record).transpose()?;
                self.records.push((txid, before, now));
            }
            SLOTS => {
                let outpoint = OutPoint::from_key(d.bytes().map_err(corrupt)?);
                let wrong = || Corrupt::new(CHANGES, "the name of an output is not 36 bytes long");
                let outpoint = outpoint.ok_or_else(wrong)?;
                self.slots.push((outpoint, optional(d)?.map(decode_output).transpose()?));
            }
            BODIES => {
                let txid = read_txid(d, CHANGES)?;
                let body = optional(d)?.map(|bytes| decode_body(txid, bytes)).transpose()?;
                self.bodies.push((txid, body));
            }
            MARKERS => self.markers.push((read_txid(d, CHANGES)?, read_txid(d, CHANGES)?)),
            UNMARKED => self.unmarked.push((read_txid(d, CHANGES)?, read_txid(d, CHANGES)?)),
            STATES => {
                let name = d.str().map_err(corrupt)?.to_owned();
                self.states.push((name, optional(d)?.map(<[u8]>::to_vec)));
            }
            unknown => return Err(Corrupt::new(CHANGES, format!("unknown key {unknown}"))),
        }
        Ok(())
    }
}

fn corrupt(error: minicbor::decode::Error) -> Corrupt {
    Corrupt::new(CHANGES, error)
}

fn optional<'b>(d: &mut Decoder<'b>) -> Result<Option<&'b [u8]>, Corrupt> {
    if d.datatype().map_err(corrupt)? == Type::Null {
        d.null().map_err(corrupt)?;
        return Ok(None);
    }
    Ok(Some(d.bytes().map_err(corrupt)?))
}
