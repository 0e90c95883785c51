//! The preview network from its first block, against answers of systems we did not write.

use std::path::Path;

use utxokeep_chains::cardano::{ImmutableDb, parse_owner};
use utxokeep_core::{
    Block, BlockHash, Height, IndexKey, Network, Txid,
    cardano::{Credential, CredentialKind},
    hex_decode,
};
use utxokeep_index::{
    ChainIndex, ChainWriter, Digest, IndexSettings, Mode, Paging, import_immutable, tables::TABLES,
};
use utxokeep_kv::{Durability, Kv, MemoryKv, OpenMode, RocksKv, RocksOptions};
use utxokeep_testkit::{csv, preview_immutable, testdata};

const PREVIEW: Network = Network::CardanoPreview;

fn open_data() -> Option<ImmutableDb> {
    let dir = preview_immutable(Path::new(env!("CARGO_TARGET_TMPDIR")))?;
    Some(ImmutableDb::open(&dir).unwrap())
}

fn golden(name: &str) -> Vec<Vec<String>> {
    csv(&testdata(&format!("cardano/preview-golden/{name}")).unwrap())
}

fn settings() -> IndexSettings {
    IndexSettings::new(PREVIEW).with(|settings| {
        settings.stake_index = true;
        settings.durability = Durability::Buffered;
    })
}

fn blocks(db: &ImmutableDb) -> impl Iterator<Item = Block> {
    let decoder = settings().decoder;
    db.blocks_from(db.start()).map(move |raw| decoder.decode(raw.unwrap().bytes).unwrap())
}

fn digest<K: Kv>(index: &ChainIndex<K>) -> Digest {
    index.view().unwrap().digest(false).unwrap()
}

fn check_against(row: &[String], digest: &Digest) {
    let at = &row[0];
    assert_eq!(digest.point.height.to_string(), row[0]);
    assert_eq!(digest.point.slot.to_string(), row[1], "slot at {at}");
    assert_eq!(digest.point.hash.to_hex(), row[2], "hash at {at}");
    assert_eq!(digest.totals.txouts.to_string(), row[3], "outputs at {at}");
    assert_eq!(digest.totals.total_amount.to_string(), row[4], "lovelace at {at}");
    assert_eq!(digest.asset_entries.unwrap().to_string(), row[5], "asset entries at {at}");
    assert_eq!(Txid::from_bytes(digest.ordered_hash.unwrap()).to_hex(), row[8], "digest at {at}");
}

#[test]
fn every_checkpoint_and_every_epoch_of_preview_is_met_from_genesis() {
    let Some(db) = open_data() else { return };
    let checkpoints = golden("checkpoints.csv");
    let epochs = golden("epoch_boundaries.csv");
    let index = ChainIndex::open(MemoryKv::new(TABLES), settings()).unwrap();
    let mut writer = ChainWriter::new(index.clone()).unwrap();
    writer.set_mode(Mode::CatchUp).unwrap();
    let (mut created, mut spent) = (0, 0);
    let (mut checkpoint, mut epoch) = (checkpoints.iter().peekable(), epochs.iter().peekable());
    for block in blocks(&db) {
        let height = block.claimed_height.unwrap().to_string();
        writer.apply(&block).unwrap();
        created += block.outputs.len();
        spent += block.inputs.len();
        if let Some(row) = checkpoint.next_if(|row| row[0] == height) {
            writer.flush().unwrap();
            check_against(row, &digest(&index));
            // The one output of the genesis files is not created by a transaction.
            assert_eq!((created - 1).to_string(), row[6], "created at {height}");
            assert_eq!(spent.to_string(), row[7], "spent at {height}");
        }
        if let Some(row) = epoch.next_if(|row| row[1] == height) {
            let totals = writer.tip_entry().unwrap().totals;
            assert_eq!(totals.txouts.to_string(), row[3], "outputs before epoch {}", row[0]);
            assert_eq!(totals.total_amount.to_string(), row[4], "lovelace before {}", row[0]);
        }
    }
    assert!(checkpoint.peek().is_none() && epoch.peek().is_none(), "all rows were met");
    writer.flush().unwrap();
    let tip = digest(&index);
    assert_eq!((tip.point.height.get(), tip.point.slot), (59_314, 1_295_990));
    assert_eq!(tip.totals.txouts, 32_655);
    assert_eq!(tip.totals.total_amount, 29_999_970_083_806_037);
    assert_eq!(tip.asset_entries, Some(9_092));
    assert_eq!(writer.tip_entry().unwrap().missing_inputs, 0);
}

/// The totals of the ledger per epoch, as another indexer published them.
#[test]
fn lovelace_of_every_epoch_equals_the_published_ada_pots() {
    let Some(db) = open_data() else { return };
    let pots = std::fs::read(testdata("cardano/oracle-adapots/preview.json").unwrap()).unwrap();
    let pots: Vec<serde_json::Value> = serde_json::from_slice(&pots).unwrap();
    let index = ChainIndex::open(MemoryKv::new(TABLES), settings()).unwrap();
    let mut writer = ChainWriter::new(index).unwrap();
    writer.set_mode(Mode::CatchUp).unwrap();
    let mut compared = 0;
    let mut compare = |entering: u32, lovelace: u64| {
        let pot = pots.iter().find(|pot| pot["epoch_no"] == entering).unwrap();
        assert_eq!(pot["utxo"], lovelace, "epoch {entering}");
        compared += 1;
    };
    for block in blocks(&db) {
        let epoch = block.header.slot.unwrap().epoch;
        if let Some(before) = writer.tip_entry().filter(|tip| tip.slot.unwrap().epoch < epoch) {
            compare(epoch, before.totals.total_amount);
        }
        writer.apply(&block).unwrap();
    }
    compare(15, writer.tip_entry().unwrap().totals.total_amount);
    assert_eq!(compared, 15);
}

