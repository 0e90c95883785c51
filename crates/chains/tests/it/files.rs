//! Block files in every state a node or a download may leave them in.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use tempfile::TempDir;
use utxokeep_chains::{
    BlockFileWriter, BlockFiles, BlockList, BlockSource, ScanOptions, ScanReport, Simulator,
    SimulatorConfig, SourceError, UnpackLimits, XorKey, decode_block, write_block_file,
};
use utxokeep_core::{BlockHash, Network};

use crate::support::{regtest_blocks, regtest_dir, regtest_file, regtest_rows};

const REGTEST: Network = Network::BitcoinRegtest;
const KEY: XorKey = [0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88];

fn open(path: impl Into<PathBuf>) -> Result<BlockFiles, SourceError> {
    open_with(path, ScanOptions::default())
}

fn open_with(
    path: impl Into<PathBuf>,
    options: ScanOptions<'_>,
) -> Result<BlockFiles, SourceError> {
    BlockFiles::open(&[path.into()], REGTEST, &std::env::temp_dir(), options)
}

fn write(dir: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = dir.path().join(name);
    fs::write(&path, bytes).unwrap();
    path
}

/// Every block comes back byte for byte, in order of arrival.
fn assert_holds(mut files: BlockFiles, blocks: &[Vec<u8>]) {
    assert_eq!(files.headers().len(), blocks.len());
    for raw in blocks {
        let header = files.next().unwrap().unwrap();
        assert_eq!(&files.raw(&header.hash).unwrap(), raw);
        assert_eq!(decode_block(raw.clone(), REGTEST).unwrap().header, header);
    }
    assert_eq!(files.next().unwrap(), None);
}

#[test]
fn xz_file_of_a_real_chain_is_read_in_order() {
    let files = open(regtest_dir().join("blocks.dat.xz")).unwrap();
    assert_eq!(files.report(), ScanReport { blocks: 362, ..ScanReport::default() });
    let hashes: Vec<_> = files.headers().iter().map(|header| header.hash.to_string()).collect();
    let expected: Vec<_> = regtest_rows().into_iter().map(|row| row.hash).collect();
    assert_eq!(hashes, expected);
    assert_holds(files, &regtest_blocks());
}

#[test]
fn plain_and_zstd_files_hold_the_same() {
    let dir = TempDir::new().unwrap();
    let bytes = regtest_file();
    let plain = write(&dir, "plain", &bytes);
    // The name says nothing: the first bytes decide.
    let packed = write(&dir, "packed.dat", &zstd::encode_all(&bytes[..], 1).unwrap());
    for path in [plain, packed] {
        assert_holds(open(path).unwrap(), &regtest_blocks());
    }
}

#[test]
fn several_files_share_one_source_and_repetitions_count_once() {
    let dir = TempDir::new().unwrap();
    let blocks = regtest_blocks();
    let spool = TempDir::new().unwrap();
    let half = blocks.len() / 2;
    let first = dir.path().join("blk00009.dat");
    write_block_file(&first, REGTEST, &blocks[..half]).unwrap();
    let second = dir.path().join("later");
    write_block_file(&second, REGTEST, &blocks[half - 3..]).unwrap();
    let packed = zstd::encode_all(&fs::read(&second).unwrap()[..], 1).unwrap();
    write(&dir, "blk00010.dat.zst", &packed);
    fs::remove_file(second).unwrap();

    let paths = [dir.path().to_owned()];
    let files = BlockFiles::open(&paths, REGTEST, spool.path(), ScanOptions::default()).unwrap();
    assert_eq!(files.report().duplicates, 3);
    assert_eq!(fs::read_dir(spool.path()).unwrap().count(), 0, "the spool file has no name");
    assert_holds(files, &blocks);
}

