//! Commands to the servers that hold their slots, again and again where they did not happen.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::join_all;

use super::{
    classify::{Meaning, meaning, refused},
    client::{Address, Command, Reply},
    cluster::Cluster,
};
use crate::{error::RecordError, port::Acknowledgement};

/// Longest wait between two attempts.
const RETRY_MS_MAX: u64 = 500;

/// Redirections that are followed without a wait.
const REDIRECTIONS_AT_ONCE: usize = 3;

/// A command for the holder of a slot.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) slot: u16,
    pub(crate) command: Command,
}

/// What kind of commands a call has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// They may be sent as often as one likes.
    Read,
    /// What is in doubt is not sent again.
    Write {
        /// Whether the replicas are waited for.
        has_barrier: bool,
    },
}

/// What became of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It happened.
    Answered(Reply),
    /// It may have happened.
    InDoubt(String),
    /// It did not happen, in all attempts.
    Unavailable(String),
}

/// What became of a command in one attempt.
enum Attempt {
    Final(Outcome),
    /// It did not happen.
    Again(Again),
}

/// How a command is tried again.
#[derive(Default)]
struct Again {
    reason: String,
    /// A server that may have its key, this once.
    ask: Option<Address>,
    /// Where its slot is, as the server said that had it before.
    moved: Option<(u16, Address)>,
    looks_up: bool,
    waits: bool,
}

impl Cluster {
    /// Sends all items, in any order, and waits for all of them.
    pub(crate) async fn send(self: &Arc<Self>, items: Vec<Item>, kind: Kind) -> Vec<Outcome> {
        self.send_within(items, kind, Duration::from_millis(self.options.retry_for_ms)).await
    }

