//! A wallet on Cardano follows a chain of real blocks: what is received and spent is there, what
//! a rollback takes is gone, and failed scripts cost their collateral only.

use utxokeep_chains::{BlockDecoder, cardano::Genesis};
use utxokeep_core::{BlockHash, Height, Network, OutPoint, Txid};
use utxokeep_sql::{Database, Durability, Options};
use utxokeep_testkit::{
    cardano::{
        BlockSpec, Built, Credential, Era, OutSpec, TxIn, TxSpec, enterprise, fund_of,
        shelley_genesis,
    },
    postgres::TestDatabase,
};
use utxokeep_wallet::{
    Balance, BalanceQuery, BlockBody, ChainError, CoinQuery, FeeRate, FollowOptions, FollowReport,
    FollowedChain, Ledger, Limits, Micros, NewAddress, SelectionRequest, TxState, WalletId,
};

const NETWORK: Network = Network::CardanoDevnet;
const NOW: Micros = Micros::new(1_800_000_000_000_000);
const FUNDS: u64 = 1_000_000;

fn address(name: u8) -> Vec<u8> {
    enterprise(0, Credential::Key([name; 28]))
}

/// Owns everything at first, and belongs to the wallet.
fn treasury() -> Vec<u8> {
    address(1)
}

struct Chain {
    decoder: BlockDecoder,
    built: Vec<Built>,
}

impl Chain {
    fn new() -> Self {
        let genesis = shelley_genesis(10, &[(&treasury(), FUNDS)]);
        let genesis = Genesis::from_files(None, genesis.as_bytes()).unwrap();
        let decoder = BlockDecoder::with_genesis(NETWORK, genesis);
        Self { decoder, built: vec![BlockSpec::first(Era::Conway, Vec::new()).build()] }
    }

    fn mine(&mut self, txs: Vec<TxSpec>) -> Built {
        let built = self.built.last().unwrap().next(Era::Conway, txs).build();
        self.built.push(built.clone());
        built
    }
}

impl FollowedChain for Chain {
    fn tip(&self) -> Result<Option<(Height, BlockHash)>, ChainError> {
        let last = u32::try_from(self.built.len() - 1)?;
        let hash = |built: &Built| (Height::new(last), BlockHash::from_bytes(built.hash));
        Ok(self.built.last().map(hash))
    }

    fn hash_at(&self, height: Height) -> Result<Option<BlockHash>, ChainError> {
        let built = self.built.get(usize::try_from(height.get())?);
        Ok(built.map(|built| BlockHash::from_bytes(built.hash)))
    }

    fn body(&self, _: Height, hash: &BlockHash) -> Result<Option<BlockBody>, ChainError> {
        let built = self.built.iter().find(|built| built.hash == *hash.as_bytes());
        let decode = |built: &Built| {
            let block = self.decoder.decode(built.raw.clone())?;
            Ok::<_, ChainError>(BlockBody { block: block.into(), tx_places: Vec::new() })
        };
        built.map(decode).transpose()
    }
}

struct World {
    ledger: Ledger,
    wallet: WalletId,
}

impl World {
    fn new(url: &str) -> Self {
        let options = Options::default().with(|settings| settings.durability = Durability::Relaxed);
        let database = Database::open(url, &options).unwrap();
        let ledger = Ledger::open(database, Limits::default(), NOW).unwrap();
        let wallet = ledger.create_wallet("w", NETWORK, NOW).unwrap().id;
        let watched = [1, 2].map(|name| NewAddress {
            script: address(name),
            address: None,
            spend_weight: None,
        });
        ledger.add_addresses(wallet, &watched, NOW).unwrap();
        Self { ledger, wallet }
    }

    fn follow(&self, chain: &Chain) -> FollowReport {
        let report = self.ledger.follow(chain, &FollowOptions::new(NETWORK), NOW).unwrap();
        assert_eq!(self.ledger.verify(self.wallet).unwrap(), []);
        assert_eq!(self.ledger.tip(NETWORK).unwrap(), chain.tip().unwrap());
        report
    }

    /// The chain has gone to a branch that is not longer: the ledger keeps the one it knows.
    fn waits(&self, chain: &Chain) {
        let before = self.ledger.tip(NETWORK).unwrap();
        let report = self.ledger.follow(chain, &FollowOptions::new(NETWORK), NOW).unwrap();
        assert!(report.worse_branch.is_some() && report.undone == 0, "{report:?}");
        assert_eq!(self.ledger.tip(NETWORK).unwrap(), before);
    }

    fn balance(&self) -> Balance {
        self.ledger.balance(self.wallet, &BalanceQuery::default(), NOW).unwrap()
    }

    fn coins(&self) -> Vec<(OutPoint, u64)> {
        let coins = self.ledger.coins(self.wallet, &CoinQuery::default(), NOW).unwrap();
        coins.into_iter().map(|coin| (coin.outpoint, coin.amount.get())).collect()
    }

    fn state(&self, built: &Built) -> TxState {
        let txid = Txid::from_bytes(built.txids[0]);
        self.ledger.transaction(self.wallet, &txid).unwrap().summary.state
    }
}

