//! Signed payments on their way to a node: a real one, and one that says what real ones say seldom.

mod fake;
mod node;
