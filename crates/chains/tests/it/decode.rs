//! The decoder against real chains, an independent decoder, and damaged bytes.

use std::fs;

use bitcoin::{
    Amount, ScriptBuf, Witness,
    consensus::{deserialize, serialize},
    hashes::Hash,
};
use utxokeep_chains::{DecodeError, MAX_MONEY, decode_block, decode_header, genesis_block};
use utxokeep_core::{Block, Network, OutPoint, Txid};

use crate::support::{rebuild, regtest_blocks, regtest_rows};

const REGTEST: Network = Network::BitcoinRegtest;
const MAINNET: Network = Network::BitcoinMainnet;

/// Compares every field with what the `bitcoin` crate reads from the same bytes; answers the number
/// of all outputs.
fn compare_with_oracle(block: &Block, network: Network) -> usize {
    let oracle: bitcoin::Block = deserialize(&block.bytes).unwrap();
    assert_eq!(block.header.hash.as_bytes(), oracle.block_hash().as_byte_array());
    assert_eq!(block.header.prev.as_bytes(), oracle.header.prev_blockhash.as_byte_array());
    assert_eq!(block.header.time, u64::from(oracle.header.time));
    assert_eq!(*block.header.work.as_bytes(), oracle.header.work().to_be_bytes());
    assert_eq!(block.txs.len(), oracle.txdata.len());
    let is_first = block.header.hash == network.genesis_hash();
    for (tx, expected) in block.txs.iter().zip(&oracle.txdata) {
        assert_eq!(tx.txid.as_bytes(), expected.compute_txid().as_byte_array());
        assert_eq!(tx.is_coinbase, expected.is_coinbase());
        let total: u64 = expected.output.iter().map(|output| output.value.to_sat()).sum();
        assert_eq!(tx.output_total, total);
        let spent: Vec<OutPoint> = expected
            .input
            .iter()
            .filter(|_| !tx.is_coinbase)
            .map(|input| &input.previous_output)
            .map(|out| OutPoint::new(Txid::from_bytes(*out.txid.as_byte_array()), out.vout))
            .collect();
        assert_eq!(block.inputs_of(tx), spent);
        let mut created = block.outputs_of(tx).iter();
        for (index, output) in (0u32..).zip(&expected.output) {
            let script = output.script_pubkey.as_bytes();
            if is_first || script.first() == Some(&0x6a) || script.len() > 10_000 {
                continue;
            }
            let found = created.next().unwrap();
            assert_eq!((found.index, found.value), (index, output.value.to_sat()));
            assert_eq!(block.address_of(found), script);
        }
        assert_eq!(created.next(), None);
    }
    oracle.txdata.iter().map(|tx| tx.output.len()).sum()
}

#[test]
fn every_block_of_the_regtest_chain_decodes_to_what_the_node_says() {
    let rows = regtest_rows();
    assert_eq!(rows.len(), 362);
    for (row, raw) in rows.iter().zip(regtest_blocks()) {
        let block = decode_block(raw, REGTEST).unwrap();
        assert_eq!(block.header.hash.to_string(), row.hash);
        assert_eq!(block.header.prev.to_string(), row.prev);
        assert_eq!((block.txs.len(), block.inputs.len()), (row.txs, row.inputs));
        assert_eq!(compare_with_oracle(&block, REGTEST), row.outputs);
    }
}

#[test]
fn blocks_of_the_main_network_decode_where_they_are_at_hand() {
    let Some(data) = utxokeep_testkit::testdata("bitcoin/mainnet") else { return };
    let entries = fs::read_dir(data).unwrap();
    let mut decoded = 0;
    for entry in entries {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let Some(stem) = name.strip_suffix(".raw") else { continue };
        if stem.starts_with("block") && !stem.ends_with("undo") {
            let block = decode_block(fs::read(&path).unwrap(), MAINNET)
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            compare_with_oracle(&block, MAINNET);
            decoded += 1;
        }
    }
    assert!(decoded > 5, "only {decoded} blocks found");
}

#[test]
fn any_changed_byte_of_a_proven_block_is_an_error() {
    let raw = genesis_block(MAINNET);
    for at in 0..raw.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut damaged = raw.clone();
            damaged[at] ^= flip;
            assert!(decode_block(damaged, MAINNET).is_err(), "byte {at} flipped by {flip:#x}");
        }
    }
}

#[test]
fn any_cut_is_an_error_and_damage_never_panics() {
    let blocks = regtest_blocks();
    let raw = blocks.iter().filter(|raw| raw.len() > 1_000).min_by_key(|raw| raw.len()).unwrap();
    for len in 0..raw.len() {
        assert!(decode_block(raw[..len].to_vec(), REGTEST).is_err(), "cut at {len}");
    }
    for at in 0..raw.len() {
        for value in [0, 1, 0xfc, 0xfd, 0xfe, 0xff] {
            let mut damaged = raw.clone();
            damaged[at] = value;
            // Witnesses and the header of an easy chain may change without breaking a rule.
            let _ = decode_block(damaged, REGTEST);
        }
    }
}

#[test]
fn bytes_after_the_last_transaction_are_refused() {
    let mut raw = genesis_block(REGTEST);
    raw.push(0);
    assert_eq!(decode_block(raw, REGTEST), Err(DecodeError::TrailingBytes { extra: 1 }));
}

