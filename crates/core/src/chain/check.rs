//! Whether a block may be connected: inputs that are there and unspent, amounts, subsidy, maturity,
//! locks, weight, signature operations, and the height in the coinbase. What a block shows without
//! what it spends is looked at before, by [`crate::check_alone`]. Scripts are not run.
//!
//! The engine gathers facts (what each input spends), this module decides. It sees a block as
//! Bitcoin Core's `ConnectBlock` does, and names the same reasons.

use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    bitcoin::{self, PastTimes},
    block::{Block, Tx},
    sigops::LEGACY_SCALE,
};
use crate::{
    network::Network,
    types::{BlockHash, Height, OutPoint, Txid},
};

/// What the rules need to know of an output that is being spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CoinFacts {
    /// Amount in the chain's smallest unit.
    pub value: u64,
    /// Height of the block that created it.
    pub height: Height,
    /// Created by a coinbase.
    pub is_coinbase: bool,
    /// What [`Block::spending_sigop_cost`] says of the input.
    pub sigop_cost: u32,
    /// Median time of the blocks before the one that created it, in seconds. Looked at only where
    /// [`crate::BitcoinFacts::is_locked_in_seconds`] says so.
    pub created_after: u64,
}

/// What an input spends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prevout {
    /// Output number `.0` of [`Block::outputs`] of the same block.
    InBlock(u32),
    /// A live output of an earlier block.
    Live(CoinFacts),
    /// Nothing: never existed, cannot be spent, or is spent already.
    Missing,
}

