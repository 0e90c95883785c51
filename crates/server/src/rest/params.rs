//! Parameters of requests, and what is wrong with them in our words.

use axum::{
    extract::{FromRequestParts, Path, Query},
    http::request::Parts,
};
use serde::de::DeserializeOwned;

use super::error::ApiError;

/// Query parameters; unlike axum's own, an error has our shape.
#[derive(Debug)]
pub(super) struct Params<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Query(params) = Query::from_request_parts(parts, state)
            .await
            .map_err(|error| ApiError::BadParameter(in_our_words(&error.body_text(), "")))?;
        Ok(Self(params))
    }
}

/// What is wrong with a query, without the words of the libraries that read it. `path` is the pattern
/// of the route: names in it are no parameters of the query.
pub(super) fn in_our_words(fault: &str, path: &str) -> String {
    let fault = fault.strip_prefix("Failed to deserialize query string: ").unwrap_or(fault);
    let quoted: Vec<&str> = fault.split('`').skip(1).step_by(2).collect();
    let (name, rest) = fault.split_once(": ").unwrap_or(("", fault));
    let wrong = |what: &str| match name {
        "" => what.to_owned(),
        name => format!("{name}: {what}"),
    };
    match quoted.split_first() {
        Some((unknown, known)) if rest.starts_with("unknown field") => {
            let is_asked = |name: &&&str| !path.contains(&format!("{{{name}}}"));
            let known: Vec<&str> = known.iter().filter(is_asked).copied().collect();
            match known.as_slice() {
                [] if quoted.len() == 1 && !rest.contains("no fields") => {
                    format!("there is no parameter {unknown} here")
                }
                [] => format!("there is no parameter {unknown} here; this route takes none"),
                known => {
                    format!("there is no parameter {unknown} here; there are {}", known.join(", "))
                }
            }
        }
        Some((given, known)) if rest.starts_with("unknown variant") => {
            wrong(&format!("{given} is none of {}", known.join(", ")))
        }
        Some((missing, _)) if rest.starts_with("missing field") => {
            format!("the parameter {missing} is missing")
        }
        Some((twice, _)) if rest.starts_with("duplicate field") => {
            format!("{twice} is given twice; send it once")
        }
        _ if rest.contains("invalid digit") => wrong("expected a whole number, not negative"),
        _ => wrong(rest),
    }
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

#[cfg(test)]
mod tests {
    use super::in_our_words;

    #[test]
    fn a_wrong_parameter_is_named_with_the_right_ones() {
        let path = "/api/v1/addresses/{owner}/utxos";
        let cases = [
            (
                "Failed to deserialize query string: unknown field `hight`, expected one of `owner`, `at`, `page`",
                "there is no parameter hight here; there are at, page",
            ),
            (
                "unknown field `x`, there are no fields",
                "there is no parameter x here; this route takes none",
            ),
            (
                "order: unknown variant `up`, expected `asc` or `desc`",
                "order: up is none of asc, desc",
            ),
            ("unknown field `x` at line 1 column 9", "there is no parameter x here"),
            ("missing field `value`", "the parameter value is missing"),
            ("duplicate field `page`", "page is given twice; send it once"),
            ("page: invalid digit found in string", "page: expected a whole number, not negative"),
            ("at: no block", "at: no block"),
        ];
        for (fault, words) in cases {
            assert_eq!(in_our_words(fault, path), words);
        }
    }
}
