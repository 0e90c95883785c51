//! What Bitcoin Core and electrs answered about real chains, question by question.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::OnceLock,
};

use utxokeep_chains::{
    BlockFiles, BlockList, BlockSource, ScanOptions, decode_block, decode_header,
};
use utxokeep_core::{
    BlockHash, Height, IndexKey, Network, OutPoint, Txid, Window, hex_decode, hex_encode,
};
use utxokeep_index::{
    Applied, ApplyError, ChainIndex, ChainWriter, Follower, IndexSettings, Paging, View,
    import_files,
    tables::ids::{SIDE, SIDE_BODY},
};
use utxokeep_kv::Read;
use utxokeep_testkit::{Archive, MainnetTruth, RegtestA, Snapshot, sat, testdata};

use crate::common::{
    self, InMemory, IndexPlace, MemoryEngine, REGTEST, assert_clean, assert_same, dump, fresh,
};

/// The final chain with every height of it inside the window.
fn whole_chain() -> &'static ChainIndex<MemoryEngine> {
    static INDEX: OnceLock<ChainIndex<MemoryEngine>> = OnceLock::new();
    INDEX.get_or_init(|| {
        let data = RegtestA::default();
        let index = InMemory::default().open(common::settings(400));
        let writer = ChainWriter::new(index.clone()).unwrap();
        import_files(writer, &data.block_files(), true, &mut |_| true).unwrap();
        index
    })
}

fn txid(text: &str) -> Txid {
    Txid::from_reversed_hex(text).unwrap()
}

const EVERYTHING: Paging =
    Paging { after: None, skip: 0, limit: 1_000_000, reverse: false, scan_rows_max: u64::MAX };

#[test]
fn every_script_of_scantxoutset_has_the_nodes_outputs() {
    let truth = RegtestA::default().scan_tx_out_set();
    let view = whole_chain().view().unwrap();
    assert_eq!(view.point().unwrap().height, Height::new(truth.height));
    assert_eq!(truth.scripts.len(), 300);
    for (script, outputs) in &truth.scripts {
        let key = IndexKey::address(REGTEST, &hex_decode(script).unwrap());
        let page = view.owner_utxos(key, EVERYTHING, None).unwrap();
        let ours: BTreeSet<_> = page
            .utxos
            .iter()
            .map(|utxo| {
                assert_eq!(hex_encode(&utxo.address), *script);
                let height = utxo.created.height.get();
                (utxo.outpoint, utxo.value, height, utxo.is_coinbase)
            })
            .collect();
        let theirs: BTreeSet<_> = outputs
            .iter()
            .map(|(id, index, amount, height, is_coinbase)| {
                (OutPoint::new(txid(id), *index), sat(amount), *height, *is_coinbase)
            })
            .collect();
        assert_eq!(ours, theirs, "outputs of {script}");
        let balance = view.owner_balance(key, u64::MAX).unwrap();
        let sum: u128 = theirs.iter().map(|(_, value, ..)| u128::from(*value)).sum();
        assert_eq!((balance.utxos, balance.value), (theirs.len() as u64, sum));
    }
}

#[test]
fn every_balance_of_electrs_is_ours_and_every_output_is_in_its_history() {
    let view = whole_chain().view().unwrap();
    for (script, truth) in RegtestA::default().electrs() {
        let key = IndexKey::address(REGTEST, &hex_decode(&script).unwrap());
        let balance = view.owner_balance(key, u64::MAX).unwrap();
        assert_eq!(balance.value, u128::from(truth.balance.confirmed), "balance of {script}");
        let history: BTreeSet<_> = truth.history.iter().map(|(h, id)| (*h, txid(id))).collect();
        for utxo in view.owner_utxos(key, EVERYTHING, None).unwrap().utxos {
            let place = (utxo.created.height.get(), *utxo.outpoint.txid());
            assert!(history.contains(&place), "{} of {script}", utxo.outpoint);
        }
    }
}

