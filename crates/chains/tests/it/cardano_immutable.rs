//! Immutable databases of Cardano nodes in every state a node or a copy may leave them in.

use std::{
    fs,
    path::{Path, PathBuf},
};

use tempfile::TempDir;
use utxokeep_chains::{
    SourceError,
    cardano::{Genesis, ImmutableDb, RawBlock, decode_header},
};
use utxokeep_core::{BlockHash, Network};
use utxokeep_testkit::{preview_immutable, testdata};

/// A block that nothing looks inside of: its era, then some bytes.
#[derive(Debug, Clone)]
struct FakeBlock {
    hash: BlockHash,
    /// What the index says: an epoch for a boundary block.
    slot_or_epoch: u64,
    bytes: Vec<u8>,
}

fn block(seed: u8, slot: u64) -> FakeBlock {
    fake(6, seed, slot)
}

fn boundary(seed: u8, epoch: u64) -> FakeBlock {
    fake(0, seed, epoch)
}

fn fake(era: u8, seed: u8, slot_or_epoch: u64) -> FakeBlock {
    let content = vec![seed; 30 + usize::from(seed)];
    let len = u8::try_from(content.len()).unwrap();
    let bytes = [&[0x82, era, 0x58, len][..], &content].concat();
    FakeBlock { hash: BlockHash::from_bytes([seed; 32]), slot_or_epoch, bytes }
}

fn index_of(blocks: &[FakeBlock]) -> Vec<u8> {
    let mut index = Vec::new();
    let mut offset = 0u64;
    for block in blocks {
        index.extend(offset.to_be_bytes());
        index.extend([0, 3, 0, 9]);
        index.extend(crc32fast::hash(&block.bytes).to_be_bytes());
        index.extend(block.hash.as_bytes());
        index.extend(block.slot_or_epoch.to_be_bytes());
        offset += block.bytes.len() as u64;
    }
    index
}

fn bytes_of(blocks: &[FakeBlock]) -> Vec<u8> {
    blocks.iter().flat_map(|block| block.bytes.clone()).collect()
}

/// Writes chunks from number `first` on.
fn write(dir: &Path, first: u32, chunks: &[Vec<FakeBlock>]) {
    for (blocks, number) in chunks.iter().zip(first..) {
        fs::write(dir.join(format!("{number:05}.chunk")), bytes_of(blocks)).unwrap();
        fs::write(dir.join(format!("{number:05}.secondary")), index_of(blocks)).unwrap();
        fs::write(dir.join(format!("{number:05}.primary")), [1]).unwrap();
    }
}

fn three_chunks() -> Vec<Vec<FakeBlock>> {
    vec![
        vec![block(1, 10), block(2, 20), block(3, 30)],
        vec![block(4, 110), block(5, 120)],
        vec![block(6, 210), block(7, 220), block(8, 230)],
    ]
}

fn database(chunks: &[Vec<FakeBlock>]) -> TempDir {
    let dir = TempDir::new().unwrap();
    write(dir.path(), 0, chunks);
    dir
}

fn open(dir: &TempDir) -> ImmutableDb {
    ImmutableDb::open(dir.path()).unwrap()
}

fn read_all(db: &ImmutableDb) -> Result<Vec<RawBlock>, SourceError> {
    db.blocks_from(db.start()).collect()
}

fn assert_reads(db: &ImmutableDb, chunks: &[Vec<FakeBlock>]) {
    let read = read_all(db).unwrap();
    let expected: Vec<&FakeBlock> = chunks.iter().flatten().collect();
    assert_eq!(db.blocks_total(), expected.len() as u64);
    assert_eq!(read.len(), expected.len());
    for (read, expected) in read.iter().zip(expected) {
        assert_eq!((&read.hash, &read.bytes), (&expected.hash, &expected.bytes));
    }
}

