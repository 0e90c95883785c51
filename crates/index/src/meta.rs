//! The few rows that say what the database is and where it stands.

use utxokeep_core::{BlockHash, Corrupt, Filter, Height, Network, mmr::MmrRule};
use utxokeep_kv::{Batch, KvError, Read, Stored, Table};

use crate::{
    IndexSettings,
    accumulator::Kind,
    error::{IndexError, IndexOpenError},
    tables::{META, UTXO_META},
};

/// Format this program writes.
pub const FORMAT_VERSION: u64 = 1;

const FORMAT: &[u8] = b"format";
const NETWORK: &[u8] = b"network";
const SETTINGS: &[u8] = b"settings";
const TIP: &[u8] = b"tip";
const START: &[u8] = b"start";
const FILTER: &[u8] = b"filter";
const GENESIS: &[u8] = b"genesis";
const UNDONE_NUMBER: &[u8] = b"undone_number";
const UNDO_BASE: &[u8] = b"undo_base";
const PRUNE_CURSOR: &[u8] = b"prune_cursor";

/// A step that turns one format into the next: reads what it needs, writes into the batch that
/// also raises the version.
pub(crate) struct Upgrade {
    /// Format it starts from.
    pub(crate) from: u64,
    /// What it writes.
    pub(crate) run: fn(&dyn Read, &mut Batch) -> Result<(), IndexError>,
}

/// Every upgrade, oldest first. A change of [`FORMAT_VERSION`] adds one.
pub(crate) const UPGRADES: &[Upgrade] = &[];

/// A switch that is part of the database.
pub(crate) struct Switch {
    /// What users call it.
    pub(crate) name: &'static str,
    /// Whether settings ask for it.
    pub(crate) is_on: fn(&IndexSettings) -> bool,
    /// Notes in an identity whether it is on.
    pub(crate) note: fn(&mut Identity, bool),
    /// Whether only chains with credentials have it.
    pub(crate) needs_credentials: bool,
}

/// Every switch, in the order of their bytes in the row `settings`. New ones go to the end; a
/// database that is older than a switch has no byte for it, and has it off.
const SWITCHES: [Switch; 7] = [
    Switch {
        name: "[index] enabled",
        is_on: |settings| settings.enabled,
        note: |identity, is_on| identity.enabled = is_on,
        needs_credentials: false,
    },
    Switch {
        name: "[index] address_hash",
        is_on: |settings| settings.address_index,
        note: |identity, is_on| identity.address_index = is_on,
        needs_credentials: false,
    },
    Kind::MuHash.switch(),
    Switch {
        name: "[index] payment_credential",
        is_on: |settings| settings.payment_index,
        note: |identity, is_on| identity.payment_index = is_on,
        needs_credentials: true,
    },
    Switch {
        name: "[index] stake_credential",
        is_on: |settings| settings.stake_index,
        note: |identity, is_on| identity.stake_index = is_on,
        needs_credentials: true,
    },
    Kind::Mmr.switch(),
    crate::accumulator::mmr::RULE_SWITCH,
];

impl Switch {
    const fn is_of(&self, network: Network) -> bool {
        network.is_cardano() || !self.needs_credentials
    }
}

/// Switches from here on have a byte only in databases that have one of them on.
const LATER_SWITCHES: usize = 5;
/// Place of the switch of the index itself: it may be changed, by [`crate::switch`].
const ENABLED_SWITCH: usize = 0;
/// Place of the switch of the Merkle mountain range; that of its rule is behind it.
const MMR_SWITCH: usize = 5;

/// The row `settings`, up to the last switch that the chain has.
fn switch_bytes(settings: &IndexSettings) -> Vec<u8> {
    let is_own = |switch: &Switch| switch.is_of(settings.network());
    let has_byte = |(at, switch): (usize, &Switch)| {
        is_own(switch) && (at < LATER_SWITCHES || (switch.is_on)(settings))
    };
    let len = SWITCHES.iter().enumerate().rposition(has_byte).map_or(0, |last| last + 1);
    let byte = |switch: &Switch| u8::from(is_own(switch) && (switch.is_on)(settings));
    SWITCHES[..len].iter().map(byte).collect()
}

/// Value of a name.
fn named(
    read: &(impl Read + ?Sized),
    table: Table<[u8], [u8]>,
    name: &[u8],
) -> Result<Option<Vec<u8>>, KvError> {
    Ok(table.get(read, name)?.map(Stored::into_bytes))
}

