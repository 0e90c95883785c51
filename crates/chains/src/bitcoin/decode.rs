//! Raw block to [`Block`] in one pass over the bytes.
//!
//! # Invariants
//!
//! * A decoded block has a valid proof of work, matches its merkle root, and has exactly one
//!   coinbase, at the start. Scripts are counted and not run; witnesses are not verified.
//! * Output scripts stay where they are: [`Block::bytes`] is the raw block itself.
//! * Outputs nobody can ever spend are left out, as Bitcoin Core leaves them out of its set;
//!   the indexes of the others keep their gaps.

use utxokeep_core::{
    BitcoinFacts, Block, Network, OutPoint, Output, Tx, TxLock, Txid, Unlock, is_final_sequence,
    legacy_sigops,
};

use super::{
    DecodeError, HEADER_LEN, hash::sha256d_parts, header::decode_header_of, merkle::merkle_root,
    reader::Reader,
};

/// Blocks over this many bytes are refused: twice what consensus allows.
pub const MAX_BLOCK_BYTES: usize = 8 << 20;

/// No amount can exceed the supply limit, in satoshi.
pub const MAX_MONEY: u64 = 21_000_000 * 100_000_000;

/// Scripts over this length can never run.
const MAX_SCRIPT_BYTES: usize = 10_000;

const OP_RETURN: u8 = 0x6a;

// Shortest possible forms, with empty scripts: they bound what a count may promise.
const MIN_INPUT_BYTES: usize = 36 + 1 + 4;
const MIN_OUTPUT_BYTES: usize = 8 + 1;
const MIN_TX_BYTES: usize = 4 + 1 + MIN_INPUT_BYTES + 1 + MIN_OUTPUT_BYTES + 4;

/// Decodes a block of `network` and checks everything that needs no other block.
pub fn decode_block(raw: Vec<u8>, network: Network) -> Result<Block, DecodeError> {
    if raw.len() > MAX_BLOCK_BYTES {
        return Err(DecodeError::TooLarge { len: raw.len() });
    }
    let header = decode_header_of(&raw, network)?;
    let mut body = Body::read(&raw)?;

    let mut hashes = body.txs.iter().map(|tx| *tx.txid.as_bytes()).collect();
    let (root, mutated) = merkle_root(&mut hashes);
    if raw[36..68] != root {
        return Err(DecodeError::BadMerkleRoot { hash: header.hash });
    }
    if mutated {
        return Err(DecodeError::MutatedMerkleTree { hash: header.hash });
    }
    if header.hash == network.genesis_hash() {
        body.outputs.clear();
        body.txs.iter_mut().for_each(|tx| tx.outputs = 0..0);
    }
    let Body { txs, inputs, outputs, claimed_height, mut facts } = body;
    facts.version = i32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]]);
    let (bitcoin, is_boundary) = (Some(facts), false);
    Ok(Block { header, claimed_height, is_boundary, txs, inputs, outputs, bytes: raw, bitcoin })
}

/// The height a coinbase script starts with, pushed in its one shortest form.
fn claimed_height(script: &[u8]) -> Option<u32> {
    const OP_1: u8 = 0x51;
    const OP_16: u8 = 0x60;
    let (&first, rest) = script.split_first()?;
    if (OP_1..=OP_16).contains(&first) {
        return Some(u32::from(first - OP_1) + 1);
    }
    let number = rest.get(..usize::from(first)).filter(|number| (1..=5).contains(&number.len()))?;
    let height = number.iter().rev().fold(0u64, |sum, &byte| sum << 8 | u64::from(byte));
    let (&last, before) = number.split_last()?;
    // The top bit is the sign; a zero byte on top is there only to keep it clear.
    let is_shortest = last != 0 || before.last().is_some_and(|byte| byte & 0x80 != 0);
    let is_positive = last & 0x80 == 0 && height > 16;
    u32::try_from(height).ok().filter(|_| is_shortest && is_positive)
}

