//! Descriptors of a wallet: which scripts it watches, and how far they are derived.
//!
//! A descriptor stands for many scripts, numbered from 0. The ledger derives and watches the next
//! `lookahead` of them behind the last one that was handed out or paid, because a wallet elsewhere
//! may have handed out addresses that the ledger never heard of.
//!
//! # Invariants
//!
//! * All scripts below `derived_count` are watched, and no others of the descriptor. A number for
//!   which there is no key has no script and is skipped.
//! * `derived_count` is at least `next_index + lookahead`, as far as numbers go.
//! * Neither number ever goes down: a block that leaves the chain does not unhand an address.

mod change;
mod derive;
mod edge;
mod widen;

use utxokeep_core::{
    Height,
    wallet::{AskedReach, ChainCodec, KeychainReach, LOOKAHEAD_DEFAULT, Micros, WalletId},
};
use utxokeep_sql::{Row, SqlError, Value};

pub use self::change::{NextChange, suitable_change};
pub use self::edge::NearEdge;
use crate::{Ledger, LedgerError, rows, session::Session};

const SELECT_ALL: &str = "SELECT id, descriptor, keychain, is_ranged, next_index, derived_count,
        lookahead, edge_index, archived_at_us
    FROM descriptors WHERE wallet_id = $1 ORDER BY id LIMIT $2";
const SELECT_ONE: &str = "SELECT id, descriptor, keychain, is_ranged, next_index, derived_count,
        lookahead, edge_index, archived_at_us
    FROM descriptors WHERE wallet_id = $1 AND id = $2";
const INSERT: &str = "INSERT INTO descriptors (wallet_id, id, descriptor, keychain, is_ranged,
        next_index, derived_count, lookahead, created_at_us)
    VALUES ($1, $2, $3, $4, $5, 0, 0, $6, $7)";
const SELECT_SCRIPT: &str = "SELECT s.script_index, a.id, a.script, a.address
    FROM descriptor_scripts s
    JOIN addresses a ON a.wallet_id = s.wallet_id AND a.id = s.address_id
    WHERE s.wallet_id = $1 AND s.descriptor_id = $2 AND s.script_index >= $3
    ORDER BY s.script_index LIMIT 1";
const SELECT_ORIGINS: &str = "SELECT a.script, d.descriptor, d.keychain, s.script_index
    FROM addresses a
    JOIN descriptor_scripts s ON s.wallet_id = a.wallet_id AND s.address_id = a.id
    JOIN descriptors d ON d.wallet_id = s.wallet_id AND d.id = s.descriptor_id
    WHERE a.wallet_id = $1 AND a.script IN";

/// Keychains of one wallet.
const DESCRIPTORS_MAX: usize = 1_000;
/// One more than the highest number of a script.
const INDEXES: u32 = 1 << 31;

/// Number of the keychain for change; 0 is the one for payments by others.
pub const CHANGE_KEYCHAIN: u32 = 1;

/// A descriptor to watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDescriptor {
    /// Its text, with or without a check sum. Several paths, as in `<0;1>`, are several keychains.
    pub text: String,
    /// Number of its first keychain: 0 for payments by others, 1 for change. 0 when not given.
    pub keychain: Option<u32>,
    /// How many scripts are watched ahead; [`LOOKAHEAD_DEFAULT`] when not given.
    pub lookahead: Option<u32>,
    /// Scripts below this number were handed out already; 0 when not given.
    pub next_index: Option<u32>,
}

impl NewDescriptor {
    /// A descriptor of which nothing was handed out, watched as far ahead as usual.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), keychain: None, lookahead: None, next_index: None }
    }
}

/// A keychain of a wallet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedDescriptor {
    /// Number in the wallet.
    pub id: i64,
    /// Its text, in canonical form.
    pub text: String,
    /// 0 for payments by others, 1 for change.
    pub keychain: u32,
    /// Whether it stands for many scripts.
    pub is_ranged: bool,
    /// Scripts below this number were handed out or paid.
    pub next_index: u32,
    /// Scripts below this number are watched.
    pub derived_count: u32,
    /// How many scripts are watched ahead.
    pub lookahead: u32,
    /// A payment to this script came near the end of what was watched. Others may have gone beyond;
    /// raise the lookahead and scan.
    pub edge_index: Option<u32>,
    /// When it was archived; `None` while it is followed.
    pub archived_at: Option<Micros>,
}

impl WatchedDescriptor {
    /// Refuses one that is archived.
    fn live(self) -> Result<Self, LedgerError> {
        match self.archived_at {
            None => Ok(self),
            Some(_) => Err(LedgerError::DescriptorArchived(self.id)),
        }
    }

    const fn reach(&self) -> KeychainReach {
        KeychainReach {
            keychain: self.keychain,
            lookahead: self.lookahead,
            next_index: self.next_index,
            is_ranged: self.is_ranged,
        }
    }
}

