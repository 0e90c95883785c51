use super::*;
use crate::{
    BlockHash, ChainWork, Details, Height, Network, OutPoint, SlotInfo, Txid,
    chain::block::{Block, Header, Output, Tx},
    hex_encode,
};

const HASH: BlockHash = BlockHash::from_bytes([0xab; 32]);
const PARENT: BlockHash = BlockHash::from_bytes([0xcd; 32]);

fn txid(name: u8) -> Txid {
    Txid::from_bytes([name; 32])
}

/// A block of `txs` transactions of two bytes each, behind a frame of three; one output each, whose
/// script is in the frame, and one input each but for the first.
fn block(txs: u8, slot: Option<SlotInfo>) -> (Vec<u8>, Vec<CutPiece>, Block) {
    let mut raw = vec![1, 2, 3];
    let mut cut = vec![CutPiece::Frame(0..3)];
    for name in 0..txs {
        let at = raw.len();
        raw.extend([0xf0, name]);
        cut.push(CutPiece::Tx(name.into(), at..at + 2));
    }
    let tx = |name: u8| Tx {
        txid: txid(name),
        is_coinbase: name == 0,
        is_invalid: false,
        is_ledger_rule: false,
        output_total: 5,
        inputs: u32::from(name.saturating_sub(1))..u32::from(name),
        outputs: u32::from(name)..u32::from(name) + 1,
    };
    let output = |_| Output { index: 1, value: 5, address: 1..3, details: 0..0, detail_fields: 0 };
    let mut work = [0; 32];
    work[31] = 2;
    let work = ChainWork::from_be_bytes(work);
    let decoded = Block {
        header: Header { hash: HASH, prev: BlockHash::from_bytes([9; 32]), time: 7, work, slot },
        claimed_height: None,
        is_boundary: false,
        txs: (0..txs).map(tx).collect(),
        inputs: (1..txs).map(|name| OutPoint::new(txid(name), 0)).collect(),
        outputs: (0..txs).map(output).collect(),
        bytes: raw.clone(),
        bitcoin: None,
    };
    (raw, cut, decoded)
}

fn place(network: Network) -> BlockPlace {
    BlockPlace { network, height: Height::new(1_234), parent: PARENT }
}

fn files(txs: u8, log2: u8) -> (Vec<u8>, PersistedFiles) {
    let (raw, cut, decoded) = block(txs, None);
    let files = encode_files(&raw, &cut, &decoded, place(Network::BitcoinRegtest), log2).unwrap();
    (raw, files)
}

fn data_of(files: &PersistedFiles) -> Vec<SubtreeData<'_>> {
    let data = files.others.iter().filter(|(name, _)| name.kind == FileKind::SubtreeData);
    data.map(|(_, file)| SubtreeData::decode(file).unwrap()).collect()
}

#[test]
fn a_block_is_put_together_from_its_files_whatever_the_size_of_subtrees() {
    for txs in 1..=9 {
        for log2 in 0..=4 {
            let (raw, files) = files(txs, log2);
            let block = PersistedBlock::decode(&files.manifest.1).unwrap();
            assert_eq!(block, files.block);
            assert_eq!(block.header.prev, PARENT, "the parent is that of the log");
            assert_eq!(block.subtrees.len(), usize::from(txs).div_ceil(1 << log2));
            assert_eq!(block.assemble(&data_of(&files)).unwrap(), raw);
            let sums: u64 = files.others.iter().map(|(_, file)| file.len() as u64).sum();
            assert_eq!(block.other_files_bytes(), sums);
        }
    }
}

/// The tree over the nodes of subtrees is the tree of the block.
#[test]
fn roots_of_subtrees_are_nodes_of_the_merkle_tree() {
    let root = |txids: &[Txid]| subtree_roots(txids, 20)[0];
    for txs in 1..=40_u8 {
        let txids: Vec<Txid> = (0..txs).map(txid).collect();
        for log2 in 0..=6 {
            let nodes = subtree_roots(&txids, log2);
            let nodes: Vec<Txid> = nodes.into_iter().map(Txid::from_bytes).collect();
            assert_eq!(root(&nodes), root(&txids), "{txs} transactions, 2^{log2} each");
        }
    }
}

