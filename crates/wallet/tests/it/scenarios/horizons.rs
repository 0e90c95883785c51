//! How far the scripts of a keychain are watched.

use std::{ops::Range, sync::Arc};

use utxokeep_core::{
    Network,
    wallet::{CodecError, DecodedTx, DerivedScript, DescriptorBranch, SpendLocks},
};
use utxokeep_wallet::{
    ChainCodec, CoinQuery, CoinScope, ConfirmationRange, Ledger, LedgerError, NewDescriptor, NewTx,
    RecordOptions, WatchedDescriptor,
};

use crate::scenarios::world::{NETWORK, World, out, outside, own, pay};

crate::scenarios::on_both!(
    coins_of_an_unknown_or_foreign_scope_are_refused,
    a_payment_below_the_horizon_moves_nothing,
    a_number_without_a_key_is_skipped,
    the_last_number_is_handed_out_once,
    imported_scripts_have_no_horizon,
);

const LAST: u32 = (1 << 31) - 1;

/// Keychains whose scripts are their numbers. A text names the number that has no key; one that
/// ends with `!` stands for one script.
#[derive(Debug)]
struct Counting;

pub(crate) fn numbered(index: u32) -> Vec<u8> {
    [&[0x00, 0x14], [7; 16].as_slice(), &index.to_be_bytes()].concat()
}

impl ChainCodec for Counting {
    fn descriptor(&self, _: Network, text: &str) -> Result<Vec<DescriptorBranch>, CodecError> {
        let is_ranged = !text.ends_with('!');
        Ok(vec![DescriptorBranch { text: text.to_owned(), is_ranged }])
    }

    fn derive(
        &self,
        _: Network,
        branch: &str,
        indexes: Range<u32>,
    ) -> Result<Vec<DerivedScript>, CodecError> {
        if branch == "broken" {
            return Err(CodecError::new("broken"));
        }
        let skipped: Option<u32> = branch.trim_end_matches('!').parse().ok();
        let derived = |index| DerivedScript {
            index,
            script: numbered(index),
            address: None,
            spend_weight: Some(272),
        };
        Ok(indexes.filter(|index| Some(*index) != skipped).map(derived).collect())
    }

    fn spend_locks(&self, _: Network, _: &str) -> Result<Vec<SpendLocks>, CodecError> {
        Err(CodecError::new("not needed here"))
    }

    fn address(&self, _: Network, _: &[u8]) -> Option<String> {
        None
    }

    fn decode_tx(&self, _: Network, _: &[u8]) -> Result<DecodedTx, CodecError> {
        Err(CodecError::new("not needed here"))
    }
}

pub(crate) fn counting(w: &World<'_>) -> Ledger {
    w.ledger.clone().with_codec(Arc::new(Counting))
}

pub(crate) fn watch(ledger: &Ledger, w: &World<'_>, text: &str) -> i64 {
    // One that stands for one script has nothing ahead.
    let lookahead = (!text.ends_with('!')).then_some(3);
    let new = NewDescriptor { lookahead, ..NewDescriptor::new(text) };
    ledger.add_descriptor(w.wallet, &new, w.now).unwrap().keychains[0].id
}

fn keychain(w: &World<'_>, id: i64) -> WatchedDescriptor {
    let all = w.ledger.descriptors(w.wallet).unwrap();
    all.into_iter().find(|each| each.id == id).unwrap()
}

fn counts(w: &World<'_>, id: i64) -> (u32, u32) {
    let keychain = keychain(w, id);
    (keychain.next_index, keychain.derived_count)
}

fn pays(name: u8, script: Vec<u8>) -> NewTx {
    // Nobody here can read bytes.
    let mut tx = NewTx { raw: None, ..pay(name, &[outside(name)], &[10]) };
    tx.outputs[0].script = script;
    tx
}

fn record(ledger: &Ledger, w: &World<'_>, tx: &NewTx) {
    let seen = utxokeep_wallet::Seen::Mempool;
    ledger.record(w.wallet, tx, seen, &RecordOptions::default(), w.now).unwrap();
    w.check();
}

