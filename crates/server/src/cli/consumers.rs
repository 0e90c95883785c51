//! `chain consumers`: who follows the chain log, how far each has come, and what to forget.

use serde::Serialize;
use utxokeep_index::{ConsumerNeeds, ConsumerState, ConsumerStatus};

use super::{
    args,
    exit::Exit,
    open::Session,
    output::{self, Human, Lines},
};

#[derive(Debug, Serialize)]
struct Listed {
    tip_height: Option<u32>,
    consumers: Vec<Consumer>,
}

#[derive(Debug, Serialize)]
struct Consumer {
    name: String,
    /// What the consumer reads: `blocks`, or `changes` with their contents.
    needs: &'static str,
    height: Option<u32>,
    lag_blocks: u64,
    /// Height of the tip when the consumer had fallen too far behind; absent while it is attached.
    #[serde(skip_serializing_if = "Option::is_none")]
    detached_at_height: Option<u32>,
}

impl Consumer {
    fn new(status: ConsumerStatus, tip: Option<utxokeep_core::Height>) -> Self {
        Self {
            needs: match status.needs {
                ConsumerNeeds::Blocks => "blocks",
                ConsumerNeeds::Changes => "changes",
            },
            height: status.cursor.height().map(utxokeep_core::Height::get),
            lag_blocks: tip.map_or(0, |tip| status.lag_blocks(tip)),
            detached_at_height: match status.state {
                ConsumerState::Attached => None,
                ConsumerState::Detached { at } => Some(at.get()),
            },
            name: status.name,
        }
    }
}

/// Lists the named consumers, or forgets one.
pub(super) fn run(session: &Session, command: &args::Consumers) -> anyhow::Result<Exit> {
    let index = session.open()?;
    let tip = index.view()?.tip().map(|(height, _)| height);
    let found = match command {
        args::Consumers::List => index.consumers()?,
        args::Consumers::Forget { name } => vec![index.forget_consumer(name)?],
    };
    let consumers = found.into_iter().map(|status| Consumer::new(status, tip)).collect();
    let tip_height = tip.map(utxokeep_core::Height::get);
    output::result(session.json(), &Listed { tip_height, consumers })?;
    Ok(Exit::Success)
}

impl Human for Listed {
    fn describe(&self, lines: &mut Lines) {
        if self.consumers.is_empty() {
            lines.row("no consumer of the chain log has a name".to_owned());
        }
        for Consumer { name, needs, height, lag_blocks, detached_at_height } in &self.consumers {
            let at = height.map_or_else(|| "the start".to_owned(), |height| height.to_string());
            let state = detached_at_height
                .map_or_else(String::new, |tip| format!(", detached when the tip was {tip}"));
            lines.row(format!("{name}: at {at}, {lag_blocks} blocks behind, reads {needs}{state}"));
        }
    }
}
