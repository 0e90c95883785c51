//! Which bytes of a transaction are kept.

use std::{ops::Range, sync::Arc};

use utxokeep_core::{
    Network, Txid,
    wallet::{CodecError, DecodedTx, DerivedScript, DescriptorBranch, SpendLocks},
};
use utxokeep_wallet::{ChainCodec, Change, Ledger, LedgerError, NewTx, RecordOptions, Seen};

use crate::scenarios::world::{World, outside, pay};

crate::scenarios::on_both!(
    signed_bytes_replace_unsigned_ones_although_nothing_else_changes,
    unsigned_bytes_never_replace_signed_ones,
    the_bytes_of_a_block_always_win,
    a_witness_that_is_incomplete_or_wrong_does_not_stick,
    what_was_only_made_never_replaces_what_was_seen,
    bytes_of_another_transaction_are_refused,
    without_the_formats_of_the_chain_the_first_bytes_stay,
);

/// Bytes are the name of a transaction and the number of its signed inputs, then maybe how many
/// parts its witnesses have, and anything.
#[derive(Debug)]
struct Short;

impl ChainCodec for Short {
    fn descriptor(&self, _: Network, _: &str) -> Result<Vec<DescriptorBranch>, CodecError> {
        Err(CodecError::new("not needed here"))
    }

    fn derive(&self, _: Network, _: &str, _: Range<u32>) -> Result<Vec<DerivedScript>, CodecError> {
        Err(CodecError::new("not needed here"))
    }

    fn spend_locks(&self, _: Network, _: &str) -> Result<Vec<SpendLocks>, CodecError> {
        Err(CodecError::new("not needed here"))
    }

    fn address(&self, _: Network, _: &[u8]) -> Option<String> {
        None
    }

    fn decode_tx(&self, _: Network, raw: &[u8]) -> Result<DecodedTx, CodecError> {
        let [name, signed, more @ ..] = raw else {
            return Err(CodecError::new("two bytes at least"));
        };
        Ok(DecodedTx {
            txid: Txid::from_bytes([*name; 32]),
            inputs: Vec::new(),
            outputs: Vec::new(),
            is_coinbase: false,
            signed_inputs: usize::from(*signed),
            witness_parts: more.first().copied().map_or(0, usize::from),
            sequences: Vec::new(),
            lock_time: 0,
            version: 2,
        })
    }
}

const UNSIGNED: [u8; 2] = [1, 0];
const SIGNED: [u8; 2] = [1, 2];

fn reading(w: &World<'_>) -> Ledger {
    w.ledger.clone().with_codec(Arc::new(Short))
}

fn with_bytes(raw: &[u8]) -> NewTx {
    NewTx { raw: Some(raw.to_vec()), ..pay(1, &[outside(1), outside(2)], &[50]) }
}

fn record(ledger: &Ledger, w: &World<'_>, raw: &[u8], seen: Seen) -> Result<(), LedgerError> {
    let recorded =
        ledger.record(w.wallet, &with_bytes(raw), seen, &RecordOptions::default(), w.now);
    w.check();
    recorded.map(drop)
}

fn stored(w: &World<'_>) -> Option<Vec<u8>> {
    w.ledger.transaction(w.wallet, &Txid::from_bytes([1; 32])).unwrap().raw
}

fn signed_bytes_replace_unsigned_ones_although_nothing_else_changes(w: &mut World<'_>) {
    let ledger = reading(w);
    record(&ledger, w, &UNSIGNED, Seen::Created).unwrap();
    assert_eq!(stored(w), Some(UNSIGNED.to_vec()));
    record(&ledger, w, &[1, 1], Seen::Created).unwrap();
    assert_eq!(stored(w), Some(vec![1, 1]), "one of two signers");
    record(&ledger, w, &[1, 1], Seen::Mempool).unwrap();
    record(&ledger, w, &SIGNED, Seen::Mempool).unwrap();
    assert_eq!(stored(w), Some(SIGNED.to_vec()));
}

fn unsigned_bytes_never_replace_signed_ones(w: &mut World<'_>) {
    let ledger = reading(w);
    record(&ledger, w, &SIGNED, Seen::Created).unwrap();
    for raw in [UNSIGNED, [1, 1]] {
        record(&ledger, w, &raw, Seen::Mempool).unwrap();
        assert_eq!(stored(w), Some(SIGNED.to_vec()));
    }
    let block = w.mine(&[]).block;
    record(&ledger, w, &UNSIGNED, Seen::Block(block, Some(1))).unwrap();
    assert_eq!(stored(w), Some(SIGNED.to_vec()), "a claim is no block");
}

