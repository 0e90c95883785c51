//! Mistakes that other indexers of Cardano made, each as a test with its name.

mod chain;
pub(crate) mod eras;

use chain::{Chain, DEVNET, EVERYTHING, key, outpoint, split, treasury};
use utxokeep_core::{
    AssetFilter, Filter, Height, IndexKey, InvalidBlock, Network,
    cardano::{Credential as CoreCredential, CredentialKind},
};
use utxokeep_index::{Applied, ApplyError, DeltaKind, IndexSettings, Paging};
use utxokeep_testkit::cardano::{
    BlockSpec, Credential, DEVNET_START, DatumSpec, Encoding, Era, OutSpec, ScriptSpec, TxSpec,
    base, enterprise, fund_of, pointer, with_trailing_bytes,
};

/// A transaction whose scripts fail, with collateral and what it gives back.
fn failing(collateral: utxokeep_testkit::cardano::TxIn, returned: Option<OutSpec>) -> TxSpec {
    TxSpec {
        inputs: vec![([0x77; 32], 0)],
        outputs: vec![OutSpec::new(&key(9), 5), OutSpec::new(&key(9), 6)],
        collateral: vec![collateral],
        collateral_return: returned,
        invalid: true,
        ..TxSpec::default()
    }
}

#[test]
fn collateral_return_spent_in_the_same_block_was_lost() {
    for as_collateral in [false, true] {
        for delta in [DeltaKind::Compact, DeltaKind::SelfContained] {
            let mut chain = Chain::with(Era::Babbage, |settings| settings.delta = delta);
            let coins = chain.mine(vec![split(1, 100)]);
            let failed = failing(coins.output(0, 0), Some(OutSpec::new(&key(2), 70)));
            let returned = (failed.id(Era::Babbage), 2);
            let consumer = if as_collateral {
                failing(returned, Some(OutSpec::new(&key(3), 30)))
            } else {
                TxSpec::new(&[returned], &[OutSpec::new(&key(3), 60)])
            };
            let block = chain.mine(vec![failed, consumer]);
            assert!(!chain.is_live(returned), "it is spent");
            assert_eq!(chain.outputs_of(&key(2)), 0, "and has no row left");
            assert_eq!(chain.outputs_of(&key(3)), 1);
            assert!(chain.is_live((block.txids[1], if as_collateral { 2 } else { 0 })));
            chain.there_and_back(2);
        }
    }
}

#[test]
fn windows_were_compared_in_slots() {
    let mut chain = Chain::new(Era::Babbage);
    let coins = chain.mine(vec![split(1, 100)]);
    chain.mine(vec![TxSpec::new(&[coins.output(0, 0)], &[OutSpec::new(&key(2), 90)])]);
    for _ in 0..19 {
        let mut spec = chain.tip().next(Era::Babbage, Vec::new());
        spec.slot += 100;
        chain.push(&spec).unwrap();
        chain.writer.prune_pass().unwrap();
    }
    // 19 blocks above the spend, nearly two thousand slots.
    assert!(!chain.is_unknown(coins.output(0, 0)), "its spent body is still there");
    assert_eq!(chain.writer.floor(), Height::new(1));
    let mut spec = chain.tip().next(Era::Babbage, Vec::new());
    spec.slot += 1;
    chain.push(&spec).unwrap();
    chain.writer.prune_pass().unwrap();
    assert!(chain.is_unknown(coins.output(0, 0)), "one block more and no rollback needs it");
    chain.there_and_back(20);
}

#[test]
fn applying_a_block_again_emptied_its_delta() {
    let mut chain = Chain::new(Era::Babbage);
    let coins = chain.mine(vec![split(1, 100)]);
    let spend = chain.mine(vec![TxSpec::new(&[coins.output(0, 0)], &[OutSpec::new(&key(2), 90)])]);
    let again = chain.decode(&spend);
    assert_eq!(chain.writer.apply(&again).unwrap(), Applied::AlreadyKnown(Height::new(2)));
    chain.there_and_back(2);

    let other = coins.next(Era::Babbage, vec![split(4, 1)]).build();
    let error = chain.writer.apply(&chain.decode(&other)).unwrap_err();
    assert!(matches!(error, ApplyError::Conflict { height, .. } if height == Height::new(2)));
}

