//! Descriptors, following and payments on the chain that a real Bitcoin Core made.

mod answers;
mod archived;
mod branches;
mod bump;
mod chain;
mod checkpoints;
mod descriptors;
mod following;
mod indexed;
mod locked;
mod lookahead;
mod payments;

use chain::on_both;