/// Why a block can never be part of a valid chain. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidBlock {
    /// An input names an output that does not exist or is spent.
    #[error("bad-txns-inputs-missingorspent: {tx} spends {outpoint}, which is missing or spent")]
    MissingOrSpent {
        /// The spending transaction.
        tx: Txid,
        /// The output it names.
        outpoint: OutPoint,
    },
    /// One transaction names the same output twice.
    #[error("bad-txns-inputs-duplicate: {tx} spends {outpoint} twice")]
    DuplicateInput {
        /// The spending transaction.
        tx: Txid,
        /// The output that two of its inputs name.
        outpoint: OutPoint,
    },
    /// A transaction repeats one that still has live outputs.
    #[error("bad-txns-BIP30: {outpoint} exists already and is unspent")]
    OverwritesLive {
        /// The output that exists.
        outpoint: OutPoint,
    },
    /// A coinbase output is spent too early.
    #[error(
        "bad-txns-premature-spend-of-coinbase: {tx} spends a coinbase {age} blocks old, before {maturity}"
    )]
    ImmatureCoinbase {
        /// The spending transaction.
        tx: Txid,
        /// Blocks since the coinbase.
        age: u32,
        /// Blocks required.
        maturity: u32,
    },
    /// A transaction creates more than it spends.
    #[error("bad-txns-in-belowout: {tx} spends {spent} and creates {created}")]
    CreatesMoney {
        /// The transaction whose outputs are worth more than its inputs.
        tx: Txid,
        /// Sum of its inputs.
        spent: u64,
        /// Sum of its outputs.
        created: u64,
    },
    /// The coinbase claims more than subsidy and fees.
    #[error("bad-cb-amount: the coinbase claims {claimed}, allowed are {allowed}")]
    CoinbaseTooLarge {
        /// What it claims.
        claimed: u64,
        /// Subsidy plus fees.
        allowed: u64,
    },
    /// The coinbase does not carry the height of its block.
    #[error("bad-cb-height: the coinbase claims height {claimed:?}")]
    WrongCoinbaseHeight {
        /// What it claims, if anything.
        claimed: Option<u32>,
    },
    /// The block is too long, witnesses not counted, or has too many transactions.
    #[error("bad-blk-length: the block has {bytes} bytes without witnesses")]
    TooLong {
        /// Its length without witnesses.
        bytes: u32,
    },
    /// The block weighs too much.
    #[error("bad-blk-weight: the block weighs {weight}, allowed are {max}", max = bitcoin::BLOCK_WEIGHT_MAX)]
    TooHeavy {
        /// Weight of the block in weight units, witnesses included.
        weight: u64,
    },
    /// The script of the coinbase is too short or too long.
    #[error("bad-cb-length: the script of the coinbase has {len} bytes, 2 to 100 are allowed")]
    CoinbaseScriptLength {
        /// Bytes of the script that unlocks the coinbase input.
        len: u32,
    },
    /// The signature operations of the block cost too much.
    #[error(
        "bad-blk-sigops: the signature operations cost {cost}, allowed are {max}",
        max = bitcoin::SIGOP_COST_MAX
    )]
    TooManySigops {
        /// Their cost, as far as they were counted.
        cost: u32,
    },
    /// The block is not later than the blocks before it.
    #[error("time-too-old: the time {time} is not after {median}, the median of the blocks before")]
    TooEarly {
        /// Time of the block.
        time: u64,
        /// Median time of the eleven blocks before.
        median: u64,
    },
    /// The first block of a period is much earlier than the block before it.
    #[error("time-timewarp-attack: the time {time} is too far before {previous}")]
    Timewarp {
        /// Time of the block.
        time: u64,
        /// Time of the block before.
        previous: u64,
    },
    /// The version is older than the height allows.
    #[error("bad-version(0x{version:08x}): from this height on it is at least {least}")]
    OldVersion {
        /// Version of the block.
        version: i32,
        /// The least that is allowed.
        least: i32,
    },
    /// A transaction is in a block before its lock time.
    #[error("bad-txns-nonfinal: {tx} is locked until {lock_time}")]
    NotFinal {
        /// The transaction that came too early.
        tx: Txid,
        /// Its lock time, a height or seconds.
        lock_time: u32,
    },
    /// An input spends an output sooner after its creation than it says.
    #[error("bad-txns-nonfinal: {tx} spends {outpoint} before its relative lock ends")]
    RelativelyLocked {
        /// The spending transaction.
        tx: Txid,
        /// The output that is too young for it.
        outpoint: OutPoint,
    },
    /// The header does not carry the number the block has in its chain.
    #[error("wrong-block-number: the header says {claimed:?}, its place says {height}")]
    WrongNumber {
        /// What it claims, if anything.
        claimed: Option<u32>,
        /// The number of its parent plus one.
        height: Height,
    },
    /// The block's parent, or an older ancestor, is invalid.
    #[error("bad-prevblk: descends from invalid block {ancestor}")]
    InvalidAncestor {
        /// The invalid block.
        ancestor: BlockHash,
    },
}

impl InvalidBlock {
    /// Whether the verdict hangs on witness bytes. The hash of a block does not cover them, and their
    /// commitment is not checked: another copy of the same block may be good.
    #[must_use]
    pub const fn depends_on_witness(&self) -> bool {
        matches!(self, Self::TooHeavy { .. } | Self::TooManySigops { .. })
    }

    /// The reason with hashes as people of the chain write them; `Display` writes Bitcoin's way.
    #[must_use]
    pub fn text(&self, network: Network) -> String {
        let show = |hash: &[u8; 32]| network.hash_text(hash);
        match self {
            Self::MissingOrSpent { tx, outpoint } if network.is_cardano() => format!(
                "missing-or-spent: {} spends {}#{}, which is missing or spent",
                show(tx.as_bytes()),
                show(outpoint.txid().as_bytes()),
                outpoint.index()
            ),
            Self::InvalidAncestor { ancestor } => {
                format!("bad-prevblk: descends from invalid block {}", show(ancestor.as_bytes()))
            }
            other => other.to_string(),
        }
    }
}