/// Imports as the program does: bulk below the window, the rest with undo data.
fn imported(db: &ImmutableDb, dir: &Path, bulk: bool) -> ChainWriter<RocksKv> {
    let options = RocksOptions::within(64 << 20);
    let index = ChainIndex::open_dir(dir, settings(), options, OpenMode::Create).unwrap();
    let writer = ChainWriter::new(index).unwrap();
    let (writer, report) = import_immutable(writer, db, bulk, &mut |_| true).unwrap();
    assert_eq!((report.connected, report.reorganisations), (59_315, 0));
    writer
}

#[test]
fn owners_at_the_tip_hold_what_the_golden_files_say() {
    let Some(db) = open_data() else { return };
    let dir = tempfile::tempdir().unwrap();
    let writer = imported(&db, dir.path(), true);
    let view = writer.index().view().unwrap();
    for row in golden("addresses_at_tip.csv") {
        let by_text = parse_owner(&row[0], PREVIEW).unwrap().index_key(PREVIEW);
        let by_bytes = IndexKey::address(PREVIEW, &hex_decode(&row[1]).unwrap());
        assert_eq!(by_text, by_bytes, "{}", row[0]);
        let balance = view.owner_balance(by_text, u64::MAX).unwrap();
        let found = [balance.utxos.to_string(), balance.value.to_string()];
        assert_eq!(found.as_slice(), &row[2..4], "{}", row[0]);
        assert_eq!(balance.assets.len().to_string(), row[4], "assets of {}", row[0]);
    }
    for row in golden("payment_credentials_at_tip.csv") {
        let kind = if row[0] == "1" { CredentialKind::Script } else { CredentialKind::Key };
        let hash = hex_decode(&row[1]).unwrap().try_into().unwrap();
        let owner = IndexKey::payment(&Credential { kind, hash });
        let balance = view.owner_balance(owner, u64::MAX).unwrap();
        let found = [balance.utxos.to_string(), balance.value.to_string()];
        assert_eq!(found.as_slice(), &row[2..4], "{}", row[1]);
    }
    // The address with most outputs, page by page.
    let owner = golden("addresses_at_tip.csv")[0][0].clone();
    let owner = parse_owner(&owner, PREVIEW).unwrap().index_key(PREVIEW);
    let mut paging =
        Paging { after: None, skip: 0, limit: 1_000, reverse: false, scan_rows_max: u64::MAX };
    let mut seen = Vec::new();
    loop {
        let page = view.owner_utxos(owner, paging, None).unwrap();
        seen.extend(
            page.utxos.into_iter().map(|utxo| (utxo.created.slot, utxo.tx_index, utxo.outpoint)),
        );
        let Some(next) = page.next else { break };
        paging.after = Some(next);
    }
    assert_eq!(seen.len(), 25_140);
    assert!(seen.windows(2).all(|pair| (pair[0].0, pair[0].1) <= (pair[1].0, pair[1].1)));
    drop(view);
    assert!(writer.index().verify(&mut |_, _| {}).unwrap().is_clean());
}

#[test]
fn failed_transactions_gave_back_what_the_golden_file_says() {
    let Some(db) = open_data() else { return };
    let golden = golden("invalid_txs.csv");
    let mut expected = golden.iter();
    for block in blocks(&db) {
        for (position, tx) in block.txs.iter().enumerate().filter(|(_, tx)| tx.is_invalid) {
            let row = expected.next().unwrap();
            let number = block.claimed_height.unwrap();
            assert_eq!(
                [number.to_string(), position.to_string()],
                [row[0].clone(), row[2].clone()]
            );
            assert_eq!(tx.txid.to_hex(), row[3]);
            let inputs: Vec<String> = block
                .inputs_of(tx)
                .iter()
                .map(|input| format!("{}#{}", input.txid().to_hex(), input.index()))
                .collect();
            assert_eq!(inputs.join(";"), row[8].replace(['|', ' '], ";"), "collateral of {number}");
            let [returned] = block.outputs_of(tx) else { panic!("one output at {number}") };
            assert_eq!([returned.index.to_string(), returned.value.to_string()], row[10..12]);
            assert!(block.details_of(returned).parse().unwrap().is_collateral_return);
        }
    }
    assert!(expected.next().is_none());
}

#[test]
fn rolled_back_by_random_distances_and_replayed_the_chain_is_the_same() {
    let Some(db) = open_data() else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut writer = imported(&db, dir.path(), true);
    let expected = digest(writer.index());
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for round in 0..6 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let depth = 1 + u32::try_from((state >> 33) % 864).unwrap();
        let target = expected.point.height.minus(depth);
        let before = writer.index().view().unwrap().at(target).unwrap().digest(false).unwrap();
        assert_eq!(writer.rollback(target).unwrap(), depth);
        let after = digest(writer.index());
        assert_eq!(after, before, "round {round}: time travel and rollback to {target} agree");
        let (again, report) = import_immutable(writer, &db, true, &mut |_| true).unwrap();
        assert_eq!(report.connected, u64::from(depth));
        assert_eq!(digest(again.index()), expected, "round {round}");
        writer = again;
    }
    assert!(writer.rollback(Height::new(59_314 - 865)).is_err(), "the window is 864 blocks");
    assert!(writer.index().verify(&mut |_, _| {}).unwrap().is_clean());
    assert_eq!(writer.tip().unwrap().hash, BlockHash::from_bytes(*expected.point.hash.as_bytes()));
}
