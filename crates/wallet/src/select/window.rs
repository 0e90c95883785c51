//! The window of coins that a selection looks at: index probes with limits.

use std::collections::BTreeSet;

use utxokeep_core::{
    Height, OutPoint,
    wallet::{Candidate, shuffled},
};
use utxokeep_sql::{Row, SqlError, Value};

use super::SelectionRequest;
use crate::{LedgerError, rows, session::Session};

/// Eligible coins: parameters 1 to 8, see [`Session::filter`].
macro_rules! eligible {
    () => {
        "u.wallet_id = $1 AND u.spent_by_tx_id IS NULL AND u.parent_class > 0
            AND u.amount > $8
            AND ((u.parent_class = 4 AND u.parent_height <= $2
                    AND (u.parent_coinbase = 0 OR u.parent_height <= $3))
                OR (u.parent_class = 3 AND $4 = 1)
                OR (u.parent_class = 2 AND $5 = 1)
                OR (u.parent_class = 1 AND $6 = 1))
            AND NOT EXISTS (SELECT 1 FROM utxo_leases l WHERE l.wallet_id = u.wallet_id
                AND l.utxo_id = u.id AND (l.expires_at_us > $7 OR l.is_held = 1))"
    };
}

/// Probes an index for eligible coins, and joins what belongs to them afterwards.
macro_rules! probe {
    ($condition:literal, $order:literal) => {
        concat!(
            "SELECT t.txid, c.output_index, c.id, c.amount, a.spend_weight, c.parent_height,
                a.script
            FROM (SELECT u.wallet_id, u.id, u.tx_id, u.output_index, u.amount, u.address_id,
                    u.parent_height
                FROM utxos u WHERE ",
            eligible!(),
            $condition,
            " ORDER BY ",
            $order,
            " LIMIT $9) c
            CROSS JOIN transactions t CROSS JOIN addresses a
            WHERE t.wallet_id = c.wallet_id AND t.id = c.tx_id
                AND a.wallet_id = c.wallet_id AND a.id = c.address_id"
        )
    };
}

const LARGEST: &str = probe!("", "u.amount DESC, u.id DESC");
const UP_TO: &str = probe!(" AND u.amount <= $10", "u.amount DESC, u.id DESC");
const SMALLEST: &str = probe!("", "u.amount, u.id");
const OLDEST: &str =
    probe!(" AND u.parent_class = 4 AND u.parent_height >= $10", "u.parent_height, u.id");
const SUM: &str = concat!("SELECT CAST(SUM(u.amount) AS BIGINT) FROM utxos u WHERE ", eligible!());
const SUM_OF: &str = concat!(
    "SELECT CAST(SUM(u.amount) AS BIGINT) FROM utxos u WHERE ",
    eligible!(),
    " AND u.id IN"
);

/// Which coins a window holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// As many large ones as there may be inputs.
    Largest,
    /// As many old ones as there may be inputs.
    Oldest,
    /// Some of each kind, few enough for a search.
    Mixed,
}

/// A coin of the window.
pub(super) struct WindowCoin {
    pub(super) candidate: Candidate,
    pub(super) outpoint: OutPoint,
    pub(super) script: Vec<u8>,
}

/// A window that fills up.
struct Window<'r> {
    coins: Vec<WindowCoin>,
    seen: BTreeSet<i64>,
    request: &'r SelectionRequest,
    room: usize,
}

impl Session<'_, '_> {
    /// Parameters 1 to 8 of the condition that coins must meet.
    fn filter(&self, request: &SelectionRequest) -> [Value<'static>; 8] {
        let tip = self.tip_height();
        let deep = utxokeep_core::wallet::ConfirmationRange::at_least(request.min_confirmations);
        let deep = deep.heights(tip).map_or(-1, |(_, highest)| i64::from(highest.get()));
        let mature =
            request.maturity.highest_mature(tip).map_or(-1, |height| i64::from(height.get()));
        let unconfirmed = request.min_confirmations == 0;
        [
            self.id(),
            Value::from(deep),
            Value::from(mature),
            Value::from(unconfirmed),
            Value::from(unconfirmed && request.allow_untrusted),
            Value::from(unconfirmed && request.allow_pending),
            Value::from(self.now.get()),
            Value::from(dust(request)),
        ]
    }