#[test]
fn what_a_block_created_and_spent_comes_back() {
    let (_, files) = files(3, 10);
    let file = |kind| &files.others.iter().find(|(name, _)| name.kind == kind).unwrap().1;
    let additions = Additions::decode(file(FileKind::Additions)).unwrap();
    let outpoints: Vec<_> = additions.outputs.iter().map(|output| output.outpoint).collect();
    assert_eq!(outpoints, [0, 1, 2].map(|name| OutPoint::new(txid(name), 1)));
    assert_eq!(additions.outputs[0].address, [2, 3]);
    assert!(additions.outputs[0].is_coinbase && !additions.outputs[1].is_coinbase);
    let deletions = Deletions::decode(file(FileKind::Deletions)).unwrap();
    assert_eq!(deletions.outputs, [1, 2].map(|name| OutPoint::new(txid(name), 0)));
    let with_details = Additions {
        outputs: vec![Addition {
            details: Details { bytes: &[2, 0x80], fields: 1 },
            ..additions.outputs[0]
        }],
        ..additions
    };
    assert_eq!(Additions::decode(&with_details.encode()).unwrap(), with_details);
}

#[test]
fn bytes_are_pinned() {
    let (_, files) = files(2, 0);
    let hex = |kind| {
        let found = files.others.iter().find(|(name, _)| name.kind == kind).unwrap();
        hex_encode(&found.1)
    };
    let (hash, parent) = ("ab".repeat(32), "cd".repeat(32));
    let (first, second) = ("00".repeat(32), "01".repeat(32));
    assert_eq!(
        hex(FileKind::Subtree),
        format!("554b425002018558 20{hash}005820{first}5820{first}8102").replace(' ', "")
            + &sum_of(&hex(FileKind::Subtree))
    );
    assert_eq!(
        hex(FileKind::SubtreeData),
        format!("554b42500301835820{hash}00818142f000") + &sum_of(&hex(FileKind::SubtreeData))
    );
    assert_eq!(
        hex(FileKind::Additions),
        format!(
            "554b42500401835820{hash}1904d282\
             835820{first}f58183010542020383 5820{second}f4818301 05420203"
        )
        .replace(' ', "")
            + &sum_of(&hex(FileKind::Additions))
    );
    assert_eq!(
        hex(FileKind::Deletions),
        format!("554b42500501835820{hash}1904d25824{second}00000000")
            + &sum_of(&hex(FileKind::Deletions))
    );
    let manifest = hex_encode(&files.manifest.1);
    let head = format!(
        "554b425001018c6f626974636f696e2f72656774657374\
         1904d25820{hash}5820{parent}074102f60082430102038200028284 5820{first}01"
    );
    assert!(manifest.starts_with(&head.replace(' ', "")), "{manifest}");
    let watermark =
        Watermark { network: Network::BitcoinRegtest, block: Some((Height::new(5), HASH)) };
    let mark = hex_encode(&watermark.encode());
    assert_eq!(
        mark,
        format!("554b42500601836f626974636f696e2f72656774657374055820{hash}") + &sum_of(&mark)
    );
}

/// The last four bytes: a checksum of the rest.
fn sum_of(file: &str) -> String {
    let bytes = crate::hex_decode(file).unwrap();
    let (rest, _) = bytes.split_last_chunk::<4>().unwrap();
    hex_encode(&crc32fast::hash(rest).to_be_bytes())
}

#[test]
fn names_are_pinned_and_read_back() {
    let (_, files) = files(2, 0);
    let names: Vec<String> = files.others.iter().map(|(name, _)| name.to_string()).collect();
    let hash = "ab".repeat(32);
    let expected = [
        "0.subtree",
        "0.subtree_data",
        "1.subtree",
        "1.subtree_data",
        "utxo-additions",
        "utxo-deletions",
    ];
    assert_eq!(names, expected.map(|end| format!("0000001/{hash}.{end}")));
    let manifest = files.manifest.0.to_string();
    assert_eq!(manifest, format!("0000001/{hash}.block"));
    let network = Network::BitcoinRegtest;
    assert_eq!(FileName::hash_of_block_file(network, &manifest), Some(HASH));
    assert_eq!(FileName::hash_of_block_file(network, &names[0]), None);
    assert_eq!(folder_range("0000001"), Some(Height::new(1_000)..=Height::new(1_999)));
    for other in ["", "1", "00000001", "000000x", "9999999"] {
        assert_eq!(folder_range(other), None, "{other}");
    }
}

