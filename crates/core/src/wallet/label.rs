//! Labels by the rules of BIP-329: what they are about, whose they are, what a record changes.
//!
//! # Invariants
//!
//! * What a record leaves out stays as it is stored. Only a text that is given and empty clears
//!   the text, and nothing but `spendable` itself changes whether an output may be spent.
//! * One thing has one reference, however it is written.

use crate::network::Network;

/// What a label is about. The names are those of BIP-329.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LabelKind {
    /// A transaction.
    Tx,
    /// An address.
    Addr,
    /// A public key.
    Pubkey,
    /// An input, as `txid:index`.
    Input,
    /// An output, as `txid:index`.
    Output,
    /// An extended public key.
    Xpub,
}

impl LabelKind {
    const ALL: [Self; 6] =
        [Self::Tx, Self::Addr, Self::Pubkey, Self::Input, Self::Output, Self::Xpub];

    /// The name in database and exchange format.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tx => "tx",
            Self::Addr => "addr",
            Self::Pubkey => "pubkey",
            Self::Input => "input",
            Self::Output => "output",
            Self::Xpub => "xpub",
        }
    }

    /// The kind of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The one form of a reference of this kind. Case matters in base58, nowhere else.
    pub fn reference(self, network: Network, text: &str) -> Result<String, BadLabel> {
        let text = text.trim();
        if text.is_empty() || text.chars().count() > REF_CHARS_MAX {
            return Err(BadLabel::ReferenceLength);
        }
        match self {
            Self::Tx => hex(text, &[32]).ok_or(BadLabel::Txid),
            Self::Pubkey => hex(text, &[32, 33, 65]).ok_or(BadLabel::Pubkey),
            Self::Input | Self::Output => outpoint(text).ok_or(BadLabel::Outpoint),
            Self::Addr => address(network, text).ok_or(BadLabel::Address),
            Self::Xpub => xpub(text).ok_or(BadLabel::Xpub),
        }
    }
}

/// Characters of a reference or an origin: an extended key or an output is far below.
const REF_CHARS_MAX: usize = 1_000;

/// Why a label cannot be stored. The texts never repeat the reference, which may be a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadLabel {
    /// No reference, or one of absurd length.
    #[error("`ref` has 1 to {REF_CHARS_MAX} characters")]
    ReferenceLength,
    /// Not the id of a transaction.
    #[error("`ref` of a tx is 64 hexadecimal digits")]
    Txid,
    /// Not an input or output.
    #[error("`ref` of an input or output is 64 hexadecimal digits, a colon and an index")]
    Outpoint,
    /// Not a public key.
    #[error("`ref` of a pubkey is 32, 33 or 65 bytes in hexadecimal")]
    Pubkey,
    /// Not an extended public key. Private ones land here too.
    #[error("`ref` of an xpub is an extended public key in base58")]
    Xpub,
    /// Not an address.
    #[error("`ref` of an addr is an address in base58 or bech32")]
    Address,
    /// An origin of absurd length.
    #[error("`origin` has 1 to {REF_CHARS_MAX} characters")]
    OriginLength,
    /// Only outputs are spent.
    #[error("`spendable` is for outputs only")]
    NotAnOutput,
    /// No database takes it.
    #[error("a NUL character cannot be stored")]
    Nul,
}

fn hex(text: &str, lengths: &[usize]) -> Option<String> {
    let fits = lengths.iter().any(|bytes| text.len() == 2 * bytes);
    (fits && text.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| text.to_ascii_lowercase())
}

fn outpoint(text: &str) -> Option<String> {
    let (txid, index) = text.split_once(':')?;
    let is_number = !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit());
    let index: u32 = index.parse().ok().filter(|_| is_number)?;
    Some(format!("{}:{index}", hex(txid, &[32])?))
}

/// Bech32 is written in small or in capital letters (QR codes), which mean the same.
fn address(network: Network, text: &str) -> Option<String> {
    let is_bech32 = |prefixes: &[&str]| {
        let human = text.rsplit_once('1').map_or("", |(human, _)| human).to_ascii_lowercase();
        prefixes.contains(&human.as_str())
    };
    let prefixes: &[&str] = if network.is_cardano() {
        &["addr", "addr_test", "stake", "stake_test"]
    } else {
        &["bc", "tb", "bcrt"]
    };
    if is_bech32(prefixes) {
        let (small, capital) = (text.to_ascii_lowercase(), text.to_ascii_uppercase());
        return (text == small || text == capital).then_some(small);
    }
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_').then(|| text.to_owned())
}

fn xpub(text: &str) -> Option<String> {
    let is_public = text.get(1..4).is_some_and(|kind| kind == "pub");
    let is_base58 = text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    (is_public && is_base58).then(|| text.to_owned())
}

/// What is stored of a label.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LabelState {
    /// The text; empty when there is none.
    pub text: String,
    /// The wallet it comes from, as an abbreviated descriptor.
    pub origin: Option<String>,
    /// Whether an output may be spent; `None` when nobody said.
    pub spendable: Option<bool>,
}

/// What a record says. What it leaves out is not altered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LabelChange {
    /// The text; empty clears it.
    pub text: Option<String>,
    /// The wallet it comes from.
    pub origin: Option<String>,
    /// Whether an output may be spent.
    pub spendable: Option<bool>,
}

