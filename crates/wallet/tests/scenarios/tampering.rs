//! Whatever a client changes behind the ledger's back, `verify` finds: each case on a new ledger.

use std::sync::Arc;

use utxokeep_chains::BitcoinCodec;
use utxokeep_core::{OutPoint, wallet::ChainCodec as _};
use utxokeep_sql::{Dialect, SqlError, Transaction, Value};
use utxokeep_wallet::{Credits, Label, LabelKind, Ledger, Limits, NewOutput, NewTx};

use crate::world::{NETWORK, World, coins_of, foreign, on_postgres, on_sqlite, out, outside, own};

/// A change, and words of the rule that it breaks.
struct Case {
    name: &'static str,
    tamper: &'static [&'static str],
    rule: &'static str,
}

const fn case(name: &'static str, tamper: &'static [&'static str], rule: &'static str) -> Case {
    Case { name, tamper, rule }
}

/// Transaction 1 pays outputs 1 and 2, transaction 2 spends output 1 and pays output 3,
/// transaction 3 pays output 4. Their blocks are 100, 101 and 102.
const CASES: &[Case] = &[
    case(
        "the spending input names another output",
        &["UPDATE tx_inputs SET prev_index = 9 WHERE wallet_id = 1 AND tx_id = 2"],
        "names that output",
    ),
    case(
        "the copied class drifts from its transaction",
        &["UPDATE utxos SET parent_class = 2, parent_height = NULL WHERE wallet_id = 1 AND id = 4"],
        "class, height and coinbase flag",
    ),
    case(
        "a lease by the clock on a spent output",
        &[
            "INSERT INTO utxo_leases (wallet_id, utxo_id, lease_id, expires_at_us, is_held)
           SELECT 1, 1, txid, 9000000000000000, 0 FROM transactions WHERE wallet_id = 1 AND id = 1",
        ],
        "a lease knows the block",
    ),
    case(
        "one coin is worth a hundred million more",
        &["UPDATE utxos SET amount = amount + 100000000 WHERE wallet_id = 1 AND id = 4"],
        "the amount of an output",
    ),
    case(
        "a coin is credited to another address",
        &[
            "UPDATE utxos SET address_id = 9 WHERE wallet_id = 1 AND id = 4",
            "UPDATE addresses SET is_used = 1 WHERE wallet_id = 1 AND id = 9",
        ],
        "credited to the address that it pays",
    ),
    case(
        "the row of an own output is deleted",
        &["DELETE FROM utxos WHERE wallet_id = 1 AND id = 4"],
        "an output to a watched script is a coin",
    ),
    case(
        "the bytes are cut short",
        &["UPDATE transactions SET raw_tx = {zero} WHERE wallet_id = 1 AND id = 3"],
        "bytes of a transaction can be read",
    ),
    case(
        "the id of a transaction is zeroed",
        &["UPDATE transactions SET txid = {zeros} WHERE wallet_id = 1 AND id = 3"],
        "the id of a transaction is that of its bytes",
    ),
    case(
        "the sum of outputs is lowered, and the fee raised",
        &["UPDATE transactions SET output_total = output_total - 1000
           WHERE wallet_id = 1 AND id = 2"],
        "sum of outputs",
    ),
    case(
        "a transaction is moved to another block",
        &[
            "UPDATE transactions SET block_height = 102 WHERE wallet_id = 1 AND id = 1",
            "UPDATE utxos SET parent_height = 102 WHERE wallet_id = 1 AND tx_id = 1",
        ],
        "earlier block than one it spends from",
    ),
    case(
        "an input is counted that is not there",
        &["UPDATE transactions SET input_count = 2 WHERE wallet_id = 1 AND id = 3"],
        "stored inputs are those of the bytes",
    ),
    case(
        "a payment is called a coinbase",
        &[
            "UPDATE transactions SET is_coinbase = 1 WHERE wallet_id = 1 AND id = 3",
            "UPDATE utxos SET parent_coinbase = 1 WHERE wallet_id = 1 AND id = 4",
        ],
        "coinbase flag is that of the bytes",
    ),
    case(
        "a stored block is exchanged",
        &["UPDATE blocks SET hash = {zeros} WHERE height = 101"],
        "a stored block is the one that was followed",
    ),
    case("the tip is exchanged", &["UPDATE chains SET tip_hash = {zeros}"], "the tip is the block"),
    case(
        "the tip is lowered",
        &["UPDATE chains SET tip_height = 101, tip_hash =
           (SELECT hash FROM blocks WHERE height = 101)"],
        "lies above the tip",
    ),
    case(
        "a coin is held back without a label",
        &["INSERT INTO utxo_marks (wallet_id, utxo_id, is_unspendable) VALUES (1, 4, 1)"],
        "held back exactly while a label says so",
    ),
    case(
        "a coin is freed although its label holds it back",
        &["DELETE FROM utxo_marks WHERE wallet_id = 1"],
        "held back exactly while a label says so",
    ),
];

/// Changes that a client can make with foreign keys off, and the rule that they break.
const WITHOUT_KEYS: &[Case] = &[
    case("all blocks are deleted", &["DELETE FROM blocks"], "in a block whose row is gone"),
    case(
        "an address is deleted",
        &["DELETE FROM addresses WHERE wallet_id = 1 AND id = 4"],
        "whose address is gone",
    ),
    case(
        "a transaction is deleted",
        &["DELETE FROM transactions WHERE wallet_id = 1 AND id = 3"],
        "output whose transaction is gone",
    ),
];

/// A transaction with its real bytes and id.
fn signed(inputs: &[OutPoint], outputs: &[(u64, Vec<u8>)]) -> NewTx {
    let count = |count: usize| u8::try_from(count).unwrap();
    let mut raw = vec![2, 0, 0, 0, count(inputs.len())];
    for input in inputs {
        raw.extend(input.txid().as_bytes());
        raw.extend(input.index().to_le_bytes());
        raw.extend([0, 0xff, 0xff, 0xff, 0xff]);
    }
    raw.push(count(outputs.len()));
    for (amount, script) in outputs {
        raw.extend(amount.to_le_bytes());
        raw.push(count(script.len()));
        raw.extend(script);
    }
    raw.extend([0; 4]);
    let decoded = BitcoinCodec.decode_tx(NETWORK, &raw).unwrap();
    let output = |(amount, script)| NewOutput { amount: coins_of(amount), script };
    NewTx {
        txid: decoded.txid,
        inputs: decoded.inputs,
        outputs: decoded.outputs.into_iter().map(output).collect(),
        coinbase: false,
        raw: Some(raw),
        credits: Credits::Watched,
    }
}

fn open(url: &str) -> Ledger {
    crate::world::open(url, Limits::default()).with_codec(Arc::new(BitcoinCodec))
}

/// The ledger that cases change; sound at first.
fn filled(ledger: &Ledger) -> World<'_> {
    let mut w = World::new(ledger);
    let first =
        signed(&[outside(1)], &[(500_000_000, own(0)), (200_000_000, own(1)), (7, foreign(9))]);
    let second = signed(&[out(&first, 0)], &[(300_000_000, own(2)), (199_000_000, foreign(1))]);
    let third = signed(&[outside(2)], &[(100_000_000, own(3))]);
    for tx in [&first, &second, &third] {
        w.mine(&[tx]);
    }
    let reference = format!("{}:1", first.txid.to_reversed_hex());
    let label = Label {
        kind: LabelKind::Output,
        reference,
        label: Some("kept".to_owned()),
        origin: None,
        spendable: Some(false),
    };
    ledger.set_label(w.wallet, &label, w.now).unwrap();
    let checked = ledger.verification(w.wallet).unwrap();
    assert_eq!((checked.transactions, checked.decoded, checked.violations), (3, 3, vec![]));
    w
}

/// Writes bytes as the engine does.
fn rendered(sql: &str, dialect: Dialect) -> String {
    let bytes = |digits: &str| match dialect {
        Dialect::Sqlite => format!("X'{digits}'"),
        Dialect::Postgres => format!("'\\x{digits}'"),
    };
    sql.replace("{zeros}", &bytes(&"00".repeat(32))).replace("{zero}", &bytes("00"))
}

fn assert_found(w: &World<'_>, case: &Case) {
    let found = w.ledger.verify(w.wallet).unwrap();
    let violation = found.iter().find(|violation| violation.rule.contains(case.rule));
    let violation = violation.unwrap_or_else(|| panic!("{}: {found:#?}", case.name));
    assert!(violation.rows > 0 && !violation.examples.is_empty(), "{violation:?}");
    assert!(violation.remedy.len() > 20, "{violation:?}");
}

fn each_case_is_found(url: &str, case: &Case) {
    let ledger = open(url);
    let w = filled(&ledger);
    let changed = ledger.database().write(|tx: &mut Transaction<'_>| {
        for sql in case.tamper {
            assert!(tx.execute(&rendered(sql, tx.dialect()), &[])? > 0, "{}", case.name);
        }
        Ok::<(), SqlError>(())
    });
    changed.unwrap();
    assert_found(&w, case);
}

#[test]
fn every_tamper_is_found_on_sqlite() {
    for case in CASES {
        on_sqlite(|url| each_case_is_found(url, case));
    }
}

#[test]
fn every_tamper_is_found_on_postgres() {
    for case in CASES {
        on_postgres(|url| each_case_is_found(url, case));
    }
}

#[test]
fn rows_that_are_gone_are_found_on_sqlite_although_foreign_keys_were_off() {
    for case in WITHOUT_KEYS {
        on_sqlite(|url| {
            let ledger = open(url);
            let w = filled(&ledger);
            let file = url.strip_prefix("sqlite:").unwrap();
            let client = rusqlite::Connection::open(file).unwrap();
            client.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
            for sql in case.tamper {
                client.execute_batch(sql).unwrap();
            }
            drop(client);
            assert_found(&w, case);
            // The engine's own check says so too.
            let by_engine = Case { rule: "every foreign key of the file", ..*case };
            assert_found(&w, &by_engine);
        });
    }
}

#[test]
fn rows_that_are_gone_are_found_on_postgres_although_foreign_keys_were_off() {
    const KEYS: &str = "SELECT CAST(conrelid::regclass AS TEXT), CAST(conname AS TEXT)
        FROM pg_constraint WHERE contype = 'f'";
    for case in WITHOUT_KEYS {
        on_postgres(|url| {
            let ledger = open(url);
            let w = filled(&ledger);
            let changed = ledger.database().write(|tx: &mut Transaction<'_>| {
                let keys = tx.query_all(KEYS, &[], |row| {
                    Ok((row.text(0)?.to_owned(), row.text(1)?.to_owned()))
                })?;
                for (table, key) in keys {
                    tx.execute_batch(&format!("ALTER TABLE {table} DROP CONSTRAINT {key}"))?;
                }
                for sql in case.tamper {
                    tx.execute(sql, &[])?;
                }
                Ok::<(), SqlError>(())
            });
            changed.unwrap();
            assert_found(&w, case);
        });
    }
}

