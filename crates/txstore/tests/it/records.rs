//! The node store on records that are atomic one at a time: what a program that dies, stalls or loses
//! answers leaves behind, and what the next one makes of it.

pub(crate) mod cut;
mod large;
mod numbers;
mod read_only;
mod simulated;
mod steps;
mod wide;
pub(crate) mod world;