/// S102.
fn coins_of_an_unknown_or_foreign_scope_are_refused(w: &mut World<'_>) {
    let ledger = counting(w);
    let id = watch(&ledger, w, "none");
    record(&ledger, w, &pays(1, numbered(2)));
    let plain = NewTx { raw: None, ..pay(2, &[outside(2)], &[20, 30]) };
    record(&ledger, w, &plain);
    let two = w.ledger.create_wallet("two", NETWORK, w.now).unwrap().id;
    let coins = |wallet, scope, range| {
        let query = CoinQuery { scope, range, ..CoinQuery::default() };
        let coins = ledger.coins(wallet, &query, w.now)?;
        Ok::<Vec<u64>, LedgerError>(coins.iter().map(|coin| coin.amount.get()).collect())
    };
    let any = ConfirmationRange::default();
    assert_eq!(coins(w.wallet, CoinScope::All, any).unwrap(), [10, 20, 30]);
    assert_eq!(coins(w.wallet, CoinScope::Keychain(id), any).unwrap(), [10]);
    let address = ledger.coin(w.wallet, &out(&plain, 1), w.now).unwrap().address_id;
    assert_eq!(coins(w.wallet, CoinScope::Address(address), any).unwrap(), [30]);
    let deep = ConfirmationRange::at_least(1);
    assert!(coins(w.wallet, CoinScope::Keychain(id), deep).unwrap().is_empty());

    let unknown = coins(w.wallet, CoinScope::Keychain(77), any);
    assert!(matches!(unknown, Err(LedgerError::DescriptorNotFound(77))));
    let foreign = coins(two, CoinScope::Keychain(id), any);
    assert!(matches!(foreign, Err(LedgerError::DescriptorNotFound(_))));
    let unknown = coins(w.wallet, CoinScope::Address(777), any);
    assert!(matches!(unknown, Err(LedgerError::AddressIdNotFound(777))));
    let foreign = coins(two, CoinScope::Address(address), any);
    assert!(matches!(foreign, Err(LedgerError::AddressIdNotFound(_))));
    let empty = coins(w.wallet, CoinScope::All, ConfirmationRange { min: 3, max: Some(2) });
    assert!(matches!(empty, Err(LedgerError::InvalidArgument { .. })));
}

/// S130.
fn a_payment_below_the_horizon_moves_nothing(w: &mut World<'_>) {
    let ledger = counting(w);
    let id = watch(&ledger, w, "none");
    assert_eq!(counts(w, id), (0, 3));
    record(&ledger, w, &pays(1, numbered(2)));
    assert_eq!(counts(w, id), (3, 6));
    // Numbers below the next one, paid for the first time or again.
    record(&ledger, w, &pays(2, numbered(0)));
    record(&ledger, w, &pays(3, numbered(2)));
    assert_eq!(counts(w, id), (3, 6));
    assert_eq!(ledger.reveal_next_address(w.wallet, id, w.now).unwrap().index, 3);
}

/// S130b.
fn a_number_without_a_key_is_skipped(w: &mut World<'_>) {
    let ledger = counting(w);
    let id = watch(&ledger, w, "1");
    w.check();
    let reveal = || ledger.reveal_next_address(w.wallet, id, w.now).unwrap();
    assert_eq!([reveal().index, reveal().index, reveal().index], [0, 2, 3]);
    assert_eq!(reveal().script, numbered(4));
    w.check();
    assert_eq!(counts(w, id), (5, 8));
    record(&ledger, w, &pays(1, numbered(7)));
    assert_eq!(counts(w, id), (8, 11));
    // The first one may be the one that is missing.
    let other = w.ledger.create_wallet("other", NETWORK, w.now).unwrap().id;
    let new = NewDescriptor { lookahead: Some(1), ..NewDescriptor::new("0") };
    let id = ledger.add_descriptor(other, &new, w.now).unwrap().keychains[0].id;
    assert!(ledger.reveal_next_address(other, id, w.now).is_err());
}

/// S130c.
fn the_last_number_is_handed_out_once(w: &mut World<'_>) {
    let ledger = counting(w);
    let far = NewDescriptor { next_index: Some(LAST), ..NewDescriptor::new("far") };
    let error = ledger.add_descriptor(w.wallet, &far, w.now).unwrap_err();
    assert!(matches!(error, LedgerError::InvalidArgument { .. }), "{error}");
    assert!(w.ledger.descriptors(w.wallet).unwrap().is_empty());
    let id = watch(&ledger, w, "none");
    // Nobody hands out two billion addresses one by one.
    let skip = "UPDATE descriptors SET next_index = 2147483645, derived_count = 2147483645,
        skipped_count = 2147483642 WHERE wallet_id = 1";
    w.ledger.database().write(|tx| tx.execute(skip, &[])).unwrap();
    for expected in [LAST - 2, LAST - 1, LAST] {
        assert_eq!(ledger.reveal_next_address(w.wallet, id, w.now).unwrap().index, expected);
        w.check();
    }
    let error = ledger.reveal_next_address(w.wallet, id, w.now).unwrap_err();
    assert!(matches!(error, LedgerError::InvalidArgument { .. }));
    record(&ledger, w, &pays(1, numbered(LAST)));
    assert_eq!(counts(w, id), (LAST + 1, LAST + 1));
}

/// S130d.
fn imported_scripts_have_no_horizon(w: &mut World<'_>) {
    let ledger = counting(w);
    let id = watch(&ledger, w, "none!");
    assert_eq!(counts(w, id), (0, 1));
    let addresses = w.ledger.addresses(w.wallet, 0, 1_000).unwrap().len();
    record(&ledger, w, &pays(1, numbered(0)));
    record(&ledger, w, &pays(2, own(0)));
    assert_eq!(counts(w, id), (1, 1));
    assert_eq!(w.ledger.addresses(w.wallet, 0, 1_000).unwrap().len(), addresses);
    let first = ledger.reveal_next_address(w.wallet, id, w.now).unwrap();
    assert_eq!(ledger.reveal_next_address(w.wallet, id, w.now).unwrap(), first);
}
