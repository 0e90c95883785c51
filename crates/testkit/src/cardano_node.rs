//! A fake Cardano node on the loopback interface, for following one without running one.

mod chain;
mod node;

pub use node::FakeNode;
