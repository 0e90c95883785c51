//! Metrics of the change stream.

use metrics::{counter, gauge};
use utxokeep_core::metric_list;

metric_list! {
    CONNECTIONS = "utxokeep_stream_connections", Gauge, "",
        "Streams that are open, by `face`: rest or grpc.";
    EVENTS = "utxokeep_stream_events_total", Counter, "",
        "Events that clients took, by `face` and `event`: apply, undo, checkpoint, heartbeat or moved.";
    BYTES = "utxokeep_stream_bytes_total", Counter, "",
        "Bytes of these events, by `face`.";
    CUT = "utxokeep_stream_cut_total", Counter, "",
        "Streams that the server ended, by `face` and `reason`.";
    REFUSED = "utxokeep_stream_refused_total", Counter, "",
        "Streams that were not opened, by `face` and `reason`, a code of the errors.";
}

/// Counts a stream for as long as it is open.
#[derive(Debug)]
pub(super) struct Open(&'static str);

impl Open {
    pub(super) fn new(face: &'static str) -> Self {
        gauge!(CONNECTIONS, "face" => face).increment(1);
        Self(face)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        gauge!(CONNECTIONS, "face" => self.0).decrement(1);
    }
}

pub(super) fn taken(face: &'static str, event: &'static str, bytes: usize) {
    counter!(EVENTS, "face" => face, "event" => event).increment(1);
    counter!(BYTES, "face" => face).increment(bytes as u64);
}

pub(super) fn cut(face: &'static str, reason: &'static str) {
    counter!(CUT, "face" => face, "reason" => reason).increment(1);
}

pub(super) fn refused(face: &'static str, reason: &'static str) {
    counter!(REFUSED, "face" => face, "reason" => reason).increment(1);
}
