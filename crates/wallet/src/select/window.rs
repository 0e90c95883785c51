//! The window of coins that a selection looks at: index probes with limits, all in one question.

use std::fmt::Write as _;

use rustc_hash::FxHashSet;
use utxokeep_core::{
    Height, OutPoint,
    wallet::{Candidate, ConfirmationRange, LeaseId, shuffled},
};
use utxokeep_sql::{Row, SqlError, Value};

use super::{SelectionRequest, closed::ClosedCoins};
use crate::{LedgerError, SelectedCoin, rows, session::Session};

/// Coins that may be used: parameters 1 to 6, see [`Session::filter`].
///
/// It is written so that PostgreSQL walks an index and looks each coin up as it comes by. With an
/// OR of classes it would gather all coins first, and without the offsets below all leases.
const USABLE: &str = "u.wallet_id = $1 AND u.spent_by_tx_id IS NULL AND u.parent_class > 0
    AND CASE u.parent_class
        WHEN 4 THEN u.parent_height <= $2 AND (u.parent_coinbase = 0 OR u.parent_height <= $3)
        WHEN 3 THEN $4 = 1 WHEN 2 THEN $5 = 1 ELSE $6 = 1 END";
/// Coins that nobody has leased: parameter 7.
const UNLEASED: &str =
    " AND NOT EXISTS (SELECT 1 FROM utxo_leases l WHERE l.wallet_id = u.wallet_id
        AND l.utxo_id = u.id AND (l.expires_at_us > $7 OR l.is_held = 1) LIMIT 1 OFFSET 0)";
/// Coins that nothing is known against, above an amount.
const UNMARKED: &str = " AND NOT EXISTS (SELECT 1 FROM utxo_marks m WHERE m.wallet_id = u.wallet_id
        AND m.utxo_id = u.id LIMIT 1 OFFSET 0)
    AND u.amount > ";
/// Coins that a replacement of transaction `$OLD` was to add which waits still, leased to one of
/// two owners.
const HELD_FOR_REPLACEMENT: &str = " AND u.id IN (SELECT c.id FROM tx_replacements r
        JOIN transactions t ON t.wallet_id = r.wallet_id AND t.id = r.replacement_tx_id
            AND t.is_waiting = 1
        JOIN tx_inputs i ON i.wallet_id = t.wallet_id AND i.tx_id = t.id
        JOIN transactions p ON p.chain_id = t.chain_id AND p.txid = i.prev_txid
            AND p.wallet_id = i.wallet_id
        JOIN utxos c ON c.wallet_id = p.wallet_id AND c.tx_id = p.id
            AND c.output_index = i.prev_index
        JOIN utxo_leases l ON l.wallet_id = c.wallet_id AND l.utxo_id = c.id
            AND l.expires_at_us > $7 AND l.lease_id IN ($FIRST, $SECOND)
        WHERE r.wallet_id = $1 AND r.replaced_tx_id = $OLD)";
const SELECT_CHOSEN: &str = "SELECT u.id, t.txid, u.output_index, a.script
    FROM utxos u
    JOIN transactions t ON t.wallet_id = u.wallet_id AND t.id = u.tx_id
    JOIN addresses a ON a.wallet_id = u.wallet_id AND a.id = u.address_id
    WHERE u.wallet_id = $1 AND u.id IN";
/// What eligible coins come to, apart by whether they are worth their input at a rate. No input is
/// heavier than a block, so that the product fits.
const SUMS: &str = "SELECT
    CAST(SUM(CASE WHEN c.amount > c.fee THEN c.amount ELSE 0 END) AS BIGINT),
    CAST(SUM(CASE WHEN c.amount > c.fee THEN c.fee ELSE 0 END) AS BIGINT),
    CAST(SUM(CASE WHEN c.amount > c.fee THEN 0 ELSE c.amount END) AS BIGINT)
    FROM (SELECT u.amount, ((CASE WHEN a.spend_weight < 4000000 THEN a.spend_weight
            ELSE 4000000 END + 3) / 4 * 4 * CAST($RATE AS BIGINT) + 999) / 1000 AS fee
        FROM utxos u JOIN addresses a ON a.wallet_id = u.wallet_id AND a.id = u.address_id
        WHERE ";

/// Weight of the lightest input there is, without a signature.
const LIGHTEST_INPUT: u64 = 164;
/// Weight of an input with many signatures.
const HEAVY_INPUT: u64 = 2_000;

/// Parameters of the conditions, and the limit for dust behind them.
const FILTERS: usize = 8;

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

/// A walk along an index, and where it starts.
#[derive(Debug, Clone, Copy)]
enum Probe {
    /// Large coins first.
    Largest,
    /// Coins of at most this amount, large ones first.
    UpTo(i64),
    /// Coins above this amount, small ones first.
    Above(i64),
    /// Coins of blocks from this height on, old ones first.
    OldFrom(i64),
}

/// Sums of the coins that a request may use.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Eligible {
    /// Coins that are worth more than their input costs.
    pub(super) economic: u64,
    /// What their inputs cost.
    pub(super) economic_inputs_fee: u64,
    /// Coins that are not.
    pub(super) uneconomic: u64,
    /// Coins that the request excludes.
    pub(super) excluded: u64,
}