#[test]
fn asset_filter_was_applied_after_paging_and_order_was_ignored() {
    let mut chain = Chain::new(Era::Babbage);
    let (gold, silver) = ([0xaa; 28], [0xbb; 28]);
    let with = |policy: [u8; 28], name: &[u8]| OutSpec {
        assets: vec![(policy, name.to_vec(), 3)],
        ..OutSpec::new(&key(1), 10)
    };
    let mut outputs: Vec<_> = (0..30).map(|_| OutSpec::new(&key(1), 10)).collect();
    outputs.extend((0..5).map(|_| with(gold, b"a\0b")));
    outputs.extend((0..30).map(|_| with(silver, b"")));
    outputs.extend((0..5).map(|_| with(gold, b"other")));
    chain.mine(vec![TxSpec::new(&[fund_of(&treasury())], &outputs)]);
    let owner = IndexKey::address(DEVNET, &key(1));
    let view = chain.index.view().unwrap();
    let all = AssetFilter { policy: gold, name: None };
    let one = AssetFilter { policy: gold, name: Some(b"a\0b".to_vec()) };
    let mut paging = Paging { limit: 4, ..EVERYTHING };
    let mut lengths = Vec::new();
    let mut found = Vec::new();
    loop {
        let page = view.owner_utxos(owner, paging, Some(&all)).unwrap();
        lengths.push(page.utxos.len());
        found.extend(page.utxos.iter().map(|utxo| utxo.outpoint.index()));
        let Some(next) = page.next else { break };
        paging.after = Some(next);
    }
    assert_eq!(lengths, [4, 4, 2], "pages are full while there are more");
    assert_eq!(found, [30, 31, 32, 33, 34, 65, 66, 67, 68, 69]);
    let newest = Paging { limit: 1, reverse: true, ..EVERYTHING };
    let page = view.owner_utxos(owner, newest, Some(&one)).unwrap();
    assert_eq!(page.utxos[0].outpoint.index(), 34);
    let few = Paging { limit: 1, scan_rows_max: 29, ..EVERYTHING };
    let page = view.owner_utxos(owner, few, Some(&one)).unwrap();
    assert!(page.utxos.is_empty(), "nothing among the rows it may look at");
    let page = view.owner_utxos(owner, Paging { after: page.next, ..few }, Some(&one)).unwrap();
    assert_eq!(page.utxos[0].outpoint.index(), 30, "but it can go on from there");

    let balance = view.owner_balance(owner, u64::MAX).unwrap();
    assert_eq!((balance.utxos, balance.value), (70, 700));
    let sums: Vec<_> = balance.assets.into_iter().map(|((_, name), sum)| (name, sum)).collect();
    let expected = [(b"a\0b".to_vec(), 15), (b"other".to_vec(), 15), (Vec::new(), 90)];
    assert_eq!(sums, expected);
}

#[test]
fn an_address_hash_hit_the_rows_of_a_credential() {
    let mut chain = Chain::new(Era::Babbage);
    chain.mine(vec![split(1, 10)]);
    let address = IndexKey::address(DEVNET, &key(1));
    let hash = *address.key.as_bytes();
    for kind in [CredentialKind::Key, CredentialKind::Script] {
        let credential = CoreCredential { kind, hash };
        for owner in [IndexKey::payment(&credential), IndexKey::stake(&credential)] {
            assert_eq!(chain.page(&owner).utxos.len(), 0, "{owner:?}");
        }
    }
    assert_eq!(chain.page(&address).utxos.len(), 10);
}

