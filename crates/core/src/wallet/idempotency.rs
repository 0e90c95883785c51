//! Keys by which a request that is sent twice is one request.

/// Characters of a key.
pub const IDEMPOTENCY_KEY_CHARS_MAX: usize = 200;

/// A text that is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "an idempotency key is 1 to {IDEMPOTENCY_KEY_CHARS_MAX} printable ASCII characters without \
     spaces at its ends; a random UUID is a good one"
)]
pub struct BadIdempotencyKey;

/// The key of a request, which its client chose. Unique among the requests of a wallet while it is
/// kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// Checks a key that comes from outside.
    pub fn parse(text: &str) -> Result<Self, BadIdempotencyKey> {
        let is_key = (1..=IDEMPOTENCY_KEY_CHARS_MAX).contains(&text.len())
            && text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
            && text.trim() == text;
        if is_key { Ok(Self(text.to_owned())) } else { Err(BadIdempotencyKey) }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// An answer that was stored under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAnswer {
    /// Digest of the request that it answers.
    pub request_digest: [u8; 32],
    /// The answer, as it was sent.
    pub answer: String,
}

/// What a key means for a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repetition {
    /// The key is new: carry the request out.
    New,
    /// The same request was carried out: give its answer again.
    Again(String),
    /// The key belongs to another request: refuse this one.
    OtherRequest,
}

impl Repetition {
    /// Judges a request by what is stored under its key.
    #[must_use]
    pub fn of(request_digest: &[u8; 32], stored: Option<StoredAnswer>) -> Self {
        match stored {
            None => Self::New,
            Some(stored) if stored.request_digest == *request_digest => Self::Again(stored.answer),
            Some(_) => Self::OtherRequest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_short_and_visible() {
        let long = "k".repeat(IDEMPOTENCY_KEY_CHARS_MAX);
        for good in ["k", "order 7", "7f1c7f5e-0d5c-4d0e-9f6e-0b8f3c1f7a11", long.as_str()] {
            assert_eq!(IdempotencyKey::parse(good).unwrap().as_str(), good);
        }
        let too_long = format!("{long}k");
        for wrong in ["", " ", " k", "k\n", "k\u{e9}", "a\tb", too_long.as_str()] {
            assert_eq!(IdempotencyKey::parse(wrong), Err(BadIdempotencyKey), "{wrong:?}");
        }
    }

    #[test]
    fn the_same_request_is_answered_again_and_another_one_is_refused() {
        let stored = || Some(StoredAnswer { request_digest: [1; 32], answer: "a".to_owned() });
        assert_eq!(Repetition::of(&[1; 32], None), Repetition::New);
        assert_eq!(Repetition::of(&[1; 32], stored()), Repetition::Again("a".to_owned()));
        assert_eq!(Repetition::of(&[2; 32], stored()), Repetition::OtherRequest);
    }
}
