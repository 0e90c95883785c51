//! Blocks made by hand: every way to write them, every rule of the ledger, and blocks meant to harm.

use utxokeep_chains::cardano::{
    CardanoDecodeError, Genesis, decode_block, decode_header, decode_tx,
};
use utxokeep_core::{Block, Datum, Network, OutPoint, Txid};
use utxokeep_testkit::cardano::{
    BlockSpec, Built, ByronKind, Credential, DatumSpec, Encoding, Era, OutSpec, ScriptSpec, TxIn,
    TxSpec, byron, claiming, enterprise, nested_lists,
};

fn genesis_of(network: Network) -> Genesis {
    Genesis::public(network).unwrap()
}

fn mainnet() -> Genesis {
    genesis_of(Network::CardanoMainnet)
}

fn decode(built: &Built) -> Block {
    decode_block(&built.raw, &mainnet()).unwrap()
}

/// An address that transactions of the era can pay to.
fn address_in(era: Era) -> Vec<u8> {
    if era < Era::Shelley {
        byron(ByronKind::Key, [4; 28], None)
    } else {
        enterprise(1, Credential::Key([4; 28]))
    }
}

fn input(number: u8) -> TxIn {
    ([number; 32], u64::from(number))
}

fn outpoint((txid, index): TxIn) -> OutPoint {
    OutPoint::new(Txid::from_bytes(txid), u32::try_from(index).unwrap())
}

/// A block on top of one that does not matter.
fn block_of(era: Era, txs: Vec<TxSpec>) -> BlockSpec {
    BlockSpec { number: 7, slot: 9, prev: Some([6; 32]), ..BlockSpec::first(era, txs) }
}

const ERAS_WITH_TXS: [Era; 7] =
    [Era::Byron, Era::Shelley, Era::Allegra, Era::Mary, Era::Alonzo, Era::Babbage, Era::Conway];

#[test]
fn every_way_to_write_a_block_is_read() {
    for era in ERAS_WITH_TXS {
        for style in Encoding::all() {
            let outputs = [3, 5].map(|lovelace| OutSpec::new(&address_in(era), lovelace));
            let tx = TxSpec { style, fee: 1, ..TxSpec::new(&[input(2), input(1)], &outputs) };
            let other = TxSpec { salt: 1, ..tx.clone() };
            let built = BlockSpec { style, ..block_of(era, vec![tx, other]) }.build();
            let block = decode(&built);
            let slot = block.header.slot.unwrap();
            assert_eq!(*block.header.hash.as_bytes(), built.hash, "{era:?} {style:?}");
            assert_eq!(*block.header.prev.as_bytes(), [6; 32]);
            assert_eq!((slot.slot, slot.era, block.claimed_height), (9, era.tag(), Some(7)));
            let txids: Vec<_> = block.txs.iter().map(|tx| *tx.txid.as_bytes()).collect();
            assert_eq!(txids, built.txids, "{era:?} {style:?}");
            for tx in &block.txs {
                assert_eq!(block.inputs_of(tx), [outpoint(input(2)), outpoint(input(1))]);
                assert_eq!(tx.output_total, 8);
                let outputs = block.outputs_of(tx).iter();
                let outputs: Vec<_> = outputs.map(|output| (output.index, output.value)).collect();
                assert_eq!(outputs, [(0, 3), (1, 5)]);
            }
            assert_eq!(block.address_of(&block.outputs[0]), address_in(era));
            assert_eq!(decode_header(&built.raw, &mainnet()).unwrap().header, block.header);
        }
    }
}

#[test]
fn a_repeated_input_is_spent_once() {
    for era in ERAS_WITH_TXS {
        let few = [3, 1, 3, 2, 1].map(input);
        let many: Vec<_> = (0..80).map(|number| input(number % 50)).collect();
        for (written, expected) in
            [(few.to_vec(), [3, 1, 2].map(input).to_vec()), (many, (0..50).map(input).collect())]
        {
            let tx = TxSpec::new(&written, &[OutSpec::new(&address_in(era), 1)]);
            let block = decode(&block_of(era, vec![tx.clone()]).build());
            let expected: Vec<_> = expected.into_iter().map(outpoint).collect();
            assert_eq!(block.inputs, expected, "{era:?}");
            if era >= Era::Alonzo {
                let tx =
                    TxSpec { inputs: vec![input(9)], collateral: written, invalid: true, ..tx };
                let block = decode(&block_of(era, vec![tx]).build());
                assert_eq!(block.inputs, expected, "collateral in {era:?}");
            }
        }
    }
}

