//! Guards: a payment that is most likely a mistake is refused, unless the caller names the guard.
//!
//! Every path that makes a payment asks here: selections, PSBTs, higher fees, and their dry runs.
//! A guard looks at figures only; it never reads a database or a clock.
//!
//! # Invariants
//!
//! * A refusal names its guard, so that a caller can allow exactly that one and no other.
//! * A name that no guard has is an error, never ignored.

use std::fmt;

use super::{
    locks::{NextBlock, ValidFrom},
    script::{is_relayed, is_unspendable},
    select::FeeRate,
    weight::dust_limit,
};

/// [`dust_limit`] of a native segwit key.
const SEGWIT_KEY_DUST: u64 = 294;
/// Version of transactions that may be replaced whatever they say, and are kept small for it.
const TRUC_VERSION: u32 = 3;
/// What nodes relay of that version: 10,000 virtual bytes.
const TRUC_WEIGHT_MAX: u64 = 40_000;
/// The same for one that spends an output of a transaction in no block.
const TRUC_CHILD_WEIGHT_MAX: u64 = 4_000;

/// What a payment is checked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Guard {
    /// The fee is larger than anyone means to pay.
    FeeMax,
    /// The fee for each virtual byte is larger than anyone means to pay.
    FeeRateMax,
    /// Nodes do not relay a transaction that pays so little.
    FeeRateMin,
    /// What a replacement pays on top for its size is less than nodes ask for, or absurdly much.
    IncrementalRate,
    /// An output is so small that nodes do not relay it.
    Dust,
    /// An output that nobody can ever spend has an amount.
    UnspendableValue,
    /// An output that could be spent has no amount.
    ZeroValue,
    /// The next block cannot hold the transaction, because of a lock time or a relative lock.
    NotYetValid,
    /// Nodes do not relay outputs with such a script; most likely it is none, but a key or a hash.
    NonstandardScript,
    /// Nodes do not relay a transaction that is so heavy.
    WeightMax,
}

impl Guard {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::FeeMax,
        Self::FeeRateMax,
        Self::FeeRateMin,
        Self::IncrementalRate,
        Self::Dust,
        Self::UnspendableValue,
        Self::ZeroValue,
        Self::NotYetValid,
        Self::NonstandardScript,
        Self::WeightMax,
    ];

    /// The word by which callers allow what the guard refuses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FeeMax => "fee_max",
            Self::FeeRateMax => "fee_rate_max",
            Self::FeeRateMin => "fee_rate_min",
            Self::IncrementalRate => "incremental_rate",
            Self::Dust => "dust",
            Self::UnspendableValue => "unspendable_value",
            Self::ZeroValue => "zero_value",
            Self::NotYetValid => "not_yet_valid",
            Self::NonstandardScript => "nonstandard_script",
            Self::WeightMax => "weight_max",
        }
    }

    const fn bit(self) -> u16 {
        1 << self as u8
    }
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no guard has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no guard named {0:?}; the guards are {names}", names = names())]
pub struct UnknownGuard(pub String);

fn names() -> String {
    Guard::ALL.map(Guard::name).join(", ")
}

/// Guards that a caller has named: what they refuse is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AllowedGuards(u16);

impl AllowedGuards {
    /// Nothing is allowed.
    pub const NONE: Self = Self(0);

    /// Everything is allowed.
    pub const ALL: Self = Self(u16::MAX);

    /// Reads the names of guards.
    pub fn from_names<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<Self, UnknownGuard> {
        names.into_iter().try_fold(Self::NONE, |allowed, name| {
            let guard = Guard::ALL.into_iter().find(|guard| guard.name() == name);
            guard.map(|guard| allowed.with(guard)).ok_or_else(|| UnknownGuard(name.to_owned()))
        })
    }

    /// These and one more.
    #[must_use]
    pub const fn with(self, guard: Guard) -> Self {
        Self(self.0 | guard.bit())
    }

    /// Whether the guard was named.
    #[must_use]
    pub const fn contains(self, guard: Guard) -> bool {
        self.0 & guard.bit() != 0
    }
}

