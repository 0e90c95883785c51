//! Answers for people: events and webhooks.

use utxokeep_core::ErrorKind;

use super::{Row, yes};
use crate::{
    ops::{Answer, Lines},
    times::utc,
    wallets::{EventInfo, EventList, WebhookAdded, WebhookInfo, WebhookRemoved, WebhookTested},
};

impl std::fmt::Display for EventInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = utc(self.at_us);
        write!(f, "{:>8}  {at}  {:<13}  {}", self.id, self.kind, self.tx_hash)?;
        if let Some(index) = self.output_index {
            write!(f, ":{index}")?;
        }
        if let Some(count) = self.confirmations {
            write!(f, "  confirmations {count}")?;
        }
        if let Some(height) = self.block_height {
            write!(f, "  block {height}")?;
        }
        if let Some(reason) = self.reason {
            write!(f, "  {reason}")?;
        }
        if let Some(by) = &self.by_tx_hash {
            write!(f, "  by {by}")?;
        }
        Ok(())
    }
}

impl Answer for EventList {
    fn show(&self, lines: &mut Lines) {
        for event in &self.items {
            lines.row(event.to_string());
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
        let failed = self.last_error.as_ref().map_or_else(String::new, |error| {
            format!("  failed {} times: {}", self.failures, error.escape_debug())
        });
        format!(
            "{:>4}  {:<8}  delivered to {}, {} waiting  {url}{failed}",
            self.id, self.state, self.cursor, self.waiting
        )
    }
}

impl Answer for WebhookInfo {
    fn show(&self, lines: &mut Lines) {
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

impl Answer for WebhookAdded {
    fn show(&self, lines: &mut Lines) {
        self.webhook.show(lines);
        lines.field("secret", format_args!("{} (shown this once)", self.secret));
    }
}

impl Answer for WebhookRemoved {
    fn show(&self, lines: &mut Lines) {
        lines.field("removed", self.removed);
    }
}

impl Answer for WebhookTested {
    fn fault(&self) -> Option<ErrorKind> {
        (!self.is_acknowledged).then_some(ErrorKind::Failed)
    }

    fn show(&self, lines: &mut Lines) {
        lines.field("acknowledged", yes(self.is_acknowledged));
        lines.field("answer", self.answer.escape_debug());
    }
}
