//! Wallets over REST, with a real server on a port of its own.

mod access;
mod browser;
pub(crate) mod client;
mod described;
mod errors;
mod lists;
mod load;
mod program;
mod story;
mod watching;
