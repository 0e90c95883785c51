//! Files of Cardano blocks: bytes and text, one block or many, boundary blocks between them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use minicbor::Encoder;
use tempfile::TempDir;
use utxokeep_chains::{
    BlockList, BlockSource, SourceError,
    cardano::{CardanoDecodeError, CardanoFiles, CardanoFilesReport, Genesis, decode_header},
};
use utxokeep_core::{BlockHash, Network, hex_decode, hex_encode};
use utxokeep_testkit::testdata;

fn genesis() -> Genesis {
    Genesis::public(Network::CardanoMainnet).unwrap()
}

fn open(paths: &[PathBuf]) -> Result<CardanoFiles, SourceError> {
    CardanoFiles::open(paths, Network::CardanoMainnet, &genesis())
}

fn write(dir: &TempDir, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = dir.path().join(name);
    fs::write(&path, bytes).unwrap();
    path
}

fn hash_of(raw: &[u8]) -> BlockHash {
    decode_header(raw, &genesis()).unwrap().header.hash
}

type Cbor = Encoder<Vec<u8>>;

/// A block of Byron with its header only: enough for a source, which looks at nothing else.
fn byron(era: u8, prev: &BlockHash, rest: impl FnOnce(&mut Cbor)) -> Vec<u8> {
    let mut cbor = Encoder::new(Vec::new());
    cbor.array(2).unwrap().u8(era).unwrap().array(3).unwrap();
    cbor.array(5).unwrap().u32(764_824_073).unwrap().bytes(prev.as_bytes()).unwrap();
    rest(&mut cbor);
    cbor.null().unwrap();
    cbor.array(0).unwrap().array(0).unwrap();
    cbor.into_writer()
}

fn boundary_block(prev: &BlockHash, epoch: u64, number: u64) -> Vec<u8> {
    byron(0, prev, |cbor| {
        cbor.bytes(&[0; 32]).unwrap().array(2).unwrap().u64(epoch).unwrap();
        cbor.array(1).unwrap().u64(number).unwrap();
    })
}

fn main_block(prev: &BlockHash, epoch: u64, slot: u64, number: u64) -> Vec<u8> {
    byron(1, prev, |cbor| {
        cbor.array(4).unwrap().array(3).unwrap().u8(0).unwrap();
        cbor.bytes(&[0; 32]).unwrap().null().unwrap();
        cbor.null().unwrap().null().unwrap().null().unwrap();
        cbor.array(4).unwrap().array(2).unwrap().u64(epoch).unwrap().u64(slot).unwrap();
        cbor.null().unwrap().array(1).unwrap().u64(number).unwrap().null().unwrap();
    })
}

/// Two epochs of Byron and the start of a third, the second without a main block.
fn byron_chain() -> Vec<Vec<u8>> {
    let first = boundary_block(&genesis().hash(), 0, 0);
    let one = main_block(&hash_of(&first), 0, 0, 1);
    let two = main_block(&hash_of(&one), 0, 9, 2);
    let second_epoch = boundary_block(&hash_of(&two), 1, 2);
    let third_epoch = boundary_block(&hash_of(&second_epoch), 2, 2);
    let three = main_block(&hash_of(&third_epoch), 2, 5, 3);
    vec![first, one, two, second_epoch, third_epoch, three]
}

/// The places in [`byron_chain`] of blocks that take a height.
const WITH_HEIGHT: [usize; 4] = [0, 1, 2, 5];

/// The source hands out exactly the blocks of [`byron_chain`] that take a height, as one chain.
fn assert_holds_byron(mut files: CardanoFiles) {
    let chain = byron_chain();
    let mut prev = genesis().hash();
    assert_eq!(files.headers().len(), WITH_HEIGHT.len());
    for (at, number) in WITH_HEIGHT.into_iter().zip(0..) {
        let header = files.next().unwrap().unwrap();
        assert_eq!((header.hash, header.prev), (hash_of(&chain[at]), prev));
        assert_eq!(files.number(&header.hash), Some(number));
        assert_eq!(files.raw(&header.hash).unwrap(), chain[at]);
        prev = header.hash;
    }
    assert_eq!(files.next().unwrap(), None);
    let boundary = hash_of(&chain[3]);
    assert_eq!(files.number(&boundary), None);
    assert!(matches!(files.raw(&boundary), Err(SourceError::UnknownBlock { .. })));
}