#[test]
fn every_spot_check_finds_the_output_or_its_spender() {
    let view = whole_chain().view().unwrap();
    let tip = view.point().unwrap().height.get();
    let (mut live, mut spent) = (0, 0);
    for check in RegtestA::default().spot_checks() {
        let found = view.utxo(OutPoint::new(txid(&check.txid), check.vout)).unwrap();
        let name = format!("{}:{}", check.txid, check.vout);
        match (check.gettxout, check.spender) {
            (Some(truth), _) => {
                let utxo = found.unwrap_or_else(|| panic!("{name} is live"));
                assert_eq!(utxo.value, sat(&truth.value), "{name}");
                assert_eq!(hex_encode(&utxo.address), truth.spk, "{name}");
                assert_eq!(utxo.is_coinbase, truth.coinbase, "{name}");
                assert_eq!(utxo.created.height.get(), tip + 1 - truth.confirmations, "{name}");
                assert_eq!(utxo.spent, None, "{name}");
                live += 1;
            }
            (None, Some(spender)) => {
                let by = found.and_then(|utxo| utxo.spent).unwrap_or_else(|| panic!("{name}"));
                assert_eq!(by.txid, txid(&spender), "{name}");
                assert_eq!(Some(by.block.hash.to_reversed_hex()), check.spender_block, "{name}");
                spent += 1;
            }
            // Provably unspendable, or on a branch that lost: never in the set of this chain.
            (None, None) => assert_eq!(found, None, "{name}"),
        }
    }
    assert_eq!((live, spent), (452, 136));
}

fn assert_snapshot<S: Read>(view: &View<'_, S>, snapshot: &Snapshot) {
    assert_eq!(view.point().unwrap().hash, snapshot.base);
    assert_eq!(view.here().unwrap().1.totals.txouts, snapshot.coins.len() as u64);
    let distinct: BTreeSet<_> = snapshot.coins.iter().map(|coin| coin.outpoint).collect();
    assert_eq!(distinct.len(), snapshot.coins.len());
    // As many distinct outputs on both sides, and each of theirs is one of ours: equal sets.
    for coin in &snapshot.coins {
        let utxo = view.utxo(coin.outpoint).unwrap();
        let utxo = utxo.unwrap_or_else(|| panic!("{} is missing", coin.outpoint));
        assert_eq!(utxo.spent, None);
        assert_eq!(
            (utxo.value, utxo.created.height.get(), utxo.is_coinbase),
            (coin.value, coin.height, coin.is_coinbase),
            "{}",
            coin.outpoint
        );
        assert!(coin.script.is(&utxo.address), "script of {}", coin.outpoint);
    }
}

#[test]
fn every_snapshot_is_the_set_at_its_height() {
    let data = RegtestA::default();
    for height in [150, 250, 300] {
        let snapshot = data.snapshot(height);
        assert_eq!(snapshot.magic, REGTEST.magic());
        let view = whole_chain().view().unwrap().at(Height::new(height)).unwrap();
        assert_snapshot(&view, &snapshot);
    }
}

#[test]
fn every_input_of_the_chain_spends_what_the_node_says() {
    let data = RegtestA::default();
    let files = data.block_files();
    let truth = data.spent_tx_outs();
    let view = whole_chain().view().unwrap();
    let mut inputs = 0;
    for (height, hash) in (0u32..).zip(data.active_chain()).skip(1) {
        let block = decode_block(files.raw(&hash).unwrap(), REGTEST).unwrap();
        let spent = &truth[&hash];
        assert_eq!(spent.len(), block.txs.len());
        for (tx, expected) in block.txs.iter().zip(spent) {
            assert_eq!(block.inputs_of(tx).len(), expected.len());
            for (outpoint, (value, script)) in block.inputs_of(tx).iter().zip(expected) {
                let utxo = view.utxo(*outpoint).unwrap().unwrap();
                assert_eq!((utxo.value, &utxo.address), (*value, script), "{outpoint}");
                let spent = utxo.spent.unwrap();
                assert_eq!((spent.txid, spent.block.height.get()), (tx.txid, height));
                inputs += 1;
            }
        }
    }
    assert!(inputs > 10_000, "{inputs} inputs were compared");
}

/// A chain that ends in `tip`, found backwards through the files.
fn chain_to(files: &BlockFiles, tip: &BlockHash) -> Vec<BlockHash> {
    let parents: BTreeMap<_, _> = files.headers().iter().map(|h| (h.hash, h.prev)).collect();
    let mut chain = vec![*tip];
    while chain[chain.len() - 1] != REGTEST.genesis_hash() {
        chain.push(parents[&chain[chain.len() - 1]]);
    }
    chain.reverse();
    chain
}

