//! The signature of a delivery: HMAC-SHA-256 over the time and the body.

use sha2::{Digest, Sha256};
use utxokeep_core::hex_encode;

/// Bytes of a block of SHA-256.
const BLOCK: usize = 64;

/// HMAC-SHA-256 as RFC 2104 defines it.
fn hmac_sha256(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut block = [0; BLOCK];
    if key.len() > BLOCK {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let mut inner = Sha256::new_with_prefix(block.map(|byte| byte ^ 0x36));
    for part in parts {
        inner.update(part);
    }
    let mut outer = Sha256::new_with_prefix(block.map(|byte| byte ^ 0x5c));
    outer.update(inner.finalize());
    outer.finalize().into()
}

/// What the header [`super::SIGNATURE`] says: the time in seconds since 1970, and the signature over
/// that time, a dot and the body, in hexadecimal.
pub(super) fn signature(secret: &str, time_secs: i64, body: &[u8]) -> String {
    let time = time_secs.to_string();
    let mac = hmac_sha256(secret.as_bytes(), &[time.as_bytes(), b".", body]);
    format!("t={time},v1={}", hex_encode(&mac))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(key: &[u8], message: &[u8]) -> String {
        hex_encode(&hmac_sha256(key, &[message]))
    }

    /// Cases 1, 2 and 6 of RFC 4231: a short key, a text, a key longer than a block.
    #[test]
    fn vectors_of_the_standard() {
        assert_eq!(
            hex(&[0x0b; 20], b"Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
        );
        assert_eq!(
            hex(b"Jefe", b"what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert_eq!(
            hex(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
    }

    #[test]
    fn time_and_body_are_both_signed() {
        let signed = signature("secret", 1_700_000_000, b"{}");
        assert!(signed.starts_with("t=1700000000,v1="), "{signed}");
        assert_ne!(signed[13..], signature("secret", 1_700_000_001, b"{}")[13..]);
        assert_ne!(signed, signature("secret", 1_700_000_000, b"{ }"));
        assert_ne!(signed, signature("Secret", 1_700_000_000, b"{}"));
    }
}