/// The transactions of a block while they are read.
struct Body {
    txs: Vec<Tx>,
    inputs: Vec<OutPoint>,
    outputs: Vec<Output>,
    claimed_height: Option<u32>,
    facts: BitcoinFacts,
}

impl Body {
    fn read(raw: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(raw, HEADER_LEN);
        let count = reader.count(MIN_TX_BYTES)?;
        if count == 0 {
            return Err(DecodeError::BadCoinbase { position: 0 });
        }
        // Typical densities; the vectors grow when a block is unusual.
        let mut body = Self {
            txs: Vec::with_capacity(count),
            inputs: Vec::with_capacity(raw.len() / 192),
            outputs: Vec::with_capacity(raw.len() / 96),
            claimed_height: None,
            facts: BitcoinFacts {
                stripped_bytes: offset_u32(reader.offset()),
                locks: Vec::with_capacity(count),
                unlocks: Vec::with_capacity(raw.len() / 192),
                ..BitcoinFacts::default()
            },
        };
        for _ in 0..count {
            let tx = body.read_tx(&mut reader)?;
            body.txs.push(tx);
        }
        match reader.remaining() {
            0 => Ok(body),
            extra => Err(DecodeError::TrailingBytes { extra }),
        }
    }

    fn read_tx(&mut self, reader: &mut Reader<'_>) -> Result<Tx, DecodeError> {
        let start = reader.offset();
        let inputs_from = self.inputs.len();
        let outputs_from = self.outputs.len();
        let version = u32::from_le_bytes(*reader.array()?);
        let mut core_start = reader.offset();
        let mut input_count = reader.count(MIN_INPUT_BYTES)?;
        let has_witness = input_count == 0;
        if has_witness {
            match reader.u8()? {
                0 => return Err(DecodeError::EmptyTx { offset: start }),
                1 => {}
                _ => return Err(DecodeError::BadWitness { offset: start }),
            }
            core_start = reader.offset();
            input_count = reader.count(MIN_INPUT_BYTES)?;
        }
        if input_count == 0 {
            return Err(DecodeError::EmptyTx { offset: start });
        }
        let (is_coinbase, is_final) = self.read_inputs(reader, input_count)?;
        let output_total = self.read_outputs(reader, start)?;
        let core_end = reader.offset();
        if has_witness {
            let unlocks = &mut self.facts.unlocks[inputs_from..];
            if !read_witnesses(reader, input_count, unlocks)? {
                return Err(DecodeError::BadWitness { offset: start });
            }
        }
        let lock_time = reader.array::<4>()?;
        // Version and lock time have four bytes each.
        self.facts.stripped_bytes += offset_u32(core_end - core_start) + 8;
        let lock = TxLock { version, lock_time: u32::from_le_bytes(*lock_time), is_final };
        self.facts.locks.push(lock);

        let txid = Txid::from_bytes(if has_witness {
            let version = reader.between(start, start + 4);
            sha256d_parts(&[version, reader.between(core_start, core_end), lock_time])
        } else {
            sha256d_parts(&[reader.between(start, reader.offset())])
        });
        let output_total = output_total.ok_or(DecodeError::ValueOutOfRange { txid })?;
        Ok(Tx {
            txid,
            is_coinbase,
            is_invalid: false,
            is_ledger_rule: false,
            output_total,
            inputs: offset_u32(inputs_from)..offset_u32(self.inputs.len()),
            outputs: offset_u32(outputs_from)..offset_u32(self.outputs.len()),
        })
    }