fn write_obfuscated(path: &Path, blocks: &[Vec<u8>]) {
    let mut writer = BlockFileWriter::create(path, REGTEST, Some(KEY)).unwrap();
    for raw in blocks {
        writer.push(raw).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn obfuscated_files_need_the_key_beside_them_or_in_the_options() {
    let dir = TempDir::new().unwrap();
    let blocks = &regtest_blocks()[..40];
    let path = dir.path().join("blk00000.dat");
    write_obfuscated(&path, blocks);
    assert!(matches!(open(&path), Err(SourceError::NoBlocks { .. })));

    let explicit = || ScanOptions { xor_key: Some(KEY), ..ScanOptions::default() };
    assert_holds(open_with(&path, explicit()).unwrap(), blocks);

    write(&dir, "xor.dat", &KEY);
    assert_holds(open(dir.path()).unwrap(), blocks);

    write(&dir, "xor.dat", &[9; 8]);
    assert!(matches!(open(&path), Err(SourceError::NoBlocks { .. })));
    assert_holds(open_with(&path, explicit()).unwrap(), blocks);

    write(&dir, "xor.dat", &[9; 7]);
    assert!(matches!(open(&path), Err(SourceError::BadXorKey { len: 7, .. })));
}

#[test]
fn garbage_padding_and_a_cut_block_are_counted_and_skipped() {
    let dir = TempDir::new().unwrap();
    let blocks = &regtest_blocks()[..4];
    let path = dir.path().join("blocks");
    let magic = REGTEST.magic();
    let mut writer = BlockFileWriter::create(&path, REGTEST, None).unwrap();
    writer.push(&blocks[0]).unwrap();
    writer.push_bytes(&vec![0; 300_000]).unwrap();
    writer.push(&blocks[1]).unwrap();
    writer.push_bytes(b"junk").unwrap();
    // Magics with impossible lengths: too short, too long.
    writer.push_bytes(&magic).unwrap();
    writer.push_bytes(&80u32.to_le_bytes()).unwrap();
    writer.push_bytes(&magic).unwrap();
    writer.push_bytes(&u32::MAX.to_le_bytes()).unwrap();
    // A magic whose length leads into the middle of the next block.
    writer.push_bytes(&magic).unwrap();
    writer.push_bytes(&100u32.to_le_bytes()).unwrap();
    writer.push(&blocks[2]).unwrap();
    // A whole frame around bytes that prove no work.
    writer.push(&[0xff; 200]).unwrap();
    writer.push(&blocks[3]).unwrap();
    // Half a block at the end.
    writer.push_bytes(&magic).unwrap();
    writer.push_bytes(&1_000u32.to_le_bytes()).unwrap();
    writer.push_bytes(&blocks[0]).unwrap();
    writer.finish().unwrap();

    let files = open(&path).unwrap();
    // 80 and 100 take one byte of four.
    let zeros_in_lengths = 3 + 3;
    let expected = ScanReport {
        blocks: 4,
        duplicates: 0,
        garbage_bytes: 4 + 3 * 8 - zeros_in_lengths,
        padding_bytes: 300_000 + zeros_in_lengths,
        truncated: 1,
        bad_headers: 1,
    };
    assert_eq!(files.report(), expected);
    assert_holds(files, blocks);
}

#[test]
fn file_cut_anywhere_still_yields_the_blocks_before_the_cut() {
    let dir = TempDir::new().unwrap();
    let rows = regtest_rows();
    let end = rows[3].offset;
    let bytes = regtest_file();
    for len in 0..=end {
        let files = open(write(&dir, "cut", &bytes[..len])).unwrap();
        let whole = rows.iter().filter(|row| row.offset + 8 + row.len <= len).count();
        assert_eq!(files.headers().len(), whole, "cut at {len}");
    }
}

#[test]
fn file_of_another_network_is_refused_by_name() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("blocks");
    write_block_file(&path, Network::BitcoinSignet, [[0u8; 100]]).unwrap();
    match open(&path) {
        Err(SourceError::WrongNetwork { path: named, found }) => {
            assert_eq!((named, found), (path, Network::BitcoinSignet));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn missing_files_and_damaged_archives_are_typed_errors() {
    let dir = TempDir::new().unwrap();
    assert!(matches!(open(dir.path()), Err(SourceError::NoFiles { .. })));
    assert!(matches!(open(dir.path().join("absent")), Err(SourceError::Read { .. })));

    let archive = fs::read(regtest_dir().join("blocks.dat.xz")).unwrap();
    let cut = write(&dir, "cut.xz", &archive[..archive.len() / 2]);
    assert!(matches!(open(cut), Err(SourceError::Decompress { .. })));

    let packed = zstd::encode_all(&regtest_file()[..], 1).unwrap();
    let cut = write(&dir, "cut.zst", &packed[..packed.len() / 2]);
    assert!(matches!(open(cut), Err(SourceError::Decompress { .. })));

    let nowhere = dir.path().join("no-such-directory");
    let path = write(&dir, "whole.zst", &packed);
    let refused = BlockFiles::open(&[path], REGTEST, &nowhere, ScanOptions::default());
    assert!(matches!(refused, Err(SourceError::Spool { .. })));
}

#[test]
fn block_that_never_arrived_is_unknown() {
    let files = open(regtest_dir().join("blocks.dat.xz")).unwrap();
    let hash = BlockHash::from_bytes([1; 32]);
    assert!(
        matches!(files.raw(&hash), Err(SourceError::UnknownBlock { hash: named }) if named == hash)
    );
}

#[test]
fn progress_never_goes_back_and_ends_at_the_total() {
    let dir = TempDir::new().unwrap();
    let plain = write(&dir, "plain", &regtest_file());
    let mut packed = fs::File::create(dir.path().join("packed")).unwrap();
    packed.write_all(&zstd::encode_all(&regtest_file()[..], 1).unwrap()).unwrap();
    let paths = [plain, dir.path().join("packed")];
    let total: u64 = paths.iter().map(|path| fs::metadata(path).unwrap().len()).sum();
    let mut last = 0;
    let mut steps = 0;
    let mut progress = |done, of| {
        assert_eq!(of, total);
        assert!((last..=total).contains(&done), "{last} then {done}");
        last = done;
        steps += 1;
        true
    };
    let options = ScanOptions { progress: Some(&mut progress), ..ScanOptions::default() };
    BlockFiles::open(&paths, REGTEST, dir.path(), options).unwrap();
    assert_eq!(last, total);
    assert!(steps > 100);
}

#[test]
fn simulated_chain_survives_the_way_through_a_file() {
    let dir = TempDir::new().unwrap();
    let mut simulator = Simulator::new(SimulatorConfig::default());
    let blocks: Vec<_> = (0..150).map(|_| simulator.mine_next().1).collect();
    let path = dir.path().join("blk00000.dat");
    let len = write_block_file(&path, Simulator::NETWORK, &blocks).unwrap();
    assert_eq!(len, fs::metadata(&path).unwrap().len());
    assert_holds(open(dir.path()).unwrap(), &blocks);
}

#[test]
fn a_file_that_starts_with_zeros_is_padding_not_another_network() {
    let dir = TempDir::new().unwrap();
    write(&dir, "blk00000.dat", &regtest_file());
    write(&dir, "blk00001.dat", &vec![0; 1 << 20]);
    let files = open(dir.path()).unwrap();
    assert_eq!(files.report().padding_bytes, 1 << 20);
    assert_eq!(files.report().garbage_bytes, 0);
}

#[test]
fn a_file_of_nothing_but_magics_is_read_once() {
    let dir = TempDir::new().unwrap();
    let path = write(&dir, "magics", &REGTEST.magic().repeat(1 << 20));
    let mut steps = 0u64;
    let mut progress = |_, _| {
        steps += 1;
        true
    };
    let options = ScanOptions { progress: Some(&mut progress), ..ScanOptions::default() };
    let refused = BlockFiles::open(&[path], REGTEST, dir.path(), options);
    assert!(matches!(refused, Err(SourceError::NoBlocks { .. })), "{refused:?}");
    assert!(steps < 3 << 20, "{steps}");
}

#[test]
fn unpacking_stops_at_its_limits_and_when_nobody_wants_it_any_more() {
    let dir = TempDir::new().unwrap();
    let bomb = zstd::encode_all(std::io::Read::take(std::io::repeat(0), 256 << 20), 1).unwrap();
    let path = [write(&dir, "bomb.zst", &bomb)];
    let open = |options| BlockFiles::open(&path, REGTEST, dir.path(), options).unwrap_err();
    let within = |bytes_max, free_bytes_min| ScanOptions {
        unpack: UnpackLimits { bytes_max, free_bytes_min },
        ..ScanOptions::default()
    };
    let error = open(within(8 << 20, 0)).to_string();
    assert!(error.contains("unpacked_gib_max"), "{error}");
    let error = open(within(1 << 40, 1 << 62)).to_string();
    assert!(error.contains("unpack_free_gib_min"), "{error}");
    let mut left = 5;
    let mut progress = |_, _| {
        left -= 1;
        left > 0
    };
    let options = ScanOptions { progress: Some(&mut progress), ..ScanOptions::default() };
    assert!(matches!(open(options), SourceError::Stopped));
    assert_eq!(left, 0, "it ended at once");
}
