//! Real Cardano blocks of every era, compared with what is known of them and with another decoder.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use pallas_traverse::{MultiEraBlock, MultiEraPolicyAssets};
use utxokeep_chains::cardano::{
    CardanoDecodeError, Genesis, decode_block, decode_header, split_blocks,
};
use utxokeep_core::{Block, Datum, Network, OutPoint, hex_decode};
use utxokeep_testkit::{csv, testdata};

/// Eras by the number in front of a block.
const ERAS: [&str; 8] =
    ["Byron", "Byron", "Shelley", "Allegra", "Mary", "Alonzo", "Babbage", "Conway"];

/// The number of the era that comes after those known.
const NEXT_ERA: u8 = 8;

fn mainnet() -> Genesis {
    Genesis::public(Network::CardanoMainnet).unwrap()
}

/// A wrapped block from a file of bytes or of hex digits; some lack the wrapper.
fn read_block(path: &Path) -> Vec<u8> {
    let bytes = fs::read(path).unwrap();
    let text = std::str::from_utf8(&bytes).ok().map(str::trim);
    let bytes = text.and_then(hex_decode).unwrap_or(bytes);
    let collection = path.parent().unwrap().file_name().unwrap().to_str().unwrap();
    match (collection, path.file_stem().unwrap().to_str().unwrap()) {
        ("amaru", _) => [&[0x82, 7], &bytes[..]].concat(),
        ("cardano-ledger", _) => [&[0x82, 5], &bytes[..]].concat(),
        ("gouroboros", name) => {
            let eras = ["byron_ebb", "byron", "shelley", "allegra", "mary", "alonzo", "babbage"];
            let eras = eras.iter().chain(&["conway", "musashi_dijkstra"]);
            let era = eras.enumerate().find(|(_, era)| name.starts_with(**era)).unwrap().0;
            [&[0x82, u8::try_from(era).unwrap()], &bytes[..]].concat()
        }
        _ => bytes,
    }
}

/// A file that holds its block twice.
const DOUBLED: &str = "blocks/yaci/preprod286677.txt";

/// Every single block, by its path within the data.
fn single_blocks() -> Option<BTreeMap<String, Vec<u8>>> {
    let root = testdata("cardano/blocks")?;
    let mut blocks = BTreeMap::new();
    for collection in fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path()) {
        if !collection.is_dir() {
            continue;
        }
        for path in fs::read_dir(&collection).unwrap().map(|entry| entry.unwrap().path()) {
            let name: PathBuf = path.components().rev().take(2).collect();
            let name: PathBuf = name.components().rev().collect();
            blocks.insert(format!("blocks/{}", name.display()), read_block(&path));
        }
    }
    let twice = blocks.get_mut(DOUBLED).unwrap();
    let half = twice.len() / 2;
    let error = decode_block(twice, &mainnet()).unwrap_err();
    assert_eq!(error, CardanoDecodeError::TrailingBytes { extra: half });
    twice.truncate(half);
    Some(blocks)
}

/// What `blocks/index.csv` counts, in its order and its words.
fn counts(block: &Block) -> [String; 10] {
    let mut created = BTreeSet::new();
    let (mut spent_inside, mut invalid) = (0, Vec::new());
    let (mut inline, mut hashes, mut scripts, mut with_assets) = (0, 0, 0, 0);
    let mut returns = 0;
    let txs = block.txs.iter().filter(|tx| !tx.is_ledger_rule);
    let (mut inputs, mut outputs) = (0, 0);
    for (position, tx) in txs.enumerate() {
        if tx.is_invalid {
            invalid.push(position.to_string());
        }
        inputs += block.inputs_of(tx).len();
        outputs += block.outputs_of(tx).len();
        spent_inside += block.inputs_of(tx).iter().filter(|input| created.contains(*input)).count();
        for output in block.outputs_of(tx) {
            created.insert(OutPoint::new(tx.txid, output.index));
            let details = block.details_of(output).parse().unwrap();
            inline += usize::from(matches!(details.datum, Datum::Inline(_)));
            hashes += usize::from(matches!(details.datum, Datum::Hash(_)));
            scripts += usize::from(details.script.is_some());
            with_assets += usize::from(!details.assets.is_empty());
            returns += usize::from(details.is_collateral_return);
        }
    }
    let returns = if returns == 0 { String::new() } else { returns.to_string() };
    [
        block.tx_count().to_string(),
        invalid.join(";"),
        inputs.to_string(),
        outputs.to_string(),
        inline.to_string(),
        hashes.to_string(),
        scripts.to_string(),
        with_assets.to_string(),
        returns,
        spent_inside.to_string(),
    ]
}

