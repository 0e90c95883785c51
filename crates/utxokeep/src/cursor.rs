//! The opaque text that stands for a position in a list of outputs.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

/// First byte of a cursor: what its other bytes mean.
const VERSION: u8 = 1;
const LEN: usize = 1 + 8 + 4 + 4;

/// The text form of a position: slot, transaction index, output index.
#[must_use]
pub fn encode((slot, tx_index, output_index): (u64, u32, u32)) -> String {
    let mut bytes = Vec::with_capacity(LEN);
    bytes.push(VERSION);
    bytes.extend_from_slice(&slot.to_be_bytes());
    bytes.extend_from_slice(&tx_index.to_be_bytes());
    bytes.extend_from_slice(&output_index.to_be_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Inverse of [`encode`]; `None` for any other text.
#[must_use]
pub fn decode(text: &str) -> Option<(u64, u32, u32)> {
    let bytes: [u8; LEN] = URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()?;
    let (version, rest) = bytes.split_first()?;
    let (slot, rest) = rest.split_first_chunk()?;
    let (tx_index, rest) = rest.split_first_chunk()?;
    let output_index = rest.first_chunk()?;
    (*version == VERSION).then(|| {
        (
            u64::from_be_bytes(*slot),
            u32::from_be_bytes(*tx_index),
            u32::from_be_bytes(*output_index),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_pinned_and_everything_else_is_refused() {
        let at = (u64::MAX - 1, 7, u32::MAX);
        let text = encode(at);
        assert_eq!(text, "Af_________-AAAAB_____8");
        assert_eq!(decode(&text), Some(at));
        let other_version = URL_SAFE_NO_PAD.encode([2; LEN]);
        for text in ["", "A", "Af", "%%%", &text[1..], &format!("{text}AAAA"), &other_version] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