#[test]
fn blocks_behind_boundaries_name_the_block_before_them() {
    let dir = TempDir::new().unwrap();
    let file = write(&dir, "chain", byron_chain().concat());
    let files = open(&[file]).unwrap();
    let report = CardanoFilesReport { blocks: 4, duplicates: 0, boundary_blocks: 2 };
    assert_eq!(files.report(), report);
    assert_holds_byron(files);
}

#[test]
fn files_may_come_in_pieces_and_repeat_blocks() {
    let dir = TempDir::new().unwrap();
    let chain = byron_chain();
    let without_boundaries = WITH_HEIGHT.map(|at| chain[at].clone()).concat();
    // The boundary blocks arrive last, and the first of them twice.
    let one = write(&dir, "one", without_boundaries);
    let two = write(&dir, "two", [&chain[4][..], &chain[3], &chain[4], &chain[1]].concat());
    let files = open(&[one, two]).unwrap();
    let report = CardanoFilesReport { blocks: 4, duplicates: 2, boundary_blocks: 2 };
    assert_eq!(files.report(), report);
    assert_holds_byron(files);
}

#[test]
fn text_is_read_like_bytes() {
    let dir = TempDir::new().unwrap();
    let chain = byron_chain();
    let lines: Vec<String> = chain.iter().map(|block| hex_encode(block)).collect();
    let joined = lines.concat();
    // White space may even stand between the two digits of a byte.
    let wrapped: Vec<&str> =
        joined.as_bytes().chunks(7).map(|part| str::from_utf8(part).unwrap()).collect();
    for text in [
        joined.clone(),
        joined.to_uppercase(),
        format!("\n {}\r\n", lines.join("\n\n")),
        wrapped.join("\n\t"),
    ] {
        let file = write(&dir, "text", text);
        assert_holds_byron(open(&[file]).unwrap());
    }
    let half = lines.split_at(3);
    let text = write(&dir, "first.txt", half.0.concat());
    let bytes = write(&dir, "second.cbor", chain[3..].concat());
    assert_holds_byron(open(&[text, bytes]).unwrap());
}

#[test]
fn what_is_no_block_is_named_by_file_and_offset() {
    let dir = TempDir::new().unwrap();
    let first = &byron_chain()[0];
    let at = first.len() as u64;
    let unknown_era = [0x82, 0x18, 44, 0x80];
    let truncated = &first[..first.len() - 3];
    for (tail, offset) in
        [(&[0u8][..], at), (b"\n", at), (&unknown_era, at), (truncated, at), (&[0x82], at)]
    {
        let file = write(&dir, "blocks", [first, tail].concat());
        let error = open(std::slice::from_ref(&file)).unwrap_err();
        assert!(error.to_string().contains(&format!("byte {offset} of {}", file.display())));
        assert!(matches!(&error, SourceError::BadBlock { .. }), "{error}");
    }
    let file = write(&dir, "blocks", [first, &unknown_era[..]].concat());
    let Err(SourceError::BadBlock { source, .. }) = open(&[file]) else {
        panic!("an unknown era was accepted")
    };
    assert_eq!(*source, CardanoDecodeError::UnknownEra { tag: 44 });
}

#[test]
fn text_that_is_not_hexadecimal_is_named_by_file_and_offset() {
    let dir = TempDir::new().unwrap();
    let text = hex_encode(&byron_chain()[0]);
    for (text, offset) in [
        (format!("{text}xyz"), text.len()),
        (format!("82-{text}"), 2),
        (format!("{text}8\n"), text.len() + 2),
    ] {
        let file = write(&dir, "text", text);
        let error = open(std::slice::from_ref(&file)).unwrap_err();
        assert!(matches!(&error, SourceError::BadHex { .. }), "{error}");
        assert!(error.to_string().contains(&format!("byte {offset} of {}", file.display())));
    }
    // In a text the offset counts characters of the text.
    let file = write(&dir, "text", format!("{text}\n0000"));
    let error = open(&[file]).unwrap_err().to_string();
    assert!(error.contains(&format!("byte {} of", text.len())), "{error}");
}