#[test]
fn every_invalid_block_but_the_one_with_a_bad_signature_is_refused_for_the_nodes_reason() {
    let data = RegtestA::default();
    let files = data.block_files();
    let refused = data.refused_blocks();
    let direct: Vec<_> = refused.iter().filter(|r| r.reject != "branch abandoned").collect();
    let prev = BlockHash::from_reversed_hex(&direct[0].prev).unwrap();
    let settings = common::settings(400).with(|settings| settings.muhash = true);
    let index = fresh(settings, &files, &chain_to(&files, &prev));
    let mut writer = ChainWriter::new(index.clone()).unwrap();
    let before = dump(index.engine());
    let mut reasons = BTreeSet::new();
    for refused in direct {
        assert_eq!(refused.prev, prev.to_reversed_hex());
        let block = decode_block(refused.raw(), REGTEST).unwrap();
        let applied = writer.apply(&block);
        if refused.reject.starts_with("block-script-verify-flag-failed") {
            // Scripts are not run: the only one of these blocks that passes.
            let height = Height::new(refused.height);
            assert_eq!(applied.unwrap(), Applied::Connected(height));
            writer.rollback(height.minus(1)).unwrap();
        } else {
            let Err(ApplyError::Invalid { hash, height, reason, .. }) = applied else {
                panic!("{}: {applied:?}", refused.name)
            };
            assert_eq!(hash, block.header.hash);
            assert_eq!(height.get(), refused.height);
            let text = reason.to_string();
            assert!(text.starts_with(&format!("{}: ", refused.reject)), "{}: {text}", refused.name);
            reasons.insert(refused.reject.clone());
        }
        // The one that passed is kept for readers of the log.
        assert_same(&before, &dump(index.engine()), &[SIDE_BODY], &refused.name);
    }
    assert_eq!(reasons.len(), 6, "{reasons:?}");
}

#[test]
fn an_abandoned_branch_and_its_descendants_are_refused_while_following() {
    let data = RegtestA::default();
    let files = data.block_files();
    let mut bad = Archive::default();
    for refused in data.refused_blocks().iter().filter(|r| r.reject == "branch abandoned") {
        bad.push(decode_header(&refused.raw()).unwrap(), refused.raw());
    }
    let [third, child] = bad.headers() else { panic!("two blocks of the branch are kept") };
    let branch = chain_to(&files, &third.prev);
    // The branch itself: its bad block is the one that would connect next.
    let index = fresh(common::settings(400), &files, &branch);
    let before = dump(index.engine());
    let mut follower = Follower::new(ChainWriter::new(index.clone()).unwrap()).unwrap();
    follower.accept(third, &bad).unwrap();
    follower.accept(child, &bad).unwrap();
    let refused = &follower.report().refused;
    assert_eq!(refused.iter().map(|r| r.hash).collect::<Vec<_>>(), [third.hash, child.hash]);
    assert!(refused[0].reason.starts_with("bad-txns-inputs-missingorspent"));
    assert!(refused[1].reason.starts_with("bad-prevblk"), "{}", refused[1].reason);
    assert!(refused[1].reason.contains(&third.hash.to_reversed_hex()));
    assert_same(&before, &dump(index.engine()), &[SIDE, SIDE_BODY], "refused");
}

#[test]
fn the_first_mainnet_blocks_have_the_nodes_digests_at_every_height() {
    let Some(dir) = testdata("bitcoin/mainnet") else { return };
    let mainnet = Network::BitcoinMainnet;
    let truth = MainnetTruth::read(&dir.join("mainnet-0-255.truth.json"));
    let snapshot = std::fs::read(dir.join("mainnet-255.utxo.dat")).unwrap();
    let snapshot = Snapshot::parse(&snapshot).unwrap();
    for muhash in [false, true] {
        let window = Window { prune_depth: 0, ..common::settings(288).window };
        let settings = IndexSettings::new(mainnet).with(|settings| {
            settings.muhash = muhash;
            settings.window = window;
        });
        let index = InMemory::default().open(settings);
        let paths = [dir.join("mainnet-1-255.blocks.dat")];
        let spool = std::env::temp_dir();
        let files = BlockFiles::open(&paths, mainnet, &spool, ScanOptions::default()).unwrap();
        let writer = ChainWriter::new(index.clone()).unwrap();
        import_files(writer, &files, true, &mut |_| true).unwrap();
        for (height, truth) in &truth.by_height {
            let view = index.view().unwrap().at(Height::new(*height)).unwrap();
            let digest = view.digest(truth.hash_serialized_3.is_some()).unwrap();
            assert_eq!(digest.point.hash.to_reversed_hex(), truth.bestblock);
            assert_eq!(digest.totals.txouts, truth.txouts);
            assert_eq!(digest.totals.bogosize, truth.bogosize);
            assert_eq!(digest.totals.total_amount, sat(&truth.total_amount));
            assert_eq!(Txid::from_bytes(digest.muhash.unwrap()).to_reversed_hex(), truth.muhash);
            let serialized = digest.ordered_hash.map(|h| Txid::from_bytes(h).to_reversed_hex());
            assert_eq!(serialized, truth.hash_serialized_3);
        }
        assert_eq!(snapshot.magic, mainnet.magic());
        assert_snapshot(&index.view().unwrap(), &snapshot);
        assert_clean(&index, "mainnet");
    }
}