#[test]
fn many_violations_are_counted_and_the_first_are_named() {
    on_sqlite(|url| {
        let ledger = open(url);
        let mut w = World::new(&ledger);
        let paid: Vec<NewTx> =
            (0..25).map(|n| signed(&[outside(n)], &[(1_000 + u64::from(n), own(0))])).collect();
        w.mine(&paid.iter().collect::<Vec<_>>());
        let changed = ledger.database().write(|tx: &mut Transaction<'_>| {
            tx.execute("UPDATE utxos SET amount = amount + $1", &[Value::from(5)])
        });
        assert_eq!(changed.map_err(|error: SqlError| error).unwrap(), 25);
        let found = ledger.verify(w.wallet).unwrap();
        assert_eq!((found.len(), found[0].rows, found[0].examples.len()), (1, 25, 10));
        let first = format!("output {}:0", paid[0].txid.to_reversed_hex());
        assert_eq!(found[0].examples[0], first);
    });
}

#[test]
fn an_output_to_a_script_that_is_watched_too_late_is_found() {
    on_sqlite(|url| {
        let ledger = open(url);
        let mut w = World::new(&ledger);
        let paid = signed(&[outside(1)], &[(5_000, own(0)), (6_000, own(42))]);
        w.mine(&[&paid]);
        w.watch(w.wallet, 42..43);
        let found = ledger.verify(w.wallet).unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].examples, [format!("output {}:1", paid.txid.to_reversed_hex())]);
        assert!(found[0].remedy.contains("scan the wallet"), "{found:?}");
    });
}

#[test]
fn a_ledger_without_formats_says_that_it_decoded_nothing() {
    on_sqlite(|url| {
        drop(filled(&open(url)));
        let bare = crate::world::open(url, Limits::default());
        let wallet = bare.wallet_named("one").unwrap().id;
        let checked = bare.verification(wallet).unwrap();
        assert_eq!((checked.transactions, checked.decoded), (3, 0));
    });
}
