//! The node store on every engine, seen from outside.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod blob_races;
mod blobs;
mod cluster;
mod conformance;
mod contention;
mod cost;
mod damage;
mod engines;
mod histories;
mod items;
mod large;
mod portable;
mod records;
mod s3;
mod schema;
mod storage;
mod tampering;
