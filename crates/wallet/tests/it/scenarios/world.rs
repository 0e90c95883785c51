//! A small world for scenarios: a wallet, a chain that grows and shrinks, and handmade
//! transactions. Every step checks the rules of the ledger.

use utxokeep_core::{BlockHash, Height, Network, OutPoint, Txid};
use utxokeep_sql::{Database, Durability, Options};
use utxokeep_testkit::postgres::TestDatabase;
use utxokeep_wallet::{
    Amount, Balance, BalanceQuery, BlockRef, Coin, CoinQuery, ConfirmationRange, Credits,
    LeaseClock, Ledger, LedgerError, Limits, LinkedBlock, Maturity, Micros, NewAddress, NewOutput,
    NewTx, RecordOptions, Recorded, Seen, TxState, WalletId,
};

pub(crate) const NETWORK: Network = Network::BitcoinRegtest;
/// One second of the ledger's clock.
pub(crate) const SECOND: i64 = 1_000_000;

/// A script of wallet 1.
pub(crate) fn own(n: u8) -> Vec<u8> {
    let mut script = vec![0x00, 0x14];
    script.extend([n; 20]);
    script
}

/// A script that nobody watches.
pub(crate) fn foreign(n: u8) -> Vec<u8> {
    vec![0x6a, n]
}

pub(crate) fn coins_of(amount: u64) -> Amount {
    Amount::new(amount).unwrap()
}

/// An output of some transaction that no wallet knows.
pub(crate) fn outside(n: u8) -> OutPoint {
    OutPoint::new(Txid::from_bytes([0xf0 ^ n; 32]), u32::from(n))
}

pub(crate) fn out(tx: &NewTx, index: u32) -> OutPoint {
    OutPoint::new(tx.txid, index)
}

/// A payment; positive amounts go to the wallet, negative ones to somebody else.
pub(crate) fn pay(name: u8, inputs: &[OutPoint], amounts: &[i64]) -> NewTx {
    let output = |(at, amount): (u8, &i64)| NewOutput {
        amount: coins_of(amount.unsigned_abs()),
        script: if *amount > 0 { own(at) } else { foreign(at) },
    };
    NewTx {
        txid: Txid::from_bytes([name; 32]),
        inputs: inputs.to_vec(),
        outputs: (0u8..).zip(amounts).map(output).collect(),
        coinbase: false,
        raw: Some(vec![name, 1, 2, 3]),
        credits: Credits::Watched,
    }
}

/// A coinbase.
pub(crate) fn mint(name: u8, amounts: &[i64]) -> NewTx {
    NewTx { coinbase: true, ..pay(name, &[], amounts) }
}

pub(crate) struct World<'l> {
    pub(crate) ledger: &'l Ledger,
    pub(crate) wallet: WalletId,
    pub(crate) now: Micros,
    blocks: Vec<LinkedBlock>,
    salt: u8,
}

impl<'l> World<'l> {
    pub(crate) fn new(ledger: &'l Ledger) -> Self {
        let now = Micros::new(1_700_000_000 * SECOND);
        let wallet = ledger.create_wallet("one", NETWORK, now).unwrap().id;
        let world = Self { ledger, wallet, now, blocks: Vec::new(), salt: 0 };
        world.watch(wallet, 0..10);
        world
    }

    pub(crate) fn watch(&self, wallet: WalletId, scripts: std::ops::Range<u8>) {
        let scripts: Vec<NewAddress> = scripts
            .map(|n| NewAddress { script: own(n), address: None, spend_weight: None })
            .collect();
        self.ledger.add_addresses(wallet, &scripts, self.now).unwrap();
    }

    pub(crate) fn tick(&mut self, micros: i64) {
        self.now = self.now.plus(micros);
    }