/// A descriptor that is watched now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddedDescriptor {
    /// Its keychains.
    pub keychains: Vec<WatchedDescriptor>,
    /// The first block to scan for what was paid before to scripts that are new; `None` when there
    /// are no such scripts or blocks.
    pub scan_from: Option<Height>,
}

/// An address that was handed out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevealedAddress {
    /// Number of its script in the descriptor.
    pub index: u32,
    /// Number of the address in the wallet.
    pub address_id: i64,
    /// Its script.
    pub script: Vec<u8>,
    /// Text form, where there is one.
    pub address: Option<String>,
}

/// Where a watched script comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptSource {
    /// The script.
    pub script: Vec<u8>,
    /// Text of the keychain.
    pub descriptor: String,
    /// Number of the keychain.
    pub keychain: u32,
    /// Number of the script.
    pub index: u32,
}

impl Ledger {
    /// Watches a descriptor; one row for each of its keychains. One that is watched already takes a
    /// larger lookahead or next index; anything else that differs is refused. Blocks that were
    /// applied before are not looked at again: the answer says from where to scan, see
    /// [`Ledger::scan_block`].
    pub fn add_descriptor(
        &self,
        wallet: WalletId,
        new: &NewDescriptor,
        now: Micros,
    ) -> Result<AddedDescriptor, LedgerError> {
        let codec = self.codec()?;
        self.write_wallet(wallet, now, |session| {
            let branches = codec.descriptor(session.network, &new.text)?;
            let mut stored = session.descriptors()?;
            let mut answer = Vec::with_capacity(branches.len());
            let mut is_any_new = false;
            for (place, branch) in (0..).zip(branches) {
                let asked = AskedReach {
                    keychain: new.keychain.map(|first| first.saturating_add(place)),
                    lookahead: new.lookahead,
                    next_index: new.next_index,
                };
                if let Some(known) = stored.iter().find(|known| known.text == branch.text) {
                    let (extended, has_new) = session.extend(codec, known.clone(), &asked)?;
                    is_any_new |= has_new;
                    answer.push(extended);
                    continue;
                }
                asked.check(branch.is_ranged)?;
                if stored.len() >= DESCRIPTORS_MAX {
                    return Err(LedgerError::argument(format!(
                        "a wallet has at most {DESCRIPTORS_MAX} keychains"
                    )));
                }
                let mut descriptor = WatchedDescriptor {
                    id: stored.last().map_or(1, |last| last.id + 1),
                    text: branch.text,
                    keychain: asked.keychain.unwrap_or(place),
                    is_ranged: branch.is_ranged,
                    next_index: 0,
                    derived_count: 0,
                    lookahead: asked.lookahead.unwrap_or(LOOKAHEAD_DEFAULT),
                    edge_index: None,
                    archived_at: None,
                };
                session.insert_descriptor(&descriptor)?;
                let next_index = asked.next_index.unwrap_or(0);
                session.derive_ahead(codec, &mut descriptor, next_index)?;
                is_any_new = true;
                stored.push(descriptor.clone());
                answer.push(descriptor);
            }
            let scan_from = if is_any_new { session.scan_from()? } else { None };
            Ok(AddedDescriptor { keychains: answer, scan_from })
        })
    }

    /// The keychains of a wallet that are not archived, in the order they were added.
    pub fn descriptors(&self, wallet: WalletId) -> Result<Vec<WatchedDescriptor>, LedgerError> {
        let mut keychains = self.descriptors_and_archived(wallet)?;
        keychains.retain(|keychain| keychain.archived_at.is_none());
        Ok(keychains)
    }

    /// All keychains of a wallet, archived ones too, in the order they were added.
    pub fn descriptors_and_archived(
        &self,
        wallet: WalletId,
    ) -> Result<Vec<WatchedDescriptor>, LedgerError> {
        self.read_wallet(wallet, |session| Ok(session.descriptors()?))
    }

    /// Hands out the next address of a keychain. One that is not ranged has one address only.
    pub fn reveal_next_address(
        &self,
        wallet: WalletId,
        descriptor: i64,
        now: Micros,
    ) -> Result<RevealedAddress, LedgerError> {
        self.write_wallet(wallet, now, |session| self.reveal(session, descriptor))
    }

    pub(crate) fn reveal(
        &self,
        session: &mut Session<'_, '_>,
        descriptor: i64,
    ) -> Result<RevealedAddress, LedgerError> {
        let mut descriptor = session.descriptor(descriptor)?.live()?;
        let index = if descriptor.is_ranged { descriptor.next_index } else { 0 };
        let mut found = session.script_from(descriptor.id, index)?;
        if found.is_none() {
            // As a rule the next one is watched already.
            let next_index = descriptor.next_index;
            session.derive_ahead(self.codec()?, &mut descriptor, next_index)?;
            found = session.script_from(descriptor.id, index)?;
        }
        let Some(found) = found else {
            return Err(LedgerError::argument("all addresses of the keychain were handed out"));
        };
        let found = session.derived_again(&descriptor, found)?;
        if found.index >= descriptor.next_index {
            session.derive_ahead(self.codec()?, &mut descriptor, found.index + 1)?;
        }
        Ok(found)
    }

