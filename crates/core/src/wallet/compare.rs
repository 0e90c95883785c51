//! What a ledger has stored about a transaction, compared with its bytes.

use crate::types::{Height, OutPoint, Txid};

use super::{DecodedTx, is_paid};

/// Columns of a stored transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredTxFacts {
    /// The id that the row is stored under.
    pub txid: Txid,
    /// Whether it is stored as a coinbase.
    pub is_coinbase: bool,
    /// How many inputs it is said to have.
    pub input_count: i64,
    /// What its outputs are said to pay together.
    pub output_total: i64,
    /// Its inputs, by their index.
    pub inputs: Vec<(i64, OutPoint)>,
    /// Its outputs that belong to the wallet.
    pub outputs: Vec<StoredOutput>,
}

/// A stored output of the wallet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredOutput {
    /// Its index in the transaction.
    pub index: i64,
    /// In the smallest unit of the chain, as the column has it.
    pub amount: i64,
    /// Locking script, as the column has it.
    pub script: Vec<u8>,
    /// Script of the address that it is credited to.
    pub address: Vec<u8>,
}

/// What a stored transaction contradicts its bytes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mismatch {
    /// The bytes are those of another transaction.
    Txid,
    /// The flag of a coinbase.
    Coinbase,
    /// The outputs that it spends, or how many they are.
    Inputs,
    /// The sum of its outputs, and with it its fee.
    OutputTotal,
    /// The amount of a coin, or the transaction has no such output.
    Amount(i64),
    /// The script of a coin, or it is credited to an address that it does not pay.
    Script(i64),
    /// An output pays a watched script and is no coin of the wallet.
    Unrecorded(i64),
}

/// Compares a stored transaction with what its bytes say. `is_watched` tells whether the wallet
/// watches a script.
#[must_use]
pub fn mismatches(
    decoded: &DecodedTx,
    stored: &StoredTxFacts,
    is_watched: &dyn Fn(&[u8]) -> bool,
) -> Vec<Mismatch> {
    let mut found = Vec::new();
    if decoded.txid != stored.txid {
        // Everything else would be compared with another transaction.
        return vec![Mismatch::Txid];
    }
    if decoded.is_coinbase != stored.is_coinbase {
        found.push(Mismatch::Coinbase);
    }
    let inputs = (0i64..).zip(decoded.inputs.iter().copied());
    let is_counted = usize::try_from(stored.input_count) == Ok(decoded.inputs.len());
    if !is_counted || !inputs.eq(stored.inputs.iter().copied()) {
        found.push(Mismatch::Inputs);
    }
    let total: i128 = decoded.outputs.iter().map(|(amount, _)| i128::from(*amount)).sum();
    if total != i128::from(stored.output_total) {
        found.push(Mismatch::OutputTotal);
    }
    for output in &stored.outputs {
        let real = usize::try_from(output.index).ok().and_then(|at| decoded.outputs.get(at));
        match real {
            Some((amount, _)) if i128::from(*amount) != i128::from(output.amount) => {
                found.push(Mismatch::Amount(output.index));
            }
            Some((_, script)) if *script != output.script || !is_paid(script, &output.address) => {
                found.push(Mismatch::Script(output.index));
            }
            Some(_) => {}
            None => found.push(Mismatch::Amount(output.index)),
        }
    }
    for (index, (_, script)) in (0i64..).zip(&decoded.outputs) {
        let is_stored = stored.outputs.iter().any(|output| output.index == index);
        if !is_stored && is_watched(script) {
            found.push(Mismatch::Unrecorded(index));
        }
    }
    found
}

/// A coin that a block made and no block has spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfirmedCoin {
    /// The transaction that made the coin, and its index there.
    pub outpoint: OutPoint,
    /// In the smallest unit of the chain.
    pub amount: u64,
    /// Block that made it.
    pub height: Height,
    /// Whether a coinbase made it.
    pub is_coinbase: bool,
    /// Place of its transaction in the block, where that is known.
    pub position: Option<u32>,
}

/// In what a ledger and a chain differ about an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Difference {
    /// The ledger has a coin that the chain never had, or has spent.
    NotOnChain,
    /// The chain has an output to a watched script that the ledger misses, or takes for spent.
    NotInLedger,
    /// Both have it, with different amounts.
    Amount,
    /// Both have it, in different blocks, or as a coinbase in one of them only.
    Block,
    /// Both have it in one block, at different places.
    Position,
}

