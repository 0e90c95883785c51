//! Simulated transactions in their serialised form.

use utxokeep_core::{Height, OutPoint, Txid};

use super::{
    coins::{Coins, SimCoin},
    config::{SimulatorConfig, TxMix},
    rng::Rng,
    scripts::Scripts,
};
use crate::bitcoin::{sha256d, sha256d_parts};

const VERSION: [u8; 4] = [2, 0, 0, 0];
const LOCK_TIME: [u8; 4] = [0; 4];
const OP_RETURN: u8 = 0x6a;
const SIGNATURE_BYTES: usize = 72;
const SCHNORR_BYTES: usize = 64;
const KEY_BYTES: usize = 33;
const FEE_MIN: u64 = 150;
const FEE_SPREAD: u64 = 4_000;

/// A transaction ready to be put in a block, once or again on another branch.
#[derive(Debug, Clone)]
pub(super) struct SimTx {
    pub(super) bytes: Vec<u8>,
    pub(super) txid: Txid,
    pub(super) witness_hash: [u8; 32],
    pub(super) fee: u64,
    pub(super) inputs: Vec<OutPoint>,
    /// Index and value of each output that can be spent.
    pub(super) outputs: Vec<(u32, u64)>,
}

/// How inputs prove that they may be spent. The proofs are random bytes of the usual length.
#[derive(Clone, Copy)]
enum Proof {
    None,
    Script,
    Witness,
    Schnorr,
}

/// An output to be: value and script.
pub(super) type Payment = (u64, Vec<u8>);

/// What transactions are made from.
pub(super) struct Maker<'a> {
    pub(super) config: &'a SimulatorConfig,
    pub(super) scripts: &'a Scripts,
    pub(super) mix: &'a TxMix,
    pub(super) rng: &'a mut Rng,
    pub(super) coins: &'a mut Coins,
    pub(super) height: Height,
}

impl Maker<'_> {
    /// Makes one transaction and moves its coins; `None` when there is nothing left to spend.
    pub(super) fn make(&mut self) -> Option<SimTx> {
        let roll = u32::try_from(self.rng.below(100)).unwrap_or(0);
        let (input_count, output_count) = if roll < self.mix.fan_in_percent {
            (self.rng.between(&self.mix.fan_in_inputs), 1)
        } else if roll < self.mix.fan_in_percent + self.mix.wide_percent {
            (1, self.rng.between(&self.mix.wide_outputs))
        } else {
            (self.rng.between(&(1..=2)), 2)
        };
        let spent = self.take_inputs(input_count, output_count);
        if spent.is_empty() {
            return None;
        }
        let total: u64 = spent.iter().map(|coin| coin.value).sum();
        let fee = (FEE_MIN + self.rng.below(FEE_SPREAD)).min(total / 10);
        let payments = self.payments(total - fee, output_count);
        let proof = self.pick_proof();
        let paid: u64 = payments.iter().map(|(value, _)| value).sum();
        let tx = serialise(&spent, &payments, proof, total - paid, self.rng);
        tx.add_outputs(self.coins, self.height);
        Some(tx)
    }

    fn take_inputs(&mut self, count: u32, outputs: u32) -> Vec<SimCoin> {
        let draws = if outputs > 2 { 4 } else { 1 };
        let mut spent = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let from_this_block = self.rng.percent(self.config.same_block_spend_percent);
            let newest = if from_this_block { self.coins.take_newest(self.height) } else { None };
            match newest.or_else(|| self.coins.take_random(self.rng, draws)) {
                Some(coin) => spent.push(coin),
                None => break,
            }
        }
        spent
    }

    /// Splits `amount` over `count` outputs, and sometimes adds one that nobody can spend.
    fn payments(&mut self, amount: u64, count: u32) -> Vec<Payment> {
        let mut left = amount;
        let mut payments = Vec::with_capacity(count as usize + 1);
        for number in 0..count {
            let others = u64::from(count - number);
            let is_odd = self.rng.below(1_000) < u64::from(self.config.odd_output_permille);
            let value = match others {
                1 => left,
                _ if is_odd && self.rng.percent(50) => 0,
                _ => self.rng.below(left / others * 2 + 1).min(left),
            };
            let script = if is_odd {
                self.scripts.pick_ownerless(self.rng)
            } else {
                self.scripts.pick(self.rng)
            };
            left -= value;
            payments.push((value, script.to_vec()));
        }
        if self.rng.percent(self.config.op_return_percent) {
            let data = self.data_payment(&mut payments);
            let place = self.rng.place(payments.len() + 1);
            payments.insert(place, data);
        }
        payments
    }

    /// An output with data instead of an owner; now and then it burns a little of another output.
    fn data_payment(&mut self, payments: &mut [Payment]) -> Payment {
        let len = self.rng.between(&(4..=75));
        let mut script = vec![OP_RETURN, u8::try_from(len).unwrap_or(0)];
        self.rng.extend(&mut script, len as usize);
        let burnt = match payments.last_mut() {
            Some((value, _)) if self.rng.percent(10) => {
                let burnt = (*value).min(1_000);
                *value -= burnt;
                burnt
            }
            _ => 0,
        };
        (burnt, script)
    }

    fn pick_proof(&mut self) -> Proof {
        if !self.mix.is_signed {
            return Proof::None;
        }
        match self.rng.below(100) {
            0..65 => Proof::Witness,
            65..85 => Proof::Schnorr,
            _ => Proof::Script,
        }
    }
}