fn outpoint((txid, index): TxIn) -> OutPoint {
    OutPoint::new(Txid::from_bytes(txid), u32::try_from(index).unwrap())
}

fn spends(input: TxIn, outputs: &[(u8, u64)]) -> TxSpec {
    let outputs: Vec<_> =
        outputs.iter().map(|(name, amount)| OutSpec::new(&address(*name), *amount)).collect();
    TxSpec { fee: 1_000, ..TxSpec::new(&[input], &outputs) }
}

fn follows(url: &str) {
    let world = World::new(url);
    let mut chain = Chain::new();
    // What the genesis gives is there at once; nothing has to ripen.
    world.follow(&chain);
    assert_eq!((world.balance().confirmed, world.balance().immature), (FUNDS, 0));
    let rate = FeeRate::per_vbyte(1);
    let request = SelectionRequest::new(utxokeep_wallet::Amount::new(5_000).unwrap(), rate, 1);
    assert_eq!(world.ledger.select(world.wallet, &request, NOW).unwrap().coins.len(), 1);

    // Spent: some to a stranger, the rest back to us.
    let paid = chain.mine(vec![spends(fund_of(&treasury()), &[(9, 300_000), (2, 699_000)])]);
    let report = world.follow(&chain);
    assert_eq!((report.applied, report.undone), (1, 0));
    assert_eq!(world.coins(), [(outpoint(paid.output(0, 1)), 699_000)]);
    // Received from the stranger, then spent again within one block.
    let back = spends(paid.output(0, 0), &[(1, 299_000)]);
    let on = spends((back.id(Era::Conway), 0), &[(9, 100_000), (2, 198_000)]);
    let both = chain.mine(vec![back, on]);
    world.follow(&chain);
    let mine = [(outpoint(both.output(1, 1)), 198_000), (outpoint(paid.output(0, 1)), 699_000)];
    assert_eq!(world.coins(), mine);

    // The last block leaves the chain and others come: what was in it is unconfirmed.
    chain.built.pop();
    let other = chain.mine(vec![spends(paid.output(0, 1), &[(9, 698_000)])]);
    world.waits(&chain);
    chain.mine(Vec::new());
    let report = world.follow(&chain);
    assert_eq!((report.applied, report.undone), (2, 1));
    assert_eq!(world.state(&other), TxState::Confirmed(Height::new(2)));
    assert_eq!(world.state(&both), TxState::Unconfirmed);
    assert_eq!(world.balance().confirmed, 0);
    // The stranger's payment counts as his until it is in a block again.
    assert_eq!(world.balance().untrusted_unconfirmed, 198_000);
    chain.mine(vec![spends(paid.output(0, 0), &[(9, 299_000)])]);
    world.follow(&chain);
    assert_eq!(world.state(&both), TxState::Failed);
    assert_eq!(world.balance().total(), 0);

    // Back to the first block: everything of the genesis is there again.
    let height = chain.built.len();
    chain.built.truncate(1);
    chain.mine(Vec::new());
    world.waits(&chain);
    while chain.built.len() <= height {
        chain.mine(Vec::new());
    }
    world.follow(&chain);
    let coins = world.ledger.coins(world.wallet, &CoinQuery::default(), NOW).unwrap();
    assert!(coins.iter().all(|coin| coin.height.is_none()));
}

fn failed_scripts_cost_their_collateral(url: &str) {
    let world = World::new(url);
    let mut chain = Chain::new();
    let split: Vec<(u8, u64)> = vec![(1, 500_000), (1, 100_000)];
    let paid = chain.mine(vec![spends(fund_of(&treasury()), &split)]);
    let failed = TxSpec {
        collateral: vec![paid.output(0, 1)],
        collateral_return: Some(OutSpec::new(&address(2), 60_000)),
        total_collateral: Some(40_000),
        invalid: true,
        ..spends(paid.output(0, 0), &[(9, 499_000)])
    };
    let block = chain.mine(vec![failed]);
    world.follow(&chain);
    // The inputs stay; of the collateral the rest comes back, behind the outputs it has.
    let mine = [(outpoint(block.output(0, 1)), 60_000), (outpoint(paid.output(0, 0)), 500_000)];
    assert_eq!(world.coins(), mine);
    chain.built.pop();
    chain.mine(Vec::new());
    world.waits(&chain);
    chain.mine(Vec::new());
    world.follow(&chain);
    assert_eq!(world.balance().confirmed, 500_000);
}

#[test]
fn a_wallet_follows_on_sqlite() {
    for test in [follows, failed_scripts_cost_their_collateral] {
        let dir = tempfile::tempdir().unwrap();
        test(&format!("sqlite:{}", dir.path().join("wallet.db").display()));
    }
}

#[test]
fn a_wallet_follows_on_postgres() {
    for test in [follows, failed_scripts_cost_their_collateral] {
        if let Some(database) = TestDatabase::create_or_skip() {
            test(database.url());
        }
    }
}