    /// Loads the coins that a selection may look at.
    pub(super) fn window(
        &mut self,
        request: &SelectionRequest,
        reach: Reach,
    ) -> Result<Vec<WindowCoin>, LedgerError> {
        let room = match reach {
            Reach::Largest | Reach::Oldest => request.inputs_max,
            Reach::Mixed => self.limits.selection_window_coins_max,
        };
        let mut window = Window { coins: Vec::new(), seen: BTreeSet::new(), request, room };
        match reach {
            Reach::Largest => self.fill(&mut window, LARGEST, room, None)?,
            Reach::Oldest => {
                self.fill(&mut window, OLDEST, room, Some(0))?;
                // Coins in no block are not in the order of age.
                if request.min_confirmations == 0 {
                    self.fill(&mut window, LARGEST, room, None)?;
                }
            }
            Reach::Mixed => self.fill_mixed(&mut window)?,
        }
        Ok(window.coins)
    }

    fn fill_mixed(&mut self, window: &mut Window<'_>) -> Result<(), LedgerError> {
        let part = (window.room / 10).max(1);
        let target = window.request.value.to_column();
        self.fill_above(window, part, target)?;
        self.fill(window, LARGEST, part * 3, None)?;
        for halvings in 0..4 {
            self.fill(window, UP_TO, part / 2 + 1, Some(target >> halvings))?;
        }
        self.fill(window, OLDEST, part, Some(0))?;
        let tip = self.tip_height().map_or(0, Height::get);
        for at in shuffled(256, window.request.seed).into_iter().take(4) {
            let height = i64::from(tip) * i64::try_from(at).unwrap_or(0) / 256;
            self.fill(window, OLDEST, part / 2 + 1, Some(height))?;
        }
        let rest = window.room.saturating_sub(window.coins.len());
        if rest > 0 {
            self.fill(window, LARGEST, part * 3 + rest, None)?;
        }
        Ok(())
    }

    /// Coins just above the amount. It takes the place of the limit for dust: an index search has
    /// one lower end.
    fn fill_above(
        &mut self,
        window: &mut Window<'_>,
        count: usize,
        amount: i64,
    ) -> Result<(), SqlError> {
        let mut filter = self.filter(window.request);
        filter[7] = Value::from(amount.max(dust(window.request)));
        self.fill_by(window, SMALLEST, filter.to_vec(), count, None)
    }

    fn fill(
        &mut self,
        window: &mut Window<'_>,
        statement: &str,
        count: usize,
        bound: Option<i64>,
    ) -> Result<(), SqlError> {
        let filter = self.filter(window.request).to_vec();
        self.fill_by(window, statement, filter, count, bound)
    }

    fn fill_by(
        &mut self,
        window: &mut Window<'_>,
        statement: &str,
        mut parameters: Vec<Value<'_>>,
        count: usize,
        bound: Option<i64>,
    ) -> Result<(), SqlError> {
        // What is excluded must not use up the window.
        let limit = i64::try_from(count + window.request.exclude.len()).unwrap_or(i64::MAX);
        parameters.push(Value::from(limit));
        parameters.extend(bound.map(Value::from));
        self.tx.query(statement, &parameters, |row| {
            let coin = read_coin(row)?;
            let excluded = window.request.exclude.contains(&coin.outpoint);
            if window.coins.len() < window.room
                && !excluded
                && window.seen.insert(coin.candidate.id)
            {
                window.coins.push(coin);
            }
            Ok(())
        })
    }

    /// Sum of all eligible coins, without the excluded ones.
    pub(super) fn eligible_sum(&mut self, request: &SelectionRequest) -> Result<u64, LedgerError> {
        let filter = self.filter(request);
        let all = self.tx.query_one(SUM, &filter, |row| rows::sum(row, 0))?;
        let mut excluded = BTreeSet::new();
        for outpoint in &request.exclude {
            excluded.extend(self.coin_id(outpoint)?);
        }
        let keys: Vec<Value<'_>> = excluded.into_iter().map(Value::from).collect();
        let mut without = 0;
        self.tx.query_in(SUM_OF, "", &filter, 1, &keys, |row| {
            without += rows::sum(row, 0)?;
            Ok(())
        })?;
        Ok(all.saturating_sub(without))
    }
}

/// The lightest input there is costs this much: coins up to it never pay for themselves.
fn dust(request: &SelectionRequest) -> i64 {
    i64::try_from(request.fee_rate.fee(164)).unwrap_or(i64::MAX)
}

fn read_coin(row: &Row<'_>) -> Result<WindowCoin, SqlError> {
    Ok(WindowCoin {
        outpoint: rows::outpoint(row, 0)?,
        candidate: Candidate {
            id: row.int(2)?,
            amount: rows::amount(row, 3)?,
            weight: rows::u32_at(row, 4)?,
            height: rows::height(row, 5)?,
        },
        script: row.bytes(6)?.to_vec(),
    })
}