/// Bounds of the guards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaymentLimits {
    /// The largest fee of one transaction, in the smallest unit.
    pub fee_max: u64,
    /// The largest fee rate.
    pub fee_rate_max: FeeRate,
    /// The smallest fee rate that nodes relay.
    pub fee_rate_min: FeeRate,
    /// The least that nodes ask a replacement to pay on top for its own size. It has nothing to do
    /// with the smallest fee rate.
    pub incremental_rate_min: FeeRate,
    /// The most that a replacement pays on top for its own size.
    pub incremental_rate_max: FeeRate,
    /// The heaviest transaction, in weight units.
    pub weight_max: u64,
}

impl Default for PaymentLimits {
    /// 0.1 BTC, 1,000 and 1 for each virtual byte, 1 to 100 on top, and what Bitcoin Core calls
    /// `MAX_STANDARD_TX_WEIGHT`.
    fn default() -> Self {
        Self {
            fee_max: 10_000_000,
            fee_rate_max: FeeRate::per_vbyte(1_000),
            fee_rate_min: FeeRate::per_vbyte(1),
            incremental_rate_min: FeeRate::per_vbyte(1),
            incremental_rate_max: FeeRate::per_vbyte(100),
            weight_max: 400_000,
        }
    }
}

/// Why a guard refuses a payment. Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{}; nothing was changed: correct the request, or allow {guard} if this is meant",
    self.what()
)]
pub struct GuardRefusal {
    /// The guard; a caller who means it repeats the call and allows this one.
    pub guard: Guard,
    /// What was found.
    pub figure: Figure,
    /// What it must not pass.
    pub bound: Figure,
    /// Which output it is about, if it is about one.
    pub output: Option<usize>,
}

/// A number of a refusal, with its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// An amount in the smallest unit.
    Amount(u64),
    /// Thousandths of the smallest unit for each virtual byte.
    MilliPerVbyte(u64),
    /// A height.
    Height(u32),
    /// Seconds since 1970.
    Time(u32),
    /// Weight units.
    Weight(u64),
}

impl Figure {
    const fn rate(rate: FeeRate) -> Self {
        Self::MilliPerVbyte(rate.get() as u64 * 4)
    }

    /// The rate that a fee comes to, rounded up.
    fn rate_of(fee: u64, weight: u64) -> Self {
        let vbytes = u128::from(weight.div_ceil(4).max(1));
        let milli = (u128::from(fee) * 1_000).div_ceil(vbytes);
        Self::MilliPerVbyte(u64::try_from(milli).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Figure {
    /// The bare number: whole, or with up to three decimal places for a rate.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Amount(number) | Self::Weight(number) => number.fmt(f),
            Self::Height(number) | Self::Time(number) => number.fmt(f),
            Self::MilliPerVbyte(milli) => {
                let (whole, rest) = (milli / 1_000, milli % 1_000);
                let text = format!("{whole}.{rest:03}");
                f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
            }
        }
    }
}

impl GuardRefusal {
    fn what(&self) -> String {
        let Self { guard, figure, bound, output } = self;
        let output = output.map_or_else(String::new, |at| format!(" {at}"));
        match guard {
            Guard::FeeMax => format!("the fee is {figure}, more than the largest of {bound}"),
            Guard::FeeRateMax => {
                format!("the fee rate is {figure} per virtual byte, more than the most of {bound}")
            }
            Guard::FeeRateMin => {
                format!(
                    "the fee rate is {figure} per virtual byte, and nodes relay from {bound} on"
                )
            }
            Guard::IncrementalRate => format!(
                "a replacement that pays {figure} per virtual byte on top is out of bounds, the bound is {bound}"
            ),
            Guard::Dust => {
                format!("output{output} has {figure}, and nodes relay such outputs from {bound} on")
            }
            Guard::UnspendableValue => {
                format!("output{output} can never be spent, and would lose {figure}")
            }
            Guard::ZeroValue => format!("output{output} has no amount"),
            Guard::NonstandardScript => {
                let whose =
                    if output.is_empty() { "change".to_owned() } else { format!("output{output}") };
                format!(
                    "the script of {whose} is none that nodes relay; a key or a hash is no script, an address stands for one"
                )
            }
            Guard::WeightMax => {
                format!("the transaction has {figure} weight units, more than the most of {bound}")
            }
            Guard::NotYetValid => match figure {
                Figure::Time(_) => format!(
                    "no block may hold the transaction before the chain's time is {figure}, and it is about {bound}"
                ),
                _ => format!(
                    "no block below height {figure} may hold the transaction, and the next one is {bound}"
                ),
            },
        }
    }
}

/// The guards as one call sees them: bounds, and what the caller allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PaymentGuards {
    /// What a payment must stay within unless it is allowed to pass.
    pub limits: PaymentLimits,
    /// What is allowed nevertheless.
    pub allow: AllowedGuards,
}