/// Rows of a new database.
pub(crate) fn create(settings: &IndexSettings) -> Batch {
    let mut batch = Batch::new();
    META.put(&mut batch, FORMAT, &FORMAT_VERSION.to_be_bytes());
    META.put(&mut batch, NETWORK, settings.network().to_string().as_bytes());
    META.put(&mut batch, SETTINGS, &switch_bytes(settings));
    if !settings.filter.is_empty() {
        META.put(&mut batch, FILTER, &settings.filter.encode());
    }
    if let Some(genesis) = private_genesis(settings) {
        META.put(&mut batch, GENESIS, &genesis);
    }
    if settings.enabled {
        put_undo_base(&mut batch, Height::GENESIS);
    }
    batch
}

/// The genesis of a chain that the program does not know by itself.
fn private_genesis(settings: &IndexSettings) -> Option<Vec<u8>> {
    let is_private = settings.network() == Network::CardanoDevnet;
    settings.decoder.genesis().filter(|_| is_private).map(utxokeep_chains::cardano::Genesis::encode)
}

/// Checks that the database is one `settings` may open. `None` means that it is empty; otherwise
/// the batch with the upgrades that are due.
pub(crate) fn check(
    read: &dyn Read,
    settings: &IndexSettings,
    upgrades: &[Upgrade],
) -> Result<Option<Batch>, IndexOpenError> {
    let Some(format) = named(read, META, FORMAT)? else {
        return Ok(None);
    };
    let format = u64::from_be_bytes(
        format.try_into().map_err(|_| Corrupt::new("format version", "not 8 bytes long"))?,
    );
    let known = upgrades.last().map_or(FORMAT_VERSION, |upgrade| upgrade.from + 1);
    if format > known {
        return Err(IndexOpenError::NewerFormat { found: format, known });
    }
    let network = named(read, META, NETWORK)?.ok_or(IndexOpenError::NotOurs)?;
    if network != settings.network().to_string().as_bytes() {
        let found = String::from_utf8_lossy(&network).into_owned();
        return Err(IndexOpenError::WrongNetwork { found, asked: settings.network() });
    }
    let bytes = named(read, META, SETTINGS)?.ok_or(IndexOpenError::NotOurs)?;
    let found = stated_mmr(&bytes);
    if found != settings.mmr {
        return Err(IndexOpenError::MmrChanged { found, asked: settings.mmr });
    }
    for (at, switch) in SWITCHES.iter().enumerate() {
        if at == ENABLED_SWITCH || !switch.is_of(settings.network()) {
            continue;
        }
        let (found, asked) = (bytes.get(at) == Some(&1), (switch.is_on)(settings));
        if asked != found {
            return Err(IndexOpenError::SettingChanged { name: switch.name, found, asked });
        }
    }
    let filter = named(read, META, FILTER)?.unwrap_or_default();
    if filter != settings.filter.encode() {
        let (found, asked) = (Filter::decode(&filter)?.len(), settings.filter.len());
        return Err(IndexOpenError::FilterChanged { found, asked });
    }
    if named(read, META, GENESIS)? != private_genesis(settings) {
        return Err(IndexOpenError::GenesisChanged);
    }
    let mut batch = Batch::new();
    for upgrade in upgrades.iter().filter(|upgrade| upgrade.from >= format) {
        (upgrade.run)(read, &mut batch)?;
        META.put(&mut batch, FORMAT, &(upgrade.from + 1).to_be_bytes());
    }
    Ok(Some(batch))
}

/// The Merkle mountain range that the row `settings` tells of.
fn stated_mmr(bytes: &[u8]) -> Option<MmrRule> {
    let is_on = |switch: usize| bytes.get(switch) == Some(&1);
    let rule = if is_on(MMR_SWITCH + 1) { MmrRule::Utreexo } else { MmrRule::Tombstone };
    is_on(MMR_SWITCH).then_some(rule)
}

/// Writes the switches of a database that has changed one. Whether the index is on is not what the
/// settings ask for, but what has come true.
pub(crate) fn put_switches(batch: &mut Batch, settings: &IndexSettings, is_enabled: bool) {
    let mut bytes = switch_bytes(settings);
    bytes[ENABLED_SWITCH] = u8::from(is_enabled);
    META.put(batch, SETTINGS, &bytes);
}

/// Whether the database says that its index is on.
pub(crate) fn is_enabled(read: &dyn Read) -> Result<bool, IndexError> {
    let bytes = named(read, META, SETTINGS)?.unwrap_or_default();
    Ok(bytes.get(ENABLED_SWITCH) == Some(&1))
}

