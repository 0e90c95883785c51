//! temp
#![allow(warnings, clippy::all)]
use std::time::Instant;
use utxokeep_core::*;
use utxokeep_sql::*;
use utxokeep_wallet::*;
fn cpu() -> f64 {
    let s = std::fs::read_to_string("/proc/self/stat").unwrap();
    let f: Vec<&str> = s.rsplit(')').next().unwrap().split_whitespace().collect();
    (f[11].parse::<f64>().unwrap() + f[12].parse::<f64>().unwrap()) / 100.0
}
#[test]
#[ignore]
fn measure() {
    let n: u32 = std::env::var("N").map(|v| v.parse().unwrap()).unwrap_or(100_000);
    let dir = tempfile::tempdir().unwrap();
    let url = std::env::var("URL").unwrap_or(format!("sqlite:{}", dir.path().join("w.db").display()));
    let pg;
    let url = if url == "pg" { pg = utxokeep_testkit::postgres::TestDatabase::create().unwrap(); pg.url().to_owned() } else { url };
    let db = Database::open(&url, &Options { statement_timeout_ms: 0, ..Options::default() }).unwrap();
    let ledger = Ledger::open(db, Limits::default(), Micros::new(1)).unwrap();
    let net = Network::BitcoinRegtest;
    let w = ledger.create_wallet("w", net, Micros::new(1)).unwrap().id;
    let addrs: Vec<NewAddress> = (0..10_000u32).map(|i| { let mut s = vec![0, 0x14]; s.extend([7; 16]); s.extend(i.to_be_bytes()); NewAddress { script: s, address: None, spend_weight: None } }).collect();
    ledger.add_addresses(w, &addrs, Micros::new(1)).unwrap();
    let mut x = 88172645463325252u64;
    let mut rnd = move || { x ^= x << 13; x ^= x >> 7; x ^= x << 17; x };
    let id = |i: u32, k: u8| { let mut b = [k; 32]; let h = (i as u64).wrapping_mul(0x9e3779b97f4a7c15); b[..8].copy_from_slice(&h.to_be_bytes()); b[8..12].copy_from_slice(&i.to_be_bytes()); Txid::from_bytes(b) };
    let (t, c) = (Instant::now(), cpu());
    let mut made = 0; let mut height = 1; let mut parent = None;
    while made < n {
        let txs: Vec<NewTx> = (0..2000.min(n - made)).map(|k| { let i = made + k;
            let amt = 10f64.powf(3.0 + 6.0 * (rnd() % 1_000_000) as f64 / 1e6) as u64;
            let amt2 = 10f64.powf(3.0 + 6.0 * (rnd() % 1_000_000) as f64 / 1e6) as u64;
            NewTx { txid: id(i, 1), inputs: vec![if i > 5000 { OutPoint::new(id(i - 4000, 1), 1) } else { OutPoint::new(id(i, 2), 0) }],
              outputs: vec![NewOutput { amount: Amount::new(amt).unwrap(), script: addrs[(rnd() % 10_000) as usize].script.clone() }, NewOutput { amount: Amount::new(amt2).unwrap(), script: addrs[(rnd() % 10_000) as usize].script.clone() }],
              coinbase: false, raw: Some(vec![3; 250]), credits: Credits::Watched } }).collect();
        made += txs.len() as u32;
        let mut h = [9; 32]; h[..4].copy_from_slice(&(height as u32).to_be_bytes());
        let hash = BlockHash::from_bytes(h);
        ledger.apply_block(net, &LinkedBlock { block: BlockRef { height: Height::new(height), hash, time: Micros::new(1) }, parent }, &txs, Micros::new(2)).unwrap();
        parent = Some(hash); height += 1;
    }
    println!("ingest {made} txs: {:?} wall {:.2}s cpu -> {:.0} tx/s", t.elapsed(), cpu() - c, made as f64 / t.elapsed().as_secs_f64());
    for _ in 0..3 {
        let (t, c) = (Instant::now(), cpu());
        let b = ledger.balance(w, &BalanceQuery::default(), Micros::new(3)).unwrap();
        println!("balance {} {:?} wall {:.3} cpu", b.total(), t.elapsed(), cpu() - c);
    }
    let mut times = Vec::new();
    for i in 0..300u64 {
        let mut req = SelectionRequest::new(Amount::new(50_000_000 + (i * 7919) % 1_000_000).unwrap(), FeeRate::per_vbyte(5), i);
        let t = Instant::now();
        let mut o = [0u8; 32]; o[..8].copy_from_slice(&i.to_be_bytes());
        let s = ledger.select_and_lease(w, &req, &LeaseTerms::until(LeaseId::from_bytes(o), 1_000_000_000), Micros::new(5)).unwrap();
        times.push(t.elapsed());
        if i < 5 { println!("{:?} inputs {} fee {} waste {} {:?}", s.algorithm, s.coins.len(), s.fee, s.waste, t.elapsed()); }
    }
    times.sort();
    println!("select+lease p50 {:?} p99 {:?}", times[150], times[297]);
    let t = Instant::now();
    ledger.rollback_from(net, Height::new(height - 6), Micros::new(9)).unwrap();
    println!("rollback 6 blocks {:?}", t.elapsed());
    let t = Instant::now();
    println!("verify {:?} {:?}", ledger.verify(w).unwrap().len(), t.elapsed());
    for sql in ["SELECT CAST(SUM(amount) AS BIGINT) FROM utxos WHERE wallet_id = $1 AND spent_by_tx_id IS NULL AND parent_class > 0"] {
        println!("{:?}", ledger.database().read(|tx| tx.explain(sql, &[Value::from(1i64)])).map_err(|e: SqlError| e).unwrap());
    }
}