#[test]
fn a_failed_transaction_spends_its_collateral_only() {
    for era in [Era::Alonzo, Era::Babbage, Era::Conway] {
        let to = address_in(era);
        let has_return = era >= Era::Babbage;
        let failed = TxSpec {
            collateral: vec![input(2)],
            collateral_return: has_return.then(|| OutSpec::new(&to, 40)),
            reference_inputs: if has_return { vec![input(3)] } else { Vec::new() },
            invalid: true,
            ..TxSpec::new(&[input(1)], &[OutSpec::new(&to, 10), OutSpec::new(&to, 20)])
        };
        let succeeded = TxSpec { invalid: false, salt: 1, ..failed.clone() };
        let block = decode(&block_of(era, vec![succeeded, failed]).build());
        let [succeeded, failed] = &block.txs[..] else { panic!("{:?}", block.txs) };

        assert!(!succeeded.is_invalid && failed.is_invalid);
        assert_eq!(block.inputs_of(succeeded), [outpoint(input(1))]);
        assert_eq!(block.inputs_of(failed), [outpoint(input(2))]);
        assert_eq!((succeeded.output_total, block.outputs_of(succeeded).len()), (30, 2));
        let returned = block.outputs_of(failed).iter().map(|output| (output.index, output.value));
        let returned: Vec<_> = returned.collect();
        assert_eq!(returned, if has_return { vec![(2, 40)] } else { Vec::new() }, "{era:?}");
        assert_eq!(failed.output_total, if has_return { 40 } else { 0 });
        for output in &block.outputs {
            let is_return = block.details_of(output).parse().unwrap().is_collateral_return;
            assert_eq!(is_return, output.index == 2);
        }
    }
}

#[test]
fn an_output_keeps_everything_it_carries() {
    let scripts = [
        ScriptSpec::Native(vec![0x82, 0, 0x40]),
        ScriptSpec::PlutusV1(vec![1]),
        ScriptSpec::PlutusV2(vec![2; 300]),
        ScriptSpec::PlutusV3(vec![]),
    ];
    for (script, era) in
        scripts.iter().flat_map(|script| [(script, Era::Babbage), (script, Era::Conway)])
    {
        let output = OutSpec {
            assets: vec![
                ([8; 28], b"z".to_vec(), u64::MAX),
                ([8; 28], b"".to_vec(), 2),
                ([7; 28], vec![0; 32], 1),
            ],
            datum: Some(DatumSpec::Inline(vec![0x9f, 1, 0xff])),
            script: Some(script.clone()),
            ..OutSpec::new(&address_in(era), 2)
        };
        let block = decode(&block_of(era, vec![TxSpec::new(&[input(1)], &[output])]).build());
        let details = block.details_of(&block.outputs[0]).parse().unwrap();
        let assets = details.assets.iter();
        let assets: Vec<_> = assets.map(|a| (a.policy[0], a.name.len(), a.quantity)).collect();
        assert_eq!(assets, [(7, 32, 1), (8, 0, 2), (8, 1, u64::MAX)]);
        assert_eq!(details.datum, Datum::Inline(&[0x9f, 1, 0xff]));
        assert_eq!(*details.script.unwrap().hash, script.hash());
    }
    let zero = OutSpec {
        assets: vec![([7; 28], b"a".to_vec(), 0)],
        datum: Some(DatumSpec::Hash([5; 32])),
        ..OutSpec::new(&address_in(Era::Alonzo), 2)
    };
    let block = decode(&block_of(Era::Alonzo, vec![TxSpec::new(&[], &[zero])]).build());
    let details = block.details_of(&block.outputs[0]).parse().unwrap();
    assert_eq!((details.assets.len(), details.datum), (0, Datum::Hash(&[5; 32])));
}