/// For each input of the block: the number of the output of the same block that it names, if it
/// names one. Whether that output comes early enough is for [`check_block`] to say.
#[must_use]
pub fn in_block_prevouts(block: &Block) -> Vec<Option<u32>> {
    let mut by_txid: FxHashMap<Txid, &Tx> = FxHashMap::default();
    by_txid.reserve(block.txs.len());
    for tx in &block.txs {
        by_txid.insert(tx.txid, tx);
    }
    block
        .inputs
        .iter()
        .map(|input| {
            let tx = by_txid.get(input.txid())?;
            let outputs = block.outputs_of(tx);
            let at = outputs.binary_search_by_key(&input.index(), |output| output.index).ok()?;
            Some(tx.outputs.start + u32::try_from(at).ok()?)
        })
        .collect()
}

/// What is known of a block that passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Checked {
    /// Sum of all fees, on chains where inputs and outputs alone tell it.
    pub fees: u64,
    /// Inputs that spend what the index never saw.
    pub missing_inputs: u64,
}

/// What to make of an input whose output is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingInput {
    /// The index has the whole chain, so the block is invalid.
    Refuse,
    /// The index has a part of the chain or of its outputs: count it and go on.
    Count,
}

/// Decides whether `block` may be connected at `height`, given what each of its inputs spends.
///
/// `prevouts` has one entry per entry of [`Block::inputs`]. The rule against repeating a live
/// transaction is the caller's to look up: see [`Network::can_repeat_transactions`].
pub fn check_block(
    block: &Block,
    height: Height,
    network: Network,
    past: &PastTimes,
    prevouts: &[Prevout],
    missing: MissingInput,
) -> Result<Checked, InvalidBlock> {
    assert_eq!(prevouts.len(), block.inputs.len(), "one fact per input");
    if network.is_cardano() {
        return check_cardano(block, height, prevouts, missing);
    }
    let claimed = block.claimed_height;
    if network.has_height_in_coinbase(height) && claimed != Some(height.get()) {
        return Err(InvalidBlock::WrongCoinbaseHeight { claimed });
    }
    if let Some(facts) = &block.bitcoin {
        bitcoin::check_weight(block, facts)?;
    }
    let mut seen: FxHashSet<OutPoint> = FxHashSet::default();
    seen.reserve(block.inputs.len());
    let connecting = Connecting { block, height, network, past, prevouts };
    let legacy_sigops = block.bitcoin.as_ref().map_or(0, |facts| facts.legacy_sigops);
    let mut sigop_cost = legacy_sigops.saturating_mul(LEGACY_SCALE);
    let counts_hidden = network.counts_hidden_sigops(&block.header.hash);
    let mut fees = 0u64;
    for (number, tx) in block.txs.iter().enumerate().filter(|(_, tx)| !tx.is_coinbase) {
        let (fee, hidden) = connecting.check_tx(number, tx, &mut seen)?;
        fees = fees.saturating_add(fee);
        if counts_hidden {
            sigop_cost = sigop_cost.saturating_add(hidden);
        }
    }
    bitcoin::check_sigops(sigop_cost)?;
    let allowed = network.subsidy(height).saturating_add(fees);
    let claimed = block.txs.first().filter(|tx| tx.is_coinbase).map_or(0, |tx| tx.output_total);
    // The first block's coinbase is outside the set, and outside the rule.
    if claimed > allowed && height > Height::GENESIS {
        return Err(InvalidBlock::CoinbaseTooLarge { claimed, allowed });
    }
    Ok(Checked { fees, missing_inputs: 0 })
}

/// Cardano: every input is there, once, and early enough. Deposits, withdrawals and rewards make
/// amounts a matter of the whole ledger state, which a node has checked.
fn check_cardano(
    block: &Block,
    height: Height,
    prevouts: &[Prevout],
    missing: MissingInput,
) -> Result<Checked, InvalidBlock> {
    let claimed = block.claimed_height;
    if claimed != Some(height.get()) {
        return Err(InvalidBlock::WrongNumber { claimed, height });
    }
    let mut seen: FxHashSet<OutPoint> = FxHashSet::default();
    seen.reserve(block.inputs.len());
    let mut checked = Checked::default();
    for tx in &block.txs {
        for (&outpoint, at) in block.inputs_of(tx).iter().zip(tx.inputs.start as usize..) {
            let refused = Err(InvalidBlock::MissingOrSpent { tx: tx.txid, outpoint });
            if !seen.insert(outpoint) {
                return refused;
            }
            match prevouts[at] {
                Prevout::Live(_) => {}
                Prevout::InBlock(number) if number < tx.outputs.start => {}
                Prevout::Missing if missing == MissingInput::Count => checked.missing_inputs += 1,
                Prevout::InBlock(_) | Prevout::Missing => return refused,
            }
        }
    }
    Ok(checked)
}

