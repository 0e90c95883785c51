//! What a request says besides its path: height, page, order, cursor.

use axum::{
    extract::{FromRequestParts, Path, Query},
    http::request::Parts,
};
use serde::{Deserialize, de::DeserializeOwned};
use utoipa::{IntoParams, ToSchema};
use utxokeep_core::{BlockName, BlockNameError};
use utxokeep_index::Paging;

use super::error::ApiError;
use crate::{
    config::RestConfig,
    cursor::{Cursor, CursorError},
    owners::Kind,
};

/// Query parameters; unlike axum's own, an error has our shape.
#[derive(Debug)]
pub(super) struct Params<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Query(params) = Query::from_request_parts(parts, state)
            .await
            .map_err(|error| ApiError::BadParameter(wrong_query(&error.body_text())))?;
        Ok(Self(params))
    }
}

/// Says which parameter of a query is wrong, without the words of the library for all of them.
fn wrong_query(text: &str) -> String {
    let fault = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(text);
    format!("the query of the request is wrong: {fault}")
}

/// Path parameters; unlike axum's own, an error has our shape.
#[derive(Debug)]
pub(super) struct Segments<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Segments<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Path(segments) = Path::from_request_parts(parts, state)
            .await
            .map_err(|error| ApiError::BadParameter(error.body_text()))?;
        Ok(Self(segments))
    }
}

/// The block that a question names.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct At(pub(super) BlockName);

impl TryFrom<String> for At {
    type Error = BlockNameError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse().map(Self)
    }
}

/// When to answer for.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct AtParams {
    /// Answer as of this block: a height, a block hash, or on Cardano `slot:NUMBER` for the newest
    /// block of that slot or an earlier one. It must lie between `rollback_floor` and the tip;
    /// without it, as of the tip.
    #[param(nullable = false, value_type = Option<String>, example = "300")]
    pub(super) at: Option<At>,
}

/// Whom and when to add up for.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct BalanceParams {
    /// Answer as of this block: a height, a block hash, or on Cardano `slot:NUMBER` for the newest
    /// block of that slot or an earlier one. It must lie between `rollback_floor` and the tip;
    /// without it, as of the tip.
    #[param(nullable = false, value_type = Option<String>, example = "300")]
    pub(super) at: Option<At>,
    /// Cardano: what a credential in bare hexadecimal is the hash of.
    #[param(nullable = false, inline)]
    pub(super) kind: Option<Kind>,
}

/// Order of outputs by their place on the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Order {
    /// Oldest first.
    #[default]
    Asc,
    /// Newest first.
    Desc,
}

/// Which part of a list to answer.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PageParams {
    /// Answer as of this block: a height, a block hash, or on Cardano `slot:NUMBER` for the newest
    /// block of that slot or an earlier one. It must lie between `rollback_floor` and the tip;
    /// without it, as of the tip.
    #[param(nullable = false, value_type = Option<String>, example = "300")]
    pub(super) at: Option<At>,
    /// Number of the page, from 1 on. Pages far into a long list are refused: use `cursor`.
    #[param(nullable = false, minimum = 1, default = 1)]
    page: Option<u64>,
    /// Rows of a page; the default and the most there may be are settings of the server (100).
    #[param(nullable = false, minimum = 1, default = 100)]
    count: Option<u64>,
    /// Order by place on the chain.
    #[param(nullable = false, inline, default = "asc")]
    order: Option<Order>,
    /// Go on behind the row that `next_cursor` of the answer before stands for; costs the same
    /// however long the list is. The answer is as of the block that the first page was made at,
    /// however much the chain has grown since. Only with the owner, `order` and `asset` of that
    /// page; not together with `page`.
    #[param(nullable = false)]
    cursor: Option<String>,
    /// Cardano: only outputs that hold this asset: a policy for all its assets, or policy and name
    /// in hexadecimal, one behind the other or with a dot between them.
    #[param(nullable = false)]
    pub(super) asset: Option<String>,
    /// Cardano: what a credential in bare hexadecimal is the hash of.
    #[param(nullable = false, inline)]
    pub(super) kind: Option<Kind>,
}

/// Limits of pages, from the configuration.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageLimits {
    rows_default: u64,
    rows_max: u64,
    scan_rows_max: u64,
    pub(super) balance_rows_max: u64,
}