impl LabelChange {
    /// Refuses what cannot be stored whatever it is about.
    pub fn check(&self, kind: LabelKind) -> Result<(), BadLabel> {
        let has_nul = |text: &Option<String>| text.as_deref().is_some_and(|t| t.contains('\0'));
        if has_nul(&self.text) || has_nul(&self.origin) {
            return Err(BadLabel::Nul);
        }
        if self.origin.as_deref().is_some_and(|text| text.chars().count() > REF_CHARS_MAX) {
            return Err(BadLabel::OriginLength);
        }
        if self.spendable.is_some() && kind != LabelKind::Output {
            return Err(BadLabel::NotAnOutput);
        }
        Ok(())
    }
}

impl LabelState {
    /// What is stored after a record; `None` when nothing is left to store.
    #[must_use]
    pub fn after(self, change: &LabelChange) -> Option<Self> {
        let origin = change.origin.clone().filter(|origin| !origin.is_empty());
        let next = Self {
            text: change.text.clone().unwrap_or(self.text),
            origin: origin.or(self.origin),
            spendable: change.spendable.or(self.spendable),
        };
        (!next.text.is_empty() || next.spendable.is_some()).then_some(next)
    }
}

/// Whether an origin names a wallet that one of these descriptors belongs to. An origin is the
/// descriptor without keys and paths, such as `wpkh([d34db33f/84'/0'/0'])`.
#[must_use]
pub fn is_own_origin<'d>(origin: &str, descriptors: impl IntoIterator<Item = &'d str>) -> bool {
    let origin = plain(origin);
    let keys: Vec<&str> = bracketed(&origin).collect();
    let function = function_of(&origin);
    !keys.is_empty()
        && descriptors.into_iter().any(|descriptor| {
            let descriptor = plain(descriptor);
            let own: Vec<&str> = bracketed(&descriptor).collect();
            function_of(&descriptor) == function && own == keys
        })
}

/// Hardened steps are written in three ways; fingerprints in two.
fn plain(descriptor: &str) -> String {
    descriptor.chars().map(|c| if c == '\'' { 'h' } else { c.to_ascii_lowercase() }).collect()
}

fn function_of(descriptor: &str) -> &str {
    descriptor.split('[').next().unwrap_or_default()
}

fn bracketed(descriptor: &str) -> impl Iterator<Item = &str> {
    descriptor.split('[').skip(1).filter_map(|rest| rest.split(']').next())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NETWORK: Network = Network::BitcoinRegtest;

    #[test]
    fn one_thing_has_one_reference() {
        let txid = "f91d0a8a78462bc59398f2c5d7a84fcff491c26ba54c4833478b202796c8aafd";
        let capital = txid.to_uppercase();
        let good = [
            (LabelKind::Tx, capital.clone(), txid.to_owned()),
            (LabelKind::Output, format!("{capital}:007"), format!("{txid}:7")),
            (LabelKind::Input, format!(" {txid}:0 "), format!("{txid}:0")),
            (LabelKind::Pubkey, capital.clone(), txid.to_owned()),
            (LabelKind::Addr, "BCRT1QEXAMPLE".to_owned(), "bcrt1qexample".to_owned()),
            (LabelKind::Addr, "mkHS9ne12qx9p".to_owned(), "mkHS9ne12qx9p".to_owned()),
            (LabelKind::Xpub, "xpub661MyMw".to_owned(), "xpub661MyMw".to_owned()),
        ];
        for (kind, text, expected) in good {
            assert_eq!(kind.reference(NETWORK, &text), Ok(expected), "{text}");
        }
        let bad = [
            (LabelKind::Tx, "aa", BadLabel::Txid),
            (LabelKind::Tx, "", BadLabel::ReferenceLength),
            (LabelKind::Output, txid, BadLabel::Outpoint),
            (LabelKind::Output, &format!("{txid}:+1"), BadLabel::Outpoint),
            (LabelKind::Output, &format!("{txid}:4294967296"), BadLabel::Outpoint),
            (LabelKind::Pubkey, "0283", BadLabel::Pubkey),
            (LabelKind::Addr, "bcrt1qExample", BadLabel::Address),
            (LabelKind::Addr, "two words", BadLabel::Address),
            (LabelKind::Xpub, "xprv9s21ZrQH", BadLabel::Xpub),
        ];
        for (kind, text, expected) in bad {
            assert_eq!(kind.reference(NETWORK, text), Err(expected), "{text}");
        }
    }

    #[test]
    fn what_a_record_leaves_out_is_not_altered() {
        let stored = || LabelState {
            text: "rent".to_owned(),
            origin: Some("wpkh([d34db33f])".to_owned()),
            spendable: Some(false),
        };
        assert_eq!(stored().after(&LabelChange::default()), Some(stored()));
        let unfreeze = LabelChange { spendable: Some(true), ..LabelChange::default() };
        let free = LabelState { spendable: Some(true), ..stored() };
        assert_eq!(stored().after(&unfreeze), Some(free));
        let clear = LabelChange { text: Some(String::new()), ..LabelChange::default() };
        let frozen = LabelState { text: String::new(), ..stored() };
        assert_eq!(stored().after(&clear), Some(frozen));
        let plain = LabelState { spendable: None, ..stored() };
        assert_eq!(plain.after(&clear), None);
        assert_eq!(LabelState::default().after(&LabelChange::default()), None);
    }

    #[test]
    fn an_origin_is_own_when_a_descriptor_has_its_keys() {
        let own = "wpkh([d34db33f/84h/0h/0h]xpub661/0/*)#check";
        assert!(is_own_origin("wpkh([D34DB33F/84'/0'/0'])", [own]));
        assert!(!is_own_origin("wpkh([d34db33f/84'/0'/1'])", [own]));
        assert!(!is_own_origin("tr([d34db33f/84'/0'/0'])", [own]));
        assert!(!is_own_origin("", [own]));
    }
}