/// Refuses a Merkle mountain range where the index would not see every output.
pub(crate) fn check_mmr(settings: &IndexSettings) -> Result<(), IndexOpenError> {
    let Some(rule) = settings.mmr else { return Ok(()) };
    let refusals = [
        (
            !settings.enabled,
            "[index] enabled = false keeps no outputs at all; to switch off an index that keeps a range, drop \
             the range first with `chain mmr disable`",
        ),
        (
            !settings.filter.is_empty(),
            "[index] filter_addresses and filter_credentials keep only some outputs, and a root \
             commits to all of them",
        ),
        (
            settings.may_start_mid_chain,
            "an index that starts in the middle of the chain has not seen the outputs before, and \
             a root commits to all of them",
        ),
        (
            rule == MmrRule::Utreexo && settings.network().is_cardano(),
            "mmr_rule = \"utreexo\" is for Bitcoin",
        ),
    ];
    match refusals.into_iter().find(|(is_so, _)| *is_so) {
        Some((_, why)) => Err(IndexOpenError::MmrRefused { why }),
        None => Ok(()),
    }
}

/// What a database says of itself, before anybody knows how to open it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct Identity {
    /// The network it follows.
    pub network: Network,
    /// Whether it keeps the set.
    pub enabled: bool,
    /// Whether it keeps the address index.
    pub address_index: bool,
    /// Whether it keeps MuHash accumulators.
    pub muhash: bool,
    /// Rule of its Merkle mountain range, if it keeps one.
    pub mmr: Option<MmrRule>,
    /// Whether it keeps the index by payment credential.
    pub payment_index: bool,
    /// Whether it keeps the index by stake credential.
    pub stake_index: bool,
    /// Which outputs it keeps.
    pub filter: Filter,
    /// Genesis of a private chain, as [`utxokeep_chains::cardano::Genesis::encode`] wrote it.
    pub genesis: Option<Vec<u8>>,
}

/// Reads the identity; `None` for an empty database.
pub(crate) fn identity(read: &dyn Read) -> Result<Option<Identity>, IndexOpenError> {
    let Some(network) = named(read, META, NETWORK)? else { return Ok(None) };
    let network = String::from_utf8_lossy(&network);
    let network = network.parse().map_err(|error| Corrupt::new("network name", error))?;
    let bytes = named(read, META, SETTINGS)?.ok_or(IndexOpenError::NotOurs)?;
    let mut identity = Identity {
        network,
        enabled: false,
        address_index: false,
        muhash: false,
        mmr: None,
        payment_index: false,
        stake_index: false,
        filter: Filter::decode(&named(read, META, FILTER)?.unwrap_or_default())?,
        genesis: named(read, META, GENESIS)?,
    };
    for (switch, byte) in SWITCHES.iter().zip(bytes) {
        (switch.note)(&mut identity, byte == 1);
    }
    Ok(Some(identity))
}

pub(crate) fn tip(read: &dyn Read) -> Result<Option<(Height, BlockHash)>, IndexError> {
    let Some(bytes) = named(read, META, TIP)? else { return Ok(None) };
    let tip = bytes
        .split_at_checked(4)
        .and_then(|(height, hash)| Some((Height::from_key(height)?, BlockHash::from_slice(hash)?)));
    Ok(Some(tip.ok_or_else(|| Corrupt::new("tip", "not 36 bytes long"))?))
}

pub(crate) fn put_tip(batch: &mut Batch, height: Height, hash: &BlockHash) {
    let mut value = height.to_key().to_vec();
    value.extend_from_slice(hash.as_bytes());
    META.put(batch, TIP, &value);
}

/// Height of the first block, when blocks from before it are missing.
pub(crate) fn start(read: &dyn Read) -> Result<Option<Height>, IndexError> {
    let Some(bytes) = named(read, META, START)? else { return Ok(None) };
    let start = Height::from_key(&bytes);
    Ok(Some(start.ok_or_else(|| Corrupt::new("start", "not 4 bytes long"))?))
}

pub(crate) fn put_start(batch: &mut Batch, start: Height) {
    META.put(batch, START, &start.to_key());
}

/// The greatest number of a block that left the chain; absent until one did.
pub(crate) fn undone_number(read: &dyn Read) -> Result<Option<u32>, IndexError> {
    let Some(bytes) = named(read, META, UNDONE_NUMBER)? else { return Ok(None) };
    let number = bytes.try_into().map(u32::from_be_bytes);
    Ok(Some(number.map_err(|_| Corrupt::new("number of a block", "not 4 bytes long"))?))
}

pub(crate) fn put_undone_number(batch: &mut Batch, number: u32) {
    META.put(batch, UNDONE_NUMBER, &number.to_be_bytes());
}

/// Undo data exists for every block above this height.
pub(crate) fn undo_base(read: &dyn Read) -> Result<Height, IndexError> {
    let bytes = named(read, UTXO_META, UNDO_BASE)?.unwrap_or_default();
    Height::from_key(&bytes).ok_or_else(|| Corrupt::new("undo base", "not 4 bytes long").into())
}