fn the_bytes_of_a_block_always_win(w: &mut World<'_>) {
    let ledger = reading(w);
    record(&ledger, w, &SIGNED, Seen::Mempool).unwrap();
    let block = w.mine(&[&with_bytes(&[1, 1])]).block;
    assert_eq!(stored(w), Some(vec![1, 1]));
    // Also when it was told before where the transaction is.
    let txs = [with_bytes(&[1, 7])];
    w.ledger.scan_block(w.wallet, &block, &txs, w.now).unwrap();
    assert_eq!(stored(w), Some(vec![1, 7]));
    // A block without bytes leaves those that are there.
    let txs = [NewTx { raw: None, ..with_bytes(&[]) }];
    w.ledger.scan_block(w.wallet, &block, &txs, w.now).unwrap();
    assert_eq!(stored(w), Some(vec![1, 7]));
}

/// The answer to bytes of the same transaction, which is seen again.
fn seen(ledger: &Ledger, w: &World<'_>, raw: &[u8], seen: Seen) -> Change {
    let options = RecordOptions::default();
    ledger.record(w.wallet, &with_bytes(raw), seen, &options, w.now).unwrap().change
}

fn a_witness_that_is_incomplete_or_wrong_does_not_stick(w: &mut World<'_>) {
    let ledger = reading(w);
    let (half, whole, wrong, other) = ([1, 2, 4], [1, 2, 6], [1, 2, 9], [1, 2, 6, 7]);
    record(&ledger, w, &half, Seen::Created).unwrap();
    assert_eq!(seen(&ledger, w, &wrong, Seen::Created), Change::Updated, "the next signer");
    assert_eq!(seen(&ledger, w, &half, Seen::Created), Change::Unchanged);
    assert_eq!(stored(w), Some(wrong.to_vec()));
    assert_eq!(seen(&ledger, w, &half, Seen::Mempool), Change::Updated);
    assert_eq!(stored(w), Some(half.to_vec()), "what was seen outranks what was made");
    assert_eq!(seen(&ledger, w, &whole, Seen::Mempool), Change::Updated, "only bytes changed");
    assert_eq!(stored(w), Some(whole.to_vec()));
    assert_eq!(seen(&ledger, w, &half, Seen::Mempool), Change::Unchanged);
    assert_eq!(seen(&ledger, w, &whole, Seen::Mempool), Change::Unchanged);
    assert_eq!(seen(&ledger, w, &other, Seen::Mempool), Change::Updated, "the later one");
    assert_eq!(stored(w), Some(other.to_vec()));
    w.check();
}

fn what_was_only_made_never_replaces_what_was_seen(w: &mut World<'_>) {
    let ledger = reading(w);
    record(&ledger, w, &[1, 2, 4], Seen::Mempool).unwrap();
    assert_eq!(seen(&ledger, w, &[1, 2, 9], Seen::Created), Change::Unchanged);
    assert_eq!(stored(w), Some(vec![1, 2, 4]));
    // Where an input was not signed at all, nobody can have seen it.
    assert_eq!(seen(&ledger, w, &[1, 3, 9], Seen::Created), Change::Updated);
    let block = w.mine(&[&with_bytes(&[1, 2, 5])]).block;
    for raw in [[1, 2, 9], [1, 2, 5]] {
        assert_eq!(seen(&ledger, w, &raw, Seen::Block(block, Some(0))), Change::Unchanged);
        assert_eq!(stored(w), Some(vec![1, 2, 5]), "a claim is no block");
    }
}

fn bytes_of_another_transaction_are_refused(w: &mut World<'_>) {
    let ledger = reading(w);
    for raw in [[2, 1].as_slice(), &[1], &[]] {
        let error = record(&ledger, w, raw, Seen::Mempool).unwrap_err();
        assert!(matches!(error, LedgerError::InvalidTx { .. }), "{error}");
    }
    record(&ledger, w, &UNSIGNED, Seen::Mempool).unwrap();
    assert!(record(&ledger, w, &[2, 9], Seen::Mempool).is_err());
    assert_eq!(stored(w), Some(UNSIGNED.to_vec()));
}

fn without_the_formats_of_the_chain_the_first_bytes_stay(w: &mut World<'_>) {
    record(w.ledger, w, &UNSIGNED, Seen::Mempool).unwrap();
    record(w.ledger, w, &SIGNED, Seen::Mempool).unwrap();
    assert_eq!(stored(w), Some(UNSIGNED.to_vec()));
}