impl PaymentGuards {
    fn refuse(
        &self,
        guard: Guard,
        figure: Figure,
        bound: Figure,
        output: Option<usize>,
    ) -> Result<(), GuardRefusal> {
        if self.allow.contains(guard) {
            return Ok(());
        }
        Err(GuardRefusal { guard, figure, bound, output })
    }

    /// Checks amounts and scripts of all outputs, change included.
    pub fn check_outputs<'s>(
        &self,
        outputs: impl IntoIterator<Item = (u64, &'s [u8])>,
    ) -> Result<(), GuardRefusal> {
        for (at, (value, script)) in outputs.into_iter().enumerate() {
            let figure = Figure::Amount(value);
            let refuse = |guard, bound| self.refuse(guard, figure, Figure::Amount(bound), Some(at));
            if !is_relayed(script) {
                refuse(Guard::NonstandardScript, 0)?;
            }
            if is_unspendable(script) {
                if value > 0 {
                    refuse(Guard::UnspendableValue, 0)?;
                }
            } else if value == 0 {
                refuse(Guard::ZeroValue, 1)?;
            } else if value < dust_limit(script) {
                refuse(Guard::Dust, dust_limit(script))?;
            }
        }
        Ok(())
    }

    /// Checks a sum that is paid to scripts that are not known yet: less than nodes relay for a
    /// native segwit key is dust, whatever the script.
    pub fn check_value(&self, value: u64) -> Result<(), GuardRefusal> {
        if value < SEGWIT_KEY_DUST {
            let (figure, bound) = (Figure::Amount(value), Figure::Amount(SEGWIT_KEY_DUST));
            self.refuse(Guard::Dust, figure, bound, None)?;
        }
        Ok(())
    }

    /// Checks where change would go, before it is known whether and how much there will be.
    pub fn check_change_script(&self, script: &[u8]) -> Result<(), GuardRefusal> {
        let none = Figure::Amount(0);
        if !is_relayed(script) {
            self.refuse(Guard::NonstandardScript, none, none, None)?;
        }
        Ok(())
    }

    /// Refuses an output that somebody who knows more about its script found to be lost.
    pub fn refuse_unspendable(&self, output: usize, value: u64) -> Result<(), GuardRefusal> {
        let (figure, bound) = (Figure::Amount(value), Figure::Amount(0));
        self.refuse(Guard::UnspendableValue, figure, bound, Some(output))
    }

    /// Checks the rate that a new payment asks for, before any coin is looked at.
    pub fn check_rate(&self, fee_rate: FeeRate) -> Result<(), GuardRefusal> {
        let least = self.limits.fee_rate_min;
        if fee_rate < least {
            self.refuse(Guard::FeeRateMin, Figure::rate(fee_rate), Figure::rate(least), None)?;
        }
        self.check_highest_rate(fee_rate)
    }

    /// Checks the rates that a replacement asks for. Its own rate may be low: the rules for
    /// replacements set the least.
    pub fn check_bump_rates(
        &self,
        fee_rate: FeeRate,
        incremental_rate: FeeRate,
    ) -> Result<(), GuardRefusal> {
        self.check_highest_rate(fee_rate)?;
        let (least, most) = (self.limits.incremental_rate_min, self.limits.incremental_rate_max);
        let bound = if incremental_rate < least { least } else { most };
        if incremental_rate < least || incremental_rate > most {
            let (figure, bound) = (Figure::rate(incremental_rate), Figure::rate(bound));
            self.refuse(Guard::IncrementalRate, figure, bound, None)?;
        }
        Ok(())
    }

