//! The blocks as pallas reads them.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Deref,
};

use pallas_addresses::{Address, ByronAddress, ShelleyDelegationPart, byron::AddrType};
use pallas_primitives::{
    alonzo, babbage,
    conway::{DatumOption, ScriptRef},
};
use pallas_traverse::{
    ComputeHash, MultiEraBlock, MultiEraInput, MultiEraOutput, MultiEraTx, OriginalHash,
};

use super::*;

const KEY: Credential = Credential::Key([0x11; 28]);
const SCRIPT: Credential = Credential::Script([0x22; 28]);

fn byron_address() -> Vec<u8> {
    byron(ByronKind::Key, [0x33; 28], None)
}

/// A transaction with everything the era has a place for.
fn rich_tx(era: Era, style: Encoding) -> TxSpec {
    if era < Era::Shelley {
        let redeem = byron(ByronKind::Redeem, [0x44; 28], Some(1));
        let outputs = [OutSpec::new(&byron_address(), 7), OutSpec::new(&redeem, u64::MAX)];
        let inputs = [([2; 32], 70_000), ([1; 32], 0), ([2; 32], 70_000)];
        return TxSpec { salt: 5, style, ..TxSpec::new(&inputs, &outputs) };
    }
    let address = base(1, KEY, SCRIPT);
    let mut outputs = vec![
        OutSpec::new(&byron_address(), 0),
        OutSpec::new(&with_trailing_bytes(&address, &[9; 22]), 1),
        OutSpec::new(&pointer(0, SCRIPT, [1 << 40, 2, 0]), u64::MAX),
    ];
    let mut tx = TxSpec::default();
    let mut rich = OutSpec::new(&address, 5_000_000);
    if era >= Era::Mary {
        rich.assets = vec![
            ([9; 28], b"z".to_vec(), 3),
            ([8; 28], Vec::new(), u64::MAX),
            ([9; 28], b"a\0".to_vec(), 0),
        ];
        tx.extra.push((9, cbor::map(&[[cbor::bytes(&[9; 28]), vec![0xa1, 0x40, 1]].concat()])));
    }
    if era >= Era::Alonzo {
        rich.datum = Some(DatumSpec::Hash([0xdd; 32]));
        tx.collateral = vec![([4; 32], 1), ([3; 32], 2)];
    }
    outputs.push(OutSpec { legacy: true, ..rich.clone() });
    if era >= Era::Babbage {
        let native = [vec![0x82, 0, 0x58, 28], vec![1; 28]].concat();
        let mut scripts = vec![
            ScriptSpec::Native(native),
            ScriptSpec::PlutusV1(vec![1; 300]),
            ScriptSpec::PlutusV2(vec![2]),
        ];
        if era == Era::Conway {
            scripts.push(ScriptSpec::PlutusV3(vec![]));
        }
        // A constructor whose fields end with a break: reading and writing again may change it.
        let inline = Some(DatumSpec::Inline(vec![0xd8, 0x79, 0x9f, 0x18, 0x01, 0xff]));
        outputs.extend(scripts.into_iter().map(|script| OutSpec {
            datum: inline.clone(),
            script: Some(script),
            ..rich.clone()
        }));
        outputs.push(rich.clone());
        tx.collateral_return = Some(OutSpec { datum: inline, ..rich });
        tx.total_collateral = Some(400_000);
        tx.reference_inputs = vec![([5; 32], 65_535), ([1; 32], 0)];
    }
    let inputs = vec![([2; 32], 65_535), ([1; 32], 0), ([2; 32], 65_535)];
    TxSpec { inputs, outputs, fee: 170_000, salt: 1, style, ..tx }
}

fn rich_block(era: Era, style: Encoding) -> BlockSpec {
    let slot = if era == Era::ByronBoundary { 3 * BYRON_EPOCH_SLOTS } else { 64_900 };
    let spec = BlockSpec::first(era, Vec::new());
    let spec = BlockSpec { number: 77, slot, prev: Some([6; 32]), style, ..spec };
    if era == Era::ByronBoundary {
        return spec;
    }
    let first = rich_tx(era, style);
    let spend = [(first.id(era), 1)];
    let mut txs = vec![first.clone(), TxSpec::new(&spend, &first.outputs[..1])];
    if era >= Era::Alonzo {
        txs.push(TxSpec { invalid: true, salt: 2, ..first.clone() });
        txs.push(TxSpec { invalid: true, salt: 3, collateral_return: None, ..first });
    }
    BlockSpec { txs, ..spec }
}