#[test]
fn addresses_that_share_a_payment_key_were_mixed_up() {
    let mut chain = Chain::new(Era::Babbage);
    let payment = [5; 28];
    let of_key = [
        base(0, Credential::Key(payment), Credential::Key([6; 28])),
        base(0, Credential::Key(payment), Credential::Script([6; 28])),
        pointer(0, Credential::Key(payment), [1, 2, 3]),
        enterprise(0, Credential::Key(payment)),
    ];
    let of_script = enterprise(0, Credential::Script(payment));
    let mut outputs: Vec<_> = of_key.iter().map(|address| OutSpec::new(address, 1)).collect();
    outputs.push(OutSpec::new(&of_script, 1));
    chain.mine(vec![TxSpec::new(&[fund_of(&treasury())], &outputs)]);
    for address in of_key.iter().chain([&of_script]) {
        assert_eq!(chain.outputs_of(address), 1);
    }
    let by = |kind, hash| CoreCredential { kind, hash };
    let page = chain.page(&IndexKey::payment(&by(CredentialKind::Key, payment)));
    let found: Vec<_> = page.utxos.into_iter().map(|utxo| utxo.address).collect();
    assert_eq!(found, of_key, "every row carries its address");
    let scripts = chain.page(&IndexKey::payment(&by(CredentialKind::Script, payment)));
    assert_eq!(scripts.utxos.len(), 1);
    let staked = chain.page(&IndexKey::stake(&by(CredentialKind::Key, [6; 28])));
    assert_eq!(staked.utxos[0].address, of_key[0]);
    assert_eq!(staked.utxos.len(), 1);
    chain.there_and_back(1);
}

#[test]
fn outputs_of_a_failed_transaction_were_indexed() {
    let mut chain = Chain::new(Era::Babbage);
    let coins = chain.mine(vec![split(1, 100)]);
    let failed = failing(coins.output(0, 0), Some(OutSpec::new(&key(2), 70)));
    let block = chain.mine(vec![failed]);
    assert_eq!(chain.outputs_of(&key(9)), 0, "nobody is paid by it");
    assert!(chain.is_unknown(block.output(0, 0)) && chain.is_unknown(block.output(0, 1)));
    assert!(!chain.is_live(coins.output(0, 0)), "the collateral is gone");
    let page = chain.page(&IndexKey::address(DEVNET, &key(2)));
    assert_eq!(page.utxos[0].outpoint, outpoint(block.output(0, 2)), "at index = outputs");
    assert!(page.utxos[0].details.is_collateral_return);
    chain.there_and_back(1);
}

#[test]
fn a_failed_transaction_without_collateral_return_crashed() {
    for era in [Era::Alonzo, Era::Babbage, Era::Conway] {
        let mut chain = Chain::new(era);
        let coins = chain.mine(vec![split(1, 100)]);
        let mut failed = failing(coins.output(0, 3), None);
        failed.inputs = vec![coins.output(0, 4)];
        chain.mine(vec![failed]);
        assert!(!chain.is_live(coins.output(0, 3)) && chain.is_live(coins.output(0, 4)));
        assert_eq!(chain.outputs_of(&key(1)), 9);
        chain.there_and_back(1);
    }
}

#[test]
fn collateral_and_reference_inputs_of_a_valid_transaction_were_spent() {
    let mut chain = Chain::new(Era::Conway);
    let coins = chain.mine(vec![split(1, 100)]);
    let tx = TxSpec {
        collateral: vec![coins.output(0, 1)],
        collateral_return: Some(OutSpec::new(&key(3), 50)),
        // Both read and spent: the ledger allowed it in Babbage.
        reference_inputs: vec![coins.output(0, 2), coins.output(0, 0)],
        style: Encoding { indefinite: true, tagged_sets: true, odd_key_order: true },
        ..TxSpec::new(&[coins.output(0, 0)], &[OutSpec::new(&key(2), 90)])
    };
    chain.mine(vec![tx]);
    assert!(!chain.is_live(coins.output(0, 0)));
    assert!(chain.is_live(coins.output(0, 1)) && chain.is_live(coins.output(0, 2)));
    assert_eq!((chain.outputs_of(&key(2)), chain.outputs_of(&key(3))), (1, 0));
    chain.there_and_back(1);
}

#[test]
fn a_repeated_input_was_a_double_spend() {
    let mut chain = Chain::new(Era::Babbage);
    let coins = chain.mine(vec![split(1, 100)]);
    let coin = coins.output(0, 0);
    chain.mine(vec![TxSpec::new(&[coin, coin], &[OutSpec::new(&key(2), 90)])]);
    assert!(!chain.is_live(coin));

    let twice = [TxSpec::new(&[coins.output(0, 1)], &[]), TxSpec::new(&[coins.output(0, 1)], &[])];
    let spec = chain.tip().next(Era::Babbage, twice.to_vec());
    let error = chain.push(&spec).unwrap_err();
    assert!(matches!(
        error,
        ApplyError::Invalid { reason: InvalidBlock::MissingOrSpent { .. }, .. }
    ));
    chain.verify();
}

