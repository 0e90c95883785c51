//! The bytes of every table after a small chain: the disk format, pinned.
//!
//! A difference here is a new format: raise `FORMAT_VERSION`, add an upgrade, then accept the
//! snapshot.

use std::fmt::Write as _;

use utxokeep_core::{Header, Height, OutPoint, hex_encode};
use utxokeep_index::{
    ChainIndex, ChainWriter, DeltaKind, Follower, IndexSettings,
    tables::{
        CLASSIC_TABLES, TABLES,
        ids::{BLOCKS, DELTA, HEIGHTS, UTXO_META},
    },
};
use utxokeep_kv::Read;
use utxokeep_testkit::{ANYONE, Archive, HandBlock, HandTx, NOBODY, mine, regtest_genesis};

use crate::common::{
    self, Dump, InMemory, IndexPlace, MemoryEngine, REGTEST, assert_clean, dump, dump_all,
};

const COIN: u64 = 100_000_000;
/// Blocks below this height only let the first coinbase mature.
const FIRST_SHOWN: u32 = 100;

struct Chain {
    archive: Archive,
}

impl Chain {
    fn push(&mut self, parent: &Header, height: u32, tag: u64, txs: &[HandTx]) -> HandBlock {
        let reward: (u64, &[u8]) = match height {
            1 => (50 * COIN, ANYONE),
            103 => (COIN, &[0x52]),
            _ => (0, NOBODY),
        };
        let mined = mine(parent, height, tag, &[reward], txs);
        self.archive.push(mined.header, mined.raw.clone());
        mined
    }
}

/// A spend, a spend within one block, outputs nobody can spend, a block that lost after it had been
/// connected, one that never was, and one that is invalid.
fn chain() -> Archive {
    let mut chain = Chain { archive: Archive::default() };
    let first = chain.push(&regtest_genesis(), 1, 0, &[]);
    let mut parent = first.header;
    for height in 2..=100 {
        parent = chain.push(&parent, height, 0, &[]).header;
    }
    let coinbase = OutPoint::new(first.coinbase, 0);
    let split = HandTx {
        inputs: vec![coinbase],
        outputs: vec![
            (20 * COIN, ANYONE.to_vec()),
            (0, NOBODY.to_vec()),
            (29 * COIN, vec![0x00, 0x14, 1, 2, 3]),
        ],
    };
    let at_once = HandTx::new(&[split.output(0)], &[12 * COIN, 7 * COIN]);
    let fork = chain.push(&parent, 101, 0, &[split.clone(), at_once.clone()]).header;
    chain.push(&fork, 102, 0, &[HandTx::new(&[split.output(2)], &[28 * COIN])]);
    let gather = HandTx::new(&[split.output(2), at_once.output(1)], &[36 * COIN]);
    let won = chain.push(&fork, 102, 1, &[gather]).header;
    let tip = chain.push(&won, 103, 1, &[]).header;
    chain.push(&won, 103, 2, &[HandTx::new(&[at_once.output(0)], &[11 * COIN])]);
    chain.push(&tip, 104, 0, &[HandTx::new(&[split.output(1)], &[0])]);
    chain.archive
}

fn pinned(settings: IndexSettings) -> String {
    render(&dump(built(settings).engine()))
}

fn built(settings: IndexSettings) -> ChainIndex<MemoryEngine> {
    let archive = chain();
    let index = InMemory::default().open(settings);
    let mut follower = Follower::new(ChainWriter::new(index.clone()).unwrap()).unwrap();
    for header in archive.headers() {
        follower.accept(header, &archive).unwrap();
    }
    let report = follower.report();
    assert_eq!((report.reorganisations, report.refused.len()), (1, 1));
    // The last pass ends in the middle of a block where passes are short.
    while follower.writer_mut().prune_pass().unwrap().more
        && index.engine().get(UTXO_META, b"prune_cursor").unwrap().is_none()
    {}
    assert_clean(&index, "pinned");
    index
}

fn render(dump: &common::Dump) -> String {
    let height_of = |table: usize, key: &[u8], value: &[u8]| {
        let bytes = match table {
            at if at == usize::from(BLOCKS.0) => key,
            at if at == usize::from(HEIGHTS.0) => value,
            _ => return u32::MAX,
        };
        Height::from_key(bytes).unwrap().get()
    };
    let mut text = String::new();
    for (table, rows) in dump.0.iter().enumerate() {
        writeln!(text, "{}", TABLES[table].name).unwrap();
        let mut folded = Vec::new();
        let mut count = 0;
        for (key, value) in rows {
            if height_of(table, key, value) < FIRST_SHOWN {
                folded.extend_from_slice(key);
                folded.extend_from_slice(value);
                count += 1;
            } else {
                writeln!(text, "  {} => {}", hex_encode(key), hex_encode(value)).unwrap();
            }
        }
        if count > 0 {
            // The address key is the front of a SHA-256.
            let hash = hex_encode(REGTEST.address_key(&folded).as_bytes());
            writeln!(text, "  and {count} rows of lower blocks, {hash}").unwrap();
        }
    }
    text
}

#[test]
fn tables_with_compact_deltas_and_accumulators() {
    let settings = common::settings(3).with(|settings| settings.muhash = true);
    insta::assert_snapshot!(pinned(settings));
}

#[test]
fn tables_with_self_contained_deltas_while_pruning() {
    let mut settings =
        common::settings(2).with(|settings| settings.delta = DeltaKind::SelfContained);
    settings.prune_rows_max = 1;
    insta::assert_snapshot!(pinned(settings));
}

#[test]
fn every_table_of_the_format_has_a_pinned_row_and_names_are_pinned() {
    let names: Vec<_> = TABLES.iter().map(|spec| spec.name).collect();
    assert_eq!(
        names,
        [
            "chain_meta",
            "chain_blocks",
            "chain_heights",
            "chain_side",
            "chain_side_body",
            "utxo_unspent",
            "utxo_spent",
            "utxo_addr",
            "utxo_addr_spent",
            "utxo_block_delta",
            "utxo_muhash",
            "utxo_meta",
            "utxo_mmr_nodes",
            "utxo_mmr_places",
        ]
    );
    let text = pinned(common::settings(3).with(|settings| settings.muhash = true));
    // Rows of the Merkle mountain range are pinned where they are written, in `core`.
    for name in &names[..CLASSIC_TABLES] {
        let rows = text.lines().skip_while(|line| line != name).nth(1);
        assert!(rows.is_some_and(|row| row.starts_with("  ")), "{name} is empty");
    }
}

/// Only the tables that differ: deltas with leaves, the state of the tree, its rows, leaf numbers.
#[test]
fn tables_of_a_merkle_mountain_range() {
    use utxokeep_core::mmr::MmrRule;
    for (rule, name) in [(MmrRule::Tombstone, "tombstone"), (MmrRule::Utreexo, "utreexo")] {
        let settings = common::settings(5).with(|settings| settings.mmr = Some(rule));
        let Dump(mut tables) = dump_all(built(settings).engine());
        for table in &mut tables[..usize::from(DELTA.0)] {
            table.clear();
        }
        insta::assert_snapshot!(
            format!("tables_of_a_merkle_mountain_range_{name}"),
            render(&Dump(tables))
        );
    }
}