    fn check_highest_rate(&self, fee_rate: FeeRate) -> Result<(), GuardRefusal> {
        let most = self.limits.fee_rate_max;
        if fee_rate > most {
            self.refuse(Guard::FeeRateMax, Figure::rate(fee_rate), Figure::rate(most), None)?;
        }
        Ok(())
    }

    /// Checks what a transaction of this weight really pays, whatever was asked for.
    pub fn check_fee(&self, fee: u64, weight: u64) -> Result<(), GuardRefusal> {
        self.check_fee_alone(fee)?;
        let rate = Figure::rate_of(fee, weight);
        let (least, most) = (self.limits.fee_rate_min, self.limits.fee_rate_max);
        if fee > most.fee(weight) {
            self.refuse(Guard::FeeRateMax, rate, Figure::rate(most), None)?;
        }
        if fee < least.fee(weight) {
            self.refuse(Guard::FeeRateMin, rate, Figure::rate(least), None)?;
        }
        Ok(())
    }

    /// Checks the weight of a transaction, when it is signed, or what of it is known.
    pub fn check_weight(&self, weight: u64) -> Result<(), GuardRefusal> {
        let most = self.limits.weight_max;
        if weight > most {
            let (figure, bound) = (Figure::Weight(weight), Figure::Weight(most));
            self.refuse(Guard::WeightMax, figure, bound, None)?;
        }
        Ok(())
    }

    /// Checks the weight of a transaction of this version. Nodes relay one of version 3 (BIP-431)
    /// only up to 10,000 virtual bytes, and up to 1,000 when it spends what is in no block.
    pub fn check_weight_of(
        &self,
        version: u32,
        spends_unconfirmed: bool,
        weight: u64,
    ) -> Result<(), GuardRefusal> {
        self.check_weight(weight)?;
        let most = if spends_unconfirmed { TRUC_CHILD_WEIGHT_MAX } else { TRUC_WEIGHT_MAX };
        if version == TRUC_VERSION && weight > most {
            let (figure, bound) = (Figure::Weight(weight), Figure::Weight(most));
            self.refuse(Guard::WeightMax, figure, bound, None)?;
        }
        Ok(())
    }

    /// Checks the fee of a transaction whose weight is not known.
    pub fn check_fee_alone(&self, fee: u64) -> Result<(), GuardRefusal> {
        let most = self.limits.fee_max;
        if fee > most {
            self.refuse(Guard::FeeMax, Figure::Amount(fee), Figure::Amount(most), None)?;
        }
        Ok(())
    }

