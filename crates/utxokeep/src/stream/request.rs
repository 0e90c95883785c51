//! What a reader of the change stream asks for: where to start, and what to watch.

use utxokeep_core::{Height, Network, StreamCursor, WatchFilter};
use utxokeep_index::{ChainIndex, LogError};
use utxokeep_kv::Kv;

use super::{StreamError, parse_cursor, reader::behind};
use crate::{
    ops::chain::{Address, Credential, Owner, Script, Whose},
    owners,
};

/// What to tell, and from where on. Of several filters an output needs to meet one; without any,
/// everything is told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
pub struct StreamRequest {
    /// Tell of outputs at this address (or whatever else names an owner there); repeat it for more.
    #[cfg_attr(feature = "clap", arg(long, value_name = "ADDRESS"))]
    pub address: Vec<String>,
    /// Cardano: tell of outputs of this payment or stake credential; repeat it for more.
    #[cfg_attr(feature = "clap", arg(long, value_name = "CREDENTIAL"))]
    pub credential: Vec<String>,
    /// Bitcoin: tell of outputs with this script hash; repeat it for more.
    #[cfg_attr(feature = "clap", arg(long, value_name = "HASH"))]
    pub script: Vec<String>,
    /// Cardano: tell of outputs that hold this asset: a policy id for all its assets, or policy id and
    /// name; repeat it for more.
    #[cfg_attr(feature = "clap", arg(long, value_name = "ASSET"))]
    pub asset: Vec<String>,
    /// Go on behind the event with this cursor; without it the stream starts at the tip.
    #[cfg_attr(feature = "clap", arg(long, value_name = "CURSOR", conflicts_with = "from_height"))]
    pub from: Option<String>,
    /// Start behind this block: the first event is about the one above it.
    #[cfg_attr(feature = "clap", arg(long, value_name = "HEIGHT"))]
    pub from_height: Option<u32>,
    /// Read as this registered consumer: without another start from where it has come, and with
    /// `from` it has come that far.
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME"))]
    pub consumer: Option<String>,
}

/// Where a stream starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At the tip: only what comes from now on.
    Now,
    /// Behind a place.
    Behind(StreamCursor),
    /// Behind the block of the chain at this height.
    Height(Height),
}

impl Start {
    /// Where it is said by at most one of a cursor and a height.
    pub fn named(from: Option<&str>, from_height: Option<u32>) -> Result<Self, StreamError> {
        match (from, from_height) {
            (Some(_), Some(_)) => {
                let text = "from and from_height exclude each other; send one of them";
                Err(StreamError::BadParameter(text.to_owned()))
            }
            (Some(text), None) => parse_cursor(text).map(Self::Behind),
            (None, Some(height)) => Ok(Self::Height(Height::new(height))),
            (None, None) => Ok(Self::Now),
        }
    }

    /// The place in the stream.
    pub fn find<K: Kv>(self, index: &ChainIndex<K>) -> Result<StreamCursor, StreamError> {
        let view = index.view()?;
        view.set_standing().check_changes()?;
        if let Self::Behind(cursor) = self {
            return Ok(cursor);
        }
        let log = view.log();
        let tip = log.tip();
        let Self::Height(height) = self else {
            return Ok(tip.map_or(StreamCursor::START, |tip| behind(tip.cursor())));
        };
        let start_from = log.start_from()?;
        if height < start_from {
            return Err(LogError::PastWindow { height: height.plus(1), start_from }.into());
        }
        if let Some(block) = log.block(height)? {
            return Ok(behind(block.cursor()));
        }
        let tip = tip.map(|tip| tip.height).unwrap_or_default();
        Err(StreamError::AboveTip { height, tip })
    }
}

impl StreamRequest {
    /// One parameter of a query; `false` when there is none of this name.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool, StreamError> {
        let text = value.to_owned();
        match name {
            "address" => self.address.push(text),
            "credential" => self.credential.push(text),
            "script" => self.script.push(text),
            "asset" => self.asset.push(text),
            "from" => once(&mut self.from, "from", text)?,
            "consumer" => once(&mut self.consumer, "consumer", text)?,
            "from_height" => {
                let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
                let height = value.parse().ok().filter(|_| digits).ok_or_else(|| {
                    let text = "from_height: expected the height of a block";
                    StreamError::BadParameter(text.to_owned())
                })?;
                once(&mut self.from_height, "from_height", height)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Names of the parameters that a query may have.
    pub const PARAMETERS: [&'static str; 7] =
        ["address", "credential", "script", "asset", "from", "from_height", "consumer"];

    /// Where to start.
    pub fn start(&self) -> Result<Start, StreamError> {
        Start::named(self.from.as_deref(), self.from_height)
    }

    /// What to watch, at most `entries_max` owners and assets.
    pub fn watch<K: Kv>(
        &self,
        index: &ChainIndex<K>,
        entries_max: usize,
    ) -> Result<WatchFilter, StreamError> {
        let entries =
            [&self.address, &self.credential, &self.script, &self.asset].map(Vec::len).iter().sum();
        if entries_max < entries {
            let text = format!(
                "{entries} filters are more than the {entries_max} of [stream] filter_entries_max"
            );
            return Err(StreamError::BadParameter(text));
        }
        let network = index.settings().network();
        let kept = &index.settings().filter;
        let mut keys = Vec::with_capacity(entries);
        let mut add = |texts: &[String], find: Find| -> Result<(), StreamError> {
            for text in texts {
                match find(text, None, network)? {
                    Owner::Key(owner) if !kept.keeps_all_of(&owner) => {
                        return Err(StreamError::NotKept { owner: text.clone() });
                    }
                    Owner::Key(owner) => keys.push(owner.key),
                    // Nobody knows in which order a hash is written; a script has at most one of them.
                    Owner::Either(both) => keys.extend(both),
                }
            }
            Ok(())
        };
        add(&self.address, Address::find)?;
        add(&self.credential, Credential::find)?;
        add(&self.script, Script::find)?;
        let assets = self.asset.iter().map(|text| owners::find_asset(text, network));
        let assets: Result<Vec<_>, _> = assets.collect();
        Ok(WatchFilter::new(keys, assets.map_err(crate::ops::chain::ChainReadError::from)?))
    }
}

/// How the text of an owner is read.
type Find =
    fn(&str, Option<owners::Kind>, Network) -> Result<Owner, crate::ops::chain::ChainReadError>;

fn once<T>(place: &mut Option<T>, name: &str, value: T) -> Result<(), StreamError> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(StreamError::BadParameter(format!("{name} is given twice; send it once"))),
    }
}