#[test]
fn the_first_block_carries_what_its_era_left_of_the_genesis() {
    let (mainnet, preview) = (mainnet(), genesis_of(Network::CardanoPreview));
    for (genesis, era, expected) in [
        (&mainnet, Era::ByronBoundary, 14_505),
        (&mainnet, Era::Byron, 14_505),
        (&mainnet, Era::Shelley, 14_505),
        (&mainnet, Era::Allegra, 0),
        (&mainnet, Era::Conway, 0),
        (&preview, Era::ByronBoundary, 8),
        (&preview, Era::Shelley, 1),
        (&preview, Era::Alonzo, 1),
    ] {
        let txs = if era == Era::ByronBoundary {
            Vec::new()
        } else {
            vec![TxSpec::new(&[input(1)], &[OutSpec::new(&address_in(era), 1)])]
        };
        let prev = Some(*genesis.hash().as_bytes());
        let first = BlockSpec { prev, ..BlockSpec::first(era, txs.clone()) };
        let built = first.build();
        let block = decode_block(&built.raw, genesis).unwrap();
        let rules = block.txs.iter().take_while(|tx| tx.is_ledger_rule).count();
        assert_eq!((rules, block.txs.len()), (expected, expected + txs.len()), "{era:?}");
        assert!(!block.is_boundary, "the first block has a height");
        assert!(block.txs[..rules].is_sorted_by(|a, b| a.txid < b.txid));
        for tx in &block.txs[..rules] {
            assert!(block.inputs_of(tx).is_empty());
            assert_eq!((block.outputs_of(tx).len(), block.outputs_of(tx)[0].index), (1, 0));
        }
        let second = decode_block(&built.next(era, txs).build().raw, genesis).unwrap();
        assert_eq!(second.is_boundary, era == Era::ByronBoundary);
        assert!(second.txs.iter().all(|tx| !tx.is_ledger_rule));
    }
    // From Shelley on a chain may start with no parent at all.
    let built = BlockSpec::first(Era::Conway, Vec::new()).build();
    let block = decode_block(&built.raw, &preview).unwrap();
    assert_eq!((block.header.prev, block.txs.len()), (preview.hash(), 1));
}

#[test]
fn blocks_made_to_harm_are_refused() {
    let tx = TxSpec::new(&[input(1)], &[OutSpec::new(&address_in(Era::Conway), 1)]);
    for era in ERAS_WITH_TXS {
        let txs = vec![TxSpec { outputs: vec![OutSpec::new(&address_in(era), 1)], ..tx.clone() }];
        let built = block_of(era, txs).build();
        for promised in [u64::from(u32::MAX), u64::MAX] {
            assert!(decode_block(&claiming(&built, promised), &mainnet()).is_err(), "{era:?}");
        }
    }
    // As deep as a block can be, in place of a block, of a field nobody reads, and of an output.
    let deep = nested_lists(1_000_000);
    let block = [&[0x82, 7], &deep[..]].concat();
    assert!(decode_block(&block, &mainnet()).is_err());
    let hidden = TxSpec { extra: vec![(99, deep.clone())], ..tx.clone() };
    let built = block_of(Era::Conway, vec![hidden]).build();
    assert_eq!(decode(&built).outputs.len(), 1);
    let output = TxSpec { extra: vec![(1, deep)], ..tx };
    let error = decode_block(&block_of(Era::Conway, vec![output]).build().raw, &mainnet());
    assert!(matches!(error, Err(CardanoDecodeError::Malformed { era: 7, .. })));
}

#[test]
fn transactions_that_are_no_map_of_different_fields_are_refused() {
    // Body, witnesses, validity, metadata; the bodies are all there is to it.
    let read = |body: &[u8]| decode_tx(&[&[0x84], body, &[0xa0, 0xf5, 0xf6]].concat(), 7);
    assert!(read(&[0xa2, 0, 0x80, 1, 0x80]).is_ok());
    for wrong in [
        &[0xa1, 0, 0x80][..],
        &[0xa1, 1, 0x80],
        &[0xa3, 0, 0x80, 1, 0x80, 0, 0x80],
        &[0xa2, 0, 0x81, 0x80, 1, 0x80],
        &[0xa2, 0, 0x81, 0x82, 0x41, 7, 0, 1, 0x80],
        &[0x80],
        &[0xf6],
    ] {
        let error = read(wrong).unwrap_err();
        assert!(matches!(error, CardanoDecodeError::Malformed { era: 7, .. }), "{wrong:02x?}");
    }
    assert_eq!(decode_tx(&[0x84], 8), Err(CardanoDecodeError::UnknownEra { tag: 8 }));
    assert_eq!(decode_tx(&[0x84], 7), Err(CardanoDecodeError::Truncated { len: 1 }));
}
