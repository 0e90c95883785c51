//! Who may use the servers: the token of this server, and pages that a browser shows.
//!
//! # Invariants
//!
//! * Whether a request is let in is decided before its body is read.
//! * Beyond the loopback address nothing but health, metrics and the description of the API is
//!   answered without a token, unless a setting says so by name.
//! * The token is never logged, shown or compared byte by byte.

#![allow(dead_code, reason = "no server asks for them yet")]

mod pages;
mod token;

pub use pages::Pages;
pub use token::{Token, TokenError};