    /// Checks that all rules hold, on every wallet.
    pub(crate) fn check(&self) {
        for wallet in self.ledger.wallets(None, 100).unwrap() {
            let mut found = self.ledger.verify(wallet.id).unwrap();
            // A scenario may have planted a failure, which is no fault of the ledger.
            let is_planted = |example: &String| {
                ["trigger broken of ", "trigger pause of "]
                    .iter()
                    .any(|name| example.starts_with(name))
            };
            found.retain(|violation| {
                violation.examples.is_empty() || !violation.examples.iter().all(is_planted)
            });
            assert_eq!(found, []);
        }
    }

    pub(crate) fn record(&self, tx: &NewTx, seen: Seen) -> Result<Recorded, LedgerError> {
        self.record_with(tx, seen, &RecordOptions::default())
    }

    pub(crate) fn record_with(
        &self,
        tx: &NewTx,
        seen: Seen,
        options: &RecordOptions,
    ) -> Result<Recorded, LedgerError> {
        let recorded = self.ledger.record(self.wallet, tx, seen, options, self.now);
        self.check();
        recorded
    }

    pub(crate) fn mempool(&self, tx: &NewTx) -> Recorded {
        self.record(tx, Seen::Mempool).unwrap()
    }

    pub(crate) fn create(&self, tx: &NewTx) -> Recorded {
        self.record(tx, Seen::Created).unwrap()
    }

    pub(crate) fn replace(&self, tx: &NewTx) -> Recorded {
        let options = RecordOptions { replaces: true, ..Default::default() };
        self.record_with(tx, Seen::Mempool, &options).unwrap()
    }

    /// The block that would come next at `height`.
    pub(crate) fn block_at(&self, height: u32) -> BlockRef {
        let mut hash = [self.salt; 32];
        hash[..4].copy_from_slice(&height.to_be_bytes());
        let time = Micros::new(1_600_000_000 * SECOND + i64::from(height) * SECOND);
        BlockRef { height: Height::new(height), hash: BlockHash::from_bytes(hash), time }
    }

    pub(crate) fn tip(&self) -> BlockRef {
        self.blocks.last().unwrap().block
    }

    fn next_block(&self) -> LinkedBlock {
        let height = self.blocks.last().map_or(100, |below| below.block.height.get() + 1);
        let parent = self.blocks.last().map(|below| below.block.hash);
        LinkedBlock { block: self.block_at(height), parent }
    }

    /// Applies the next block; the first has height 100.
    pub(crate) fn mine(&mut self, txs: &[&NewTx]) -> LinkedBlock {
        let linked = self.next_block();
        self.try_mine(txs).unwrap();
        linked
    }

    pub(crate) fn try_mine(&mut self, txs: &[&NewTx]) -> Result<(), LedgerError> {
        let linked = self.next_block();
        let txs: Vec<NewTx> = txs.iter().copied().cloned().collect();
        let applied = self.ledger.apply_block(NETWORK, &linked, &txs, self.now);
        self.check();
        applied.map(|_| self.blocks.push(linked))
    }

    /// Like [`World::mine`], without looking at the rules afterwards.
    pub(crate) fn mine_unchecked(&mut self, txs: &[&NewTx]) {
        let linked = self.next_block();
        let txs: Vec<NewTx> = txs.iter().copied().cloned().collect();
        self.ledger.apply_block(NETWORK, &linked, &txs, self.now).unwrap();
        self.blocks.push(linked);
    }

    /// Mines empty blocks until the tip is at `height`.
    pub(crate) fn mine_to(&mut self, height: u32) {
        while self.tip().height.get() < height {
            let linked = self.next_block();
            self.ledger.apply_block(NETWORK, &linked, &[], self.now).unwrap();
            self.blocks.push(linked);
        }
        self.check();
    }

    /// Disconnects the tip. Blocks mined later differ from those mined before.
    pub(crate) fn undo(&mut self) -> LinkedBlock {
        let linked = self.blocks.pop().unwrap();
        self.ledger.disconnect_block(NETWORK, &linked, self.now).unwrap();
        self.salt += 1;
        self.check();
        linked
    }

