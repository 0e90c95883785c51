//! Looking at the mempool beside the server: woken by every block, and by time.

use std::{
    io, thread,
    time::{Duration, Instant},
};

use utxokeep_core::{BlockHash, wallet::Micros};
use utxokeep_index::TipSignal;

use super::{MempoolFollower, meter};
use crate::{
    clock::now_us,
    consumers::{ConsumerThread, FollowerState, LogConsumer, StepFailed, Stepped},
};

/// How often a look that waits for the ledger asks where the ledger stands.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// The follower of a mempool on a thread of its own.
#[derive(Debug)]
pub(crate) struct MempoolConsumer(MempoolFollower);

impl MempoolConsumer {
    /// Starts to look, whenever the chain moves and at least as often as the settings say.
    pub(crate) fn start(
        follower: MempoolFollower,
        signal: &TipSignal,
        state: FollowerState,
    ) -> io::Result<ConsumerThread> {
        meter::describe();
        let look_after = follower.settings.poll_interval;
        ConsumerThread::start(Self(follower), signal, look_after, state)
    }

    /// Waits for the ledger to reach the block at which the mempool was listed. The ledger applies a
    /// block soon after the node has it, and may also be far behind.
    fn wait_for(&self, tip: &BlockHash, is_stopped: &dyn Fn() -> bool) -> Result<bool, StepFailed> {
        let started = Instant::now();
        while !self.0.stands_at(tip)? {
            if is_stopped() || started.elapsed() >= self.0.settings.poll_interval {
                return Ok(false);
            }
            thread::sleep(ASK_EVERY);
        }
        Ok(true)
    }
}

impl LogConsumer for MempoolConsumer {
    fn name(&self) -> &'static str {
        "mempool"
    }

    fn step(&mut self, is_stopped: &dyn Fn() -> bool) -> Result<Stepped, StepFailed> {
        let looked = self.0.look(Micros::new(now_us()), is_stopped)?;
        let is_at_once = match &looked.waits_for {
            Some(tip) => self.wait_for(tip, is_stopped)?,
            None => false,
        };
        Ok(Stepped { is_done: !is_at_once, hindrance: None })
    }
}
