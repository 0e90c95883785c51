//! The two hashes of Bitcoin, on the implementation that uses the processor's own instructions.

use ::bitcoin::hashes::{Hash, HashEngine, sha256 as single, sha256d as double};

/// SHA-256.
pub(super) fn sha256(bytes: &[u8]) -> [u8; 32] {
    single::Hash::hash(bytes).to_byte_array()
}

/// SHA-256 of SHA-256.
pub(crate) fn sha256d(bytes: &[u8]) -> [u8; 32] {
    double::Hash::hash(bytes).to_byte_array()
}

/// [`sha256d`] of the concatenation of `parts`, without concatenating them.
pub(crate) fn sha256d_parts(parts: &[&[u8]]) -> [u8; 32] {
    let mut engine = double::Hash::engine();
    for part in parts {
        engine.input(part);
    }
    double::Hash::from_engine(engine).to_byte_array()
}