pub(crate) fn put_undo_base(batch: &mut Batch, base: Height) {
    UTXO_META.put(batch, UNDO_BASE, &base.to_key());
}

/// How far pruning has come inside the block it works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PruneCursor {
    /// The block whose undo data is being deleted.
    pub(crate) height: Height,
    /// How many of its spent outputs are done.
    pub(crate) done: u32,
}

pub(crate) fn prune_cursor(read: &dyn Read) -> Result<Option<PruneCursor>, IndexError> {
    let Some(bytes) = named(read, UTXO_META, PRUNE_CURSOR)? else { return Ok(None) };
    let cursor = bytes.split_at_checked(4).and_then(|(height, done)| {
        let done = u32::from_be_bytes(done.try_into().ok()?);
        Some(PruneCursor { height: Height::from_key(height)?, done })
    });
    Ok(Some(cursor.ok_or_else(|| Corrupt::new("prune cursor", "not 8 bytes long"))?))
}

pub(crate) fn put_prune_cursor(batch: &mut Batch, cursor: Option<PruneCursor>) {
    match cursor {
        Some(PruneCursor { height, done }) => {
            let mut value = height.to_key().to_vec();
            value.extend_from_slice(&done.to_be_bytes());
            UTXO_META.put(batch, PRUNE_CURSOR, &value);
        }
        None => UTXO_META.delete(batch, PRUNE_CURSOR),
    }
}

#[cfg(test)]
mod tests {
    use utxokeep_kv::{Durability, Kv, MemoryKv};

    use super::*;
    use crate::tables::TABLES;

    fn database(settings: &IndexSettings) -> MemoryKv {
        let kv = MemoryKv::new(TABLES);
        kv.commit(create(settings), Durability::Synced).unwrap();
        kv
    }

    #[test]
    fn another_network_or_switch_is_refused_by_name() {
        let settings = IndexSettings::new(Network::BitcoinRegtest);
        let kv = database(&settings);
        assert!(check(&kv, &settings, UPGRADES).unwrap().unwrap().is_empty());

        let other = IndexSettings::new(Network::BitcoinMainnet);
        let error = check(&kv, &other, UPGRADES).unwrap_err();
        assert!(
            matches!(&error, IndexOpenError::WrongNetwork { found, .. } if found == "bitcoin/regtest")
        );

        let other = IndexSettings { muhash: true, ..settings };
        let error = check(&kv, &other, UPGRADES).unwrap_err();
        assert!(matches!(error, IndexOpenError::SettingChanged { name: "[index] muhash", .. }));
    }

    #[test]
    fn a_switch_that_the_database_does_not_state_is_off() {
        let settings = IndexSettings::new(Network::BitcoinRegtest);
        let kv = database(&settings);
        let mut batch = Batch::new();
        META.put(&mut batch, SETTINGS, &switch_bytes(&settings)[..2]);
        kv.commit(batch, Durability::Synced).unwrap();
        assert!(check(&kv, &settings, UPGRADES).unwrap().is_some());
        assert!(!identity(&kv).unwrap().unwrap().muhash);

        let other = IndexSettings { muhash: true, ..settings };
        let error = check(&kv, &other, UPGRADES).unwrap_err();
        assert!(matches!(
            error,
            IndexOpenError::SettingChanged { name: "[index] muhash", found: false, asked: true }
        ));
    }

    #[test]
    fn a_newer_format_is_refused_and_an_older_one_upgraded_step_by_step() {
        let settings = IndexSettings::new(Network::BitcoinRegtest);
        let kv = database(&settings);
        let step = |name: &'static [u8]| -> fn(&dyn Read, &mut Batch) -> Result<(), IndexError> {
            match name {
                b"one" => |_, batch| {
                    META.put(batch, b"upgraded", b"one");
                    Ok(())
                },
                _ => |_, batch| {
                    META.put(batch, b"upgraded", b"two");
                    Ok(())
                },
            }
        };
        let upgrades =
            [Upgrade { from: 1, run: step(b"one") }, Upgrade { from: 2, run: step(b"two") }];
        let batch = check(&kv, &settings, &upgrades).unwrap().unwrap();
        kv.commit(batch, Durability::Synced).unwrap();
        assert_eq!(named(&kv, META, b"upgraded").unwrap(), Some(b"two".to_vec()));
        assert!(check(&kv, &settings, &upgrades).unwrap().unwrap().is_empty());

        let error = check(&kv, &settings, UPGRADES).unwrap_err();
        assert!(matches!(error, IndexOpenError::NewerFormat { found: 3, known: 1 }));
    }
}
