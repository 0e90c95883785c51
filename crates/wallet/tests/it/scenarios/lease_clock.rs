//! Leases on a server that several hosts share: their clocks differ, the server's decides.

use utxokeep_core::OutPoint;
use utxokeep_sql::{Database, Options};
use utxokeep_wallet::{
    BalanceQuery, CoinQuery, FeeRate, LeaseClock, LeaseId, LeaseTerms, Ledger, LedgerError, Limits,
    Micros, SelectionRequest, WalletId,
};

use crate::scenarios::world::{SECOND, World, coins_of, on_postgres, on_sqlite, out, outside, pay};

/// How far the clock of the second host is ahead.
const AHEAD: i64 = 11 * 60 * SECOND;

/// A host: its own connections and its own clock.
struct Host {
    ledger: Ledger,
    wallet: WalletId,
    now: Micros,
    owner: LeaseId,
}

impl Host {
    fn open(url: &str, clock: LeaseClock, wallet: WalletId, now: Micros, n: u8) -> Self {
        let database = Database::open(url, &Options::default()).unwrap();
        let ledger = Ledger::open(database, Limits::default(), now).unwrap();
        let owner = LeaseId::from_bytes([n; 32]);
        Self { ledger: ledger.with_lease_clock(clock), wallet, now, owner }
    }

    fn acquire(&self, coin: OutPoint, duration_us: i64) -> Result<Micros, LedgerError> {
        let terms = LeaseTerms::until(self.owner, duration_us);
        self.ledger.acquire_leases(self.wallet, &[coin], &terms, self.now)
    }

    fn select(&self) -> Result<(), LedgerError> {
        let request = SelectionRequest::new(coins_of(5_000), FeeRate::per_vbyte(1), 7);
        self.ledger.select(self.wallet, &request, self.now).map(drop)
    }

    /// How many leases it lists, how much it sees as leased, and whether the coin is marked so.
    fn sees(&self) -> (usize, u64, bool) {
        let leases = self.ledger.leases(self.wallet, 0, 10, self.now).unwrap();
        let balance = self.ledger.balance(self.wallet, &BalanceQuery::default(), self.now).unwrap();
        let coins = self.ledger.coins(self.wallet, &CoinQuery::default(), self.now).unwrap();
        (leases.len(), balance.leased, coins[0].leased)
    }
}

/// A wallet with one coin, and two hosts on the same server.
fn two_hosts(url: &str, clock: LeaseClock, test: impl FnOnce(&Host, &Host, OutPoint)) {
    let ledger = crate::scenarios::world::open(url, Limits::default());
    let mut w = World::new(&ledger);
    let funding = pay(1, &[outside(1)], &[10_000]);
    w.mine(&[&funding]);
    let right = Host::open(url, clock, w.wallet, w.now, 1);
    let ahead = Host::open(url, clock, w.wallet, w.now.plus(AHEAD), 2);
    test(&right, &ahead, out(&funding, 0));
    w.check();
}

#[test]
fn a_host_eleven_minutes_ahead_does_not_take_an_active_lease() {
    on_postgres(|url| {
        two_hosts(url, LeaseClock::default(), |right, ahead, coin| {
            right.acquire(coin, 600 * SECOND).unwrap();
            let taken = ahead.acquire(coin, 600 * SECOND);
            assert!(matches!(taken, Err(LedgerError::AlreadyLeased { .. })), "{taken:?}");
            assert!(matches!(
                ahead.select(),
                Err(LedgerError::InsufficientFunds { leased: 10_000, .. })
            ));
            assert_eq!(ahead.sees(), (1, 10_000, true));
            assert_eq!(ahead.ledger.clean_all_leases(10, ahead.now).unwrap().rows, 0);
            assert_eq!(ahead.ledger.count_leases(10, ahead.now).unwrap().expired, 0);
            let terms = LeaseTerms::until(right.owner, SECOND);
            ahead.ledger.renew_leases(ahead.wallet, &[coin], &terms, ahead.now).unwrap();
            assert!(
                right.ledger.release_lease(right.wallet, &right.owner, &coin, right.now).unwrap()
            );
        });
    });
}

/// The twin: by the clock of its caller the same lease is taken, which the test above would notice.
#[test]
fn by_its_own_clock_that_host_takes_it() {
    let taken = |url: &str| {
        two_hosts(url, LeaseClock::Caller, |right, ahead, coin| {
            right.acquire(coin, 600 * SECOND).unwrap();
            assert_eq!(ahead.sees(), (0, 0, false));
            ahead.select().unwrap();
            ahead.acquire(coin, 600 * SECOND).unwrap();
        });
    };
    on_postgres(taken);
    on_sqlite(taken);
}

#[test]
fn a_lease_ends_by_the_servers_clock_although_a_host_is_behind() {
    on_postgres(|url| {
        two_hosts(url, LeaseClock::default(), |behind, ahead, coin| {
            // Every statement comes later than a microsecond after the one before.
            ahead.acquire(coin, 1).unwrap();
            assert_eq!(behind.sees(), (0, 0, false));
            assert_eq!(behind.ledger.count_leases(10, behind.now).unwrap().expired, 1);
            behind.select().unwrap();
            behind.acquire(coin, 600 * SECOND).unwrap();
        });
    });
}
