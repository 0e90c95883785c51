//! What happened to a wallet, and the webhooks that are told of it.

use std::fmt::Write as _;

use utxokeep::times::utc;

use super::{Desk, shown::Row};
use crate::{
    cli::{
        args::{Events, OneWebhook, Webhook, WebhookAdd},
        exit::Exit,
        interrupt::Interrupt,
        output::{self, Human, Lines},
    },
    wallets::{
        AddWebhook, EventInfo, EventList, ListEvents, WebhookAdded, WebhookInfo, WebhookRemoved,
        WebhookTested,
    },
};

/// How long one look of `--follow` waits, in milliseconds, so that Ctrl-C is noticed soon.
const LOOK_MS: u32 = 500;

impl Desk {
    pub(super) fn events(&self, args: &Events) -> anyhow::Result<Exit> {
        let name = &args.wallet.name;
        if args.follow {
            return self.follow_events(name, args.from);
        }
        let mut all: Option<EventList> = None;
        loop {
            let have = all.as_ref().map_or(0, |all| all.items.len());
            let left = args.limit.saturating_sub(u32::try_from(have).unwrap_or(u32::MAX));
            let cursor = all.as_ref().map(|all| all.next_cursor).or(args.from);
            let list = ListEvents { cursor, page_size: Some(left), wait_ms: 0 };
            let mut page = self.wallets.list_events(name, &list)?;
            if let Some(before) = all.take() {
                page.items.splice(..0, before.items);
            }
            if !page.has_more || page.items.len() >= args.limit as usize {
                return self.print(&page);
            }
            all = Some(page);
        }
    }

    /// Prints events as they come: each is a line, for people or as JSON.
    fn follow_events(&self, name: &str, from: Option<i64>) -> anyhow::Result<Exit> {
        let wait_ms = LOOK_MS.min(self.wallets.config().event_wait_ms_max);
        let mut list = ListEvents { cursor: from, page_size: None, wait_ms };
        let interrupt = Interrupt::watch()?;
        while !interrupt.is_asked() {
            let page = self.wallets.wait_for_events(name, &list)?;
            list.cursor = Some(page.next_cursor);
            for event in &page.items {
                let line = if self.json { serde_json::to_string(event)? } else { event.row() };
                output::text(&(line + "\n"))?;
            }
        }
        Ok(Exit::Success)
    }

    pub(super) fn webhook(&self, command: &Webhook) -> anyhow::Result<Exit> {
        let of = |one: &OneWebhook| (one.wallet.name.clone(), one.id);
        match command {
            Webhook::Add(WebhookAdd { wallet, url, from }) => {
                let add = AddWebhook { url: url.clone(), cursor: *from };
                self.print(&self.wallets.add_webhook(&wallet.name, &add)?)
            }
            Webhook::List(wallet) => self.print(&self.wallets.list_webhooks(&wallet.name)?),
            Webhook::Pause(one) => {
                let (name, id) = of(one);
                self.print(&self.wallets.pause_webhook(&name, id)?)
            }
            Webhook::Resume(one) => {
                let (name, id) = of(one);
                self.print(&self.wallets.resume_webhook(&name, id)?)
            }
            Webhook::Remove(one) => {
                let (name, id) = of(one);
                self.print(&self.wallets.remove_webhook(&name, id)?)
            }
            Webhook::Test(one) => {
                let (name, id) = of(one);
                let tested = self.wallets.test_webhook(&name, id)?;
                self.print(&tested)?;
                Ok(if tested.is_acknowledged { Exit::Success } else { Exit::Failure })
            }
        }
    }
}

impl Row for EventInfo {
    fn row(&self) -> String {
        let mut row =
            format!("{:>8}  {}  {:<13}  {}", self.id, utc(self.at_us), self.kind, self.txid);
        if let Some(index) = self.output_index {
            let _ = write!(row, ":{index}");
        }
        if let Some(count) = self.confirmations {
            let _ = write!(row, "  confirmations {count}");
        }
        if let Some(height) = self.block_height {
            let _ = write!(row, "  block {height}");
        }
        if let Some(reason) = self.reason {
            let _ = write!(row, "  {reason}");
        }
        if let Some(by) = &self.by_txid {
            let _ = write!(row, "  by {by}");
        }
        row
    }
}

impl Human for EventList {
    fn describe(&self, lines: &mut Lines) {
        for event in &self.items {
            lines.row(event.row());
        }
        lines.field("rows", self.items.len());
        lines.field("next cursor", self.next_cursor);
        if self.has_more {
            lines.field("more", format_args!("yes; add --from {}", self.next_cursor));
        }
    }
}

impl Row for WebhookInfo {
    fn row(&self) -> String {
        let url = self.url.escape_debug();
        let mut row = format!(
            "{:>4}  {:<8}  delivered to {}, {} waiting  {url}",
            self.id, self.state, self.cursor, self.waiting
        );
        if let Some(error) = &self.last_error {
            let _ = write!(row, "  failed {} times: {}", self.failures, error.escape_debug());
        }
        row
    }
}

impl Human for WebhookInfo {
    fn describe(&self, lines: &mut Lines) {
        lines
            .field("webhook", self.id)
            .field("url", self.url.escape_debug())
            .field("state", self.state)
            .field("delivered to", self.cursor)
            .field("waiting", self.waiting)
            .field("failures", self.failures);
        if let Some(error) = &self.last_error {
            lines.field("last error", error.escape_debug());
        }
        if let Some(at) = self.next_attempt_us {
            lines.field("tried again", utc(at));
        }
    }
}

impl Human for WebhookAdded {
    fn describe(&self, lines: &mut Lines) {
        self.webhook.describe(lines);
        lines.field("secret", format_args!("{} (shown this once)", self.secret));
    }
}

impl Human for WebhookRemoved {
    fn describe(&self, lines: &mut Lines) {
        lines.field("removed", self.removed);
    }
}

impl Human for WebhookTested {
    fn describe(&self, lines: &mut Lines) {
        lines.field("acknowledged", super::shown::yes(self.is_acknowledged));
        lines.field("answer", self.answer.escape_debug());
    }
}
