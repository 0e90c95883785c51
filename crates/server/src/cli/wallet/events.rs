//! `wallet events`: what happened to a wallet.

use super::Desk;
use crate::{
    cli::{args::Events, exit::Exit, interrupt::Interrupt, output},
    wallets::{EventList, ListEvents},
};

/// How long one look of `--follow` waits, in milliseconds, so that Ctrl-C is noticed soon.
const LOOK_MS: u32 = 500;

impl Desk {
    pub(super) fn events(&self, args: &Events) -> anyhow::Result<Exit> {
        let name = &args.wallet.wallet;
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
                let line =
                    if self.json { serde_json::to_string(event)? } else { event.to_string() };
                output::text(&(line + "\n"))?;
            }
        }
        Ok(Exit::Success)
    }
}
