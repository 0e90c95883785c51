//! Accumulators: a few bytes that commit to a whole set and follow every change of it.
//!
//! The arithmetic only. Which outputs are members, in what order they come and where states are
//! kept is for the index to say.

pub mod mmr;
mod muhash;

pub use muhash::MuHash;
