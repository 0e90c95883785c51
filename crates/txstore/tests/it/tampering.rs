//! Rows and files that were changed below a store: bodies are never served as another transaction, and
//! every field of a record is checked by `verify`, or docs/schema.md says why it cannot be.

mod bodies;
mod fields;
mod slots;
mod world;
