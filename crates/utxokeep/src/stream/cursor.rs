//! The text of a cursor of the change stream: what clients keep.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use utxokeep_core::StreamCursor;

use super::StreamError;

/// The text of a cursor. It is stable: a client may keep it for as long as it likes.
#[must_use]
pub fn cursor_text(cursor: &StreamCursor) -> String {
    URL_SAFE_NO_PAD.encode(cursor.to_bytes())
}

/// Inverse of [`cursor_text`]; an error for any other text.
pub fn parse_cursor(text: &str) -> Result<StreamCursor, StreamError> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok();
    bytes.and_then(|bytes| StreamCursor::from_bytes(&bytes)).ok_or(StreamError::BadCursor)
}

#[cfg(test)]
mod tests {
    use utxokeep_core::{BlockHash, Height};

    use super::*;

    #[test]
    fn texts_of_cursors_are_pinned() {
        let (height, hash) = (Height::new(840_000), BlockHash::from_bytes([0x11; 32]));
        let behind = "AQAM0UAREREREREREREREREREREREREREREREREREREREREREQ";
        let inside = "AQAM0UAREREREREREREREREREREREREREREREREREREREREREQAAA-g";
        for (cursor, text) in [
            (StreamCursor::START, "AQ"),
            (StreamCursor::behind(height, hash), behind),
            (StreamCursor::inside(height, hash, 1_000), inside),
        ] {
            assert_eq!(cursor_text(&cursor), text);
            assert_eq!(parse_cursor(text).unwrap(), cursor);
        }
        for wrong in ["", "A", "AQ==", "Ag", "start", &behind[1..], &inside[..30], "%"] {
            assert!(matches!(parse_cursor(wrong), Err(StreamError::BadCursor)), "{wrong}");
        }
    }
}
