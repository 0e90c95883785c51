//! Labels by the text of BIP-329: what a record leaves out is not altered, one bad line does not
//! refuse a file, and what one program exported another can import.

use utxokeep_core::{OutPoint, wallet::BadLabel};
use utxokeep_wallet::{Imported, Label, LabelKind, LedgerError, migrate, unmigrate};

use crate::scenarios::world::{NETWORK, World, out, outside, pay};

crate::scenarios::on_both!(
    labels_of_the_bip_travel,
    a_record_without_label_or_spendable_alters_neither,
    one_bad_line_does_not_refuse_a_file,
    long_labels_are_cut_and_reported,
    one_thing_has_one_label_however_it_is_written,
    two_wallets_label_one_transaction,
    later_lines_win_field_by_field,
    freezing_needs_an_output_and_keeps_its_text,
    labels_in_capitals_survive_an_upgrade,
);

const TXID: &str = "f91d0a8a78462bc59398f2c5d7a84fcff491c26ba54c4833478b202796c8aafd";

fn import(w: &World<'_>, lines: &[String]) -> Imported {
    let imported = w.ledger.import_labels(w.wallet, lines.join("\n"), w.now).unwrap();
    w.check();
    imported
}

fn export(w: &World<'_>) -> String {
    w.ledger.export_labels(w.wallet, None, 100).unwrap().0
}

fn name_of(output: &OutPoint) -> String {
    format!("{}:{}", output.txid().to_reversed_hex(), output.index())
}