#[test]
fn single_blocks_are_what_their_index_says() {
    let (Some(blocks), Some(index)) = (single_blocks(), testdata("cardano/blocks/index.csv"))
    else {
        return;
    };
    let genesis = mainnet();
    let rows = csv(&index);
    for row in &rows {
        let raw = &blocks[&row[0]];
        if row[0].contains("invalid_block_body_size") {
            // The header lies about the length of the body: no node accepts such a block.
            let error = decode_block(raw, &genesis).unwrap_err();
            assert!(error.to_string().contains("not as long as its header says"), "{error}");
            continue;
        }
        let block = decode_block(raw, &genesis).unwrap_or_else(|e| panic!("{}: {e}", row[0]));
        let slot = block.header.slot.unwrap();
        // Blocks without wrapper were indexed under the era they happened to be readable in.
        if !row[0].contains("gouroboros") {
            assert_eq!(ERAS[usize::from(slot.era)], row[1], "{}", row[0]);
        }
        let number = block.claimed_height.unwrap().to_string();
        let facts = [number, slot.slot.to_string(), block.header.hash.to_hex()];
        assert_eq!(facts, row[2..5], "{}", row[0]);
        let known: Vec<_> = [6, 7, 8, 9, 11, 12, 13, 14, 15, 16].map(|i| row[i].clone()).into();
        assert_eq!(counts(&block), known[..], "{}", row[0]);
    }
    assert_eq!(rows.len(), 123);
}

#[test]
fn every_other_block_decodes_or_is_refused_for_its_reason() {
    let (Some(blocks), Some(index)) = (single_blocks(), testdata("cardano/blocks/index.csv"))
    else {
        return;
    };
    let indexed: BTreeSet<_> = csv(&index).into_iter().map(|row| row[0].clone()).collect();
    let mut seen = 0;
    for (name, raw) in blocks.iter().filter(|(name, _)| !indexed.contains(*name)) {
        seen += 1;
        let decoded = decode_block(raw, &mainnet());
        if name.contains("dijkstra") {
            assert_eq!(decoded, Err(CardanoDecodeError::UnknownEra { tag: NEXT_ERA.into() }));
            continue;
        }
        let block = decoded.unwrap_or_else(|error| panic!("{name}: {error}"));
        let is_first = block.header.prev == mainnet().hash();
        match block.header.slot.unwrap().era {
            0 => {
                assert_eq!(block.tx_count(), 0, "{name}");
                assert_eq!(block.is_boundary, !is_first, "{name}");
            }
            // A real block with a hash of the wrong size where it does not concern the set.
            _ => assert!(name.contains("conway8") && block.tx_count() > 0, "{name}"),
        }
        assert_eq!(block.txs.len(), if is_first { 14_505 } else { block.tx_count() });
    }
    assert_eq!(seen, 5);
}

/// One output as another decoder sees it: index, address, lovelace and number of assets.
type Seen = (u64, Vec<u8>, u64, usize);

/// An address without the pointer at its end, which the other decoder writes anew when it makes no
/// sense.
fn without_pointer(address: &[u8]) -> Vec<u8> {
    let is_pointer = matches!(address[0] >> 4, 4 | 5);
    if is_pointer { address[..29].to_vec() } else { address.to_vec() }
}

fn assert_pallas_agrees(name: &str, raw: &[u8], block: &Block) {
    let other = MultiEraBlock::decode(raw).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(block.header.hash.as_bytes(), &*other.hash(), "{name}");
    let txs: Vec<_> = block.txs.iter().filter(|tx| !tx.is_ledger_rule).collect();
    assert_eq!(txs.len(), other.txs().len(), "{name}");
    for (tx, other) in txs.into_iter().zip(other.txs()) {
        assert_eq!(tx.txid.as_bytes(), &*other.hash(), "{name}");
        assert_eq!(tx.is_invalid, !other.is_valid(), "{name}");
        let ours: BTreeSet<_> = block.inputs_of(tx).iter().copied().collect();
        assert_eq!(ours.len(), block.inputs_of(tx).len(), "{name}: inputs are a set");
        let theirs = other.consumes().into_iter().map(|input| (**input.hash(), input.index()));
        let ours: BTreeSet<_> =
            ours.iter().map(|input| (*input.txid().as_bytes(), u64::from(input.index()))).collect();
        assert_eq!(ours, theirs.collect(), "{name}");
        let ours = block.outputs_of(tx).iter().map(|output| {
            let assets = block.details_of(output).parse().unwrap().assets.len();
            let address = without_pointer(block.address_of(output));
            (u64::from(output.index), address, output.value, assets)
        });
        let theirs = other.produces().into_iter().map(|(index, output)| {
            let value = output.value();
            let assets = value.assets();
            let assets = assets.iter().flat_map(MultiEraPolicyAssets::assets);
            let count = assets.filter(|asset| asset.any_coin() != 0).count();
            let address = without_pointer(&output.address().unwrap().to_vec());
            (index as u64, address, value.coin(), count)
        });
        let (ours, theirs): (Vec<Seen>, Vec<Seen>) = (ours.collect(), theirs.collect());
        assert_eq!(ours, theirs, "{name}");
    }
}

