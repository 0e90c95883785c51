//! The errors of wallet routes, as their description lists them.

use std::collections::BTreeMap;

use utoipa::{
    IntoResponses,
    openapi::{ContentBuilder, Ref, RefOr, Response, ResponseBuilder},
};

type Responses = BTreeMap<String, RefOr<Response>>;

const ANY: &[(u16, &str)] = &[
    (400, "The request cannot be right"),
    (404, "What it names does not exist"),
    (500, "Stored data is damaged, or the server failed; its log says more"),
    (503, "Not now: too many requests, too slow, or the database is away"),
];
const CHANGING: &[(u16, &str)] = &[(409, "It exists already, or the state of things forbids it")];
const WITH_BODY: &[(u16, &str)] = &[
    (408, "The body did not arrive in time"),
    (413, "The body is longer than `[rest] body_kib_max`"),
];
const COMPARING: &[(u16, &str)] =
    &[(409, "The ledger and the chain database are not at the same block, or there is none")];
const WITH_JSON: &[(u16, &str)] = &[(415, "The body does not claim to be JSON")];

const WITH_LINES: &[(u16, &str)] = &[(415, "The body does not claim to be lines of JSON")];

/// Errors of routes that compare the ledger with a chain database.
pub(super) struct CompareFaults;

impl IntoResponses for CompareFaults {
    fn responses() -> Responses {
        responses(&[ANY, COMPARING])
    }
}

/// Errors of routes that only ask.
pub(super) struct ReadFaults;

impl IntoResponses for ReadFaults {
    fn responses() -> Responses {
        responses(&[ANY])
    }
}

const FORGOTTEN: &[(u16, &str)] =
    &[(410, "Events behind the cursor were forgotten; the text names the oldest cursor")];

/// Errors of routes that go on from a cursor.
pub(super) struct EventFaults;

impl IntoResponses for EventFaults {
    fn responses() -> Responses {
        responses(&[ANY, FORGOTTEN])
    }
}

/// Errors of routes that change something and take no body.
pub(super) struct WriteFaults;

impl IntoResponses for WriteFaults {
    fn responses() -> Responses {
        responses(&[ANY, CHANGING])
    }
}

/// Errors of routes that take text.
pub(super) struct TextFaults;

impl IntoResponses for TextFaults {
    fn responses() -> Responses {
        responses(&[ANY, CHANGING, WITH_BODY, WITH_LINES])
    }
}

/// Errors of routes that take JSON.
pub(super) struct BodyFaults;

impl IntoResponses for BodyFaults {
    fn responses() -> Responses {
        responses(&[ANY, CHANGING, WITH_BODY, WITH_JSON])
    }
}

fn responses(lists: &[&[(u16, &str)]]) -> Responses {
    let response = |(status, description): &(u16, &str)| {
        let body = ContentBuilder::new().schema(Some(Ref::from_schema_name("ErrorBody"))).build();
        let response = ResponseBuilder::new().description(*description);
        (status.to_string(), response.content("application/json", body).build().into())
    };
    lists.iter().copied().flatten().map(response).collect()
}