/// Address, lovelace, assets, datum, script hash.
type Out = (Vec<u8>, u64, BTreeMap<([u8; 28], Vec<u8>), u64>, Option<DatumSpec>, Option<[u8; 28]>);

fn expected(out: &OutSpec) -> Out {
    let assets =
        out.assets.iter().map(|(policy, name, quantity)| ((*policy, name.clone()), *quantity));
    let script = out.script.as_ref().map(ScriptSpec::hash);
    (out.address.clone(), out.lovelace, assets.collect(), out.datum.clone(), script)
}

fn read(out: &MultiEraOutput) -> Out {
    let value = out.value();
    let assets = value.assets();
    let assets = assets.iter().flat_map(|policy| {
        let id: [u8; 28] = **policy.policy();
        let names = policy.assets();
        names
            .iter()
            .map(|asset| ((id, asset.name().to_vec()), asset.output_coin().unwrap()))
            .collect::<Vec<_>>()
    });
    let datum = out.datum().map(|datum| match datum {
        DatumOption::Hash(hash) => DatumSpec::Hash(*hash),
        DatumOption::Data(data) => {
            let inline = DatumSpec::Inline(data.raw_cbor().to_vec());
            assert_eq!(inline.hash(), *data.original_hash());
            inline
        }
    });
    let script = out.script_ref().map(|script| *match script {
        ScriptRef::NativeScript(script) => script.original_hash(),
        ScriptRef::PlutusV1Script(script) => script.compute_hash(),
        ScriptRef::PlutusV2Script(script) => script.compute_hash(),
        ScriptRef::PlutusV3Script(script) => script.compute_hash(),
    });
    (raw_address(out), value.coin(), assets.collect(), datum, script)
}

/// pallas crops addresses when it parses them, so the bytes come from below.
fn raw_address(out: &MultiEraOutput) -> Vec<u8> {
    type Either<'b, T> = babbage::GenTransactionOutput<'b, T>;
    let legacy = |out: &alonzo::TransactionOutput| out.address.to_vec();
    match out {
        MultiEraOutput::AlonzoCompatible(out, _) => legacy(out),
        MultiEraOutput::Babbage(out) => match out.deref().deref() {
            Either::Legacy(out) => legacy(out),
            Either::PostAlonzo(out) => out.address.to_vec(),
        },
        MultiEraOutput::Conway(out) => match out.deref().deref() {
            Either::Legacy(out) => legacy(out),
            Either::PostAlonzo(out) => out.address.to_vec(),
        },
        _ => out.address().unwrap().to_vec(),
    }
}

fn points(inputs: &[MultiEraInput]) -> Vec<TxIn> {
    inputs.iter().map(|input| (**input.hash(), input.index())).collect()
}

fn distinct(list: &[TxIn]) -> BTreeSet<TxIn> {
    list.iter().copied().collect()
}

fn compare_tx(spec: &TxSpec, tx: &MultiEraTx, era: Era) {
    assert_eq!(*tx.hash(), spec.id(era));
    assert_eq!(tx.is_valid(), !spec.invalid);
    assert_eq!(points(&tx.inputs()), spec.inputs);
    assert_eq!(points(&tx.collateral()), spec.collateral);
    assert_eq!(points(&tx.reference_inputs()), spec.reference_inputs);
    assert_eq!(tx.total_collateral(), spec.total_collateral);
    assert_eq!(tx.fee(), (era >= Era::Shelley).then_some(spec.fee));
    let outputs: Vec<_> = spec.outputs.iter().map(expected).collect();
    assert_eq!(tx.outputs().iter().map(read).collect::<Vec<_>>(), outputs);
    let returned = spec.collateral_return.as_ref().map(expected);
    assert_eq!(tx.collateral_return().as_ref().map(read), returned);

    let consumed = points(&tx.consumes());
    let spent = distinct(if spec.invalid { &spec.collateral } else { &spec.inputs });
    assert_eq!(distinct(&consumed), spent);
    assert_eq!(consumed.len(), spent.len());
    let produced: Vec<_> = tx.produces().iter().map(|(index, out)| (*index, read(out))).collect();
    let created: Vec<_> = if spec.invalid {
        returned.map(|out| (outputs.len(), out)).into_iter().collect()
    } else {
        outputs.into_iter().enumerate().collect()
    };
    assert_eq!(produced, created);
}

