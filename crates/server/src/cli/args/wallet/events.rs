//! What the commands over events and webhooks take.

use clap::{Args, Subcommand, builder::RangedU64ValueParser};

use super::{COUNT_MAX, Named};

#[derive(Debug, Args)]
pub(in crate::cli) struct Events {
    #[command(flatten)]
    pub(in crate::cli) wallet: Named,
    /// Only events behind this cursor: the number of the last event that was seen, or the
    /// `next_cursor` of an earlier answer. By default from the oldest that is kept.
    #[arg(long, value_name = "CURSOR")]
    pub(in crate::cli) from: Option<i64>,
    /// The most events.
    #[arg(
        long,
        value_name = "N",
        default_value = "100",
        conflicts_with = "follow",
        value_parser = RangedU64ValueParser::<u32>::new().range(1..=COUNT_MAX)
    )]
    pub(in crate::cli) limit: u32,
    /// Print events as they come, one line each, until Ctrl-C.
    #[arg(long)]
    pub(in crate::cli) follow: bool,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Webhook {
    /// Send events to a URL. Prints the secret that deliveries are signed with, this once.
    Add(WebhookAdd),
    /// List webhooks, and how they get on.
    List(Named),
    /// Pause a webhook: events wait, as long as they are kept.
    Pause(OneWebhook),
    /// Let a webhook go on that was paused or disabled.
    Resume(OneWebhook),
    /// Remove a webhook; events stay.
    Remove(OneWebhook),
    /// Send a delivery without events, and say what came of it.
    Test(OneWebhook),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct WebhookAdd {
    #[command(flatten)]
    pub(in crate::cli) wallet: Named,
    /// Where events are sent to: https:// or http://.
    #[arg(value_name = "URL")]
    pub(in crate::cli) url: String,
    /// Deliver events behind this cursor; by default those that come from now on.
    #[arg(long, value_name = "CURSOR")]
    pub(in crate::cli) from: Option<i64>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct OneWebhook {
    #[command(flatten)]
    pub(in crate::cli) wallet: Named,
    /// Number of the webhook, as `webhook list` shows it.
    #[arg(value_name = "ID")]
    pub(in crate::cli) id: i64,
}