fn change(dir: &TempDir, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> PathBuf {
    let path = dir.path().join(name);
    let mut bytes = fs::read(&path).unwrap();
    change(&mut bytes);
    fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn every_chunk_is_read_up_to_the_last() {
    let chunks = three_chunks();
    let dir = database(&chunks);
    assert_reads(&open(&dir), &chunks);
    let last = open(&dir).last().unwrap().unwrap();
    assert_eq!((last.slot, last.hash, last.is_boundary), (230, chunks[2][2].hash, false));
    // A node's database directory has the chunks one level below; and they may start anywhere.
    let node = TempDir::new().unwrap();
    fs::create_dir(node.path().join("immutable")).unwrap();
    write(&node.path().join("immutable"), 99_998, &chunks);
    assert_reads(&open(&node), &chunks);
}

#[test]
fn chunks_without_blocks_are_no_end() {
    let chunks = vec![vec![], vec![block(1, 10)], vec![], vec![], vec![block(2, 410)], vec![]];
    let dir = database(&chunks);
    let db = open(&dir);
    assert_reads(&db, &chunks);
    assert_eq!(db.last().unwrap().unwrap().slot, 410);
    assert!(db.find(10, &chunks[1][0].hash).unwrap().is_some());
    assert!(db.find(410, &chunks[4][0].hash).unwrap().is_some());
    // A chunk that a node has only just begun has no index yet.
    fs::write(dir.path().join("00006.chunk"), []).unwrap();
    assert_reads(&open(&dir), &chunks);
    let dir = database(&[vec![]]);
    let empty = open(&dir);
    assert_eq!((empty.blocks_total(), empty.last().unwrap()), (0, None));
    assert_eq!(read_all(&empty).unwrap(), []);
    assert_eq!(empty.find(10, &chunks[1][0].hash).unwrap(), None);
}

#[test]
fn every_block_is_found_and_reading_resumes_behind_it() {
    let chunks = three_chunks();
    let dir = database(&chunks);
    let db = open(&dir);
    let all: Vec<&FakeBlock> = chunks.iter().flatten().collect();
    for (at, block) in all.iter().enumerate() {
        let position = db.find(block.slot_or_epoch, &block.hash).unwrap().unwrap();
        let here = db.blocks_from(position).next().unwrap().unwrap();
        assert_eq!((here.hash, here.position), (block.hash, position));
        let rest: Result<Vec<_>, _> = db.blocks_from(position.next()).collect();
        let rest: Vec<_> = rest.unwrap().into_iter().map(|block| block.hash).collect();
        let expected: Vec<_> = all[at + 1..].iter().map(|block| block.hash).collect();
        assert_eq!(rest, expected);
    }
    let unknown = BlockHash::from_bytes([99; 32]);
    for slot in [0, 10, 15, 30, 31, 109, 110, 220, 230, 231, u64::MAX] {
        assert_eq!(db.find(slot, &unknown).unwrap(), None, "{slot}");
    }
    assert_eq!(db.find(20, &all[0].hash).unwrap(), None, "another slot");
}

#[test]
fn boundary_blocks_are_found_by_the_slot_their_index_does_not_have() {
    // Epochs of 100 slots; the fourth has nothing but its boundary block.
    let chunks = vec![
        vec![boundary(1, 0), block(2, 0), block(3, 99)],
        vec![boundary(4, 1), block(5, 100), block(6, 150)],
        vec![boundary(7, 2), block(8, 201)],
        vec![boundary(9, 3)],
        vec![boundary(10, 4), block(11, 410)],
    ];
    let dir = database(&chunks);
    let db = open(&dir);
    assert_reads(&db, &chunks);
    for (epoch, blocks) in (0..).zip(&chunks) {
        for (at, block) in blocks.iter().enumerate() {
            let slot = if at == 0 { epoch * 100 } else { block.slot_or_epoch };
            let position = db.find(slot, &block.hash).unwrap().unwrap();
            let found = db.blocks_from(position).next().unwrap().unwrap();
            assert_eq!(found.bytes, block.bytes);
        }
    }
    let dir = database(&chunks[..4]);
    let until_epoch_3 = open(&dir);
    let last = until_epoch_3.last().unwrap().unwrap();
    assert_eq!((last.slot, last.is_boundary), (3, true));
    assert_eq!(until_epoch_3.find(300, &last.hash).unwrap(), Some(last.position));
}

#[test]
fn missing_files_are_named() {
    for missing in ["00001.chunk", "00001.secondary", "00002.chunk", "00000.secondary"] {
        let dir = database(&three_chunks());
        fs::remove_file(dir.path().join(missing)).unwrap();
        let error = ImmutableDb::open(dir.path()).unwrap_err();
        assert!(matches!(error, SourceError::MissingChunkFile { .. }), "{error}");
        assert!(error.to_string().contains(missing), "{error}");
    }
    let dir = database(&three_chunks());
    for name in ["00001.chunk", "00001.secondary"] {
        fs::remove_file(dir.path().join(name)).unwrap();
    }
    let error = ImmutableDb::open(dir.path()).unwrap_err().to_string();
    assert!(error.contains("00001.chunk is missing"), "{error}");
    let nothing = TempDir::new().unwrap();
    fs::write(nothing.path().join("1.chunk"), [1]).unwrap();
    let error = ImmutableDb::open(nothing.path()).unwrap_err();
    assert!(matches!(error, SourceError::NoChunks { .. }), "{error}");
    let error = ImmutableDb::open(&nothing.path().join("nowhere")).unwrap_err();
    assert!(matches!(error, SourceError::Read { .. }), "{error}");
}

#[test]
fn reading_stops_where_the_last_chunk_ends_inside_blocks() {
    let chunks = three_chunks();
    let len = bytes_of(&chunks[2]).len();
    let before_last = len - chunks[2][2].bytes.len();
    // One byte short, at the start of the last block, inside the one before, nothing at all.
    for (cut, unfinished) in [(len - 1, 1), (before_last, 1), (before_last - 1, 2), (0, 3)] {
        let dir = database(&chunks);
        change(&dir, "00002.chunk", |bytes| bytes.truncate(cut));
        let db = open(&dir);
        assert_eq!(db.blocks_total(), 8);
        let mut blocks = db.blocks_from(db.start());
        let read = blocks.by_ref().map(Result::unwrap).count();
        assert_eq!((read as u64, blocks.unfinished()), (8 - unfinished, unfinished), "{cut}");
        assert!(blocks.next().is_none());
    }
}

#[test]
fn what_a_running_node_is_writing_is_left_alone() {
    let chunks = three_chunks();
    let next = block(9, 240);
    // The next block is being written; then it is whole; then its entry is being written.
    for (tail, entry) in [(5, 0), (next.bytes.len(), 0), (next.bytes.len(), 20)] {
        let dir = database(&chunks);
        change(&dir, "00002.chunk", |bytes| bytes.extend(&next.bytes[..tail]));
        change(&dir, "00002.secondary", |bytes| bytes.extend(vec![0; entry]));
        assert_reads(&open(&dir), &chunks);
    }
    // Blocks that arrive after opening are seen by the next to open.
    let dir = database(&chunks);
    let before = open(&dir);
    let mut grown = chunks.clone();
    grown[2].push(next);
    write(dir.path(), 0, &grown);
    assert_reads(&before, &chunks);
    assert_reads(&open(&dir), &grown);
}

#[test]
fn truncation_before_the_last_chunk_is_an_error() {
    let chunks = three_chunks();
    let len = bytes_of(&chunks[1]).len();
    for cut in [len - 1, chunks[1][0].bytes.len(), 3, 0] {
        let dir = database(&chunks);
        change(&dir, "00001.chunk", |bytes| bytes.truncate(cut));
        let db = open(&dir);
        let mut blocks = db.blocks_from(db.start());
        let error = blocks.find_map(Result::err).unwrap();
        assert!(matches!(error, SourceError::TruncatedChunk { .. }), "{error}");
        assert!(error.to_string().contains("00001.chunk"), "{error}");
        assert!(blocks.next().is_none(), "nothing follows an error");
    }
}

#[test]
fn damage_anywhere_is_an_error() {
    let chunks = three_chunks();
    for (name, at) in [("00000.chunk", 10), ("00001.chunk", 50), ("00002.chunk", 5)] {
        let dir = database(&chunks);
        change(&dir, name, |bytes| bytes[at] ^= 1);
        let error = read_all(&open(&dir)).unwrap_err();
        assert!(matches!(error, SourceError::DamagedChunk { .. }), "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
    // Also in the last block, where only its own length says where it ends.
    let dir = database(&chunks);
    change(&dir, "00002.chunk", |bytes| *bytes.last_mut().unwrap() ^= 1);
    let error = read_all(&open(&dir)).unwrap_err();
    assert!(matches!(error, SourceError::DamagedChunk { .. }), "{error}");
    // Bytes behind the last block of a chunk that is complete.
    let dir = database(&chunks);
    change(&dir, "00001.chunk", |bytes| bytes.extend([0; 9]));
    assert!(matches!(read_all(&open(&dir)), Err(SourceError::DamagedChunk { .. })));
}

#[test]
fn an_index_that_makes_no_sense_is_an_error() {
    let dir = database(&three_chunks());
    let path = change(&dir, "00001.secondary", |bytes| bytes.truncate(100));
    let error = ImmutableDb::open(dir.path()).unwrap_err();
    assert!(
        matches!(&error, SourceError::BadChunkIndex { path: at, entry: 1 } if *at == path),
        "{error}"
    );
    // A block starts where the one before does, or before it; the first one not at 0.
    for (at, with, entry) in [(56, [0; 8], 1), (112, [0; 8], 2), (0, [1; 8], 0)] {
        let dir = database(&three_chunks());
        change(&dir, "00000.secondary", |bytes| bytes[at..at + 8].copy_from_slice(&with));
        let error = read_all(&open(&dir)).unwrap_err();
        let found = matches!(&error, SourceError::BadChunkIndex { entry: at, .. } if *at == entry);
        assert!(found, "{error}");
    }
    // The last block starts at the end of all numbers.
    let dir = database(&three_chunks());
    change(&dir, "00000.secondary", |bytes| bytes[112..120].fill(0xff));
    let error = read_all(&open(&dir)).unwrap_err();
    assert!(matches!(error, SourceError::TruncatedChunk { .. }), "{error}");
}

#[test]
fn real_chain_of_the_preview_network_is_read_from_end_to_end() {
    let Some(dir) = preview_immutable(Path::new(env!("CARGO_TARGET_TMPDIR"))) else { return };
    let db = ImmutableDb::open(&dir).unwrap();
    assert_eq!(db.blocks_total(), 59_315);
    let last = db.last().unwrap().unwrap();
    assert_eq!(last.slot, 1_295_990);
    assert!(last.hash.to_hex().starts_with("acff9c29"), "{}", last.hash.to_hex());
    let genesis = Genesis::public(Network::CardanoPreview).unwrap();
    let mut prev = genesis.hash();
    let mut count = 0;
    let mut chunk_before = None;
    let mut blocks = db.blocks_from(db.start());
    for block in blocks.by_ref() {
        let block = block.unwrap();
        let info = decode_header(&block.bytes, &genesis).unwrap();
        assert_eq!((info.header.hash, info.header.prev), (block.hash, prev));
        assert_eq!(info.number, count);
        prev = block.hash;
        count += 1;
        // The first and the last block of every chunk, and some between.
        let slot = info.header.slot.unwrap().slot;
        let is_new_chunk = chunk_before.is_none_or(|chunk| chunk != slot / 4_320);
        chunk_before = Some(slot / 4_320);
        if is_new_chunk || count % 97 == 0 {
            assert_eq!(db.find(slot, &block.hash).unwrap(), Some(block.position));
        }
    }
    assert_eq!((count, blocks.unfinished(), prev), (59_315, 0, last.hash));
    assert_eq!(db.find(last.slot, &last.hash).unwrap(), Some(last.position));
}

#[test]
fn real_chunk_in_the_middle_of_a_chain_is_read() {
    let Some(dir) = testdata("cardano/preprod-immutable") else { return };
    let db = ImmutableDb::open(&dir).unwrap();
    let blocks = read_all(&db).unwrap();
    assert_eq!((blocks.len(), db.blocks_total()), (864, 864));
    let genesis = Genesis::public(Network::CardanoPreprod).unwrap();
    for (block, number) in blocks.iter().zip(910_412..) {
        let info = decode_header(&block.bytes, &genesis).unwrap();
        assert_eq!((info.header.hash, info.number), (block.hash, number));
    }
}
