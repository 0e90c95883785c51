//! When something fails in the middle, nothing has happened; damage is never passed over.

use utxokeep_core::Height;
use utxokeep_sql::{Dialect, SqlError, Value};
use utxokeep_wallet::{
    BalanceQuery, Coin, CoinQuery, HistoryQuery, LeaseId, LeaseTerms, Ledger, LedgerError, Limits,
    RecordOptions, Seen, Tip, TxDetail, TxState, Unseen, UnseenReason, WalletId,
};

use crate::scenarios::world::{NETWORK, SECOND, World, mint, out, outside, pay};

crate::scenarios::on_both!(
    a_batch_for_another_wallet_is_refused_whole,
    each_further_spender_of_a_coin_must_be_declared,
    a_failure_while_losers_give_way_undoes_everything,
    the_mempool_has_the_last_word,
    blocks_that_a_wallet_has_not_looked_at_are_named_with_the_reason,
    birthdays_go_back_with_the_chain,
    a_birthday_never_lies_above_a_payment,
    a_block_that_cannot_be_deleted_stays,
    damaged_values_are_loud,
    a_closed_ledger_answers_nothing,
);

const TABLES: [&str; 9] = [
    "chains",
    "blocks",
    "transactions",
    "tx_inputs",
    "utxos",
    "tx_replacements",
    "utxo_leases",
    "labels",
    "recent_blocks",
];

/// All there is: rows of every table, every transaction in full, coins, and the tip.
fn everything(w: &World<'_>) -> (Vec<i64>, Vec<TxDetail>, Vec<Coin>, Tip) {
    let count = |table: &str| {
        let sql = format!("SELECT COUNT(*) FROM {table}");
        let count = w.ledger.database().read(|tx| tx.query_one(&sql, &[], |row| row.int(0)));
        count.map_err(|error: SqlError| error).unwrap()
    };
    let history = w.ledger.history(w.wallet, &HistoryQuery::default()).unwrap();
    let details =
        history.iter().map(|tx| w.ledger.transaction(w.wallet, &tx.txid).unwrap()).collect();
    let tip = w.ledger.tip(NETWORK).unwrap();
    (TABLES.map(count).to_vec(), details, w.coins(), tip)
}

fn define(w: &World<'_>, sql: &str) {
    let done = w.ledger.database().write(|tx| tx.execute_batch(sql));
    done.map_err(|error: SqlError| error).unwrap();
}

/// Makes a kind of write to a table fail from now on.
fn break_writes(w: &World<'_>, kind: &str, table: &str) {
    match w.ledger.database().dialect() {
        Dialect::Sqlite => define(
            w,
            &format!(
                "CREATE TRIGGER broken BEFORE {kind} ON {table}
                 BEGIN SELECT RAISE(ABORT, 'broken'); END"
            ),
        ),
        Dialect::Postgres => define(
            w,
            &format!(
                "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql
                     AS 'BEGIN RAISE EXCEPTION ''broken''; END';
                 CREATE TRIGGER broken BEFORE {kind} ON {table}
                     FOR EACH ROW EXECUTE FUNCTION broken()"
            ),
        ),
    }
}

fn mend(w: &World<'_>, table: &str) {
    match w.ledger.database().dialect() {
        Dialect::Sqlite => define(w, "DROP TRIGGER broken"),
        Dialect::Postgres => define(w, &format!("DROP TRIGGER broken ON {table}")),
    }
}

/// S040.
fn a_batch_for_another_wallet_is_refused_whole(w: &mut World<'_>) {
    let two = w.ledger.create_wallet("two", NETWORK, w.now).unwrap().id;
    let good = pay(1, &[outside(1)], &[50]);
    let mut bad = pay(2, &[outside(2)], &[50]);
    w.mempool(&pay(9, &[outside(9)], &[9]));
    let before = everything(w);
    let stranger = WalletId::new(999);
    let batch = [(good.clone(), Seen::Mempool)];
    let error = w.ledger.record_batch(stranger, &batch, w.now).unwrap_err();
    assert!(matches!(error, LedgerError::WalletNotFound(wallet) if wallet == stranger));
    // Credits of a wallet that watches other scripts: the good one before it is not stored either.
    bad.credits = utxokeep_wallet::Credits::Exactly(vec![0]);
    let batch = [(good, Seen::Block(w.block_at(105), None)), (bad, Seen::Mempool)];
    let error = w.ledger.record_batch(two, &batch, w.now).unwrap_err();
    assert!(matches!(error, LedgerError::AddressNotFound { index: 0 }));
    assert_eq!(everything(w), before);
    w.check();
}