fn compare(spec: &BlockSpec) -> Built {
    let built = spec.build();
    let block = MultiEraBlock::decode(&built.raw).unwrap();
    let header = block.header();
    assert_eq!(u16::from(block.era()), u16::from(spec.era.max(Era::Byron).tag()));
    assert_eq!(*block.hash(), built.hash);
    assert_eq!(header.cbor(), built.header);
    assert_eq!(header.previous_hash().map(|hash| *hash), built.prev);
    assert_eq!((block.number(), block.slot()), (spec.number, spec.slot));
    assert_eq!((built.number, built.slot, built.era), (spec.number, spec.slot, spec.era));
    let txs = block.txs();
    assert_eq!(txs.len(), spec.txs.len());
    assert_eq!(txs.iter().map(|tx| *tx.hash()).collect::<Vec<_>>(), built.txids);
    for (spec_tx, tx) in spec.txs.iter().zip(&txs) {
        compare_tx(spec_tx, tx, spec.era);
    }
    built
}

#[test]
fn every_era_and_style_reads_back_exactly() {
    for era in Era::ALL {
        for style in Encoding::all() {
            compare(&rich_block(era, style));
            compare(&BlockSpec::first(era, Vec::new()));
        }
    }
}

#[test]
fn styles_change_bytes_and_ids_but_not_content() {
    let blocks = |era| {
        let hashes = Encoding::all().map(move |style| rich_block(era, style).build().hash);
        hashes.collect::<BTreeSet<_>>().len()
    };
    assert_eq!(Era::ALL.map(blocks), [1, 1, 4, 4, 4, 4, 4, 8]);
}

#[test]
fn salt_tells_equal_transactions_apart() {
    for era in &Era::ALL[1..] {
        let tx = |salt| TxSpec { salt, ..TxSpec::new(&[], &[]) };
        let spec = BlockSpec::first(*era, (0..3).map(tx).collect());
        let built = compare(&spec);
        assert_eq!(built.txids.iter().collect::<BTreeSet<_>>().len(), 3);
        let other = BlockSpec { txs: vec![tx(9)], ..spec };
        assert_ne!(other.build().hash, built.hash);
    }
}

#[test]
fn blocks_follow_each_other_through_all_eras() {
    let mut built = BlockSpec::first(Era::ByronBoundary, Vec::new()).build();
    assert_eq!(built.prev, Some([0; 32]));
    let mut points = vec![(built.number, built.slot)];
    for era in Era::ALL[1..3].iter().chain(&Era::ALL) {
        let tx = TxSpec::new(&[([1; 32], 0)], &[OutSpec::new(&byron_address(), 1)]);
        let txs = if *era == Era::ByronBoundary { Vec::new() } else { vec![tx] };
        let next = compare(&built.next(*era, txs));
        assert_eq!(next.prev, Some(built.hash));
        points.push((next.number, next.slot));
        built = next;
    }
    assert_eq!(points[..5], [(0, 0), (1, 0), (2, 1), (2, 21_600), (3, 21_600)]);
    assert_eq!(built.output(0, 4), (built.txids[0], 4));
}

#[test]
fn headers_commit_to_the_size_of_the_body() {
    for era in [Era::Mary, Era::Babbage] {
        let built = rich_block(era, Encoding::default()).build();
        let block = MultiEraBlock::decode(&built.raw).unwrap();
        let header = block.header();
        let size = header.as_alonzo().map(|header| header.header_body.block_body_size);
        let size = size.or(header.as_babbage().map(|header| header.header_body.block_body_size));
        let around = built.header.len() + 3;
        assert_eq!(size, u64::try_from(built.raw.len() - around).ok());
    }
}