#[test]
fn slots_and_watermarks_round_trip() {
    let slot = Some(SlotInfo { slot: 99, epoch: 3, era: 6 });
    let (raw, cut, decoded) = block(2, slot);
    let files = encode_files(&raw, &cut, &decoded, place(Network::CardanoPreview), 4).unwrap();
    let read = PersistedBlock::decode(&files.manifest.1).unwrap();
    assert_eq!((read.header.slot, read.subtrees[0].root), (slot, None));
    for block in [None, Some((Height::new(7), HASH))] {
        let mark = Watermark { network: Network::CardanoPreview, block };
        assert_eq!(Watermark::decode(&mark.encode()), Ok(mark));
    }
}

/// Several pieces of one transaction, as Cardano has them, in any order of stretches.
#[test]
fn pieces_of_one_transaction_may_lie_apart() {
    let (_, _, decoded) = block(2, None);
    let raw = [9, 1, 2, 8, 3, 4, 7, 5];
    let cut = [
        CutPiece::Frame(0..1),
        CutPiece::Tx(0, 1..2),
        CutPiece::Tx(1, 2..3),
        CutPiece::Frame(3..4),
        CutPiece::Tx(0, 4..5),
        CutPiece::Tx(1, 5..6),
        CutPiece::Frame(6..7),
        CutPiece::Tx(1, 7..8),
    ];
    let files = encode_files(&raw, &cut, &decoded, place(Network::BitcoinRegtest), 0).unwrap();
    assert_eq!(files.block.assemble(&data_of(&files)).unwrap(), raw);
    assert!(files.block.assemble(&data_of(&files)[..1]).is_err());
    let mut short = data_of(&files);
    short[1].txs[0].pop();
    assert!(files.block.assemble(&short).is_err());
    short[1].txs[0].extend([&[5][..], &[5]]);
    assert!(files.block.assemble(&short).is_err());
    for wrong in [&cut[1..], &cut[..7], &[CutPiece::Tx(2, 0..8)][..]] {
        assert!(encode_files(&raw, wrong, &decoded, place(Network::BitcoinRegtest), 0).is_err());
    }
}

#[test]
fn damaged_files_are_errors_not_panics() {
    let (_, files) = files(3, 1);
    let watermark =
        Watermark { network: Network::BitcoinRegtest, block: Some((Height::new(5), HASH)) };
    let all = files.others.iter().map(|(name, file)| (name.kind, file.clone()));
    let all = all.chain([
        (FileKind::Block, files.manifest.1.clone()),
        (FileKind::Watermark, watermark.encode()),
    ]);
    let read = |kind, file: &[u8]| match kind {
        FileKind::Block => PersistedBlock::decode(file).is_ok(),
        FileKind::Subtree => Subtree::decode(file).is_ok(),
        FileKind::SubtreeData => SubtreeData::decode(file).is_ok(),
        FileKind::Additions => Additions::decode(file).is_ok(),
        FileKind::Deletions => Deletions::decode(file).is_ok(),
        FileKind::Watermark => Watermark::decode(file).is_ok(),
    };
    for (kind, file) in all {
        assert!(read(kind, &file));
        for other in FileKind::ALL.into_iter().filter(|other| *other != kind) {
            assert!(!read(other, &file), "{kind:?} is no {other:?}");
        }
        for cut in 0..file.len() {
            assert!(!read(kind, &file[..cut]), "{kind:?} cut at {cut}");
        }
        for at in 0..file.len() {
            for flip in [1, 0x10, 0x80, 0xff] {
                let mut damaged = file.clone();
                damaged[at] ^= flip;
                assert!(!read(kind, &damaged), "{kind:?} at {at}");
                // Damage from before the checksum was made must not panic either.
                let (rest, _) = damaged.split_last_chunk::<4>().unwrap();
                let mut made = rest.to_vec();
                made.extend(crc32fast::hash(rest).to_be_bytes());
                let _ = read(kind, &made);
            }
        }
    }
}