/// Compares the coins of some scripts in a ledger with those on the chain.
#[must_use]
pub fn differences(
    mut ledger: Vec<ConfirmedCoin>,
    mut chain: Vec<ConfirmedCoin>,
) -> Vec<(OutPoint, Difference)> {
    ledger.sort_unstable();
    chain.sort_unstable();
    let mut found = Vec::new();
    let mut chain = chain.into_iter().peekable();
    for coin in ledger {
        while let Some(missed) = chain.next_if(|other| other.outpoint < coin.outpoint) {
            found.push((missed.outpoint, Difference::NotInLedger));
        }
        let difference = match chain.next_if(|other| other.outpoint == coin.outpoint) {
            None => Difference::NotOnChain,
            Some(other) if other.amount != coin.amount => Difference::Amount,
            Some(other) if (other.height, other.is_coinbase) != (coin.height, coin.is_coinbase) => {
                Difference::Block
            }
            Some(other) => match (coin.position, other.position) {
                (Some(one), Some(two)) if one != two => Difference::Position,
                _ => continue,
            },
        };
        found.push((coin.outpoint, difference));
    }
    found.extend(chain.map(|missed| (missed.outpoint, Difference::NotInLedger)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_are_compared() {
        let coin = |n: u8, amount| ConfirmedCoin {
            outpoint: OutPoint::new(Txid::from_bytes([n; 32]), 0),
            amount,
            height: Height::new(7),
            is_coinbase: false,
            position: Some(3),
        };
        let at = |n: u8| coin(n, 0).outpoint;
        let higher = |coin: ConfirmedCoin| ConfirmedCoin { height: Height::new(8), ..coin };
        let minted = |coin: ConfirmedCoin| ConfirmedCoin { is_coinbase: true, ..coin };
        let placed =
            |coin: ConfirmedCoin, place: Option<u32>| ConfirmedCoin { position: place, ..coin };
        let ledger = vec![
            coin(6, 1),
            coin(2, 1),
            coin(3, 1),
            coin(4, 1),
            coin(5, 1),
            coin(8, 1),
            placed(coin(9, 1), None),
        ];
        let chain = vec![
            coin(1, 1),
            coin(3, 2),
            higher(coin(4, 1)),
            minted(coin(5, 1)),
            coin(6, 1),
            coin(7, 1),
            placed(coin(8, 1), Some(4)),
            coin(9, 1),
        ];
        let expected = [
            (at(1), Difference::NotInLedger),
            (at(2), Difference::NotOnChain),
            (at(3), Difference::Amount),
            (at(4), Difference::Block),
            (at(5), Difference::Block),
            (at(7), Difference::NotInLedger),
            (at(8), Difference::Position),
        ];
        assert_eq!(differences(ledger.clone(), chain), expected);
        assert_eq!(differences(ledger.clone(), ledger), []);
    }

    fn decoded() -> DecodedTx {
        DecodedTx {
            txid: Txid::from_bytes([1; 32]),
            inputs: vec![OutPoint::new(Txid::from_bytes([2; 32]), 3)],
            outputs: vec![(70, vec![7]), (20, vec![8])],
            is_coinbase: false,
            lock_time: 0,
            version: 2,
            sequences: vec![0],
            signed_inputs: 0,
            witness_parts: 0,
        }
    }

    fn stored() -> StoredTxFacts {
        let output = StoredOutput { index: 0, amount: 70, script: vec![7], address: vec![7] };
        StoredTxFacts {
            txid: Txid::from_bytes([1; 32]),
            is_coinbase: false,
            input_count: 1,
            output_total: 90,
            inputs: vec![(0, OutPoint::new(Txid::from_bytes([2; 32]), 3))],
            outputs: vec![output],
        }
    }

    fn found(change: impl Fn(&mut StoredTxFacts)) -> Vec<Mismatch> {
        let mut facts = stored();
        change(&mut facts);
        mismatches(&decoded(), &facts, &|script| script == [7])
    }

    #[test]
    fn every_column_is_compared() {
        assert_eq!(found(|_| {}), []);
        assert_eq!(found(|tx| tx.txid = Txid::default()), [Mismatch::Txid]);
        assert_eq!(found(|tx| tx.is_coinbase = true), [Mismatch::Coinbase]);
        assert_eq!(found(|tx| tx.input_count = 2), [Mismatch::Inputs]);
        assert_eq!(found(|tx| tx.inputs[0].0 = 1), [Mismatch::Inputs]);
        assert_eq!(found(|tx| tx.inputs.clear()), [Mismatch::Inputs]);
        assert_eq!(found(|tx| tx.output_total = 89), [Mismatch::OutputTotal]);
        assert_eq!(found(|tx| tx.output_total = -1), [Mismatch::OutputTotal]);
        assert_eq!(found(|tx| tx.outputs[0].amount = 71), [Mismatch::Amount(0)]);
        assert_eq!(found(|tx| tx.outputs[0].amount = -1), [Mismatch::Amount(0)]);
        assert_eq!(found(|tx| tx.outputs[0].script = vec![8]), [Mismatch::Script(0)]);
        assert_eq!(found(|tx| tx.outputs[0].address = vec![8]), [Mismatch::Script(0)]);
        assert_eq!(found(|tx| tx.outputs.clear()), [Mismatch::Unrecorded(0)]);
        let moved = found(|tx| tx.outputs[0].index = 2);
        assert_eq!(moved, [Mismatch::Amount(2), Mismatch::Unrecorded(0)]);
    }
}