impl SimTx {
    /// Moves the coins of a transaction that was made earlier; `false`, and nothing moved, when an
    /// input is not ready.
    pub(super) fn apply_again(&self, coins: &mut Coins, height: Height) -> bool {
        if !self.inputs.iter().all(|input| coins.contains(input)) {
            return false;
        }
        for input in &self.inputs {
            coins.take(input);
        }
        self.add_outputs(coins, height);
        true
    }

    fn add_outputs(&self, coins: &mut Coins, height: Height) {
        for (index, value) in &self.outputs {
            let outpoint = OutPoint::new(self.txid, *index);
            coins.add(SimCoin { outpoint, value: *value, height, is_coinbase: false });
        }
    }
}

fn serialise(
    spent: &[SimCoin],
    payments: &[Payment],
    proof: Proof,
    fee: u64,
    rng: &mut Rng,
) -> SimTx {
    let has_witness = matches!(proof, Proof::Witness | Proof::Schnorr);
    let mut bytes = Vec::with_capacity(16 + spent.len() * 150 + payments.len() * 44);
    bytes.extend_from_slice(&VERSION);
    if has_witness {
        bytes.extend_from_slice(&[0, 1]);
    }
    let core_start = bytes.len();
    push_size(&mut bytes, spent.len());
    for coin in spent {
        bytes.extend_from_slice(coin.outpoint.txid().as_bytes());
        bytes.extend_from_slice(&coin.outpoint.index().to_le_bytes());
        if matches!(proof, Proof::Script) {
            push_size(&mut bytes, SIGNATURE_BYTES + KEY_BYTES + 2);
            push_random(&mut bytes, SIGNATURE_BYTES, rng);
            push_random(&mut bytes, KEY_BYTES, rng);
        } else {
            push_size(&mut bytes, 0);
        }
        bytes.extend_from_slice(&[0xfd, 0xff, 0xff, 0xff]);
    }
    let outputs = push_payments(&mut bytes, payments);
    let core_end = bytes.len();
    for _ in spent {
        match proof {
            Proof::None | Proof::Script => {}
            Proof::Witness => {
                push_size(&mut bytes, 2);
                push_random(&mut bytes, SIGNATURE_BYTES, rng);
                push_random(&mut bytes, KEY_BYTES, rng);
            }
            Proof::Schnorr => {
                push_size(&mut bytes, 1);
                push_random(&mut bytes, SCHNORR_BYTES, rng);
            }
        }
    }
    bytes.extend_from_slice(&LOCK_TIME);
    let txid = sha256d_parts(&[&VERSION, &bytes[core_start..core_end], &LOCK_TIME]);
    let witness_hash = if has_witness { sha256d(&bytes) } else { txid };
    let inputs = spent.iter().map(|coin| coin.outpoint).collect();
    SimTx { bytes, txid: Txid::from_bytes(txid), witness_hash, fee, inputs, outputs }
}