    /// Reads the inputs of one transaction; answers whether it is the coinbase, and whether every
    /// input says that the lock time does not count.
    fn read_inputs(
        &mut self,
        reader: &mut Reader<'_>,
        count: usize,
    ) -> Result<(bool, bool), DecodeError> {
        let position = self.txs.len();
        let first_tx = position == 0;
        if first_tx && count != 1 {
            return Err(DecodeError::BadCoinbase { position });
        }
        let mut is_final = true;
        for _ in 0..count {
            let txid = Txid::from_bytes(*reader.array()?);
            let index = u32::from_le_bytes(*reader.array()?);
            let is_null = index == u32::MAX && txid == Txid::default();
            if is_null != first_tx {
                return Err(DecodeError::BadCoinbase { position });
            }
            if !first_tx {
                self.inputs.push(OutPoint::new(txid, index));
            }
            let place = reader.string()?;
            let script = reader.between(place.start, place.end);
            self.count_sigops(script);
            let sequence = u32::from_le_bytes(*reader.array()?);
            is_final &= is_final_sequence(sequence);
            let script_place = offset_u32(place.start)..offset_u32(place.end);
            if first_tx {
                self.claimed_height = claimed_height(script);
                self.facts.coinbase_script_bytes = script_place.end - script_place.start;
            } else {
                let unlock = Unlock { sequence, script: script_place, last_witness: 0..0 };
                self.facts.unlocks.push(unlock);
            }
        }
        Ok((first_tx, is_final))
    }

    fn count_sigops(&mut self, script: &[u8]) {
        let sum = &mut self.facts.legacy_sigops;
        *sum = sum.saturating_add(legacy_sigops(script));
    }

    /// Reads the outputs of one transaction; answers their sum, or `None` when it or an output is
    /// over the supply limit.
    fn read_outputs(
        &mut self,
        reader: &mut Reader<'_>,
        tx_start: usize,
    ) -> Result<Option<u64>, DecodeError> {
        let count = reader.count(MIN_OUTPUT_BYTES)?;
        if count == 0 {
            return Err(DecodeError::EmptyTx { offset: tx_start });
        }
        let mut total = Some(0u64);
        for index in 0..count {
            let value = reader.u64()?;
            // Negative amounts come out above the limit, too.
            total = total.and_then(|sum| sum.checked_add(value)).filter(|sum| *sum <= MAX_MONEY);
            let place = reader.string()?;
            let script = reader.between(place.start, place.end);
            self.count_sigops(script);
            if script.first() == Some(&OP_RETURN) || script.len() > MAX_SCRIPT_BYTES {
                continue;
            }
            let address = offset_u32(place.start)..offset_u32(place.end);
            let index = offset_u32(index);
            self.outputs.push(Output { index, value, address, details: 0..0, detail_fields: 0 });
        }
        Ok(total)
    }
}

/// Reads one witness per input and notes where its last item lies; answers whether any has an item.
fn read_witnesses(
    reader: &mut Reader<'_>,
    inputs: usize,
    unlocks: &mut [Unlock],
) -> Result<bool, DecodeError> {
    let mut any = false;
    for input in 0..inputs {
        let items = reader.count(1)?;
        any |= items > 0;
        let mut last = 0..0;
        for _ in 0..items {
            last = reader.string()?;
        }
        // The coinbase spends nothing.
        if let Some(unlock) = unlocks.get_mut(input) {
            unlock.last_witness = offset_u32(last.start)..offset_u32(last.end);
        }
    }
    Ok(any)
}

fn offset_u32(offset: usize) -> u32 {
    u32::try_from(offset).expect("offsets and counts stay below the length limit of a block")
}

#[cfg(test)]
mod tests {
    use super::claimed_height;

    #[test]
    fn a_height_is_read_in_its_shortest_form_only() {
        for (script, height) in [
            (&[0x51][..], Some(1)),
            (&[0x60, 0xff], Some(16)),
            (&[1, 17], Some(17)),
            (&[1, 0x7f], Some(127)),
            (&[2, 0x80, 0], Some(128)),
            (&[2, 0x2c, 1, 9, 9], Some(300)),
            (&[3, 0, 0, 1], Some(65_536)),
            (&[4, 0, 0, 0, 0x7f], Some(0x7f00_0000)),
            (&[5, 0, 0, 0, 0x80, 0], Some(0x8000_0000)),
            (&[], None),
            (&[0], None),
            (&[1, 16], None),
            (&[1, 0x80], None),
            (&[2, 17, 0], None),
            (&[2, 1], None),
            (&[6, 1, 1, 1, 1, 1, 1], None),
        ] {
            assert_eq!(claimed_height(script), height, "{script:?}");
        }
    }
}