#[test]
fn work_that_misses_the_target_is_refused() {
    let mut raw = genesis_block(MAINNET);
    raw[76] ^= 1;
    assert!(matches!(decode_header(&raw), Err(DecodeError::BadProofOfWork { .. })));
    assert!(matches!(decode_block(raw, MAINNET), Err(DecodeError::BadProofOfWork { .. })));
}

#[test]
fn repeated_tail_behind_an_unchanged_root_is_refused() {
    let raw = blocks_with(|block| block.txdata.len() == 3);
    let mut block: bitcoin::Block = deserialize(&raw).unwrap();
    block.txdata.push(block.txdata[2].clone());
    let hash = decode_header(&raw).unwrap().hash;
    assert_eq!(
        decode_block(serialize(&block), REGTEST),
        Err(DecodeError::MutatedMerkleTree { hash })
    );
    block.txdata.truncate(2);
    assert_eq!(decode_block(serialize(&block), REGTEST), Err(DecodeError::BadMerkleRoot { hash }));
}

fn blocks_with(rule: impl Fn(&bitcoin::Block) -> bool) -> Vec<u8> {
    let mut blocks = regtest_blocks().into_iter();
    blocks.find(|raw| rule(&deserialize(raw).unwrap())).unwrap()
}

#[test]
fn exactly_one_coinbase_stands_at_the_start() {
    let raw = blocks_with(|block| block.txdata.len() > 2);
    let refused = |change: fn(&mut bitcoin::Block)| decode_block(rebuild(&raw, change), REGTEST);
    assert_eq!(
        refused(|block| drop(block.txdata.remove(0))),
        Err(DecodeError::BadCoinbase { position: 0 })
    );
    assert_eq!(
        refused(|block| block.txdata.push(block.txdata[0].clone())),
        Err(DecodeError::BadCoinbase { position: refused(|_| {}).unwrap().txs.len() })
    );
    assert_eq!(
        refused(|block| block.txdata.clear()),
        Err(DecodeError::BadCoinbase { position: 0 })
    );
    assert_eq!(
        refused(|block| {
            let input = block.txdata[1].input[0].clone();
            block.txdata[0].input.push(input);
        }),
        Err(DecodeError::BadCoinbase { position: 0 })
    );
}

#[test]
fn values_over_the_supply_limit_are_refused() {
    let raw = blocks_with(|block| block.txdata[0].output.len() == 2);
    let with_values = |first: u64, second: u64| {
        let changed = rebuild(&raw, |block| {
            block.txdata[0].output[0].value = Amount::from_sat(first);
            block.txdata[0].output[1].value = Amount::from_sat(second);
        });
        decode_block(changed, REGTEST)
    };
    assert_eq!(with_values(MAX_MONEY, 0).unwrap().txs[0].output_total, MAX_MONEY);
    for (first, second) in [(MAX_MONEY, 1), (MAX_MONEY + 1, 0), (u64::MAX, 2)] {
        let refused = with_values(first, second);
        assert!(matches!(refused, Err(DecodeError::ValueOutOfRange { .. })), "{first} {second}");
    }
}

#[test]
fn unspendable_outputs_leave_gaps_and_odd_ones_stay() {
    let raw = rebuild(&genesis_block(REGTEST), |block| {
        block.header.time += 1;
        let mut output = block.txdata[0].output[0].clone();
        let scripts = [vec![0x6a], vec![], vec![0x51; 10_001], vec![0x51; 10_000], vec![0x51]];
        block.txdata[0].output.clear();
        for script in scripts {
            output.value = Amount::ZERO;
            output.script_pubkey = ScriptBuf::from_bytes(script);
            block.txdata[0].output.push(output.clone());
        }
    });
    let block = decode_block(raw, REGTEST).unwrap();
    let kept: Vec<_> = block.outputs.iter().map(|output| output.index).collect();
    assert_eq!(kept, [1, 3, 4]);
    assert_eq!(block.address_of(&block.outputs[0]), b"");
}

#[test]
fn witness_section_without_a_witness_is_refused() {
    let raw = blocks_with(|block| block.txdata[0].input[0].witness.len() == 1);
    let coinbase_at = 80 + 1;
    assert_eq!(raw[coinbase_at + 4..coinbase_at + 6], [0, 1]);
    let mut flagged = raw.clone();
    flagged[coinbase_at + 5] = 2;
    assert_eq!(
        decode_block(flagged, REGTEST),
        Err(DecodeError::BadWitness { offset: coinbase_at })
    );

    // The form without witness, with an empty witness section put back by hand.
    let plain = rebuild(&raw, |block| {
        block.txdata.truncate(1);
        block.txdata[0].input[0].witness = Witness::new();
    });
    let mut hollow = plain.clone();
    hollow.splice(coinbase_at + 4..coinbase_at + 4, [0, 1]);
    let lock_time_at = hollow.len() - 4;
    hollow.insert(lock_time_at, 0);
    assert!(decode_block(plain, REGTEST).is_ok());
    assert_eq!(decode_block(hollow, REGTEST), Err(DecodeError::BadWitness { offset: coinbase_at }));
}
