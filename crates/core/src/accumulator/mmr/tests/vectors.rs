//! Published forests of Utreexo: roots, positions of nodes, and the hashes of proofs of several
//! leaves together.

use sha2::{Digest as _, Sha256};

use super::*;

const VECTORS: &str = include_str!("utreexo_vectors.txt");

/// `-`, `0..7` (both included) or `1,4,9`.
fn numbers(text: &str) -> Vec<u64> {
    match text.split_once("..") {
        _ if text == "-" => Vec::new(),
        Some((first, last)) => (first.parse().unwrap()..=last.parse().unwrap()).collect(),
        None => text.split(',').map(|number| number.parse().unwrap()).collect(),
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(' ').filter(|word| *word != "-")
}

fn leaf_of_byte(byte: u64) -> NodeHash {
    Sha256::digest([u8::try_from(byte).unwrap()]).into()
}

fn forest(bytes: &str) -> Tree {
    let mut tree = Tree::new(MmrRule::Utreexo);
    tree.append(&numbers(bytes).into_iter().map(leaf_of_byte).collect::<Vec<_>>());
    tree
}

/// Deletes and adds at once, as a block does.
fn block(tree: &mut Tree, gone: &[u64], added: &[u64]) {
    let mut changes: Vec<_> = gone.iter().map(|leaf| (*leaf, None)).collect();
    changes.sort_unstable();
    changes.extend((tree.leaves..).zip(added.iter().map(|byte| Some(leaf_of_byte(*byte)))));
    tree.change(tree.leaves + added.len() as u64, &changes);
}

/// Row and number in the row of a position in a forest of 63 rows.
fn row_and_number(position: u64) -> (u32, u64) {
    let row = position.leading_ones();
    (row, position - if row == 0 { 0 } else { u64::MAX << (u64::BITS - row) })
}

/// The same position in a forest that is as high as its leaves need.
fn local(leaves: u64, (row, number): (u32, u64)) -> u64 {
    let rows = leaves.next_power_of_two().ilog2();
    (1 << (rows + 1)) - (1 << (rows + 1 - row)) + number
}

/// Nodes on the ways from leaves to their roots, and those beside, by position.
#[derive(Default)]
struct Ways {
    on: BTreeMap<u64, NodeHash>,
    beside: BTreeMap<u64, NodeHash>,
}

impl Ways {
    fn of(tree: &Tree, leaves: impl IntoIterator<Item = u64>) -> Self {
        let mut ways = Self::default();
        for leaf in leaves {
            let (key, at) =
                (RowKey { tier: 0, number: leaf / 16 }, usize::try_from(leaf % 16).unwrap());
            let Ok(row) = tree.read.read_row(key);
            let Some(mut node) = row.node(at) else { continue };
            let Ok(UtreexoProof { target, hashes }) = utreexo_path(&tree.read, tree.leaves, leaf);
            let (mut row, mut number) = row_and_number(target);
            ways.on.insert(local(tree.leaves, (row, number)), node);
            for other in hashes {
                ways.beside.insert(local(tree.leaves, (row, number ^ 1)), other);
                let (left, right) = if number & 1 == 0 { (node, other) } else { (other, node) };
                node = tree.rule.combine(0, Some(left), Some(right)).unwrap();
                (row, number) = (row + 1, number >> 1);
                ways.on.insert(local(tree.leaves, (row, number)), node);
            }
        }
        ways
    }
}

#[test]
fn published_forests_have_their_roots_and_positions() {
    let (mut with_roots, mut nodes) = (0, 0);
    for line in VECTORS.lines().filter(|line| line.starts_with("roots")) {
        let [_, first, gone, spent, added, expected, at] =
            line.split("; ").collect::<Vec<_>>().try_into().unwrap();
        let mut tree = forest(first);
        tree.spend(&numbers(gone));
        block(&mut tree, &numbers(spent), &numbers(added));
        if expected != "-" {
            let roots: Vec<_> = tree.peaks().iter().map(|root| hex_encode(root)).collect();
            assert_eq!(roots, words(expected).collect::<Vec<_>>(), "{line}");
            with_roots += 1;
        }
        let ways = Ways::of(&tree, 0..tree.leaves);
        for node in words(at) {
            let (position, hash) = node.split_once('=').unwrap();
            let found = ways.on[&position.parse().unwrap()];
            assert_eq!(hex_encode(&found)[..16], *hash, "{position}: {line}");
            nodes += 1;
        }
    }
    assert_eq!((with_roots, nodes), (37, 174));
}

#[test]
fn published_proofs_have_the_hashes_of_our_ways() {
    let mut proofs = 0;
    for line in VECTORS.lines().filter(|line| line.starts_with("proof")) {
        let [_, first, gone, targets, expected] =
            line.split("; ").collect::<Vec<_>>().try_into().unwrap();
        let mut tree = forest(first);
        tree.spend(&numbers(gone));
        let Ways { on, mut beside } = Ways::of(&tree, numbers(targets));
        // What is on the way of another leaf need not be told.
        beside.retain(|position, _| !on.contains_key(position));
        let hashes: Vec<_> =
            beside.values().map(|hash| hex_encode(hash)[..16].to_owned()).collect();
        assert_eq!(hashes, words(expected).collect::<Vec<_>>(), "{line}");
        proofs += 1;
    }
    assert_eq!(proofs, 40);
}

/// The two coinbases of the main network that were repeated while unspent. The draft of Utreexo's
/// validation rules lists the hashes of their first leaves, which stay in the forest.
#[test]
fn leaves_of_the_repeated_coinbases_have_their_published_hashes() {
    let reversed = |hex: &str| {
        let mut bytes = crate::hex_decode(hex).unwrap();
        bytes.reverse();
        <[u8; 32]>::try_from(bytes).unwrap()
    };
    let published = [
        (
            91_722,
            "00000000000271a2dc26e7667f8419f2e15416dc6955e5a6c6cdf3f2574dd08e",
            "e3bf3d07d4b0375638d5f1db5255fe07ba2c4cb067cd81b84ee974b6585fb468",
            "4104124b212f5416598a92ccec88819105179dcb2550d571842601492718273fe0f2179a9695096bff94cd99dcccdea7cd9bd943bfca8fea649cac963411979a33e9ac",
            "84b3af0783b410b4564c5d1f361868559f7cf77cfc65ce2be951210357022fe3",
        ),
        (
            91_812,
            "00000000000af0aed4792b1acee3d966af36cf5def14935db8de83d6f9306f2f",
            "d5d27987d2a3dfc724e359870c6644b40e497bdc0589a033220fe15429d88599",
            "41046896ecfc449cb8560594eb7f413f199deb9b4e5d947a142e7dc7d2de0b811b8e204833ea2a2fd9d4c7b153a8ca7661d0a0b7fc981df1f42f55d64b26b3da1e9cac",
            "bc6b4bf7cebbd33a18d6b0fe1f8ecc7aa5403083c39ee343b985d51fd0295ad8",
        ),
    ];
    for (height, block, txid, script, expected) in published {
        let height = crate::Height::new(height);
        assert!(crate::Network::BitcoinMainnet.overwritten_at(height).is_some());
        let script = crate::hex_decode(script).unwrap();
        let record = crate::UtxoRecord {
            address: &script,
            value: 5_000_000_000,
            details: crate::Details::default(),
            height,
            place: None,
            tx_index: 0,
            is_coinbase: true,
        };
        let outpoint = crate::OutPoint::new(crate::Txid::from_bytes(reversed(txid)), 0);
        let block = crate::BlockHash::from_bytes(reversed(block));
        let hash = MmrRule::Utreexo.leaf_hash(outpoint, &record, &block, &mut Vec::new());
        assert_eq!(hex_encode(&hash.unwrap()), expected);
    }
}