#[test]
fn files_that_cannot_be_read_are_named_and_empty_ones_hold_nothing() {
    let dir = TempDir::new().unwrap();
    for path in [dir.path().to_owned(), dir.path().join("nowhere")] {
        let error = open(&[path]).unwrap_err();
        assert!(matches!(error, SourceError::Read { .. }), "{error}");
    }
    let files = open(&[write(&dir, "empty", []), write(&dir, "blank", " \n")]);
    assert!(matches!(files, Err(SourceError::BadBlock { .. })), "blanks are no bytes of a block");
    let mut files = open(&[write(&dir, "empty", [])]).unwrap();
    assert_eq!(files.next().unwrap(), None);
    assert_eq!(files.report(), CardanoFilesReport::default());
}

#[test]
fn one_real_chunk_of_a_node_is_a_file_of_blocks() {
    let Some(dir) = testdata("cardano/preprod-immutable") else { return };
    let network = Network::CardanoPreprod;
    let genesis = Genesis::public(network).unwrap();
    let files = CardanoFiles::open(&[dir.join("01285.chunk")], network, &genesis).unwrap();
    let headers = files.headers();
    assert_eq!(headers.len(), 864);
    for (pair, number) in headers.windows(2).zip(910_412..) {
        assert_eq!(pair[1].prev, pair[0].hash);
        assert_eq!(files.number(&pair[0].hash), Some(number));
        let raw = files.raw(&pair[0].hash).unwrap();
        assert_eq!(decode_header(&raw, &genesis).unwrap().header, pair[0]);
    }
}

/// Files with wrapped blocks in a directory of the data, by name.
fn files_in(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = entries.collect();
    files.sort();
    files
}

#[test]
fn real_blocks_of_every_era_are_read_from_bytes_and_text() {
    let Some(blocks) = testdata("cardano/blocks") else { return };
    let index = fs::read_to_string(blocks.join("index.csv")).unwrap();
    let rows = index.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let rows: Vec<_> = rows.collect();
    let mut seen = 0;
    for dir in ["pallas", "yaci", "dolos", "daedalus-turbo"] {
        for file in files_in(&blocks.join(dir)) {
            let name = file.file_name().unwrap().to_str().unwrap();
            let path = format!("blocks/{dir}/{name}");
            let files = open(std::slice::from_ref(&file)).unwrap();
            assert_eq!((files.report().blocks, files.headers().len()), (1, 1), "{path}");
            // The list leaves out the first block of all, and one that other decoders refuse.
            let Some(row) = rows.iter().find(|row| row[0] == path) else { continue };
            let header = files.headers()[0];
            assert_eq!(header.hash.to_hex(), row[4], "{path}");
            assert_eq!(files.number(&header.hash), Some(row[2].parse().unwrap()), "{path}");
            let content = fs::read(&file).unwrap();
            let as_text = str::from_utf8(&content).ok().and_then(|text| hex_decode(text.trim()));
            // One of the files holds its block twice.
            let times = 1 + usize::try_from(files.report().duplicates).unwrap();
            let raw = files.raw(&header.hash).unwrap().repeat(times);
            assert!(raw == as_text.unwrap_or(content), "{path}");
            seen += 1;
        }
    }
    assert!(seen > 90, "only {seen} blocks were there");
    // A block behind the first boundary block keeps it as its parent: that one has a height.
    let second = open(&[blocks.join("daedalus-turbo/byron_block-1.cbor")]).unwrap();
    assert_eq!(second.number(&second.headers()[0].hash), Some(1));
}

#[test]
fn a_block_that_files_lack_is_named_as_cardano_writes_it() {
    let mut bytes = [0; 32];
    bytes[0] = 0xab;
    let error = open(&[]).unwrap().raw(&BlockHash::from_bytes(bytes)).unwrap_err();
    assert_eq!(error.to_string(), format!("block ab{} is unknown to the source", "00".repeat(31)));
}