#[test]
fn another_decoder_sees_the_same_transactions() {
    let Some(blocks) = single_blocks() else { return };
    let mut compared = 0;
    for (name, raw) in &blocks {
        // The other decoder reads the first only in a mode that can panic, the second not at all.
        if ["conway8", "dijkstra", "invalid_block"].iter().any(|odd| name.contains(odd)) {
            continue;
        }
        let block = decode_block(raw, &mainnet()).unwrap();
        assert_pallas_agrees(name, raw, &block);
        compared += 1;
    }
    assert_eq!(compared, 125);
}

#[test]
fn headers_alone_say_the_same_as_blocks() {
    let Some(blocks) = single_blocks() else { return };
    for (name, raw) in &blocks {
        let Ok(block) = decode_block(raw, &mainnet()) else { continue };
        let info = decode_header(raw, &mainnet()).unwrap();
        assert_eq!(info.header, block.header, "{name}");
        assert_eq!(Some(info.number), block.claimed_height, "{name}");
        assert_eq!(info.is_boundary, block.is_boundary, "{name}");
    }
}

#[test]
fn a_chunk_of_a_node_is_cut_into_a_chain() {
    let Some(dir) = testdata("cardano/preprod-immutable") else { return };
    let genesis = Genesis::public(Network::CardanoPreprod).unwrap();
    let chunk = fs::read(dir.join("01285.chunk")).unwrap();
    let mut parent = None;
    let mut numbers = Vec::new();
    for raw in split_blocks(&chunk) {
        let raw = raw.unwrap();
        let block = decode_block(raw, &genesis).unwrap();
        assert_pallas_agrees("preprod", raw, &block);
        assert!(parent.is_none_or(|parent| parent == block.header.prev));
        parent = Some(block.header.hash);
        numbers.push(block.claimed_height.unwrap());
    }
    assert_eq!((numbers.len(), numbers[0], numbers[863]), (864, 910_412, 911_275));
}

#[test]
fn an_address_that_makes_no_sense_is_kept_as_it_is() {
    let Some(blocks) = single_blocks() else { return };
    let block = decode_block(&blocks["blocks/pallas/alonzo27.block"], &mainnet()).unwrap();
    let odd = block.outputs.iter().map(|output| block.address_of(output));
    let odd: Vec<_> = odd.filter(|address| address[0] >> 4 == 4).collect();
    assert_eq!(odd.len(), 1);
    assert!(odd[0].len() > 200, "a pointer with numbers of more than 64 bits");
}

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides as u64).unwrap()
    }
}

/// The shortest block with transactions of every era, and a boundary block cut down to its header.
fn one_of_each_era(blocks: BTreeMap<String, Vec<u8>>) -> Vec<Vec<u8>> {
    let mut shortest: BTreeMap<u8, Vec<u8>> = BTreeMap::new();
    for raw in blocks.into_values() {
        let Ok(block) = decode_block(&raw, &mainnet()) else { continue };
        if block.tx_count() == 0 {
            continue;
        }
        let kept = shortest.entry(raw[1]).or_insert_with(|| raw.clone());
        if raw.len() < kept.len() {
            *kept = raw;
        }
    }
    assert_eq!(shortest.keys().copied().collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7]);
    shortest.into_values().collect()
}

#[test]
fn cut_blocks_are_truncated_at_every_byte() {
    let Some(blocks) = single_blocks() else { return };
    for raw in one_of_each_era(blocks) {
        let step = raw.len() / 2_000 + 1;
        for cut in (0..raw.len()).step_by(step) {
            let error = decode_block(&raw[..cut], &mainnet()).unwrap_err();
            assert_eq!(error, CardanoDecodeError::Truncated { len: cut });
        }
    }
}

#[test]
fn a_changed_byte_never_gives_the_same_block() {
    let Some(blocks) = single_blocks() else { return };
    let mut dice = Dice(0x5eed);
    for raw in one_of_each_era(blocks) {
        let block = decode_block(&raw, &mainnet()).unwrap();
        for _ in 0..3_000 {
            let mut changed = raw.clone();
            // No hash covers the number of the era, and eras that share a format differ in nothing else.
            let at = 2 + dice.roll(raw.len() - 2);
            changed[at] ^= 1 << dice.roll(8);
            // Byron commits to less than all its bytes; what it does not cover does not matter here.
            if let Ok(other) = decode_block(&changed, &mainnet()) {
                let is_byron = raw[1] == 1;
                let is_same = other.txs == block.txs && other.outputs == block.outputs;
                assert!(other.header.hash != block.header.hash || (is_byron && is_same), "{at}");
            }
        }
    }
}
