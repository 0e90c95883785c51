//! How far back the index can go: the arithmetic of windows, floors and horizons.
//!
//! # Invariants
//!
//! * Spent bodies and deltas are kept for `max(prune depth, rollback window)` blocks.
//! * The floor never moves down: what was pruned once is gone, whatever the tip does afterwards.

use crate::types::Height;

/// The two depths of the configuration, in blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// How many blocks a spent output stays readable.
    pub prune_depth: u32,
    /// How many blocks a rollback may undo.
    pub rollback_window: u32,
}

impl Window {
    /// Blocks for which deltas and spent bodies are kept.
    #[must_use]
    pub fn horizon(&self) -> u32 {
        self.prune_depth.max(self.rollback_window)
    }

    /// Whether every reorganisation that a network may go through can be undone: those of up to its
    /// security parameter.
    #[must_use]
    pub const fn covers(&self, security_blocks: u32) -> bool {
        self.rollback_window >= security_blocks
    }

    /// The deepest height that can still become the tip, given that undo data exists for every
    /// block above `undo_base`.
    #[must_use]
    pub fn floor(&self, tip: Height, undo_base: Height) -> Height {
        tip.minus(self.rollback_window).max(undo_base)
    }

    /// The highest block whose undo data may be dropped at `tip`; `None` while nothing is due.
    #[must_use]
    pub fn prunable(&self, tip: Height) -> Option<Height> {
        tip.get().checked_sub(self.horizon()).filter(|&raw| raw > 0).map(Height::new)
    }

    /// Like [`Window::prunable`], while a reader of the log still needs what lies above `reached`.
    #[must_use]
    pub fn prunable_below(&self, tip: Height, reached: Option<Height>) -> Option<Height> {
        let cutoff = self.prunable(tip)?;
        let cutoff = reached.map_or(cutoff, |reached| cutoff.min(reached));
        Some(cutoff).filter(|cutoff| *cutoff > Height::GENESIS)
    }

    /// Whether a named reader of the log has fallen so far behind `tip` that it holds nothing back
    /// any more. Inside the horizon a reader holds nothing that is not kept anyway, so that a
    /// smaller bound than the horizon changes nothing.
    #[must_use]
    pub fn is_left_behind(&self, tip: Height, reached: Height, lag_blocks_max: u32) -> bool {
        reached.plus(lag_blocks_max.max(self.horizon())) < tip
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window { prune_depth: 10, rollback_window: 20 };

    #[test]
    fn the_longer_of_the_two_depths_is_the_horizon() {
        assert_eq!(WINDOW.horizon(), 20);
        assert_eq!(Window { prune_depth: 30, ..WINDOW }.horizon(), 30);
    }

    #[test]
    fn a_window_covers_reorganisations_up_to_the_security_parameter() {
        assert!(WINDOW.covers(20) && !WINDOW.covers(21));
        let long_history = Window { prune_depth: 100, ..WINDOW };
        assert!(!long_history.covers(21), "undo data does not help where no rollback may use it");
    }

    #[test]
    fn the_floor_follows_the_tip_but_never_below_the_undo_data() {
        assert_eq!(WINDOW.floor(Height::new(5), Height::GENESIS), Height::GENESIS);
        assert_eq!(WINDOW.floor(Height::new(100), Height::GENESIS), Height::new(80));
        assert_eq!(WINDOW.floor(Height::new(90), Height::new(80)), Height::new(80));
    }

    #[test]
    fn a_block_is_prunable_once_no_allowed_rollback_can_undo_it() {
        assert_eq!(WINDOW.prunable(Height::new(20)), None);
        let tip = Height::new(21);
        assert_eq!(WINDOW.prunable(tip), Some(Height::new(1)));
        assert_eq!(WINDOW.floor(tip, Height::GENESIS), Height::new(1));
    }

    #[test]
    fn a_reader_holds_undo_data_back_down_to_where_it_has_come() {
        let tip = Height::new(100);
        assert_eq!(WINDOW.prunable_below(tip, None), Some(Height::new(80)));
        assert_eq!(WINDOW.prunable_below(tip, Some(Height::new(90))), Some(Height::new(80)));
        assert_eq!(WINDOW.prunable_below(tip, Some(Height::new(50))), Some(Height::new(50)));
        assert_eq!(WINDOW.prunable_below(tip, Some(Height::GENESIS)), None);
    }

    #[test]
    fn a_reader_is_left_behind_past_its_bound_and_never_inside_the_horizon() {
        let tip = Height::new(100);
        assert!(!WINDOW.is_left_behind(tip, Height::new(60), 40));
        assert!(WINDOW.is_left_behind(tip, Height::new(59), 40));
        assert!(!WINDOW.is_left_behind(tip, Height::new(80), 0));
        assert!(WINDOW.is_left_behind(tip, Height::new(79), 0));
        assert!(!WINDOW.is_left_behind(tip, Height::GENESIS, u32::MAX));
    }
}