    /// Where scripts of the wallet come from, for those that a descriptor of it stands for. Tells
    /// a signer which keys it needs.
    pub fn script_sources(
        &self,
        wallet: WalletId,
        scripts: &[Vec<u8>],
    ) -> Result<Vec<ScriptSource>, LedgerError> {
        self.read_wallet(wallet, |session| Ok(session.script_sources(scripts)?))
    }
}

impl Session<'_, '_> {
    pub(crate) fn script_sources(
        &mut self,
        scripts: &[Vec<u8>],
    ) -> Result<Vec<ScriptSource>, SqlError> {
        let keys: Vec<Value<'_>> = scripts.iter().map(Value::from).collect();
        let mut found = Vec::new();
        self.tx.query_in(SELECT_ORIGINS, "", &[self.id()], 1, &keys, |row| {
            found.push(ScriptSource {
                script: row.bytes(0)?.to_vec(),
                descriptor: row.text(1)?.to_owned(),
                keychain: rows::u32_at(row, 2)?,
                index: rows::u32_at(row, 3)?,
            });
            Ok(())
        })?;
        Ok(found)
    }

    pub(crate) fn descriptors(&mut self) -> Result<Vec<WatchedDescriptor>, SqlError> {
        let limit = i64::try_from(DESCRIPTORS_MAX).unwrap_or(i64::MAX);
        let key = [self.id(), Value::from(limit)];
        self.tx.query_all(SELECT_ALL, &key, read_descriptor)
    }

    pub(crate) fn descriptor(&mut self, id: i64) -> Result<WatchedDescriptor, LedgerError> {
        let key = [self.id(), Value::from(id)];
        let found = self.tx.query_opt(SELECT_ONE, &key, read_descriptor)?;
        found.ok_or(LedgerError::DescriptorNotFound(id))
    }

    /// Gives a known keychain what is asked for; whether it watches more now.
    fn extend(
        &mut self,
        codec: &dyn ChainCodec,
        mut known: WatchedDescriptor,
        asked: &AskedReach,
    ) -> Result<(WatchedDescriptor, bool), LedgerError> {
        known = known.live()?;
        let reach = known.reach().extended(asked)?;
        let watched = known.derived_count;
        if reach.lookahead > known.lookahead {
            // The edge that was reached is behind us when as much is watched as was asked for.
            if known.lookahead_to_raise_to().is_some_and(|wanted| reach.lookahead >= wanted) {
                known.edge_index = None;
            }
            known.lookahead = reach.lookahead;
            self.update_reach(&known, 0)?;
        }
        self.derive_ahead(codec, &mut known, reach.next_index)?;
        let has_new = known.derived_count > watched;
        Ok((known, has_new))
    }

    /// The first script of a keychain from a number on. Hardly ever does a number stand for none.
    fn script_from(
        &mut self,
        descriptor: i64,
        index: u32,
    ) -> Result<Option<RevealedAddress>, SqlError> {
        let key = [self.id(), Value::from(descriptor), Value::from(index)];
        self.tx.query_opt(SELECT_SCRIPT, &key, |row| {
            Ok(RevealedAddress {
                index: rows::u32_at(row, 0)?,
                address_id: row.int(1)?,
                script: row.bytes(2)?.to_vec(),
                address: row.opt_text(3)?.map(str::to_owned),
            })
        })
    }

    fn insert_descriptor(&mut self, descriptor: &WatchedDescriptor) -> Result<(), SqlError> {
        let row = [
            self.id(),
            Value::from(descriptor.id),
            Value::from(&descriptor.text),
            Value::from(descriptor.keychain),
            Value::from(descriptor.is_ranged),
            Value::from(descriptor.lookahead),
            Value::from(self.now.get()),
        ];
        self.tx.execute(INSERT, &row)?;
        Ok(())
    }
}

fn read_descriptor(row: &Row<'_>) -> Result<WatchedDescriptor, SqlError> {
    Ok(WatchedDescriptor {
        id: row.int(0)?,
        text: row.text(1)?.to_owned(),
        keychain: rows::u32_at(row, 2)?,
        is_ranged: rows::flag(row, 3)?,
        next_index: rows::u32_at(row, 4)?,
        derived_count: rows::u32_at(row, 5)?,
        lookahead: rows::u32_at(row, 6)?,
        edge_index: row.opt_int(7)?.map(|_| rows::u32_at(row, 7)).transpose()?,
        archived_at: row.opt_int(8)?.map(Micros::new),
    })
}