impl PageLimits {
    pub(super) fn new(config: &RestConfig) -> Self {
        let rows_max = u64::from(config.page_rows_max.get());
        Self {
            rows_default: u64::from(config.page_rows_default.get()).min(rows_max),
            rows_max,
            scan_rows_max: u64::from(config.scan_rows_max.get()),
            balance_rows_max: u64::from(config.balance_rows_max.get()),
        }
    }
}

impl PageParams {
    /// The cursor that was sent.
    pub(super) fn cursor(&self) -> Result<Option<Cursor>, CursorError> {
        self.cursor.as_deref().map(Cursor::parse).transpose()
    }

    /// The page asked for, when it is one that may be asked for.
    pub(super) fn paging(&self, limits: PageLimits) -> Result<Paging, ApiError> {
        let bad = |text: String| Err(ApiError::BadParameter(text));
        let count = self.count.unwrap_or(limits.rows_default);
        if count == 0 || count > limits.rows_max {
            return bad(format!("count must be from 1 to {}", limits.rows_max));
        }
        if self.page.is_some() && self.cursor.is_some() {
            return bad("page and cursor exclude each other; send one of them".to_owned());
        }
        let Some(before) = self.page.unwrap_or(1).checked_sub(1) else {
            return bad("pages are counted from 1 on".to_owned());
        };
        let skip = before.saturating_mul(count);
        if skip > limits.scan_rows_max {
            let max = limits.scan_rows_max;
            return bad(format!("the page is more than {max} rows deep; page by cursor instead"));
        }
        Ok(Paging {
            after: self.cursor()?.map(|cursor| cursor.after),
            skip: usize::try_from(skip).unwrap_or(usize::MAX),
            limit: usize::try_from(count).unwrap_or(usize::MAX),
            reverse: self.order.unwrap_or_default() == Order::Desc,
            // A page that passes no row over in search of an asset always gets through.
            scan_rows_max: limits.scan_rows_max.saturating_add(count + 1),
        })
    }
}

#[cfg(test)]
mod tests {
    use utxokeep_core::{BlockHash, IndexKey, Network};

    use super::*;
    use crate::cursor::Question;

    const LIMITS: PageLimits = PageLimits {
        rows_default: 20,
        rows_max: 50,
        scan_rows_max: 1_000,
        balance_rows_max: 1_000,
    };

    fn paging(query: &str) -> Result<Paging, ApiError> {
        let uri = format!("/?{query}").parse().unwrap();
        let Query(params) = Query::<PageParams>::try_from_uri(&uri)
            .map_err(|e| ApiError::BadParameter(e.body_text()))?;
        params.paging(LIMITS)
    }

    fn cursor() -> String {
        let owner = IndexKey::address(Network::BitcoinRegtest, &[0x51]);
        let question = Question::new(&owner, false, None);
        Cursor { question, block: BlockHash::default(), after: (1, 2, 3) }.encode()
    }

    #[test]
    fn page_and_count_become_rows_to_pass_over() {
        let first = paging("").unwrap();
        assert_eq!((first.skip, first.limit, first.reverse), (0, 20, false));
        let third = paging("page=3&count=50&order=desc").unwrap();
        assert_eq!((third.skip, third.limit, third.reverse), (100, 50, true));
        assert!(third.after.is_none());
        let behind = paging(&format!("cursor={}", cursor())).unwrap();
        assert_eq!((behind.after, behind.skip), (Some((1, 2, 3)), 0));
    }

    #[test]
    fn what_is_out_of_range_or_contradictory_is_refused() {
        let cursor = cursor();
        let cases = [
            ("count=0", "from 1 to 50"),
            ("count=51", "from 1 to 50"),
            ("count=-1", "invalid digit"),
            ("page=0", "counted from 1"),
            ("page=22&count=50", "page by cursor"),
            ("page=18446744073709551615&count=50", "page by cursor"),
            ("order=up", "unknown variant"),
            ("at=4294967296", "too large"),
            ("at=slot:x", "slot:NUMBER"),
            ("hight=3", "unknown field"),
            (&format!("page=1&cursor={cursor}"), "exclude each other"),
            ("page=1&page=2", "duplicate field"),
            ("cursor=AAAA", "cursor is malformed"),
        ];
        for (query, expected) in cases {
            let error = paging(query).unwrap_err().to_string();
            assert!(error.contains(expected), "{query}: {error}");
        }
        assert_eq!(paging("page=21&count=50").unwrap().skip, 1_000);
    }
}
