//! Whatever a client changes behind the ledger's back, `verify` finds: each case on a new ledger.

use std::sync::Arc;

use utxokeep_chains::BitcoinCodec;
use utxokeep_core::{OutPoint, wallet::ChainCodec as _};
use utxokeep_sql::{Dialect, SqlError, Transaction, Value};
use utxokeep_wallet::{
    Credits, Label, LabelKind, Ledger, LedgerError, Limits, NewDescriptor, NewOutput, NewTx,
};

use crate::scenarios::rich;
use crate::scenarios::world::{
    NETWORK, World, coins_of, foreign, on_postgres, on_sqlite, out, outside, own,
};

/// A keychain of which nothing was paid.
pub(crate) const DESCRIPTOR: &str = "wpkh([0c5f9a1e/84h/1h/0h]tpubDCxzhZZE31g2EqSv1UajMAw5Hd62htydz9r2XBkrccHgBh8uw3n62zr6Zjmj64tfTk8Tjxo6VctjUMAh5DXWTErfQPC6RmQhTdtNnXuTXTQ/0/*)#jgtynm6c";

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
        "a wallet was pruned from blocks that the ledger has not",
        &["UPDATE wallets SET pruned_from_height = 5, pruned_to_height = 4000 WHERE id = 1"],
        "was pruned from",
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
    case(
        "the newest blocks are forgotten",
        &["DELETE FROM recent_blocks WHERE height > 100"],
        "without a gap",
    ),
    case(
        "a block between is forgotten",
        &["DELETE FROM recent_blocks WHERE height = 101"],
        "without a gap",
    ),
    case(
        "a tip is made up",
        &["UPDATE chains SET tip_height = 2000, tip_hash = {zeros}"],
        "without a gap",
    ),
    case(
        "a block is said to be older",
        &["UPDATE blocks SET time_us = time_us - 1 WHERE height = 101"],
        "the time that is stored",
    ),
    case(
        "a label names its output in capital letters",
        &["UPDATE labels SET ref = upper(ref)"],
        "written in one form",
    ),
    case(
        "the index that lets one transaction hold an output is dropped",
        &["DROP INDEX tx_inputs_one_holder"],
        "are as the ledger made them",
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

/// The same after a keychain was added: it is number 1, its scripts are the addresses from 41 on.
const DESCRIBED: &[Case] = &[
    case(
        "a script of the keychain is somebody else's",
        &["UPDATE addresses SET script = {foreign} WHERE wallet_id = 1 AND id =
           (SELECT address_id FROM descriptor_scripts WHERE script_index = 3)"],
        "is the one that its descriptor derives",
    ),
    case(
        "the text of an address is somebody else's",
        &["UPDATE addresses SET address = 'bcrt1qother' WHERE wallet_id = 1 AND id =
           (SELECT address_id FROM descriptor_scripts WHERE script_index = 3)"],
        "the text of an address is that of its script",
    ),
    case(
        "an input seems to weigh less",
        &["UPDATE addresses SET spend_weight = 1 WHERE wallet_id = 1 AND id =
           (SELECT address_id FROM descriptor_scripts WHERE script_index = 3)"],
        "the weight of an input",
    ),
    case(
        "two scripts change places",
        &[
            "UPDATE descriptor_scripts SET script_index = 900 WHERE script_index = 3",
            "UPDATE descriptor_scripts SET script_index = 3 WHERE script_index = 4",
            "UPDATE descriptor_scripts SET script_index = 4 WHERE script_index = 900",
        ],
        "is the one that its descriptor derives",
    ),
    case(
        "an address is not watched any more",
        &["UPDATE addresses SET is_archived = 1 WHERE wallet_id = 1 AND id =
           (SELECT address_id FROM descriptor_scripts WHERE script_index = 3)"],
        "an address is watched exactly while",
    ),
    case(
        "a keychain looks less far ahead",
        &["UPDATE descriptors SET lookahead = 1"],
        "a keychain watches as far ahead",
    ),
    case(
        "a keychain is gone",
        &["DELETE FROM descriptor_scripts", "DELETE FROM descriptors"],
        "every address belongs to a keychain",
    ),
    case(
        "a descriptor is that of other keys",
        &["UPDATE descriptors SET descriptor = 'wpkh(nothing)'"],
        "the descriptor of a keychain can be read",
    ),
    case(
        "a keychain that is followed has not seen blocks",
        &["UPDATE descriptors SET unseen_from_height = 1"],
        "only what is archived",
    ),
];

/// The same on a ledger that has something in every table, see `rich`.
const RICH: &[Case] = &[
    case(
        "what a replaced payment gave way to is forgotten",
        &["DELETE FROM tx_replacements WHERE replaced_tx_id IN
           (SELECT id FROM transactions WHERE status = 2)"],
        "names the one that took them",
    ),
    case(
        "what a waiting replacement replaces is forgotten",
        &["DELETE FROM tx_replacements WHERE replacement_tx_id IN
           (SELECT id FROM transactions WHERE is_waiting = 1)"],
        "a replacement that waits knows what it replaces",
    ),
    case(
        "another payment is said to have been replaced",
        &["UPDATE tx_replacements SET replaced_tx_id = 1 WHERE replacement_tx_id IN
           (SELECT id FROM transactions WHERE is_waiting = 1)"],
        "spends an output that the replaced transaction spends",
    ),
    case(
        "a payment that was given up was ended by another one",
        &["UPDATE transactions SET invalidated_by_tx_id = 1 WHERE invalid_reason = 3"],
        "names what ended it",
    ),
    case(
        "a double spend has no winner",
        &["UPDATE transactions SET invalidated_by_tx_id = NULL WHERE invalid_reason = 2"],
        "names the one that took them",
    ),
    case(
        "a rescan goes on above the tip",
        &["UPDATE wallet_rescans SET next_height = 1000 WHERE wallet_id = 2"],
        "lacks only blocks that the ledger has passed",
    ),
    case(
        "a followed transaction has no place in its block",
        &["UPDATE transactions SET block_position = -1 WHERE block_height = 101 AND wallet_id = 1"],
        "has a position in it",
    ),
    case(
        "the earlier block of a coinbase was another one",
        &["UPDATE transactions SET earlier_height = 77 WHERE earlier_height IS NOT NULL"],
        "only a coinbase was in an earlier block",
    ),
    case(
        "a payment was in an earlier block",
        &["UPDATE transactions SET earlier_height = 100, earlier_position = 0
           WHERE block_height = 102"],
        "only a coinbase was in an earlier block",
    ),
    case(
        "a pruned transaction changes its number",
        &["UPDATE pruned_transactions SET id = id + 7 WHERE id = 2"],
        "numbered without a gap",
    ),
    case(
        "a pruned transaction is deleted",
        &["DELETE FROM pruned_transactions WHERE id = 2"],
        "numbered without a gap",
    ),
    case(
        "a descriptor loses its checksum",
        &["UPDATE descriptors SET descriptor = substr(descriptor, 1, length(descriptor) - 9)
           WHERE id = 1"],
        "in its one form, with its checksum",
    ),
    case(
        "a descriptor gets another fingerprint",
        &["UPDATE descriptors SET descriptor = replace(descriptor, '0c5f9a1e', '0c5f9a1f')
           WHERE id = 1"],
        "the descriptor of a keychain can be read",
    ),
    case(
        "a wallet is born after it was paid",
        &["UPDATE wallets SET birthday_height = 102 WHERE id = 1"],
        "below its birthday",
    ),
    case(
        "the edge lies above what was paid",
        &["UPDATE descriptors SET edge_index = 9 WHERE edge_index IS NOT NULL"],
        "the edge that payments of a keychain reached",
    ),
    case(
        "a followed block is only claimed",
        &["UPDATE blocks SET is_claimed = 1 WHERE height = 101"],
        "was followed, and is not only claimed",
    ),
    case(
        "a transaction that somebody claimed was followed",
        &["UPDATE transactions SET is_claimed = 0 WHERE block_height = 30"],
        "was followed, and is not only claimed",
    ),
    case(
        "a label names nothing",
        &["UPDATE labels SET ref = 'odd' WHERE kind = 'tx'"],
        "names something that there can be",
    ),
    case(
        "the text of an address that was added by hand is somebody else's",
        &["UPDATE addresses SET address = 'bcrt1qother' WHERE wallet_id = 1 AND is_imported = 1
           AND address IS NOT NULL"],
        "the text of an address is that of its script",
    ),
    case(
        "the ledger began later",
        &["UPDATE chains SET first_height = first_height + 1"],
        "from below the first that was followed",
    ),
];

/// Changes of the schema that leave every name in place.
const SCHEMA: &[Case] = &[
    case(
        "two transactions may hold one output",
        &[
            "DROP INDEX tx_inputs_one_holder",
            "CREATE INDEX tx_inputs_one_holder ON tx_inputs (prev_txid, prev_index, wallet_id)
             WHERE claim = 1",
        ],
        "are as the ledger made them",
    ),
    case(
        "spent coins are listed as spendable",
        &[
            "DROP VIEW spendable_utxos",
            "CREATE VIEW spendable_utxos AS SELECT u.wallet_id, u.id, u.tx_id, u.output_index,
                 u.amount, u.address_id FROM utxos u",
        ],
        "are as the ledger made them",
    ),
    case(
        "an index refuses a second coin of an address",
        &["CREATE UNIQUE INDEX refuses ON utxos (wallet_id, amount)"],
        "are as the ledger made them",
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
pub(crate) fn signed(inputs: &[OutPoint], outputs: &[(u64, Vec<u8>)]) -> NewTx {
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
        coinbase: decoded.is_coinbase,
        raw: Some(raw),
        credits: Credits::Watched,
    }
}

fn open(url: &str) -> Ledger {
    crate::scenarios::world::open(url, Limits::default()).with_codec(Arc::new(BitcoinCodec))
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
pub(crate) fn rendered(sql: &str, dialect: Dialect) -> String {
    let bytes = |digits: &str| match dialect {
        Dialect::Sqlite => format!("X'{digits}'"),
        Dialect::Postgres => format!("'\\x{digits}'"),
    };
    sql.replace("{foreign}", &bytes(&format!("0014{}", "cd".repeat(20))))
        .replace("{zeros}", &bytes(&"00".repeat(32)))
        .replace("{zero}", &bytes("00"))
}

fn assert_found(w: &World<'_>, case: &Case) {
    let mut found = Vec::new();
    for (wallet, _) in w.ledger.wallet_names(None, 100).unwrap() {
        found.extend(w.ledger.verify(wallet).unwrap());
    }
    let violation = found.iter().find(|violation| violation.rule.contains(case.rule));
    let violation = violation.unwrap_or_else(|| panic!("{}: {found:#?}", case.name));
    assert!(violation.rows > 0 && !violation.examples.is_empty(), "{violation:?}");
    assert!(violation.remedy.len() > 20, "{violation:?}");
}

/// A wallet with a keychain too.
fn described(ledger: &Ledger) -> World<'_> {
    let w = filled(ledger);
    let descriptor = NewDescriptor { lookahead: Some(10), ..NewDescriptor::new(DESCRIPTOR) };
    ledger.add_descriptor(w.wallet, &descriptor, w.now).unwrap();
    let checked = ledger.verification(w.wallet).unwrap();
    assert_eq!((checked.scripts, checked.violations), (10, vec![]));
    w
}

/// With a tip in which no wallet has a transaction.
fn at_an_empty_block(ledger: &Ledger) -> World<'_> {
    let mut w = filled(ledger);
    w.mine(&[]);
    w
}

fn each_case_is_found(url: &str, case: &Case, fill: impl Fn(&Ledger) -> World<'_>) {
    let ledger = open(url);
    let w = fill(&ledger);
    let changed = ledger.database().write(|tx: &mut Transaction<'_>| {
        for sql in case.tamper {
            let changed = tx.execute(&rendered(sql, tx.dialect()), &[])?;
            let is_definition = ["DROP", "CREATE"].iter().any(|word| sql.starts_with(word));
            assert!(changed > 0 || is_definition, "{}", case.name);
        }
        Ok::<(), SqlError>(())
    });
    changed.unwrap();
    assert_found(&w, case);
}

#[test]
fn every_tamper_is_found_on_sqlite() {
    for case in CASES {
        on_sqlite(|url| each_case_is_found(url, case, filled));
    }
    for case in DESCRIBED {
        on_sqlite(|url| each_case_is_found(url, case, described));
    }
    for case in SCHEMA {
        on_sqlite(|url| each_case_is_found(url, case, filled));
    }
    for case in RICH {
        on_sqlite(|url| each_case_is_found(url, case, rich::fill));
    }
}

#[test]
fn every_tamper_is_found_on_postgres() {
    // A database takes a second to make, and the rules are those of SQLite, word for word.
    let of_engine = |case: &Case| case.tamper[0].starts_with("DROP");
    for (at, case) in CASES.iter().enumerate() {
        if at % 4 == 0 || of_engine(case) {
            on_postgres(|url| each_case_is_found(url, case, filled));
        }
    }
    for case in DESCRIBED.iter().step_by(4) {
        on_postgres(|url| each_case_is_found(url, case, described));
    }
    on_postgres(|url| each_case_is_found(url, &SCHEMA[0], filled));
    for case in RICH.iter().step_by(8) {
        on_postgres(|url| each_case_is_found(url, case, rich::fill));
    }
}

/// A deep rollback forgets all blocks too, and its tip is one that is stored.
#[test]
fn a_tip_that_is_neither_stored_nor_remembered_is_missed() {
    let forgotten =
        case("all blocks are forgotten", &["DELETE FROM recent_blocks"], "without a gap");
    on_sqlite(|url| each_case_is_found(url, &forgotten, at_an_empty_block));
    on_postgres(|url| each_case_is_found(url, &forgotten, at_an_empty_block));
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
        let bare = crate::scenarios::world::open(url, Limits::default());
        let wallet = bare.wallet_named("one").unwrap().id;
        let checked = bare.verification(wallet).unwrap();
        assert_eq!((checked.transactions, checked.decoded), (3, 0));
    });
}

/// Nobody is paid because a row of the ledger was exchanged.
#[test]
fn an_address_that_the_descriptor_does_not_derive_is_never_handed_out() {
    on_sqlite(|url| {
        let ledger = open(url);
        let w = described(&ledger);
        let next = || ledger.reveal_next_address(w.wallet, 1, w.now);
        let first = next().unwrap();
        let change = |sql: &str| {
            let changed = ledger
                .database()
                .write(|tx: &mut Transaction<'_>| tx.execute(&rendered(sql, tx.dialect()), &[]));
            assert_eq!(changed.map_err(|error: SqlError| error).unwrap(), 1);
        };
        change(
            "UPDATE addresses SET address = 'bcrt1qother' WHERE id =
                (SELECT address_id FROM descriptor_scripts WHERE script_index = 1)",
        );
        let second = next().unwrap();
        assert!(second.address.unwrap().len() == first.address.unwrap().len());
        change(
            "UPDATE addresses SET script = {foreign} WHERE id =
                (SELECT address_id FROM descriptor_scripts WHERE script_index = 2)",
        );
        let refused = next().unwrap_err();
        assert!(matches!(refused, LedgerError::Damaged { .. }), "{refused}");
        assert_eq!(ledger.descriptors(w.wallet).unwrap()[0].next_index, 2);
        // Change would go there too.
        change("UPDATE descriptors SET keychain = 1");
        assert!(matches!(ledger.next_change(w.wallet), Err(LedgerError::Damaged { .. })));
    });
}

/// A table that is not strict takes a fraction where a whole number belongs.
#[test]
fn a_table_that_is_not_strict_any_more_is_found_and_a_fraction_in_it_is_damage() {
    on_sqlite(|url| {
        let wallet = {
            let ledger = open(url);
            filled(&ledger).wallet
        };
        let change = |sql: &str| {
            let file = url.strip_prefix("sqlite:").unwrap();
            rusqlite::Connection::open(file).unwrap().execute_batch(sql).unwrap();
        };
        change(
            "PRAGMA writable_schema = ON;
             UPDATE sqlite_schema SET sql = replace(replace(sql, ', STRICT', ''), ' STRICT', '')
                 WHERE name = 'utxos'",
        );
        let found = open(url).verify(wallet).unwrap();
        let examples: Vec<_> = found.iter().flat_map(|finding| &finding.examples).collect();
        assert_eq!(examples, ["table utxos is not as the ledger made it"]);
        change("UPDATE utxos SET amount = amount + 0.5 WHERE id = 4");
        match open(url).verify(wallet) {
            Err(LedgerError::Sql(error)) => assert!(error.is_damage(), "{error}"),
            other => panic!("{other:?}"),
        }
    });
}