#[test]
fn shelley_addresses_read_back() {
    for (payment, stake_part) in [(KEY, KEY), (SCRIPT, KEY), (KEY, SCRIPT), (SCRIPT, SCRIPT)] {
        for address in [
            base(1, payment, stake_part),
            enterprise(0, payment),
            pointer(1, payment, [128, 127, 1 << 63]),
            pointer(0, payment, [0, 0, 0]),
        ] {
            let Address::Shelley(read) = Address::from_bytes(&address).unwrap() else {
                panic!("a Shelley address")
            };
            assert_eq!(read.to_vec(), address);
            assert_eq!(read.payment().as_hash().as_slice(), payment.hash());
            assert_eq!(read.payment().is_script(), payment == SCRIPT);
            assert_eq!(read.network().value(), address[0] & 1);
            if let ShelleyDelegationPart::Key(hash) = read.delegation() {
                assert_eq!((Credential::Key(**hash), KEY), (KEY, stake_part));
            }
            if let ShelleyDelegationPart::Script(hash) = read.delegation() {
                assert_eq!((Credential::Script(**hash), SCRIPT), (SCRIPT, stake_part));
            }
            let cropped = Address::from_bytes(&with_trailing_bytes(&address, &[1, 2])).unwrap();
            assert_eq!(cropped, Address::Shelley(read));
        }
        let Address::Stake(read) = Address::from_bytes(&stake(1, stake_part)).unwrap() else {
            panic!("a stake address")
        };
        assert_eq!(read.to_vec(), stake(1, stake_part));
        assert_eq!(read.is_script(), stake_part == SCRIPT);
    }
}

#[test]
fn byron_addresses_read_back() {
    for (kind, code) in [(ByronKind::Key, AddrType::PubKey), (ByronKind::Redeem, AddrType::Redeem)]
    {
        for magic in [None, Some(1), Some(1_097_911_063)] {
            let address = byron(kind, [0x55; 28], magic);
            let read = ByronAddress::from_bytes(&address).unwrap();
            let payload = read.decode().unwrap();
            assert_eq!((*payload.root, &payload.addrtype), ([0x55; 28], &code));
            assert_eq!(payload.attributes.len(), usize::from(magic.is_some()));
            // Made again from its parts, with the checksum computed by pallas.
            assert_eq!(ByronAddress::from_decoded(payload).to_vec(), address);
        }
    }
}

#[test]
fn damaged_blocks_are_refused() {
    for era in Era::ALL {
        let built = rich_block(era, Encoding::default()).build();
        for keep in 0..built.raw.len() {
            assert!(MultiEraBlock::decode(&truncated(&built.raw, keep)).is_err(), "{era:?} {keep}");
        }
        assert_eq!(with_era_tag(&built.raw, era.tag()), built.raw);
        assert!(MultiEraBlock::decode(&with_era_tag(&built.raw, 8)).is_err());
        assert!(MultiEraBlock::decode(&with_era_tag(&built.raw, 24)).is_err());
        assert!(MultiEraBlock::decode(&claiming(&built, 3)).is_err());
        assert_eq!(
            claiming(&built, 0)[..built.header.len() + 3],
            built.raw[..built.header.len() + 3]
        );
        let flips = flipped(&built.raw, 8 * 2 + 7);
        assert_eq!((flips[2] ^ built.raw[2], &flips[3..]), (0x80, &built.raw[3..]));
    }
}

#[test]
fn deep_datums_are_carried_as_they_are() {
    let datum = Some(DatumSpec::Inline(nested_lists(100)));
    let out = OutSpec { datum, ..OutSpec::new(&enterprise(1, KEY), 1) };
    compare(&BlockSpec::first(Era::Conway, vec![TxSpec::new(&[], &[out])]));
    assert_eq!(nested_lists(3), [0x81, 0x81, 0x80]);
}