/// S048b.
fn each_further_spender_of_a_coin_must_be_declared(w: &mut World<'_>) {
    let funding = pay(1, &[outside(1)], &[50]);
    w.mine(&[&funding]);
    let spenders = [2, 3, 4].map(|name| pay(name, &[out(&funding, 0)], &[40]));
    w.mempool(&spenders[0]);
    // Without being declared, no second one is stored.
    for late in &spenders[1..] {
        let error = w.record(late, Seen::Mempool).unwrap_err();
        assert!(
            matches!(error, LedgerError::Conflict { rivals, .. } if rivals == [spenders[0].txid])
        );
        assert!(w.ledger.transaction(w.wallet, &late.txid).is_err());
    }
    // Declared, each takes the place of the one before, and all stay on record.
    w.replace(&spenders[1]);
    w.replace(&spenders[2]);
    let states = spenders.each_ref().map(|tx| w.state(tx));
    assert_eq!(states, [TxState::Replaced, TxState::Replaced, TxState::Unconfirmed]);
    assert_eq!(w.outpoints(), [out(&spenders[2], 0)]);
    // Giving one up leaves the records of the others, outputs included.
    w.ledger.abandon(w.wallet, &spenders[2].txid, w.now).unwrap();
    w.check();
    for tx in &spenders {
        let detail = w.ledger.transaction(w.wallet, &tx.txid).unwrap();
        assert_eq!(detail.outputs.len(), 1);
    }
    assert_eq!(w.outpoints(), [out(&funding, 0)]);
    let edges = w.ledger.replacements(w.wallet, &spenders[1].txid, 10).unwrap();
    assert_eq!(edges.len(), 2);
}

/// S060b.
fn a_failure_while_losers_give_way_undoes_everything(w: &mut World<'_>) {
    let funding = pay(1, &[outside(1)], &[50]);
    w.mine(&[&funding]);
    let loser = pay(2, &[out(&funding, 0)], &[40]);
    let below = pay(3, &[out(&loser, 0)], &[30]);
    w.mempool(&loser);
    w.mempool(&below);
    let winner = pay(4, &[out(&funding, 0)], &[45]);
    let options =
        RecordOptions { replaces: true, label: Some("bump".to_owned()), ..Default::default() };
    // The last write of three places: the edge, the new coins, and the label.
    for (kind, table) in [("INSERT", "tx_replacements"), ("INSERT", "utxos"), ("INSERT", "labels")]
    {
        let before = everything(w);
        break_writes(w, kind, table);
        let error = w.record_with(&winner, Seen::Mempool, &options).unwrap_err();
        assert!(matches!(error, LedgerError::Sql(_)), "{error}");
        if table != "labels" {
            // Rows that a trigger refuses are the wallet's affair, and the block goes on.
            w.mine(&[&winner]);
            assert!(w.ledger.standing(w.wallet).unwrap().set_aside.is_some());
            w.undo();
        }
        assert_eq!(everything(w), before, "{table}");
        mend(w, table);
        if w.ledger.database().dialect() == Dialect::Postgres {
            define(w, "DROP FUNCTION broken()");
        }
    }
    w.record_with(&winner, Seen::Mempool, &options).unwrap();
    assert_eq!((w.state(&loser), w.state(&below)), (TxState::Replaced, TxState::Failed));
}

