//! The first epochs of the preview network, from its first block: the set must be the known one.

use std::{collections::BTreeMap, fs, path::Path};

use blake2b_simd::Params;
use utxokeep_chains::cardano::{Genesis, decode_block, split_blocks};
use utxokeep_core::{Block, Datum, Network, OutPoint, Output, hex_encode};
use utxokeep_testkit::{csv, preview_immutable, testdata};

/// What a digest says of one output, by the key it is sorted under.
type Set = BTreeMap<OutPoint, Vec<u8>>;

/// An output in the words of the digests in `preview-golden`.
fn described(block: &Block, outpoint: OutPoint, output: &Output) -> Vec<u8> {
    let details = block.details_of(output).parse().unwrap();
    let address = block.address_of(output);
    let mut words = outpoint.txid().as_bytes().to_vec();
    words.extend(u16::try_from(outpoint.index()).unwrap().to_be_bytes());
    words.extend(output.value.to_be_bytes());
    words.extend(u16::try_from(address.len()).unwrap().to_be_bytes());
    words.extend(address);
    words.extend(u32::try_from(details.assets.len()).unwrap().to_be_bytes());
    for asset in &details.assets {
        words.extend(asset.policy);
        words.push(u8::try_from(asset.name.len()).unwrap());
        words.extend(asset.name);
        words.extend(asset.quantity.to_be_bytes());
    }
    match details.datum {
        Datum::None => words.push(0),
        Datum::Hash(hash) => {
            words.push(1);
            words.extend(hash);
        }
        Datum::Inline(bytes) => {
            words.push(2);
            words.extend(u32::try_from(bytes.len()).unwrap().to_be_bytes());
            words.extend(bytes);
        }
    }
    words.push(u8::from(details.script.is_some()));
    words.extend(details.script.iter().flat_map(|script| script.hash));
    words.extend(block.header.slot.unwrap().slot.to_be_bytes());
    words.push(u8::from(details.is_collateral_return));
    words
}

fn apply(set: &mut Set, block: &Block) {
    for tx in &block.txs {
        for input in block.inputs_of(tx) {
            assert!(set.remove(input).is_some(), "{input} is not there");
        }
        for output in block.outputs_of(tx) {
            let outpoint = OutPoint::new(tx.txid, output.index);
            assert_eq!(set.insert(outpoint, described(block, outpoint, output)), None);
        }
    }
}

fn digest(set: &Set) -> String {
    let mut state = Params::new().hash_length(32).to_state();
    for words in set.values() {
        state.update(words);
    }
    hex_encode(state.finalize().as_bytes())
}

#[test]
fn the_preview_chain_gives_the_known_set_at_every_checkpoint() {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (Some(dir), Some(golden)) =
        (preview_immutable(cache), testdata("cardano/preview-golden/checkpoints.csv"))
    else {
        return;
    };
    let checkpoints: BTreeMap<u32, Vec<String>> =
        csv(&golden).into_iter().map(|row| (row[0].parse().unwrap(), row)).collect();
    let genesis = Genesis::public(Network::CardanoPreview).unwrap();
    let mut set = Set::new();
    let (mut parent, mut next, mut compared, mut invalid) = (genesis.hash(), 0, 0, 0);
    let mut kinds = [0; 3];
    for chunk in 0..300 {
        let bytes = fs::read(dir.join(format!("{chunk:05}.chunk"))).unwrap();
        for raw in split_blocks(&bytes) {
            let block = decode_block(raw.unwrap(), &genesis).unwrap();
            assert_eq!((block.header.prev, block.claimed_height), (parent, Some(next)));
            parent = block.header.hash;
            next += 1;
            apply(&mut set, &block);
            invalid += block.txs.iter().filter(|tx| tx.is_invalid).count();
            for output in &block.outputs {
                let details = block.details_of(output).parse().unwrap();
                kinds[0] += usize::from(matches!(details.datum, Datum::Inline(_)));
                kinds[1] += usize::from(matches!(details.datum, Datum::Hash(_)));
                kinds[2] += usize::from(details.script.is_some());
            }
            if let Some(row) = checkpoints.get(&(next - 1)) {
                assert_eq!(block.header.hash.to_hex(), row[2]);
                assert_eq!((set.len().to_string(), digest(&set)), (row[3].clone(), row[8].clone()));
                compared += 1;
            }
        }
    }
    assert_eq!((next, compared, invalid, set.len()), (59_315, checkpoints.len(), 19, 32_655));
    assert_eq!(kinds, [2_614, 948, 276], "inline datums, datum hashes, scripts");
}