#[test]
fn a_malformed_address_stopped_a_block() {
    let mut chain = Chain::new(Era::Alonzo);
    let whole = base(0, Credential::Key([5; 28]), Credential::Key([6; 28]));
    let long = with_trailing_bytes(&whole, &[0; 22]);
    let nowhere = pointer(0, Credential::Key([7; 28]), [u64::MAX, 1, 1]);
    let short = vec![0x41, 1, 2];
    let odd: [&[u8]; 5] = [&whole, &long, &nowhere, &short, &[]];
    let outputs: Vec<_> = odd.iter().map(|address| OutSpec::new(address, 7)).collect();
    let block = chain.mine(vec![TxSpec::new(&[fund_of(&treasury())], &outputs)]);
    assert_eq!(chain.outputs_of(&whole), 2, "found by what the ledger sees");
    assert_eq!(chain.outputs_of(&long), 2);
    let page = chain.page(&IndexKey::address(DEVNET, &whole));
    assert_eq!(page.utxos[1].address, long, "kept as it is on chain");
    let cropped = pointer(0, Credential::Key([7; 28]), [0, 0, 0]);
    assert_eq!(chain.outputs_of(&cropped), 1);
    assert_eq!(chain.outputs_of(&short), 1);
    assert!((0..5).all(|index| chain.is_live(block.output(0, index))));
    chain.there_and_back(1);
}

#[test]
fn zero_quantities_were_kept_and_datums_encoded_anew() {
    let mut chain = Chain::new(Era::Babbage);
    // A list written with a break: its hash differs from that of the shortest form.
    let datum = vec![0x9f, 0x01, 0xff];
    let script = ScriptSpec::PlutusV2(vec![1, 2, 3]);
    let output = OutSpec {
        assets: vec![
            ([2; 28], b"z".to_vec(), 0),
            ([1; 28], b"b".to_vec(), 4),
            ([1; 28], b"a".to_vec(), 1),
        ],
        datum: Some(DatumSpec::Inline(datum.clone())),
        script: Some(script.clone()),
        ..OutSpec::new(&key(1), 9)
    };
    chain.mine(vec![TxSpec::new(&[fund_of(&treasury())], &[output])]);
    let page = chain.page(&IndexKey::address(DEVNET, &key(1)));
    let details = &page.utxos[0].details;
    let expected = [(([1; 28], b"a".to_vec()), 1), (([1; 28], b"b".to_vec()), 4)];
    assert_eq!(details.assets, expected);
    assert_eq!(details.inline_datum.as_deref(), Some(datum.as_slice()));
    assert_eq!(details.script_hash, Some(script.hash()));
    chain.there_and_back(1);
}

#[test]
fn an_index_started_mid_chain_counts_what_it_never_saw() {
    let mut whole = Chain::new(Era::Babbage);
    let coins = whole.mine(vec![split(1, 100)]);
    let middle = whole.mine(vec![TxSpec::new(&[coins.output(0, 0)], &[OutSpec::new(&key(2), 1)])]);
    let own = TxSpec::new(&[middle.output(0, 0), coins.output(0, 1)], &[OutSpec::new(&key(3), 2)]);
    let after = whole.mine(vec![own]);

    let settings = whole.index.settings().clone();
    let strict = utxokeep_index::ChainIndex::open(
        utxokeep_kv::MemoryKv::new(utxokeep_index::tables::TABLES),
        settings.clone(),
    );
    let mut strict = utxokeep_index::ChainWriter::new(strict.unwrap()).unwrap();
    let error = strict.apply(&whole.decode(&middle)).unwrap_err();
    assert!(matches!(error, ApplyError::NotFirst { .. }), "{error}");

    let settings = settings.with(|settings| settings.may_start_mid_chain = true);
    let kv = utxokeep_kv::MemoryKv::new(utxokeep_index::tables::TABLES);
    let index = utxokeep_index::ChainIndex::open(kv, settings).unwrap();
    let mut writer = utxokeep_index::ChainWriter::new(index.clone()).unwrap();
    for built in [&middle, &after] {
        writer.apply(&whole.decode(built)).unwrap();
    }
    let status = index.status().unwrap();
    assert_eq!(status.started_mid_chain_at, Some(Height::new(2)));
    assert_eq!(status.missing_inputs, 2);
    assert_eq!(status.totals.unwrap().txouts, 1);
    assert_eq!(status.rollback_floor, Some(Height::new(2)), "nothing is known of what was before");
    assert!(index.verify(&mut |_, _| {}).unwrap().is_clean());
    writer.rollback(Height::new(2)).unwrap();
    assert_eq!(index.status().unwrap().missing_inputs, 1, "exact after rollbacks");
    assert!(writer.rollback(Height::new(1)).is_err());
}

