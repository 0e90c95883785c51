//! `chain consumers`: who follows the chain log, how far each has come, and what to forget.

use utxokeep::stream::{Consumer, ConsumerList, StreamConsumers};
use utxokeep_core::Height;

use super::{
    args,
    exit::Exit,
    open::Session,
    output::{self, Human, Lines},
};

/// Lists the named consumers, registers one of the stream, or forgets one.
pub(super) fn run(session: &Session, command: &args::Consumers) -> anyhow::Result<Exit> {
    let index = session.open()?;
    let max = session.config().stream.consumers_max.get();
    let stream = StreamConsumers::new(index.clone(), max);
    let list = match command {
        args::Consumers::List => stream.list()?,
        args::Consumers::Register { name, place } => {
            let consumer = stream.register(name, place.start()?)?;
            ConsumerList { items: vec![consumer], ..stream.list()? }
        }
        args::Consumers::Forget { name } => {
            let tip = index.view()?.tip().map(|(height, _)| height);
            let consumer = Consumer::new(index.forget_consumer(name)?, tip);
            ConsumerList { tip_height: tip.map(Height::get), items: vec![consumer] }
        }
    };
    output::result(session.json(), &list)?;
    Ok(Exit::Success)
}

impl Human for ConsumerList {
    fn describe(&self, lines: &mut Lines) {
        if self.items.is_empty() {
            lines.row("no consumer of the chain log has a name".to_owned());
        }
        for Consumer { name, needs, height, lag_blocks, detached_at_height, .. } in &self.items {
            let at = height.map_or_else(|| "the start".to_owned(), |height| height.to_string());
            let state = detached_at_height
                .map_or_else(String::new, |tip| format!(", detached when the tip was {tip}"));
            lines.row(format!("{name}: at {at}, {lag_blocks} blocks behind, reads {needs}{state}"));
        }
    }
}
