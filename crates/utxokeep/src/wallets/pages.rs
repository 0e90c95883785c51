//! Lists, page by page.

use super::{Listed, Wallets, WalletsError, requests::Page};

impl Wallets {
    /// Rows of one read of the database.
    pub(super) fn rows(&self, page_size: Option<u32>) -> usize {
        page_size.unwrap_or(u32::MAX).clamp(1, self.config.page_rows_max.get()) as usize
    }

    /// How many rows a request wants, within the limits.
    pub(super) fn page_size(&self, asked: Option<u32>) -> Result<u32, WalletsError> {
        let (rows, rows_max) = self.page_rows;
        match asked {
            Some(0) => Err(WalletsError::field("page_size", "a page has one row or more")),
            asked => Ok(asked.unwrap_or(rows).min(rows_max)),
        }
    }

    /// A page of a list, read in as many steps as it takes. There is a cursor only if there are more
    /// rows.
    pub(super) fn pages<T>(
        &self,
        asked: &Page,
        mut read: impl FnMut(&Page) -> Result<Listed<T>, WalletsError>,
    ) -> Result<Listed<T>, WalletsError> {
        let page_size = self.page_size(asked.page_size)?;
        let mut all = Listed::whole(Vec::new());
        all.next_cursor.clone_from(&asked.cursor);
        loop {
            let have = u32::try_from(all.items.len()).unwrap_or(u32::MAX);
            let left = page_size.saturating_sub(have);
            let cursor = all.next_cursor.clone();
            let more = read(&Page { cursor, page_size: Some(left.max(1)) })?;
            if left == 0 {
                // A read that came out full has a cursor even if it was the last.
                all.next_cursor.take_if(|_| more.items.is_empty());
                return Ok(all);
            }
            all.items.extend(more.items);
            all.set_aside = more.set_aside;
            all.next_cursor = more.next_cursor;
            if all.next_cursor.is_none() {
                return Ok(all);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use utxokeep_core::OpenMode;

    use super::*;
    use crate::config::WalletConfig;

    /// Pages of at most three of the numbers below `end`.
    fn numbers(end: u32) -> impl FnMut(&Page) -> Result<Listed<u32>, WalletsError> {
        move |page| {
            let first = page.cursor.as_ref().map_or(0, |text| text.parse().unwrap());
            let count = page.page_size.unwrap().min(3);
            let items: Vec<u32> = (first..end).take(count as usize).collect();
            let is_full = items.len() == count as usize;
            let next_cursor = is_full.then(|| (first + count).to_string());
            Ok(Listed { next_cursor, ..Listed::whole(items) })
        }
    }

    #[test]
    fn pages_are_joined_up_to_the_limit_and_more_is_told_exactly() {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", dir.path().join("ledger").display());
        let wallets = Wallets::open(&url, &WalletConfig::default(), OpenMode::Create).unwrap();
        let page = |cursor: Option<&str>, page_size| Page {
            cursor: cursor.map(str::to_owned),
            page_size: Some(page_size),
        };
        let cases = [(5, 10, 5, None), (6, 6, 6, None), (7, 6, 6, Some("6")), (3, 1, 1, Some("1"))];
        for (end, size, rows_expected, more) in cases {
            let all = wallets.pages(&page(None, size), numbers(end)).unwrap();
            assert_eq!(all.items, (0..rows_expected).collect::<Vec<_>>());
            assert_eq!(all.next_cursor.as_deref(), more, "{end} {size}");
        }
        let behind = page(Some("4"), 10);
        assert_eq!(wallets.pages(&behind, numbers(6)).unwrap().items, [4, 5]);
        assert!(wallets.pages(&page(None, 0), numbers(6)).is_err());
    }
}