    /// Connects a block that was disconnected.
    pub(crate) fn redo(&mut self, linked: &LinkedBlock, txs: &[&NewTx]) {
        let txs: Vec<NewTx> = txs.iter().copied().cloned().collect();
        self.ledger.apply_block(NETWORK, linked, &txs, self.now).unwrap();
        self.blocks.push(*linked);
        self.check();
    }

    pub(crate) fn balance(&self) -> Balance {
        self.balance_at(ConfirmationRange::default())
    }

    pub(crate) fn balance_at(&self, range: ConfirmationRange) -> Balance {
        let query = BalanceQuery { range, maturity: Maturity::STANDARD };
        self.ledger.balance(self.wallet, &query, self.now).unwrap()
    }

    /// What counts with at least `min` confirmations and is mature.
    pub(crate) fn with_confirmations(&self, min: u32) -> u64 {
        let balance = self.balance_at(ConfirmationRange::at_least(min));
        balance.total() - balance.immature
    }

    pub(crate) fn unconfirmed(&self) -> u64 {
        let balance = self.balance();
        balance.trusted_unconfirmed + balance.untrusted_unconfirmed
    }

    pub(crate) fn coins(&self) -> Vec<Coin> {
        self.ledger.coins(self.wallet, &CoinQuery::default(), self.now).unwrap()
    }

    /// The unspent outputs, in the order of their transactions.
    pub(crate) fn outpoints(&self) -> Vec<OutPoint> {
        let mut outpoints: Vec<OutPoint> =
            self.coins().into_iter().map(|coin| coin.outpoint).collect();
        outpoints.sort_unstable();
        outpoints
    }

    pub(crate) fn state(&self, tx: &NewTx) -> TxState {
        self.ledger.transaction(self.wallet, &tx.txid).unwrap().summary.state
    }

    /// Ids of the transactions in no block that may still confirm.
    pub(crate) fn unmined(&self) -> Vec<Txid> {
        let query = utxokeep_wallet::HistoryQuery {
            scope: utxokeep_wallet::HistoryScope::Unconfirmed,
            ..Default::default()
        };
        let rows = self.ledger.history(self.wallet, &query).unwrap();
        rows.into_iter().filter(|tx| tx.state.is_live()).map(|tx| tx.txid).collect()
    }
}

fn options() -> Options {
    Options::default().with(|settings| {
        settings.durability = Durability::Relaxed;
        settings.connections_max = 20;
    })
}

pub(crate) fn open(url: &str, limits: Limits) -> Ledger {
    let database = Database::open(url, &options()).unwrap();
    let ledger = Ledger::open(database, limits, Micros::new(1)).unwrap();
    ledger.with_lease_clock(LeaseClock::Caller)
}

/// Runs a scenario on a new `SQLite` file.
pub(crate) fn on_sqlite(scenario: impl FnOnce(&str)) {
    let dir = tempfile::tempdir().unwrap();
    scenario(&format!("sqlite:{}", dir.path().join("wallet.db").display()));
}

/// Runs a scenario on a new `PostgreSQL` database.
pub(crate) fn on_postgres(scenario: impl FnOnce(&str)) {
    if let Some(database) = TestDatabase::create_or_skip() {
        scenario(database.url());
    }
}

/// Instantiates scenarios for both engines.
macro_rules! on_both {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(#[test] fn $name() {
                $crate::scenarios::world::on_sqlite(|url| {
                    let ledger = $crate::scenarios::world::open(url, utxokeep_wallet::Limits::default());
                    super::$name(&mut $crate::scenarios::world::World::new(&ledger));
                });
            })+
        }
        mod postgres {
            $(#[test] fn $name() {
                $crate::scenarios::world::on_postgres(|url| {
                    let ledger = $crate::scenarios::world::open(url, utxokeep_wallet::Limits::default());
                    super::$name(&mut $crate::scenarios::world::World::new(&ledger));
                });
            })+
        }
    };
}
pub(crate) use on_both;