/// Appends outputs; answers index and value of those that can be spent.
fn push_payments(bytes: &mut Vec<u8>, payments: &[Payment]) -> Vec<(u32, u64)> {
    push_size(bytes, payments.len());
    let mut spendable = Vec::with_capacity(payments.len());
    for (index, (value, script)) in (0u32..).zip(payments) {
        bytes.extend_from_slice(&value.to_le_bytes());
        push_size(bytes, script.len());
        bytes.extend_from_slice(script);
        if script.first() != Some(&OP_RETURN) {
            spendable.push((index, *value));
        }
    }
    spendable
}

/// The coinbase of a block: its bytes with witness, its id, and its spendable outputs.
pub(super) fn coinbase(
    height: Height,
    extra_nonce: u64,
    payments: &[Payment],
) -> (Vec<u8>, Txid, Vec<(u32, u64)>) {
    let mut script = height_push(height.get());
    script.push(8);
    script.extend_from_slice(&extra_nonce.to_le_bytes());

    let mut core = vec![1];
    core.extend_from_slice(&[0; 32]);
    core.extend_from_slice(&[0xff; 4]);
    push_size(&mut core, script.len());
    core.extend_from_slice(&script);
    core.extend_from_slice(&[0xff; 4]);
    let outputs = push_payments(&mut core, payments);

    let txid = Txid::from_bytes(sha256d_parts(&[&VERSION, &core, &LOCK_TIME]));
    let mut bytes = VERSION.to_vec();
    bytes.extend_from_slice(&[0, 1]);
    bytes.extend_from_slice(&core);
    bytes.extend_from_slice(&[1, 32]);
    bytes.extend_from_slice(&[0; 32]);
    bytes.extend_from_slice(&LOCK_TIME);
    (bytes, txid, outputs)
}

/// The height as the first push of a coinbase script, in the shortest form a script number has.
fn height_push(height: u32) -> Vec<u8> {
    if let Ok(small @ 1..=16) = u8::try_from(height) {
        return vec![0x50 + small];
    }
    let mut number: Vec<u8> = height.to_le_bytes().to_vec();
    while number.last() == Some(&0) {
        number.pop();
    }
    // The highest bit is the sign.
    if number.last().is_some_and(|byte| byte & 0x80 != 0) {
        number.push(0);
    }
    let mut push = vec![u8::try_from(number.len()).unwrap_or(0)];
    push.append(&mut number);
    push
}

/// Appends a length-prefixed run of random bytes, as a script or a witness pushes them.
fn push_random(bytes: &mut Vec<u8>, len: usize, rng: &mut Rng) {
    push_size(bytes, len);
    rng.extend(bytes, len);
}

/// Appends a size in its shortest form.
pub(super) fn push_size(bytes: &mut Vec<u8>, size: usize) {
    if let Ok(small @ 0..=0xfc) = u8::try_from(size) {
        bytes.push(small);
    } else if let Ok(medium) = u16::try_from(size) {
        bytes.push(0xfd);
        bytes.extend_from_slice(&medium.to_le_bytes());
    } else {
        let large = u32::try_from(size).expect("nothing simulated reaches four billion");
        bytes.push(0xfe);
        bytes.extend_from_slice(&large.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heights_are_pushed_as_script_numbers() {
        assert_eq!(height_push(1), [0x51]);
        assert_eq!(height_push(16), [0x60]);
        assert_eq!(height_push(17), [1, 17]);
        assert_eq!(height_push(128), [2, 128, 0]);
        assert_eq!(height_push(300), [2, 44, 1]);
        assert_eq!(height_push(8_388_608), [4, 0, 0, 128, 0]);
    }
}