impl Eligible {
    pub(super) const fn total(&self) -> u64 {
        self.economic + self.uneconomic + self.excluded
    }
}

/// What a caller is told about a coin that was chosen.
struct Chosen {
    id: i64,
    outpoint: OutPoint,
    script: Vec<u8>,
}

impl Session<'_, '_> {
    /// Parameters 1 to 8 of the condition that coins must meet; the last is the limit for dust.
    fn filter(
        &mut self,
        request: &SelectionRequest,
    ) -> Result<[Value<'static>; FILTERS], SqlError> {
        let now = self.lease_now()?;
        let tip = self.tip_height();
        let deep = ConfirmationRange::at_least(request.min_confirmations);
        let deep = deep.heights(tip).map_or(-1, |(_, highest)| i64::from(highest.get()));
        let mature = self.maturity(request.maturity).highest_mature(tip);
        let mature = mature.map_or(-1, |height| i64::from(height.get()));
        let unconfirmed = request.min_confirmations == 0;
        Ok([
            self.id(),
            Value::from(deep),
            Value::from(mature),
            Value::from(unconfirmed),
            Value::from(unconfirmed && request.allow_untrusted),
            Value::from(unconfirmed && request.allow_pending),
            Value::from(now.get()),
            Value::from(dust(request)),
        ])
    }

    /// Loads the coins that a selection may look at, by number.
    pub(super) fn window(
        &mut self,
        request: &SelectionRequest,
        closed: &ClosedCoins,
        reach: Reach,
    ) -> Result<Vec<Candidate>, LedgerError> {
        let mut unwanted = self.excluded(request)?;
        let room = match reach {
            Reach::Largest | Reach::Oldest => request.inputs_max,
            Reach::Mixed => self.limits.selection_window_coins_max,
        };
        let probes = match reach {
            Reach::Largest => vec![(Probe::Largest, room)],
            // Coins in no block are not in the order of age.
            Reach::Oldest if request.min_confirmations == 0 => {
                vec![(Probe::OldFrom(0), room), (Probe::Largest, room)]
            }
            Reach::Oldest => vec![(Probe::OldFrom(0), room)],
            Reach::Mixed => self.mixed(request, room),
        };
        let mut window = self.probe(request, closed, &probes, &mut unwanted)?;
        // In a small wallet probes find the same coins.
        if reach == Reach::Mixed && window.len() < room / 2 {
            let largest = [(Probe::Largest, room)];
            window.extend(self.probe(request, closed, &largest, &mut unwanted)?);
        }
        window.truncate(room);
        window.sort_unstable_by_key(|coin| coin.id);
        Ok(window)
    }

    /// Coins just above the amount, large ones, some near the amount and its halves, old ones, and
    /// some of blocks that the seed chooses.
    fn mixed(&self, request: &SelectionRequest, room: usize) -> Vec<(Probe, usize)> {
        let part = (room / 10).max(1);
        let small = part / 2 + 1;
        let target = request.value.to_column();
        let tip = i64::from(self.tip_height().map_or(0, Height::get));
        let mut probes = vec![
            (Probe::Above(target.max(dust(request))), part),
            (Probe::Largest, part * 3),
            (Probe::OldFrom(0), part),
        ];
        probes.extend((0..4).map(|halvings| (Probe::UpTo(target >> halvings), small)));
        let heights = shuffled(256, request.seed).into_iter().take(4);
        let heights = heights.map(|at| tip * i64::try_from(at).unwrap_or(0) / 256);
        probes.extend(heights.map(|height| (Probe::OldFrom(height), small)));
        probes
    }