/// A block of Bitcoin, where it is to be connected, and what it spends.
struct Connecting<'a> {
    block: &'a Block,
    height: Height,
    network: Network,
    past: &'a PastTimes,
    prevouts: &'a [Prevout],
}

impl Connecting<'_> {
    /// Checks one transaction and answers its fee, and the cost of signature operations that are not
    /// in plain sight.
    fn check_tx(
        &self,
        number: usize,
        tx: &Tx,
        seen: &mut FxHashSet<OutPoint>,
    ) -> Result<(u64, u32), InvalidBlock> {
        let Self { block, height, network, .. } = *self;
        let inputs = block.inputs_of(tx);
        let has_relative_locks = network.has_relative_locks(height);
        let (mut spent, mut sigop_cost, mut locked) = (0u64, 0u32, None);
        for (at, &outpoint) in inputs.iter().enumerate() {
            if !seen.insert(outpoint) {
                return Err(if inputs[..at].contains(&outpoint) {
                    InvalidBlock::DuplicateInput { tx: tx.txid, outpoint }
                } else {
                    InvalidBlock::MissingOrSpent { tx: tx.txid, outpoint }
                });
            }
            let input = tx.inputs.start as usize + at;
            let facts = self
                .coin(tx, input)
                .ok_or(InvalidBlock::MissingOrSpent { tx: tx.txid, outpoint })?;
            let age = facts.height.depth_below(height).unwrap_or(0);
            let maturity = network.coinbase_maturity();
            if facts.is_coinbase && age < maturity {
                return Err(InvalidBlock::ImmatureCoinbase { tx: tx.txid, age, maturity });
            }
            spent = spent.saturating_add(facts.value);
            sigop_cost = sigop_cost.saturating_add(facts.sigop_cost);
            if has_relative_locks && locked.is_none() && !self.is_unlocked((number, input), &facts)
            {
                locked = Some(outpoint);
            }
        }
        let fee = spent.checked_sub(tx.output_total).ok_or(InvalidBlock::CreatesMoney {
            tx: tx.txid,
            spent,
            created: tx.output_total,
        })?;
        match locked {
            Some(outpoint) => Err(InvalidBlock::RelativelyLocked { tx: tx.txid, outpoint }),
            None => Ok((fee, sigop_cost)),
        }
    }

    fn is_unlocked(&self, place: (usize, usize), coin: &CoinFacts) -> bool {
        let (created, now) = ((coin.height, coin.created_after), (self.height, self.past));
        self.block.bitcoin.as_ref().is_none_or(|facts| facts.is_unlocked(place, created, now))
    }

    /// What input number `input`, of transaction `tx`, spends; `None` if that is not there.
    fn coin(&self, tx: &Tx, input: usize) -> Option<CoinFacts> {
        let block = self.block;
        match self.prevouts[input] {
            Prevout::Live(facts) => Some(facts),
            // Outputs are in block order: one at or behind ours belongs to us or to a later one.
            Prevout::InBlock(number) if number < tx.outputs.start => {
                let first = block.txs.first();
                let output = &block.outputs[number as usize];
                Some(CoinFacts {
                    value: output.value,
                    height: self.height,
                    is_coinbase: first
                        .is_some_and(|first| first.is_coinbase && first.outputs.contains(&number)),
                    sigop_cost: block.spending_sigop_cost(input, block.address_of(output)),
                    created_after: self.past.median,
                })
            }
            Prevout::InBlock(_) | Prevout::Missing => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Header, Output};

    const NETWORK: Network = Network::BitcoinRegtest;
    const HEIGHT: Height = Height::new(200);

    /// A block from `(inputs, output values)` per transaction; the first is the coinbase.
    fn block(txs: &[(&[OutPoint], &[u64])]) -> Block {
        let header = Header {
            hash: BlockHash::default(),
            prev: BlockHash::default(),
            time: 0,
            work: crate::ChainWork::default(),
            slot: None,
        };
        let mut block = Block {
            header,
            claimed_height: Some(HEIGHT.get()),
            is_boundary: false,
            txs: vec![],
            inputs: vec![],
            outputs: vec![],
            bytes: vec![],
            bitcoin: None,
        };
        for (number, (inputs, values)) in (0u8..).zip(txs) {
            let first_input = u32::try_from(block.inputs.len()).unwrap();
            let first_output = u32::try_from(block.outputs.len()).unwrap();
            block.inputs.extend_from_slice(inputs);
            for (index, &value) in (0u32..).zip(values.iter()) {
                let (address, details) = (0..0, 0..0);
                block.outputs.push(Output { index, value, address, details, detail_fields: 0 });
            }
            block.txs.push(Tx {
                txid: txid(number),
                is_coinbase: number == 0,
                is_invalid: false,
                is_ledger_rule: false,
                output_total: values.iter().sum(),
                inputs: first_input..u32::try_from(block.inputs.len()).unwrap(),
                outputs: first_output..u32::try_from(block.outputs.len()).unwrap(),
            });
        }
        block
    }

    fn txid(number: u8) -> Txid {
        Txid::from_bytes([number; 32])
    }

    fn old(number: u8) -> OutPoint {
        OutPoint::new(txid(100 + number), 0)
    }

    fn live(value: u64, height: u32, is_coinbase: bool) -> Prevout {
        let height = Height::new(height);
        Prevout::Live(CoinFacts { value, height, is_coinbase, ..CoinFacts::default() })
    }

    fn check(block: &Block, old_coins: &[Prevout]) -> Result<Checked, InvalidBlock> {
        let mut old_coins = old_coins.iter();
        let prevouts: Vec<_> = in_block_prevouts(block)
            .into_iter()
            .map(|found| found.map_or_else(|| *old_coins.next().unwrap(), Prevout::InBlock))
            .collect();
        let past = PastTimes::default();
        check_block(block, HEIGHT, NETWORK, &past, &prevouts, MissingInput::Refuse)
    }

    #[test]
    fn fees_add_up_and_the_coinbase_may_claim_them() {
        let subsidy = NETWORK.subsidy(HEIGHT);
        let good = block(&[(&[], &[subsidy + 10]), (&[old(1)], &[90])]);
        assert_eq!(
            check(&good, &[live(100, 5, false)]),
            Ok(Checked { fees: 10, missing_inputs: 0 })
        );

        let greedy = block(&[(&[], &[subsidy + 11]), (&[old(1)], &[90])]);
        assert_eq!(
            check(&greedy, &[live(100, 5, false)]),
            Err(InvalidBlock::CoinbaseTooLarge { claimed: subsidy + 11, allowed: subsidy + 10 })
        );
    }

    #[test]
    fn an_output_of_the_same_block_can_be_spent_once_and_only_later() {
        let parent_then_child =
            block(&[(&[], &[0]), (&[old(1)], &[90, 5]), (&[OutPoint::new(txid(1), 1)], &[5])]);
        assert!(check(&parent_then_child, &[live(95, 5, false)]).is_ok());

        let child_then_parent =
            block(&[(&[], &[0]), (&[OutPoint::new(txid(2), 0)], &[5]), (&[old(1)], &[90])]);
        assert_eq!(
            check(&child_then_parent, &[live(95, 5, false)]),
            Err(InvalidBlock::MissingOrSpent { tx: txid(1), outpoint: OutPoint::new(txid(2), 0) })
        );

        let spends_itself = block(&[(&[], &[0]), (&[OutPoint::new(txid(1), 0)], &[5])]);
        assert!(matches!(check(&spends_itself, &[]), Err(InvalidBlock::MissingOrSpent { .. })));
    }

    #[test]
    fn an_output_is_spent_twice_within_a_transaction_or_a_block() {
        let within_tx = block(&[(&[], &[0]), (&[old(1), old(1)], &[5])]);
        let coins = [live(95, 5, false); 2];
        assert_eq!(
            check(&within_tx, &coins),
            Err(InvalidBlock::DuplicateInput { tx: txid(1), outpoint: old(1) })
        );
        let within_block = block(&[(&[], &[0]), (&[old(1)], &[5]), (&[old(1)], &[5])]);
        assert_eq!(
            check(&within_block, &coins),
            Err(InvalidBlock::MissingOrSpent { tx: txid(2), outpoint: old(1) })
        );
    }

    #[test]
    fn a_coinbase_is_spendable_at_its_hundredth_confirmation() {
        let spend = block(&[(&[], &[0]), (&[old(1)], &[5])]);
        assert!(check(&spend, &[live(5, 100, true)]).is_ok());
        assert_eq!(
            check(&spend, &[live(5, 101, true)]),
            Err(InvalidBlock::ImmatureCoinbase { tx: txid(1), age: 99, maturity: 100 })
        );
        let same_block = block(&[(&[], &[7]), (&[OutPoint::new(txid(0), 0)], &[5])]);
        assert!(matches!(check(&same_block, &[]), Err(InvalidBlock::ImmatureCoinbase { .. })));
    }

    #[test]
    fn the_coinbase_carries_the_height_of_its_block() {
        for claimed in [None, Some(199)] {
            let mut block = block(&[(&[], &[0])]);
            block.claimed_height = claimed;
            assert_eq!(check(&block, &[]), Err(InvalidBlock::WrongCoinbaseHeight { claimed }));
        }
    }

    #[test]
    fn money_is_not_created() {
        let spend = block(&[(&[], &[0]), (&[old(1)], &[6])]);
        assert_eq!(
            check(&spend, &[live(5, 1, false)]),
            Err(InvalidBlock::CreatesMoney { tx: txid(1), spent: 5, created: 6 })
        );
        assert!(matches!(
            check(&spend, &[Prevout::Missing]),
            Err(InvalidBlock::MissingOrSpent { .. })
        ));
    }

    #[test]
    fn cardano_wants_every_input_once_and_the_number_of_the_header() {
        let network = Network::CardanoPreview;
        let check = |block: &Block, prevouts: &[Prevout], missing| {
            check_block(block, HEIGHT, network, &PastTimes::default(), prevouts, missing)
        };
        let spend = block(&[(&[old(1), old(2)], &[500])]);
        let live = live(5, 1, false);
        let refuse = MissingInput::Refuse;
        assert_eq!(check(&spend, &[live, live], refuse), Ok(Checked::default()));
        let one_missing = [live, Prevout::Missing];
        assert!(matches!(
            check(&spend, &one_missing, refuse),
            Err(InvalidBlock::MissingOrSpent { outpoint, .. }) if outpoint == old(2)
        ));
        let counted = check(&spend, &one_missing, MissingInput::Count).unwrap();
        assert_eq!(counted.missing_inputs, 1);
        let twice = block(&[(&[old(1)], &[]), (&[old(1)], &[])]);
        for missing in [refuse, MissingInput::Count] {
            assert!(check(&twice, &[live, live], missing).is_err());
        }
        let mut misplaced = block(&[]);
        misplaced.claimed_height = Some(HEIGHT.get() + 1);
        assert!(matches!(check(&misplaced, &[], refuse), Err(InvalidBlock::WrongNumber { .. })));
    }
}
