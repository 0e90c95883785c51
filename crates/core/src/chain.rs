//! The chain: blocks, the checks they pass, what they change, and the bytes that are stored of it.

pub(crate) mod bitcoin;
pub(crate) mod block;
pub(crate) mod block_name;
pub mod cardano;
pub(crate) mod changes;
pub(crate) mod check;
pub(crate) mod coin;
pub(crate) mod delta;
pub(crate) mod details;
pub(crate) mod filter;
pub(crate) mod partial;
pub(crate) mod record;
pub(crate) mod rows;
pub(crate) mod sigops;
pub(crate) mod stream_cursor;
pub(crate) mod tree;
pub(crate) mod window;
