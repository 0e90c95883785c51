//! Rows and files that were changed below a store: bodies are never served as another transaction, and
//! every field of a record is checked by `verify`, or docs/schema.md says why it cannot be.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bodies;
#[path = "../engines/mod.rs"]
mod engines;
mod fields;
mod world;
