//! For tests: one suite for every engine.

pub mod suite;