/// S078b.
fn the_mempool_has_the_last_word(w: &mut World<'_>) {
    let funding = pay(1, &[outside(1)], &[50]);
    w.mine(&[&funding]);
    let parent = pay(2, &[out(&funding, 0)], &[40]);
    let child = pay(3, &[out(&parent, 0)], &[30]);
    w.mempool(&parent);
    w.mempool(&child);
    // What a mempool still has may be given up, because the ledger cannot see it; what the
    // mempool says next wins.
    w.ledger.abandon(w.wallet, &parent.txid, w.now).unwrap();
    w.check();
    w.mempool(&parent);
    w.mempool(&child);
    assert_eq!(w.outpoints(), [out(&child, 0)]);
    // In a block, neither it nor what a confirmed child depends on.
    w.mine(&[&parent]);
    let before = everything(w);
    let error = w.ledger.abandon(w.wallet, &parent.txid, w.now).unwrap_err();
    let confirmed = utxokeep_core::wallet::Refused::Confirmed(Height::new(101));
    assert!(matches!(error, LedgerError::Refused { refused, .. } if refused == confirmed));
    assert_eq!(everything(w), before);
}

fn blocks_that_a_wallet_has_not_looked_at_are_named_with_the_reason(w: &mut World<'_>) {
    #[expect(
        clippy::redundant_closure_for_method_calls,
        reason = "the method has no such lifetimes"
    )]
    let unseen = |w: &World<'_>| w.ledger.view(w.wallet, w.now, |open| open.unseen()).unwrap();
    w.mine(&[&pay(1, &[outside(1)], &[50])]);
    assert_eq!(unseen(w), None);
    break_writes(w, "INSERT", "utxos");
    w.mine(&[&pay(2, &[outside(2)], &[50])]);
    let from = w.tip().height;
    w.mine(&[]);
    assert_eq!(unseen(w), Some(Unseen { from, reason: UnseenReason::SetAside }));
    mend(w, "utxos");
    w.ledger.request_rescan(w.wallet, from, w.now).unwrap();
    assert_eq!(unseen(w), Some(Unseen { from, reason: UnseenReason::Rescan }));
}

/// S092b.
fn birthdays_go_back_with_the_chain(w: &mut World<'_>) {
    let two = w.ledger.create_wallet("two", NETWORK, w.now).unwrap().id;
    let receive = pay(1, &[outside(1)], &[50]);
    w.mine(&[&receive]);
    w.mine_to(105);
    w.mine(&[&pay(2, &[outside(2)], &[30])]);
    let one = w.ledger.create_wallet("young", NETWORK, w.now).unwrap().id;
    assert_eq!(w.ledger.birthday(one).unwrap(), None);
    w.ledger.set_birthday(one, Some(Height::new(104)), w.now).unwrap();
    w.ledger.set_birthday(two, Some(Height::new(100)), w.now).unwrap();
    let both = |w: &World<'_>| [one, two].map(|each| w.ledger.birthday(each).unwrap());
    // Only blocks above it leave the chain.
    w.undo();
    assert_eq!(both(w), [Some(Height::new(104)), Some(Height::new(100))]);
    // The birthday goes back to the highest block that is stored.
    let tip = w.ledger.rollback_from(NETWORK, Height::new(103), w.now).unwrap();
    assert_eq!(tip.map(|(height, _)| height), Some(Height::new(102)));
    assert_eq!(both(w), [Some(Height::new(100)), Some(Height::new(100))]);
    assert_eq!(w.ledger.rollback_from(NETWORK, Height::GENESIS, w.now).unwrap(), None);
    assert_eq!(both(w), [None, None]);
    w.ledger.set_birthday(two, Some(Height::new(7)), w.now).unwrap();
    w.ledger.set_birthday(two, None, w.now).unwrap();
    assert_eq!(both(w), [None, None]);
}

