//! The opaque text that stands for a position in a list of outputs.
//!
//! # Invariants
//!
//! * A cursor names the block that its list is made of, so that no list is put together from two.
//! * A cursor goes on only with the question it answers: in the list of another owner, in the other
//!   order or with another asset its position would pass rows over in silence.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest, Sha256};
use utxokeep_core::{AddressRowKey, AssetFilter, BlockHash, ErrorKind, IndexKey};

/// First byte of a cursor: what its other bytes mean.
const VERSION: u8 = 3;
const LEN: usize = 1 + Question::LEN + 32 + 8 + 4 + 4;

/// What the digest of a question starts with: which list it asks for.
const OUTPUTS_OF_AN_OWNER: &[u8] = b"utxokeep outputs of an owner";

/// Why a text does not say where to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CursorError {
    /// No cursor, or one of another version of the format.
    #[error(
        "the cursor is malformed, or is not a cursor of this version of the program; send back next_cursor exactly as it was given, or start the list again without it"
    )]
    Malformed,
    /// A cursor of another list.
    #[error(
        "the cursor was made by another question; send it with the owner, the order and the asset of the list that gave it, or start this list without it"
    )]
    OtherQuestion,
}

impl CursorError {
    /// What a caller can do about it.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        ErrorKind::Invalid
    }
}

/// What a list is asked for, in short: whose outputs, in which order, holding which asset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question([u8; Self::LEN]);

impl Question {
    const LEN: usize = 8;

    /// Of the outputs of `owner`, in one order, all or those that hold an asset.
    #[must_use]
    pub fn new(owner: &IndexKey, is_newest_first: bool, asset: Option<&AssetFilter>) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(OUTPUTS_OF_AN_OWNER);
        hasher.update(AddressRowKey::prefix(owner));
        hasher.update([u8::from(is_newest_first), u8::from(asset.is_some())]);
        if let Some(AssetFilter { policy, name }) = asset {
            hasher.update(policy);
            // "Every name" and the empty name are two questions.
            hasher.update([u8::from(name.is_some())]);
            hasher.update(name.as_deref().unwrap_or_default());
        }
        let digest: [u8; 32] = hasher.finalize().into();
        let mut short = [0; Self::LEN];
        short.copy_from_slice(&digest[..Self::LEN]);
        Self(short)
    }
}

/// Where to go on in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// The list.
    pub question: Question,
    /// The block that the list is made of.
    pub block: BlockHash,
    /// The last row given: slot, transaction index, output index.
    pub after: (u64, u32, u32),
}

impl Cursor {
    /// The text form.
    #[must_use]
    pub fn encode(&self) -> String {
        let (slot, tx_index, output_index) = self.after;
        let mut bytes = Vec::with_capacity(LEN);
        bytes.push(VERSION);
        bytes.extend_from_slice(&self.question.0);
        bytes.extend_from_slice(self.block.as_bytes());
        bytes.extend_from_slice(&slot.to_be_bytes());
        bytes.extend_from_slice(&tx_index.to_be_bytes());
        bytes.extend_from_slice(&output_index.to_be_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Refuses to go on with another question than the cursor's own.
    pub fn check(&self, question: Question) -> Result<(), CursorError> {
        if self.question == question { Ok(()) } else { Err(CursorError::OtherQuestion) }
    }

    /// Inverse of [`Cursor::encode`]; an error for any other text. Whether it is one of the list that
    /// is asked for, [`Cursor::check`] tells.
    pub fn parse(text: &str) -> Result<Self, CursorError> {
        Self::decode(text).ok_or(CursorError::Malformed)
    }

    fn decode(text: &str) -> Option<Self> {
        let bytes: [u8; LEN] = URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()?;
        let (version, rest) = bytes.split_first()?;
        let (question, rest) = rest.split_first_chunk()?;
        let (block, rest) = rest.split_first_chunk()?;
        let (slot, rest) = rest.split_first_chunk()?;
        let (tx_index, rest) = rest.split_first_chunk()?;
        let output_index = rest.first_chunk()?;
        let after = (
            u64::from_be_bytes(*slot),
            u32::from_be_bytes(*tx_index),
            u32::from_be_bytes(*output_index),
        );
        let (question, block) = (Question(*question), BlockHash::from_bytes(*block));
        (*version == VERSION).then_some(Self { question, block, after })
    }
}

#[cfg(test)]
mod tests {
    use utxokeep_core::{AddressKey, IndexTag};

    use super::*;

    fn owner(tag: IndexTag, byte: u8) -> IndexKey {
        IndexKey { tag, key: AddressKey::from_bytes([byte; 28]) }
    }

    #[test]
    fn cursors_are_pinned_and_everything_else_is_refused() {
        let block = BlockHash::from_bytes([0x11; 32]);
        let question = Question([0x22; 8]);
        let cursor = Cursor { question, block, after: (u64::MAX - 1, 7, u32::MAX) };
        let text = cursor.encode();
        assert_eq!(
            text,
            "AyIiIiIiIiIiERERERERERERERERERERERERERERERERERERERERERH__________gAAAAf_____"
        );
        assert_eq!(Cursor::parse(&text), Ok(cursor));
        let other_version = URL_SAFE_NO_PAD.encode([1; LEN]);
        // Of the first version, which did not name its block, and of the second, which did not name
        // its question.
        let first = "Af_________-AAAAB_____8";
        let second = "AhERERERERERERERERERERERERERERERERERERERERER__________4AAAAH_____w";
        let (shorter, longer) = (&text[1..], format!("{text}AAAA"));
        for text in ["", "A", "Af", "%%%", first, second, shorter, &longer, &other_version] {
            assert_eq!(Cursor::parse(text), Err(CursorError::Malformed), "{text}");
        }
    }

    #[test]
    fn a_cursor_goes_on_only_with_its_own_question() {
        let asset = |name: Option<&[u8]>| {
            Some(AssetFilter { policy: [5; 28], name: name.map(<[u8]>::to_vec) })
        };
        let other_policy = Some(AssetFilter { policy: [6; 28], name: None });
        let one = owner(IndexTag::PaymentKey, 1);
        let questions = [
            Question::new(&one, false, None),
            Question::new(&one, true, None),
            Question::new(&owner(IndexTag::PaymentKey, 2), false, None),
            Question::new(&owner(IndexTag::StakeKey, 1), false, None),
            Question::new(&one, false, asset(None).as_ref()),
            Question::new(&one, false, asset(Some(b"")).as_ref()),
            Question::new(&one, false, asset(Some(b"a")).as_ref()),
            Question::new(&one, false, other_policy.as_ref()),
        ];
        for made_by in questions {
            let cursor =
                Cursor { question: made_by, block: BlockHash::default(), after: (1, 2, 3) };
            for asked in questions {
                let expected =
                    if asked == made_by { Ok(()) } else { Err(CursorError::OtherQuestion) };
                assert_eq!(Cursor::parse(&cursor.encode()).unwrap().check(asked), expected);
            }
        }
        for (place, question) in questions.iter().enumerate() {
            assert!(!questions[..place].contains(question), "{place}");
        }
    }
}