    /// The same, where what certainly did not happen is tried again for so long.
    pub(crate) async fn send_within(
        self: &Arc<Self>,
        items: Vec<Item>,
        kind: Kind,
        retry_for: Duration,
    ) -> Vec<Outcome> {
        let until = Instant::now() + retry_for;
        let mut outcomes: Vec<Option<Outcome>> = vec![None; items.len()];
        let mut open: Vec<(usize, Option<Address>)> = (0..items.len()).map(|i| (i, None)).collect();
        let (mut wait_ms, mut rounds) = (self.options.retry_base_ms, 0);
        if self.is_stale() {
            // What it finds out comes with the next attempts, if it fails.
            let _ = self.look_up().await;
        }
        loop {
            let attempts = self.attempt(&items, std::mem::take(&mut open), kind).await;
            let (mut looks_up, mut waits, mut last) = (false, false, String::new());
            let mut moved = Vec::new();
            for (item, attempt) in attempts {
                match attempt {
                    Attempt::Final(outcome) => outcomes[item] = Some(outcome),
                    Attempt::Again(again) => {
                        looks_up |= again.looks_up;
                        waits |= again.waits;
                        moved.extend(again.moved);
                        outcomes[item] = Some(Outcome::Unavailable(again.reason.clone()));
                        last = again.reason;
                        open.push((item, again.ask));
                    }
                }
            }
            if open.is_empty() || Instant::now() >= until {
                break;
            }
            self.set_trouble(Some(last));
            rounds += 1;
            // Servers that send each other a slot to and fro are left to settle it.
            if waits || rounds > REDIRECTIONS_AT_ONCE {
                tokio::time::sleep(Duration::from_millis(wait_ms)).await;
                wait_ms = (2 * wait_ms).min(RETRY_MS_MAX);
            }
            if looks_up {
                let _ = self.look_up().await;
            }
            // Who has just let a slot go knows better than a server that has not heard of it yet.
            for (slot, to) in &moved {
                self.move_slot(*slot, to);
            }
        }
        let doubt = outcomes.iter().flatten().find_map(|outcome| match outcome {
            Outcome::Answered(_) => None,
            Outcome::InDoubt(reason) | Outcome::Unavailable(reason) => Some(reason.clone()),
        });
        self.set_trouble(doubt);
        let none = || Outcome::Unavailable("no attempt was made".to_owned());
        outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(none)).collect()
    }

    /// One attempt for all open items, side by side on all servers.
    async fn attempt(
        &self,
        items: &[Item],
        open: Vec<(usize, Option<Address>)>,
        kind: Kind,
    ) -> Vec<(usize, Attempt)> {
        let topology = self.topology();
        let mut groups: BTreeMap<(Address, bool), Vec<usize>> = BTreeMap::new();
        let mut done = Vec::new();
        for (item, ask) in open {
            let is_ask = ask.is_some();
            let owner = ask.or_else(|| topology.owner(items[item].slot).cloned());
            if let Some(address) = owner {
                groups.entry((address, is_ask)).or_default().push(item);
            } else {
                let reason = format!("slot {} is on no server", items[item].slot);
                done.push((item, again(&reason, true)));
            }
        }
        let sent = groups.into_iter().map(|((address, is_ask), group)| async move {
            self.send_group(&address, is_ask, items, &group, kind).await
        });
        done.extend(join_all(sent).await.into_iter().flatten());
        done
    }

    /// What goes to one server, in pipelines of limited size one after the other.
    async fn send_group(
        &self,
        address: &Address,
        is_ask: bool,
        items: &[Item],
        group: &[usize],
        kind: Kind,
    ) -> Vec<(usize, Attempt)> {
        let mut done = Vec::with_capacity(group.len());
        let mut rest = group;
        while !rest.is_empty() {
            let (mut count, mut bytes) = (0, 0);
            for &item in rest {
                bytes += items[item].command.bytes();
                if count > 0 && bytes > self.options.pipeline_bytes_max {
                    break;
                }
                count += 1;
            }
            let (chunk, later) = rest.split_at(count);
            rest = later;
            done.extend(self.send_chunk(address, is_ask, items, chunk, kind).await);
        }
        done
    }

    /// One pipeline, with its barrier at the end.
    async fn send_chunk(
        &self,
        address: &Address,
        is_ask: bool,
        items: &[Item],
        chunk: &[usize],
        kind: Kind,
    ) -> Vec<(usize, Attempt)> {
        let node = self.node(address);
        let lease = match node.lease().await {
            Ok(lease) => lease,
            // Nothing was sent.
            Err(lost) => return all(chunk, || again(&lost.what, true)),
        };
        let replicas = self.replicas_to_wait_for(address, kind);
        let mut commands = Vec::with_capacity(chunk.len() * (1 + usize::from(is_ask)) + 1);
        for &item in chunk {
            commands.extend(is_ask.then(|| Command::new("ASKING")));
            commands.push(items[item].command.clone());
        }
        commands.extend(replicas.map(|count| {
            let timeout = self.options.acknowledge_timeout_ms.to_string();
            Command::new("WAIT").arg(count.to_string()).arg(timeout)
        }));
        let mut replies = match lease.pipeline(commands).await {
            Ok(replies) => replies,
            Err(lost) => {
                node.forget_idle();
                return match kind {
                    Kind::Read => all(chunk, || again(&lost.what, true)),
                    Kind::Write { .. } => {
                        all(chunk, || Attempt::Final(Outcome::InDoubt(lost.what.clone())))
                    }
                };
            }
        };
        let missed = replicas.and_then(|needed| missed(replies.pop(), needed, address));
        let replies =
            replies.into_iter().skip(usize::from(is_ask)).step_by(1 + usize::from(is_ask));
        let mut done = Vec::with_capacity(chunk.len());
        let mut lacks_library = false;
        for (&item, reply) in chunk.iter().zip(replies) {
            let attempt = match reply {
                Reply::Error(error) => {
                    let meaning = meaning(&error, address);
                    lacks_library |= meaning == Meaning::NoLibrary;
                    let error = match meaning {
                        Meaning::Refused => refused(&error, address),
                        _ => error,
                    };
                    Self::attempt_of(meaning, error, kind)
                }
                reply => match &missed {
                    Some(reason) => Attempt::Final(Outcome::InDoubt(reason.clone())),
                    None => Attempt::Final(Outcome::Answered(reply)),
                },
            };
            done.push((item, attempt));
        }
        if lacks_library {
            // Where it fails, the next attempt says so.
            let _ = self.load_library(&node).await;
        }
        done
    }

    /// What to make of an error.
    fn attempt_of(meaning: Meaning, error: String, kind: Kind) -> Attempt {
        match meaning {
            Meaning::Moved(slot, to) => {
                // Its replicas have to be known before a barrier counts them.
                let moved = Some((slot, to));
                let again = Again { reason: error, moved, looks_up: true, ..Again::default() };
                Attempt::Again(again)
            }
            Meaning::Ask(to) => {
                Attempt::Again(Again { reason: error, ask: Some(to), ..Again::default() })
            }
            Meaning::Elsewhere => again(&error, true),
            Meaning::Later | Meaning::NoLibrary => again(&error, false),
            Meaning::Refused => Attempt::Final(Outcome::Unavailable(error)),
            Meaning::Unknown => match kind {
                Kind::Read => Attempt::Final(Outcome::Answered(Reply::Error(error))),
                Kind::Write { .. } => Attempt::Final(Outcome::InDoubt(error)),
            },
        }
    }

    /// How many replicas a barrier waits for; `None` where there is nothing to wait for.
    fn replicas_to_wait_for(&self, address: &Address, kind: Kind) -> Option<usize> {
        if kind != (Kind::Write { has_barrier: true }) {
            return None;
        }
        let known = self.topology().replicas(address);
        match self.options.acknowledgement {
            Acknowledgement::Primary => None,
            // After a failover there is none for a while: that is no reason to promise less.
            Acknowledgement::Replica | Acknowledgement::Disk => Some(known.unwrap_or(1).max(1)),
        }
    }
}

fn again(reason: &str, looks_up: bool) -> Attempt {
    let reason = reason.to_owned();
    Attempt::Again(Again { reason, looks_up, waits: true, ..Again::default() })
}

fn all(chunk: &[usize], attempt: impl Fn() -> Attempt) -> Vec<(usize, Attempt)> {
    chunk.iter().map(|&item| (item, attempt())).collect()
}

/// Why a barrier was not reached.
fn missed(reply: Option<Reply>, needed: usize, address: &Address) -> Option<String> {
    match reply {
        Some(Reply::Number(found)) if usize::try_from(found).is_ok_and(|n| n >= needed) => None,
        Some(Reply::Number(found)) => {
            // A primary whose only replica is taken out is refused as well.
            let otherwise = if needed > 1 {
                "take them out of the cluster with CLUSTER FORGET"
            } else {
                "give this primary another replica"
            };
            Some(format!(
                "{found} of {needed} replicas of {address} have acknowledged: bring the others back, \
                 or {otherwise}"
            ))
        }
        other => Some(format!("{address} does not tell about its replicas: {other:?}")),
    }
}

/// What a read answered, or why there is no answer.
pub(crate) fn answer(outcome: Outcome) -> Result<Reply, RecordError> {
    match outcome {
        Outcome::Answered(Reply::Error(what)) | Outcome::InDoubt(what) => {
            Err(RecordError::Unavailable { what })
        }
        Outcome::Answered(reply) => Ok(reply),
        Outcome::Unavailable(what) => Err(RecordError::Unavailable { what }),
    }
}

#[cfg(test)]
mod tests;