#[test]
fn a_filter_keeps_its_owners_and_nothing_else() {
    let kept = [5; 28];
    let credential = CoreCredential { kind: CredentialKind::Key, hash: kept };
    let owners = [IndexKey::payment(&credential), IndexKey::address(DEVNET, &key(1))];
    let mut chain = Chain::with(Era::Babbage, |settings| settings.filter = Filter::new(owners));
    assert_eq!(chain.index.status().unwrap().totals.unwrap().txouts, 0);
    let coins = chain.mine(vec![split(1, 100)]);
    let both = [
        OutSpec::new(&base(0, Credential::Key(kept), Credential::Key([6; 28])), 10),
        OutSpec::new(&key(2), 10),
    ];
    let first = TxSpec::new(&[coins.output(0, 0)], &both);
    let unkept = (first.id(Era::Babbage), 1);
    let block = chain.mine(vec![first, TxSpec::new(&[unkept], &[OutSpec::new(&key(1), 5)])]);
    assert!(chain.is_live(block.output(0, 0)) && chain.is_not_kept(unkept));
    assert_eq!(chain.outputs_of(&key(1)), 10);
    let status = chain.index.status().unwrap();
    assert_eq!((status.filter_entries, status.missing_inputs), (2, 0));
    chain.there_and_back(2);
    let spec = BlockSpec { slot: 900, ..chain.tip().next(Era::Babbage, Vec::new()) };
    chain.push(&spec).unwrap();
    assert_eq!(chain.height(), Height::new(3));
}

#[test]
fn a_missing_input_in_the_first_block_is_no_mid_chain_start() {
    let chain = Chain::new(Era::Babbage);
    let settings = chain.index.settings().clone();
    let kv = utxokeep_kv::MemoryKv::new(utxokeep_index::tables::TABLES);
    let index = utxokeep_index::ChainIndex::open(kv, settings).unwrap();
    let mut writer = utxokeep_index::ChainWriter::new(index).unwrap();
    let spend = TxSpec::new(&[([9; 32], 0)], &[OutSpec::new(&key(1), 1)]);
    let block = chain.decode(&BlockSpec::first(Era::Babbage, vec![spend]).build());
    let error = writer.apply(&block).unwrap_err();
    assert!(matches!(
        error,
        ApplyError::Invalid { reason: InvalidBlock::MissingOrSpent { .. }, .. }
    ));
}

#[test]
fn a_log_that_starts_mid_chain_is_undone_down_to_its_first_block() {
    let mut whole = Chain::new(Era::Babbage);
    let built: Vec<_> = (0..5).map(|_| whole.mine(Vec::new())).collect();
    let settings = whole.index.settings().clone().with(|settings| {
        settings.enabled = false;
        settings.may_start_mid_chain = true;
    });
    let tables = &utxokeep_index::tables::TABLES[..utxokeep_index::tables::LOG_TABLES];
    let index =
        utxokeep_index::ChainIndex::open(utxokeep_kv::MemoryKv::new(tables), settings).unwrap();
    let mut writer = utxokeep_index::ChainWriter::new(index.clone()).unwrap();
    for built in &built[2..] {
        writer.apply(&whole.decode(built)).unwrap();
    }
    drop(writer);
    let mut writer = utxokeep_index::ChainWriter::new(index).unwrap();
    assert!(writer.rollback(Height::new(2)).is_err(), "refused whole");
    assert_eq!(writer.tip().unwrap().height, Height::new(5));
    assert_eq!(writer.rollback(Height::new(3)).unwrap(), 2);
}