    /// Asks all probes at once. Numbers in `unwanted` are left out; those found are added to it.
    fn probe(
        &mut self,
        request: &SelectionRequest,
        closed: &ClosedCoins,
        probes: &[(Probe, usize)],
        unwanted: &mut FxHashSet<i64>,
    ) -> Result<Vec<Candidate>, SqlError> {
        // What is excluded must not use up the window. Limits are part of the text, because
        // PostgreSQL plans for many rows when it does not know them; so there are few of them.
        let spare = if unwanted.is_empty() { 0 } else { unwanted.len().next_power_of_two() };
        let mut parameters = self.filter(request)?.to_vec();
        let open = closed.condition(self.chain, &mut parameters);
        let mut text =
            String::from("SELECT c.id, c.amount, a.spend_weight, c.parent_height FROM (");
        for (at, (probe, count)) in probes.iter().enumerate() {
            text.push_str(if at == 0 { "" } else { " UNION ALL " });
            probe.write(&mut text, &open, &mut parameters, count + spare);
        }
        text.push_str(") c CROSS JOIN addresses a WHERE a.wallet_id = $1 AND a.id = c.address_id");
        let mut found = Vec::new();
        self.tx.query(&text, &parameters, |row| {
            let coin = read_candidate(row)?;
            if unwanted.insert(coin.id) {
                found.push(coin);
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Numbers of the coins that must not be used.
    fn excluded(&mut self, request: &SelectionRequest) -> Result<FxHashSet<i64>, SqlError> {
        let mut excluded = FxHashSet::default();
        for outpoint in &request.exclude {
            excluded.extend(self.coin_id(outpoint)?);
        }
        Ok(excluded)
    }

    /// Outputs and scripts of coins, by number.
    fn chosen(&mut self, ids: &[i64]) -> Result<Vec<Chosen>, SqlError> {
        let keys: Vec<Value<'_>> = ids.iter().map(|id| Value::from(*id)).collect();
        let fixed = [self.id()];
        let mut chosen = Vec::with_capacity(ids.len());
        self.tx.query_in(SELECT_CHOSEN, "", &fixed, 1, &keys, |row| {
            let (outpoint, script) = (rows::outpoint(row, 1)?, row.bytes(3)?.to_vec());
            chosen.push(Chosen { id: row.int(0)?, outpoint, script });
            Ok(())
        })?;
        chosen.sort_unstable_by_key(|coin| coin.id);
        chosen.dedup_by_key(|coin| coin.id);
        if chosen.len() == ids.len() {
            return Ok(chosen);
        }
        Err(rows::bad("a coin has no transaction or no address"))
    }

    /// Sums of all eligible coins, the excluded ones apart.
    pub(super) fn eligible(
        &mut self,
        request: &SelectionRequest,
        closed: &ClosedCoins,
    ) -> Result<Eligible, LedgerError> {
        let mut parameters = self.filter(request)?.to_vec();
        // Every coin counts here, however small.
        parameters[FILTERS - 1] = Value::from(-1_i64);
        parameters.push(Value::from(i64::from(request.fee_rate.get())));
        let sums = SUMS.replace("$RATE", &format!("${}", parameters.len()));
        let open = closed.condition(self.chain, &mut parameters);
        let read = |row: &Row<'_>| Ok((rows::sum(row, 0)?, rows::sum(row, 1)?, rows::sum(row, 2)?));
        let all = format!("{sums}{USABLE}{UNLEASED}{UNMARKED}$8{open}) c");
        let (mut economic, mut fee, mut uneconomic) = self.tx.query_one(&all, &parameters, read)?;
        let mut excluded: Vec<i64> = self.excluded(request)?.into_iter().collect();
        excluded.sort_unstable();
        let keys: Vec<Value<'_>> = excluded.into_iter().map(Value::from).collect();
        let mut without = 0;
        let some = format!("{sums}{USABLE}{UNLEASED}{UNMARKED}$8{open} AND u.id IN");
        self.tx.query_in(&some, ") c", &parameters, 1, &keys, |row| {
            let (of_economic, of_fee, of_uneconomic) = read(row)?;
            economic -= of_economic;
            fee -= of_fee;
            uneconomic -= of_uneconomic;
            without += of_economic + of_uneconomic;
            Ok(())
        })?;
        Ok(Eligible { economic, economic_inputs_fee: fee, uneconomic, excluded: without })
    }

    /// Coins that a replacement may add: the smallest ones that are enough alone, and the largest.
    pub(crate) fn coins_to_add(
        &mut self,
        request: &SelectionRequest,
        closed: &ClosedCoins,
    ) -> Result<Vec<Candidate>, LedgerError> {
        let room = self.limits.selection_window_coins_max;
        let missing = request.value.to_column();
        // The lightest and a heavy input: in between it depends on the script.
        let with = |weight| {
            let fee = i64::try_from(request.fee_rate.fee(weight)).unwrap_or(i64::MAX);
            missing.saturating_add(fee).saturating_sub(1)
        };
        let probes = [
            (Probe::Above(with(LIGHTEST_INPUT)), room),
            (Probe::Above(with(HEAVY_INPUT)), room),
            (Probe::Largest, request.inputs_max),
        ];
        let mut unwanted = FxHashSet::default();
        Ok(self.probe(request, closed, &probes, &mut unwanted)?)
    }

    /// Coins that another replacement of a transaction holds until it is published, for one of these
    /// owners. Only one of the two can be published, so that both may spend them.
    pub(crate) fn coins_held_for_replacement(
        &mut self,
        request: &SelectionRequest,
        closed: &ClosedCoins,
        replaced: i64,
        owners: [LeaseId; 2],
    ) -> Result<Vec<Candidate>, LedgerError> {
        let mut parameters = self.filter(request)?.to_vec();
        let first = parameters.len() + 1;
        parameters.extend([
            Value::from(replaced),
            Value::from(owners[0].as_bytes()),
            Value::from(owners[1].as_bytes()),
        ]);
        let held = HELD_FOR_REPLACEMENT
            .replace("$OLD", &format!("${first}"))
            .replace("$FIRST", &format!("${}", first + 1))
            .replace("$SECOND", &format!("${}", first + 2));
        let open = closed.condition(self.chain, &mut parameters);
        let text = format!(
            "SELECT u.id, u.amount, a.spend_weight, u.parent_height FROM utxos u
             JOIN addresses a ON a.wallet_id = u.wallet_id AND a.id = u.address_id
             WHERE {USABLE}{UNMARKED}$8{held}{open}"
        );
        Ok(self.tx.query_all(&text, &parameters, read_candidate)?)
    }

    /// What is known of coins that were chosen among candidates, in the order given.
    pub(crate) fn selected(
        &mut self,
        coins: &[&Candidate],
    ) -> Result<Vec<SelectedCoin>, LedgerError> {
        let mut ids: Vec<i64> = coins.iter().map(|coin| coin.id).collect();
        ids.sort_unstable();
        let known = self.chosen(&ids)?;
        let of = |coin: &&Candidate| {
            let at = known.binary_search_by_key(&coin.id, |known| known.id).ok()?;
            let known = &known[at];
            Some(SelectedCoin {
                id: coin.id,
                outpoint: known.outpoint,
                amount: coin.amount,
                script: known.script.clone(),
                weight: coin.weight,
                height: coin.height,
            })
        };
        let all: Option<Vec<SelectedCoin>> = coins.iter().map(of).collect();
        all.ok_or_else(|| rows::bad("a coin has no transaction or no address").into())
    }
}

impl Probe {
    /// Writes the probe as one part of a statement, with its bound as a further parameter.
    fn write(self, text: &mut String, open: &str, parameters: &mut Vec<Value<'_>>, limit: usize) {
        let next = parameters.len() + 1;
        let (bound, lowest, condition, order) = match self {
            Self::Largest => (None, FILTERS, String::new(), "u.amount DESC, u.id DESC"),
            Self::UpTo(amount) => {
                let condition = format!(" AND u.amount <= ${next}");
                (Some(amount), FILTERS, condition, "u.amount DESC, u.id DESC")
            }
            // Takes the place of the limit for dust: an index search has one lower end.
            Self::Above(amount) => (Some(amount), next, String::new(), "u.amount, u.id"),
            Self::OldFrom(height) => {
                let condition = format!(" AND u.parent_class = 4 AND u.parent_height >= ${next}");
                (Some(height), FILTERS, condition, "u.parent_height, u.id")
            }
        };
        parameters.extend(bound.map(Value::from));
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "SELECT * FROM (SELECT u.id, u.amount, u.address_id, u.parent_height FROM utxos u
             WHERE {USABLE}{UNLEASED}{UNMARKED}${lowest}{open}{condition} ORDER BY {order} LIMIT {limit}) p{next}"
        );
    }
}

/// The lightest input there is costs this much: coins up to it never pay for themselves.
fn dust(request: &SelectionRequest) -> i64 {
    i64::try_from(request.fee_rate.fee(LIGHTEST_INPUT)).unwrap_or(i64::MAX)
}

fn read_candidate(row: &Row<'_>) -> Result<Candidate, SqlError> {
    Ok(Candidate {
        id: row.int(0)?,
        amount: rows::amount(row, 1)?,
        weight: rows::u32_at(row, 2)?,
        height: rows::height(row, 3)?,
    })
}