fn a_birthday_never_lies_above_a_payment(w: &mut World<'_>) {
    let born = Some(Height::new(105));
    w.ledger.set_birthday(w.wallet, born, w.now).unwrap();
    w.mine(&[]);
    w.mine_to(102);
    assert_eq!(w.ledger.birthday(w.wallet).unwrap(), born, "nothing was paid");
    w.mine(&[&pay(1, &[outside(1)], &[50])]);
    assert_eq!(w.ledger.birthday(w.wallet).unwrap(), Some(Height::new(103)));
    w.mine(&[]);
    let refused = w.ledger.set_birthday(w.wallet, Some(Height::new(104)), w.now).unwrap_err();
    assert!(refused.to_string().contains("block 103, below 104"), "{refused}");
    w.ledger.set_birthday(w.wallet, Some(Height::new(103)), w.now).unwrap();
    // A payment that a scan or a claim finds further below moves it too.
    let block = w.block_at(101);
    let older = pay(2, &[outside(2)], &[30]);
    w.ledger.scan_block(w.wallet, &block, std::slice::from_ref(&older), w.now).unwrap();
    assert_eq!(w.ledger.birthday(w.wallet).unwrap(), Some(Height::new(101)));
    w.check();
}

/// S093b.
fn a_block_that_cannot_be_deleted_stays(w: &mut World<'_>) {
    w.mine(&[]);
    let reward = mint(1, &[50]);
    let receive = pay(2, &[outside(2)], &[30]);
    let linked = w.mine(&[&reward, &receive]);
    w.mempool(&pay(3, &[out(&reward, 0)], &[40]));
    let before = everything(w);
    break_writes(w, "DELETE", "blocks");
    for error in [
        w.ledger.disconnect_block(NETWORK, &linked, w.now).unwrap_err(),
        w.ledger.rollback_from(NETWORK, Height::new(101), w.now).unwrap_err(),
        w.ledger.rollback_from(NETWORK, Height::GENESIS, w.now).unwrap_err(),
    ] {
        assert!(matches!(error, LedgerError::Sql(_)), "{error}");
    }
    w.check();
    assert_eq!(everything(w), before);
    mend(w, "blocks");
    w.undo();
    assert_eq!(w.state(&reward), TxState::Orphaned);
}

/// Lets damaged values past the database, as a bad disk or a foreign program would.
fn lift_checks(w: &World<'_>) {
    match w.ledger.database().dialect() {
        Dialect::Sqlite => define(w, "PRAGMA ignore_check_constraints = ON"),
        Dialect::Postgres => define(
            w,
            "ALTER TABLE transactions DROP CONSTRAINT transactions_status,
                 DROP CONSTRAINT transactions_txid;
             ALTER TABLE tx_inputs DROP CONSTRAINT tx_inputs_outpoint;
             ALTER TABLE utxos DROP CONSTRAINT utxos_output_index,
                 DROP CONSTRAINT utxos_parent_class, DROP CONSTRAINT utxos_amount;
             ALTER TABLE utxo_leases DROP CONSTRAINT utxo_leases_lease_id",
        ),
    }
}

