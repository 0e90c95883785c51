//! Every engine of ordered tables, seen from outside.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod damage;
mod engines;