    /// Checks that the next block may hold the transaction.
    pub fn check_valid(&self, from: ValidFrom, next: NextBlock) -> Result<(), GuardRefusal> {
        if let Some(height) = from.height.filter(|height| *height > next.height) {
            let (figure, bound) = (Figure::Height(height), Figure::Height(next.height));
            self.refuse(Guard::NotYetValid, figure, bound, None)?;
        }
        if let Some(time) = from.median_time.filter(|time| *time > next.median_time) {
            let (figure, bound) = (Figure::Time(time), Figure::Time(next.median_time));
            self.refuse(Guard::NotYetValid, figure, bound, None)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 22] = {
        let mut script = [7; 22];
        (script[0], script[1]) = (0, 20);
        script
    };

    fn guards(allow: &[&str]) -> PaymentGuards {
        let allow = AllowedGuards::from_names(allow.iter().copied()).unwrap();
        PaymentGuards { allow, ..PaymentGuards::default() }
    }

    /// Which guard refuses, and that naming it, and only that, lets the payment pass.
    fn refused(check: impl Fn(PaymentGuards) -> Result<(), GuardRefusal>) -> GuardRefusal {
        let refusal = check(guards(&[])).unwrap_err();
        for guard in Guard::ALL {
            let passes = check(guards(&[guard.name()])).is_ok();
            assert_eq!(passes, guard == refusal.guard, "{guard} for {refusal}");
        }
        assert!(refusal.to_string().contains(refusal.guard.name()), "{refusal}");
        refusal
    }

    #[test]
    fn an_unknown_guard_is_refused_by_name() {
        let error = AllowedGuards::from_names(["fee_max", "fees"]).unwrap_err();
        assert_eq!(error, UnknownGuard("fees".to_owned()));
        assert!(error.to_string().contains("not_yet_valid"), "{error}");
    }

    #[test]
    fn version_three_has_a_lower_weight() {
        guards(&[]).check_weight_of(3, false, 40_000).unwrap();
        guards(&[]).check_weight_of(2, true, 40_001).unwrap();
        guards(&[]).check_weight_of(3, true, 4_000).unwrap();
        let refusal = refused(|guards| guards.check_weight_of(3, true, 4_001));
        assert_eq!(refusal.bound, Figure::Weight(4_000));
        let refusal = refused(|guards| guards.check_weight_of(3, false, 40_001));
        let bound = Figure::Weight(40_000);
        assert_eq!((refusal.guard, refusal.bound), (Guard::WeightMax, bound));
        let refusal = refused(|guards| guards.check_weight_of(3, false, 400_001));
        assert_eq!(refusal.bound, Figure::Weight(400_000));
    }

    #[test]
    fn a_fee_of_a_whole_coin_is_refused() {
        guards(&[]).check_fee(10_000_000, 4 * 200_000).unwrap();
        let refusal = refused(|guards| guards.check_fee(10_000_001, 4 * 200_000));
        assert_eq!(refusal.guard, Guard::FeeMax);
        assert_eq!(
            (refusal.figure, refusal.bound),
            (Figure::Amount(10_000_001), Figure::Amount(10_000_000))
        );
    }

    #[test]
    fn fee_rates_have_bounds_on_both_sides() {
        let guard = |rate| refused(move |guards| guards.check_rate(rate)).guard;
        assert_eq!(guard(FeeRate::per_kilo_weight(249)), Guard::FeeRateMin);
        assert_eq!(guard(FeeRate::per_vbyte(0)), Guard::FeeRateMin);
        assert_eq!(guard(FeeRate::per_kilo_weight(250_001)), Guard::FeeRateMax);
        assert_eq!(guard(FeeRate::per_vbyte(u32::MAX)), Guard::FeeRateMax);
        for rate in [1, 1_000] {
            guards(&[]).check_rate(FeeRate::per_vbyte(rate)).unwrap();
        }
        let paid = |fee| refused(move |guards| guards.check_fee(fee, 4 * 110)).guard;
        assert_eq!(paid(109), Guard::FeeRateMin);
        assert_eq!(paid(110_001), Guard::FeeRateMax);
        guards(&[]).check_fee(110, 4 * 110).unwrap();
        guards(&[]).check_fee(110_000, 4 * 110).unwrap();
    }

    #[test]
    fn what_a_replacement_pays_on_top_has_bounds_on_both_sides() {
        let usual = FeeRate::per_vbyte(0);
        for rate in [0, 101, u32::MAX] {
            let rate = FeeRate::per_vbyte(rate);
            let refusal = refused(move |guards| guards.check_bump_rates(usual, rate));
            assert_eq!(refusal.guard, Guard::IncrementalRate);
        }
        guards(&[]).check_bump_rates(usual, FeeRate::per_vbyte(1)).unwrap();
        let high = FeeRate::per_vbyte(1_001);
        let refusal = refused(move |g| g.check_bump_rates(high, FeeRate::per_vbyte(1)));
        assert_eq!(refusal.figure.to_string(), "1001");
    }

    /// Nodes have one rate for all transactions and one for replacements.
    #[test]
    fn the_incremental_rate_may_be_below_the_smallest_fee_rate() {
        let limits = PaymentLimits {
            fee_rate_min: FeeRate::per_vbyte(2),
            incremental_rate_min: FeeRate::per_kilo_weight(25),
            ..PaymentLimits::default()
        };
        let guards = PaymentGuards { limits, ..guards(&[]) };
        let (none, tenth) = (FeeRate::per_vbyte(0), FeeRate::per_kilo_weight(25));
        guards.check_bump_rates(none, tenth).unwrap();
        guards.check_bump_rates(none, FeeRate::per_kilo_weight(24)).unwrap_err();
    }

    #[test]
    fn a_transaction_that_nodes_do_not_relay_for_its_weight_is_refused() {
        guards(&[]).check_weight(400_000).unwrap();
        let refusal = refused(|guards| guards.check_weight(400_001));
        assert_eq!(refusal.guard, Guard::WeightMax);
        assert!(refusal.to_string().contains("400001 weight units"), "{refusal}");
    }

    #[test]
    fn outputs_that_lose_money_are_refused() {
        let data = [&[0x6a, 4][..], b"data"].concat();
        let check = |value, script: &[u8]| {
            let outputs = [(1_000, KEY.to_vec()), (value, script.to_vec())];
            let refusal = refused(|guards| {
                guards.check_outputs(
                    outputs.iter().map(|(value, script)| (*value, script.as_slice())),
                )
            });
            assert_eq!((refusal.output, refusal.figure), (Some(1), Figure::Amount(value)));
            refusal.guard
        };
        assert_eq!(check(293, &KEY), Guard::Dust);
        assert_eq!(check(1, &KEY), Guard::Dust);
        assert_eq!(dust_limit(&KEY), SEGWIT_KEY_DUST);
        assert_eq!(refused(|guards| guards.check_value(293)).guard, Guard::Dust);
        guards(&[]).check_value(294).unwrap();
        assert_eq!(check(0, &KEY), Guard::ZeroValue);
        assert_eq!(check(1, &data), Guard::UnspendableValue);
        assert_eq!(check(5_000, &[0x51]), Guard::NonstandardScript);
        guards(&[]).check_outputs([(294, &KEY[..]), (0, &data)]).unwrap();
    }

    #[test]
    fn hexadecimal_that_is_no_script_is_neither_paid_nor_change() {
        let key = refused(|guards| guards.check_outputs([(5_000, &[2; 33][..])]));
        assert_eq!((key.guard, key.output), (Guard::NonstandardScript, Some(0)));
        // The hash of a key, words: they certainly lose what is paid there.
        for script in [&[0xbe; 20][..], &[0xde, 0xad, 0xbe, 0xef], &[0xff], &[0, 3, 7, 7, 7]] {
            let refusal = guards(&[]).check_outputs([(5_000, script)]).unwrap_err();
            assert_eq!(refusal.guard, Guard::NonstandardScript, "{script:?}");
            let allowed = guards(&["nonstandard_script"]);
            let lost = allowed.check_outputs([(5_000, script)]).unwrap_err();
            assert_eq!(lost.guard, Guard::UnspendableValue, "{script:?}");
            let both = guards(&["nonstandard_script", "unspendable_value"]);
            both.check_outputs([(5_000, script)]).unwrap();
            let change = refused(|guards| guards.check_change_script(script));
            assert_eq!((change.guard, change.output), (Guard::NonstandardScript, None));
        }
        guards(&[]).check_change_script(&KEY).unwrap();
    }

    #[test]
    fn a_transaction_for_later_is_refused() {
        let next = NextBlock { height: 101, median_time: 1_000 };
        let valid = |height, median_time| ValidFrom { height, median_time };
        guards(&[]).check_valid(valid(Some(101), Some(1_000)), next).unwrap();
        let height = refused(|guards| guards.check_valid(valid(Some(102), None), next));
        assert_eq!((height.figure, height.bound), (Figure::Height(102), Figure::Height(101)));
        let time = refused(|guards| guards.check_valid(valid(None, Some(1_001)), next));
        assert_eq!((time.figure, time.bound), (Figure::Time(1_001), Figure::Time(1_000)));
    }

    #[test]
    fn rates_read_as_people_write_them() {
        for (milli, text) in [(1_500, "1.5"), (20_000, "20"), (1, "0.001"), (0, "0")] {
            assert_eq!(Figure::MilliPerVbyte(milli).to_string(), text);
        }
        assert_eq!(Figure::rate_of(141, 561).to_string(), "1");
    }
}
