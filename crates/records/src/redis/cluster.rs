//! The servers of a cluster as far as they are known, and how they are looked up.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use futures_util::future::{join_all, select_ok};

use super::{
    client::{Address, Command, Connector, Lost, Reply},
    encode::LIBRARY_CODE,
    node::Node,
    options::RedisOptions,
    probe::{self, Fitness, Purpose},
    slots::Topology,
};
use crate::error::RecordError;

/// Everything that calls share.
pub(crate) struct Cluster {
    pub(crate) options: RedisOptions,
    pub(crate) purpose: Purpose,
    connector: Arc<dyn Connector>,
    known: Mutex<Known>,
    /// Held while servers are looked up, so that many calls do it once.
    looking: tokio::sync::Mutex<()>,
    trouble: Mutex<Option<String>>,
    /// Why the last call failed that did, whatever succeeded since.
    last_failure: Mutex<Option<String>>,
}

struct Known {
    topology: Arc<Topology>,
    nodes: BTreeMap<Address, Arc<Node>>,
    /// Servers whose settings were looked at.
    checked: BTreeSet<Address>,
    without_log: BTreeSet<Address>,
    looked_up: Instant,
    /// How often servers were looked up.
    number: u64,
}

impl Cluster {
    pub(crate) fn new(
        options: RedisOptions,
        purpose: Purpose,
        connector: Arc<dyn Connector>,
    ) -> Self {
        let known = Known {
            topology: Arc::default(),
            nodes: BTreeMap::new(),
            checked: BTreeSet::new(),
            without_log: BTreeSet::new(),
            looked_up: Instant::now(),
            number: 0,
        };
        Self {
            options,
            purpose,
            connector,
            known: Mutex::new(known),
            looking: tokio::sync::Mutex::new(()),
            trouble: Mutex::new(None),
            last_failure: Mutex::new(None),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn topology(&self) -> Arc<Topology> {
        Arc::clone(&self.known().topology)
    }

    pub(crate) fn node(&self, address: &Address) -> Arc<Node> {
        let most = self.options.connections_per_server_max;
        let make = || Node::new(address.clone(), Arc::clone(&self.connector), most);
        let mut known = self.known();
        Arc::clone(known.nodes.entry(address.clone()).or_insert_with(|| Arc::new(make())))
    }

    /// Notes that a slot is elsewhere, until servers are looked up again.
    pub(crate) fn move_slot(&self, slot: u16, to: &Address) {
        let mut known = self.known();
        if known.topology.owner(slot) != Some(to) {
            Arc::make_mut(&mut known.topology).move_slot(slot, to);
        }
    }

    /// Whether servers should be looked up again.
    pub(crate) fn is_stale(&self) -> bool {
        let most = Duration::from_millis(self.options.topology_age_ms_max);
        self.known().looked_up.elapsed() > most
    }

    pub(crate) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn last_failure(&self) -> Option<String> {
        self.last_failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Servers whose records a restart loses.
    pub(crate) fn without_log(&self) -> Vec<Address> {
        self.known().without_log.iter().cloned().collect()
    }

    pub(crate) fn set_trouble(&self, reason: Option<String>) {
        if reason.is_some() {
            let mut last = self.last_failure.lock().unwrap_or_else(PoisonError::into_inner);
            last.clone_from(&reason);
        }
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    }

    /// Looks up which server holds what. Whoever comes meanwhile waits for the same answer.
    pub(crate) async fn look_up(&self) -> Result<(), RecordError> {
        let before = self.known().number;
        let _looking = self.looking.lock().await;
        if self.known().number != before {
            return Ok(());
        }
        let mut servers = self.topology().servers();
        servers.extend(self.options.seeds.iter().cloned());
        let servers: BTreeSet<Address> = servers.into_iter().collect();
        let limit = Duration::from_millis(self.options.connect_timeout_ms);
        let views = servers.into_iter().map(|server| Box::pin(self.view(server, limit)));
        let topology = match select_ok(views).await {
            Ok((topology, _)) => topology,
            Err(error) => return Err(error),
        };
        self.check_new(&topology).await?;
        let mut known = self.known();
        let servers: BTreeSet<Address> = topology.servers().into_iter().collect();
        known.nodes.retain(|address, _| servers.contains(address));
        known.topology = Arc::new(topology);
        known.looked_up = Instant::now();
        known.number += 1;
        Ok(())
    }

    /// The cluster as one server sees it.
    async fn view(&self, server: Address, limit: Duration) -> Result<Topology, RecordError> {
        let node = self.node(&server);
        let asked = node.ask(Command::new("CLUSTER").arg("NODES"));
        let unavailable = |what: String| RecordError::Unavailable { what };
        let reply = match tokio::time::timeout(limit, asked).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(lost)) => return Err(probe::refused_connection(&server, lost.what)),
            Err(_) => {
                node.forget_idle();
                return Err(unavailable(format!("{server} does not answer in {limit:?}")));
            }
        };
        match reply {
            Reply::Error(error) => Err(probe::refused_cluster(&server, &error)),
            reply => {
                let text = reply.into_text().unwrap_or_default();
                let found = Topology::parse(&text, &server);
                let found = found.filter(|topology| !topology.primaries.is_empty());
                let what = || unavailable(format!("{server} does not tell its cluster"));
                found.ok_or_else(what)
            }
        }
    }

    /// Looks at the settings of servers that were not known before.
    async fn check_new(&self, topology: &Topology) -> Result<(), RecordError> {
        if self.purpose == Purpose::Read {
            return Ok(());
        }
        let servers = topology.servers().into_iter();
        let new: Vec<Address> = {
            let known = self.known();
            servers.filter(|server| !known.checked.contains(server)).collect()
        };
        let checks = new.into_iter().map(|server| async move {
            let node = self.node(&server);
            let limit = Duration::from_millis(2 * self.options.connect_timeout_ms);
            let check = probe::server(&node, self.options.acknowledgement);
            (server, tokio::time::timeout(limit, check).await)
        });
        for (server, outcome) in join_all(checks).await {
            match outcome {
                Ok(Ok(fitness)) => {
                    let mut known = self.known();
                    if fitness == Fitness::WithoutLog {
                        known.without_log.insert(server.clone());
                    }
                    known.checked.insert(server);
                }
                Ok(Err(RecordError::Unavailable { .. })) | Err(_) => {}
                Ok(Err(error)) => {
                    self.set_trouble(Some(error.to_string()));
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Whether the settings of every server were looked at.
    pub(crate) fn unchecked(&self) -> Option<Address> {
        let known = self.known();
        let mut servers = known.topology.servers().into_iter();
        servers.find(|server| !known.checked.contains(server))
    }

    /// Loads the functions on one server; that they are there already is as good.
    pub(crate) async fn load_library(&self, node: &Node) -> Result<(), Lost> {
        let load = Command::new("FUNCTION").arg("LOAD").arg(LIBRARY_CODE);
        match node.ask(load).await? {
            Reply::Error(error) if !error.contains("already exists") => Err(Lost { what: error }),
            _ => Ok(()),
        }
    }
}