/// A coin with a text, which must not be spent.
fn frozen_coin(w: &mut World<'_>) -> String {
    let funding = pay(1, &[outside(1)], &[10_000]);
    w.mine(&[&funding]);
    let name = name_of(&out(&funding, 0));
    let line = format!(r#"{{"type":"output","ref":"{name}","label":"cold","spendable":false}}"#);
    import(w, &[line]);
    assert_eq!(state(w, &name), (Some("cold".to_owned()), Some(false)));
    name
}

fn state(w: &World<'_>, reference: &str) -> (Option<String>, Option<bool>) {
    let all = w.ledger.labels(w.wallet, None, 100).unwrap();
    let found = all.into_iter().find(|label| label.reference == reference);
    found.map_or((None, None), |label| (label.label, label.spendable))
}

fn is_frozen(w: &World<'_>) -> bool {
    w.coins().iter().any(|coin| !coin.spendable)
}

fn labels_of_the_bip_travel(w: &mut World<'_>) {
    let xpub = "xpub661MyMwAqRbcFtXgS5sYJABqqG9YLmC4Q1Rdap9gSE8NqtwybGhePY2gZ29ESFjqJoCu1Rupje8YtGqsefD265TMg7usUDFdp6W1EGMcet8";
    let key = "0283409659355b6d1cc3c32decd5d561abaac86c37a353b52895a5e6c196d6f448";
    let lines = [
        r#"{"type":"addr","ref":"bc1q34aq5drpuwy3wgl9lhup9892qp6svr8ldzyy7c","label":"Address"}"#
            .to_owned(),
        format!(r#"{{"type":"input","ref":"{TXID}:0","label":"Input"}}"#),
        format!(r#"{{"type":"output","ref":"{TXID}:1","label":"Output","spendable":false}}"#),
        format!(r#"{{"type":"pubkey","ref":"{key}","label":"Public Key"}}"#),
        format!(
            r#"{{"type":"tx","ref":"{TXID}","label":"Transaction","origin":"wpkh([d34db33f/84'/0'/0'])"}}"#
        ),
        format!(r#"{{"type":"xpub","ref":"{xpub}","label":"Extended Public Key"}}"#),
    ];
    let imported = import(w, &lines);
    assert_eq!((imported.imported, imported.skipped), (6, 0), "{:?}", imported.notes);
    assert_eq!(export(w), format!("{}\n", lines.join("\n")));
    let two = w.ledger.create_wallet("two", NETWORK, w.now).unwrap().id;
    w.ledger.import_labels(two, export(w), w.now).unwrap();
    assert_eq!(w.ledger.labels(two, None, 100).unwrap().len(), 6);
    // Page by page the same, also where one transaction has several labels.
    import(w, &[format!(r#"{{"type":"tx","ref":"{TXID}","label":"mine"}}"#)]);
    let (mut pages, mut after) = (String::new(), None);
    loop {
        let (page, last) = w.ledger.export_labels(w.wallet, after.as_ref(), 1).unwrap();
        pages.push_str(&page);
        let Some(last) = last else { break };
        after = Some(last);
    }
    assert_eq!(pages, export(w));
    // Fields that later versions of the format have are for others.
    let more =
        format!(r#"{{"type":"tx","ref":"{TXID}","label":"x","fee":12,"rate":{{"USD":1.5}}}}"#);
    assert_eq!(import(w, &[more]).imported, 1);
}

fn a_record_without_label_or_spendable_alters_neither(w: &mut World<'_>) {
    let name = frozen_coin(w);
    let bare = format!(r#"{{"type":"output","ref":"{name}"}}"#);
    let null = format!(r#"{{"type":"output","ref":"{name}","label":null,"spendable":null}}"#);
    import(w, &[bare, null]);
    assert_eq!(state(w, &name), (Some("cold".to_owned()), Some(false)));
    import(w, &[format!(r#"{{"type":"output","ref":"{name}","label":"colder"}}"#)]);
    assert_eq!(state(w, &name), (Some("colder".to_owned()), Some(false)));
    assert!(is_frozen(w));
    import(w, &[format!(r#"{{"type":"output","ref":"{name}","label":""}}"#)]);
    assert_eq!(state(w, &name), (None, Some(false)));
    assert!(is_frozen(w), "an empty text clears the text, not the wish");
    import(w, &[format!(r#"{{"type":"output","ref":"{name}","label":"warm"}}"#)]);
    import(w, &[format!(r#"{{"type":"output","ref":"{name}","spendable":true}}"#)]);
    assert_eq!(state(w, &name), (Some("warm".to_owned()), Some(true)));
    assert!(!is_frozen(w));
}

fn one_bad_line_does_not_refuse_a_file(w: &mut World<'_>) {
    let good = |at: u8| {
        format!(r#"{{"type":"tx","ref":"{}","label":"t{at}"}}"#, TXID.replace('9', &at.to_string()))
    };
    let mut file = b"\xef\xbb\xbf".to_vec();
    let lines = [
        good(1),
        "nonsense".to_owned(),
        String::new(),
        r#"{"type":"tx"}"#.to_owned(),
        r#"{"type":"tx","ref":"aa","label":"short"}"#.to_owned(),
        "null".to_owned(),
        r#"{"type":"planet","ref":["x"]}"#.to_owned(),
        format!(r#"{{"type":"output","ref":"{TXID}:0","spendable":"false"}}"#),
        format!(r#"{{"type":"tx","ref":"{TXID}","label":"a\u0000b"}}"#),
        format!(r#"{{"type":"tx","ref":"{TXID}","label":"kept","spendable":true}}"#),
        r#"{"type":"xpub","ref":"xprv9s21ZrQH143K3QTDL4LXw2F7HEK3","label":"oh no"}"#.to_owned(),
    ];
    file.extend(lines.join("\r\n").bytes());
    file.extend(b"\n\xff\xfe\n");
    file.extend(good(2).bytes());
    let imported = w.ledger.import_labels(w.wallet, &file, w.now).unwrap();
    assert_eq!((imported.imported, imported.ignored, imported.skipped), (3, 1, 8));
    let noted: Vec<usize> = imported.notes.iter().map(|note| note.line).collect();
    assert_eq!(noted, [2, 4, 5, 6, 8, 9, 10, 11, 12]);
    assert!(imported.notes.iter().all(|note| !note.what.contains("xprv")), "{imported:?}");
    assert_eq!(w.ledger.labels(w.wallet, None, 100).unwrap().len(), 3);
    // Remarks have an end, and the count of lines has none.
    let many = w.ledger.import_labels(w.wallet, "x\n".repeat(500), w.now).unwrap();
    assert_eq!((many.skipped, many.notes.len()), (500, 100));
}

fn long_labels_are_cut_and_reported(w: &mut World<'_>) {
    let long = "é".repeat(501);
    let imported = import(w, &[format!(r#"{{"type":"tx","ref":"{TXID}","label":"{long}"}}"#)]);
    assert_eq!((imported.imported, imported.truncated, imported.skipped), (1, 1, 0));
    assert_eq!(imported.notes[0].line, 1);
    assert_eq!(state(w, TXID).0.unwrap(), "é".repeat(500));
}

fn one_thing_has_one_label_however_it_is_written(w: &mut World<'_>) {
    let capital = TXID.to_uppercase();
    let lines = [
        format!(r#"{{"type":"tx","ref":"{TXID}","label":"small"}}"#),
        format!(r#"{{"type":"tx","ref":"{capital}","label":"capital"}}"#),
        format!(r#"{{"type":"input","ref":"{capital}:01","label":"in"}}"#),
        format!(r#"{{"type":"input","ref":"{TXID}:1","label":"in"}}"#),
        r#"{"type":"addr","ref":"BC1Q34AQ5DRPUWY3WGL9LHUP9892QP6SVR8LDZYY7C","label":"a"}"#
            .to_owned(),
        r#"{"type":"addr","ref":"bc1q34aq5drpuwy3wgl9lhup9892qp6svr8ldzyy7c","label":"a"}"#
            .to_owned(),
    ];
    import(w, &lines);
    assert_eq!(w.ledger.labels(w.wallet, None, 100).unwrap().len(), 3);
    let text = w.ledger.label(w.wallet, LabelKind::Tx, &capital).unwrap();
    assert_eq!(text.as_deref(), Some("capital"));
    let wrong = Label {
        kind: LabelKind::Tx,
        reference: "bb".to_owned(),
        label: Some("x".to_owned()),
        origin: None,
        spendable: None,
    };
    let refused = w.ledger.set_label(w.wallet, &wrong, w.now);
    assert!(matches!(refused, Err(LedgerError::BadLabel(BadLabel::Txid))));
    let wish = Label { reference: TXID.to_owned(), spendable: Some(true), ..wrong };
    let refused = w.ledger.set_label(w.wallet, &wish, w.now);
    assert!(matches!(refused, Err(LedgerError::BadLabel(BadLabel::NotAnOutput))));
}

fn two_wallets_label_one_transaction(w: &mut World<'_>) {
    let line = |label: &str, account: u8| {
        let origin = format!("wpkh([d34db33f/84'/0'/{account}'])");
        format!(r#"{{"type":"tx","ref":"{TXID}","label":"{label}","origin":"{origin}"}}"#)
    };
    let shown = |w: &World<'_>| w.ledger.label(w.wallet, LabelKind::Tx, TXID).unwrap().unwrap();
    import(w, &[line("to savings", 0), line("from checking", 1)]);
    assert_eq!(export(w).lines().count(), 2, "the origin keeps them apart");
    assert_eq!(shown(w), "to savings");
    import(w, &[line("saved", 1)]);
    assert_eq!(export(w).lines().count(), 2);
    // What this wallet says of it itself comes first, and changes nobody else's label.
    import(w, &[format!(r#"{{"type":"tx","ref":"{TXID}","label":"own"}}"#)]);
    assert_eq!((shown(w).as_str(), export(w).lines().count()), ("own", 3));
    import(w, &[format!(r#"{{"type":"tx","ref":"{TXID}","label":""}}"#)]);
    assert_eq!((shown(w).as_str(), export(w).lines().count()), ("to savings", 2));
}

fn later_lines_win_field_by_field(w: &mut World<'_>) {
    let name = frozen_coin(w);
    import(
        w,
        &[
            format!(r#"{{"type":"output","ref":"{name}","label":"one","spendable":true}}"#),
            format!(r#"{{"type":"output","ref":"{name}","label":"two"}}"#),
            format!(r#"{{"type":"output","ref":"{name}","spendable":false}}"#),
        ],
    );
    assert_eq!(state(w, &name), (Some("two".to_owned()), Some(false)));
    assert!(is_frozen(w));
}

fn freezing_needs_an_output_and_keeps_its_text(w: &mut World<'_>) {
    let name = frozen_coin(w);
    let output = w.outpoints()[0];
    w.ledger.set_spendable(w.wallet, &output, true, w.now).unwrap();
    w.check();
    assert!(!is_frozen(w));
    w.ledger.set_spendable(w.wallet, &output, false, w.now).unwrap();
    w.check();
    assert!(is_frozen(w));
    assert_eq!(state(w, &name), (Some("cold".to_owned()), Some(false)));
    let unknown = outside(9);
    for spendable in [true, false] {
        let refused = w.ledger.set_spendable(w.wallet, &unknown, spendable, w.now);
        assert!(matches!(refused, Err(LedgerError::UtxoNotFound(_))));
    }
}

fn labels_in_capitals_survive_an_upgrade(w: &mut World<'_>) {
    let name = frozen_coin(w);
    unmigrate(w.ledger.database(), 3).unwrap();
    let write = |kind: &str, reference: &str, label: &str| {
        let sql = format!(
            "INSERT INTO labels (wallet_id, kind, ref, label) VALUES (1, '{kind}', '{reference}', '{label}')"
        );
        w.ledger.database().write(|tx| tx.execute(&sql, &[])).unwrap();
    };
    let capital = TXID.to_uppercase();
    write("tx", &capital, "lonely");
    write("input", &format!("{capital}:0"), "in capitals");
    write("input", &format!("{TXID}:0"), "in small letters");
    migrate(w.ledger.database(), w.now).unwrap();
    w.check();
    let shown = |kind, reference: &str| w.ledger.label(w.wallet, kind, reference).unwrap();
    assert_eq!(shown(LabelKind::Tx, TXID).as_deref(), Some("lonely"));
    assert_eq!(shown(LabelKind::Input, &format!("{TXID}:0")).as_deref(), Some("in small letters"));
    assert_eq!(export(w).lines().count(), 4, "no label is lost");
    assert_eq!(state(w, &name), (Some("cold".to_owned()), Some(false)));
}