/// Something that reads what is damaged.
type Reader = fn(&World<'_>) -> Result<(), LedgerError>;

/// S127b.
fn damaged_values_are_loud(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50]);
    w.mempool(&receive);
    let terms = LeaseTerms::until(LeaseId::from_bytes([1; 32]), 60 * SECOND);
    w.ledger.acquire_leases(w.wallet, &[out(&receive, 0)], &terms, w.now).unwrap();
    lift_checks(w);
    let history = |w: &World<'_>| w.ledger.history(w.wallet, &HistoryQuery::default()).map(drop);
    let detail = |w: &World<'_>| w.ledger.transaction(w.wallet, &pay(1, &[], &[]).txid).map(drop);
    let coins = |w: &World<'_>| w.ledger.coins(w.wallet, &CoinQuery::default(), w.now).map(drop);
    let leases = |w: &World<'_>| w.ledger.leases(w.wallet, 0, 10, w.now).map(drop);
    let again = |w: &World<'_>| {
        let tx = pay(1, &[outside(1)], &[50]);
        w.ledger.record(w.wallet, &tx, Seen::Mempool, &RecordOptions::default(), w.now).map(drop)
    };
    let balance =
        |w: &World<'_>| w.ledger.balance(w.wallet, &BalanceQuery::default(), w.now).map(drop);
    let short: &[u8] = &[1, 2, 3];
    let whole: &[u8] = &[1; 32];
    let foreign = outside(1).txid().as_bytes().to_vec();
    let damages: [(&str, &str, Value<'_>, Value<'_>, &[Reader]); 7] = [
        ("transactions", "status", 9i64.into(), 1i64.into(), &[history, detail, again]),
        ("transactions", "txid", short.into(), whole.into(), &[history, coins, leases]),
        ("tx_inputs", "prev_txid", short.into(), (&foreign).into(), &[detail]),
        ("utxos", "output_index", (-1i64).into(), 0i64.into(), &[coins, detail, leases]),
        ("utxos", "parent_class", 7i64.into(), 2i64.into(), &[coins, balance]),
        ("utxos", "amount", (-5i64).into(), 50i64.into(), &[coins, detail, leases]),
        ("utxo_leases", "lease_id", short.into(), whole.into(), &[leases]),
    ];
    for (table, column, bad, good, readers) in damages {
        let sql = format!("UPDATE {table} SET {column} = $1 WHERE wallet_id = 1");
        let set = |value: Value<'_>| {
            let changed = w.ledger.database().write(|tx| tx.execute(&sql, &[value]));
            assert_eq!(changed.map_err(|error: SqlError| error).unwrap(), 1);
        };
        set(bad);
        for (at, reader) in readers.iter().enumerate() {
            let error = reader(w).expect_err(&format!("{table}.{column}, reader {at}"));
            assert!(matches!(error, LedgerError::Sql(_) | LedgerError::Damaged { .. }), "{error}");
        }
        set(good);
        for reader in readers {
            reader(w).unwrap();
        }
    }
    // What was lifted is all that is left to find.
    let found = w.ledger.verify(w.wallet).unwrap();
    let lifted: Vec<(&str, u64)> = found.iter().map(|found| (found.rule, found.rows)).collect();
    match w.ledger.database().dialect() {
        Dialect::Sqlite => assert_eq!(lifted, []),
        Dialect::Postgres => {
            let rule =
                "tables, constraints, indexes, views and triggers are as the ledger made them";
            assert_eq!(lifted, [(rule, 7)]);
        }
    }
}

/// S129.
fn a_closed_ledger_answers_nothing(w: &mut World<'_>) {
    let receive = pay(1, &[outside(1)], &[50]);
    w.mine(&[&receive]);
    let closed = w.ledger.clone().with_isolation(utxokeep_sql::Isolation::Serializable);
    let still_open = Ledger::open(w.ledger.database().clone(), Limits::default(), w.now);
    closed.close();
    let now = w.now;
    let next = pay(2, &[outside(2)], &[5]);
    let options = RecordOptions::default();
    let refused = [
        closed.balance(w.wallet, &BalanceQuery::default(), now).map(drop),
        closed.coins(w.wallet, &CoinQuery::default(), now).map(drop),
        closed.history(w.wallet, &HistoryQuery::default()).map(drop),
        closed.transaction(w.wallet, &receive.txid).map(drop),
        closed.leases(w.wallet, 0, 10, now).map(drop),
        closed.labels(w.wallet, None, 10).map(drop),
        closed.verify(w.wallet).map(drop),
        closed.wallets(None, 10).map(drop),
        closed.wallet_named("one").map(drop),
        closed.tip(NETWORK).map(drop),
        closed.create_wallet("new", NETWORK, now).map(drop),
        closed.record(w.wallet, &next, Seen::Mempool, &options, now).map(drop),
        closed.rollback_from(NETWORK, Height::GENESIS, now).map(drop),
        // Clones are one ledger.
        w.ledger.balance(w.wallet, &BalanceQuery::default(), now).map(drop),
    ];
    for answer in refused {
        assert!(matches!(answer, Err(LedgerError::Closed)), "{answer:?}");
    }
    let balance = still_open.unwrap().balance(w.wallet, &BalanceQuery::default(), now).unwrap();
    assert_eq!(balance.confirmed, 50);
}