#[test]
fn spent_outputs_were_deleted_at_once() {
    let mut chain = Chain::new(Era::Babbage);
    let coins = chain.mine(vec![split(1, 100)]);
    let block = chain.mine(vec![TxSpec::new(&[coins.output(0, 0)], &[OutSpec::new(&key(2), 9)])]);
    while chain.writer.prune_pass().unwrap().more {}
    let spent = chain.index.view().unwrap().utxo(outpoint(coins.output(0, 0))).unwrap().unwrap();
    let by = spent.spent.unwrap();
    assert_eq!(by.txid.as_bytes(), &block.txids[0]);
    assert_eq!((by.block.slot, by.epoch, by.time), (2, Some(0), DEVNET_START + 2));
    chain.there_and_back(1);
}

#[test]
fn pruning_scanned_the_table_of_spent_outputs() {
    let mut chain = Chain::with(Era::Babbage, |settings| settings.prune_rows_max = 3);
    let mut coins = chain.mine(vec![split(1, 100)]);
    for _ in 0..40 {
        let spends: Vec<_> = (0..2).map(|index| coins.output(0, index)).collect();
        let outputs = [OutSpec::new(&key(1), 1), OutSpec::new(&key(1), 1)];
        coins = chain.mine(vec![TxSpec::new(&spends, &outputs)]);
        let report = chain.writer.prune_pass().unwrap();
        // A pass deletes what the deltas that are due list: two outputs per block, never more
        // than its limit, and nothing while nothing is due.
        assert!(report.spent_deleted <= 3, "{report:?}");
        let is_due = chain.height() > Height::new(20);
        assert_eq!(report.deltas_deleted > 0, is_due, "{report:?} at {}", chain.height());
    }
    chain.verify();
}

#[test]
fn asset_names_with_zero_bytes_and_long_byron_addresses_broke_the_store() {
    let mut chain = Chain::new(Era::Babbage);
    let long = {
        let mut inner = vec![0x83, 0x58, 28];
        inner.extend([5; 28]);
        // An attribute of two thousand bytes.
        inner.extend([0xa1, 0x01, 0x59, 0x07, 0xd0]);
        inner.extend([0; 2_000]);
        inner.push(0);
        let mut address = vec![0x82, 0xd8, 24, 0x59];
        address.extend(u16::try_from(inner.len()).unwrap().to_be_bytes());
        address.extend(inner);
        address.push(0);
        address
    };
    let output = OutSpec { assets: vec![([1; 28], vec![0, 0, 0xff], 7)], ..OutSpec::new(&long, 9) };
    chain.mine(vec![TxSpec::new(&[fund_of(&treasury())], &[output])]);
    let page = chain.page(&IndexKey::address(DEVNET, &long));
    assert_eq!(page.utxos[0].address, long);
    assert_eq!(page.utxos[0].details.assets, [(([1; 28], vec![0, 0, 0xff]), 7)]);
    chain.there_and_back(1);
}

/// From Shelley on the first block of a chain names no parent: it could be of any network.
#[test]
fn the_first_block_of_another_network_started_a_chain() {
    for network in [Network::CardanoMainnet, Network::CardanoPreprod, Network::CardanoPreview] {
        let settings =
            IndexSettings::new(network).with(|settings| settings.may_start_mid_chain = true);
        let kv = utxokeep_kv::MemoryKv::new(utxokeep_index::tables::TABLES);
        let index = utxokeep_index::ChainIndex::open(kv, settings).unwrap();
        let mut writer = utxokeep_index::ChainWriter::new(index.clone()).unwrap();
        let built = BlockSpec::first(Era::Babbage, Vec::new()).build();
        let block = index.settings().decoder.decode(built.raw).unwrap();
        let error = writer.apply(&block).unwrap_err();
        assert!(matches!(error, ApplyError::NotFirst { .. }), "{network}: {error}");
    }
}
