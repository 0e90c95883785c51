//! `MuHash3072`: a digest of a set that follows every insertion and removal at constant cost.
//!
//! The digest of Bitcoin's unspent outputs agrees with the `muhash` that Bitcoin Core's
//! `gettxoutsetinfo` reports, provided that elements are serialised as Core does.
//!
//! # Invariants
//!
//! * The digest depends on which elements are in the set, never on the order of calls.
//! * Both halves of an accumulator are canonical and nonzero, so each has exactly one encoding.

mod num3072;

use sha2::{Digest, Sha256};

use num3072::Num3072;

/// An accumulator over a multiset of byte strings.
///
/// Inserting multiplies a numerator, removing multiplies a denominator; the one slow step, the
/// division, waits until [`MuHash::digest`]. Removing what was never inserted is not noticed: the
/// accumulator then stands for a set that lacks the element, and inserting it later mends it.
///
/// `==` compares numerators and denominators. One set has many such pairs: an element that came
/// and went stays in both. [`MuHash::is_same_set`] tells whether two sets are equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MuHash {
    numerator: Num3072,
    denominator: Num3072,
}

impl MuHash {
    /// Bytes of the encoding: numerator, then denominator.
    pub const ENCODED_LEN: usize = 2 * Num3072::ENCODED_LEN;

    /// The accumulator of the empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self { numerator: Num3072::ONE, denominator: Num3072::ONE }
    }

    /// Adds an element.
    pub fn insert(&mut self, element: &[u8]) {
        self.numerator = self.numerator.mul(&number_of(element));
    }

    /// Takes an element out.
    pub fn remove(&mut self, element: &[u8]) {
        self.denominator = self.denominator.mul(&number_of(element));
    }

    /// Adds everything `other` accumulated, so that parts of a set can be hashed side by side.
    pub fn combine(&mut self, other: &Self) {
        self.numerator = self.numerator.mul(&other.numerator);
        self.denominator = self.denominator.mul(&other.denominator);
    }

    /// Whether both stand for the same set, at the cost of two insertions.
    #[must_use]
    pub fn is_same_set(&self, other: &Self) -> bool {
        self.numerator.mul(&other.denominator) == other.numerator.mul(&self.denominator)
    }

    /// Encodes the accumulator: numerator then denominator, little endian, each below the modulus.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::ENCODED_LEN] {
        let mut bytes = [0; Self::ENCODED_LEN];
        let (numerator, denominator) = bytes.split_at_mut(Num3072::ENCODED_LEN);
        numerator.copy_from_slice(&self.numerator.to_le_bytes());
        denominator.copy_from_slice(&self.denominator.to_le_bytes());
        bytes
    }

    /// Inverse of [`MuHash::to_bytes`]; `None` when the length is wrong, or when a half is zero or
    /// not below the modulus.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (numerator, denominator) = bytes.split_at_checked(Num3072::ENCODED_LEN)?;
        Some(Self {
            numerator: Num3072::from_le_bytes(numerator.try_into().ok()?)?,
            denominator: Num3072::from_le_bytes(denominator.try_into().ok()?)?,
        })
    }

    /// The digest of the set, in hash order; Bitcoin Core prints it reversed.
    ///
    /// Costs a modular inversion, as much as some two thousand insertions.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        let quotient = self.numerator.mul(&self.denominator.invert());
        Sha256::digest(quotient.to_le_bytes()).into()
    }
}

impl Default for MuHash {
    fn default() -> Self {
        Self::new()
    }
}

/// The group element that stands for a byte string.
///
/// It would be zero for one string in 2^3071, which is not worth a branch.
fn number_of(element: &[u8]) -> Num3072 {
    Num3072::reduce_le_bytes(&key_stream(&Sha256::digest(element).into()))
}

/// The start of the `ChaCha20` key stream for `key`, with nonce and first counter zero.
fn key_stream(key: &[u8; 32]) -> [u8; Num3072::ENCODED_LEN] {
    let mut input = [0; 16];
    let constants = b"expand 32-byte k".as_chunks::<4>().0;
    for (word, bytes) in input.iter_mut().zip(constants.iter().chain(key.as_chunks::<4>().0)) {
        *word = u32::from_le_bytes(*bytes);
    }
    let mut stream = [0; Num3072::ENCODED_LEN];
    for block in stream.as_chunks_mut::<64>().0 {
        let words = chacha20_block(&input);
        for (bytes, word) in block.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
        input[12] += 1;
    }
    stream
}

/// One block of key stream. Word 12 of the input is the block counter.
fn chacha20_block(input: &[u32; 16]) -> [u32; 16] {
    let mut state = *input;
    for _ in 0..10 {
        quarter_round(&mut state, [0, 4, 8, 12]);
        quarter_round(&mut state, [1, 5, 9, 13]);
        quarter_round(&mut state, [2, 6, 10, 14]);
        quarter_round(&mut state, [3, 7, 11, 15]);
        quarter_round(&mut state, [0, 5, 10, 15]);
        quarter_round(&mut state, [1, 6, 11, 12]);
        quarter_round(&mut state, [2, 7, 8, 13]);
        quarter_round(&mut state, [3, 4, 9, 14]);
    }
    for (word, start) in state.iter_mut().zip(input) {
        *word = word.wrapping_add(*start);
    }
    state
}

#[inline]
fn quarter_round(state: &mut [u32; 16], [a, b, c, d]: [usize; 4]) {
    state[a] = state[a].wrapping_add(state[b]);
    state[d] = (state[d] ^ state[a]).rotate_left(16);
    state[c] = state[c].wrapping_add(state[d]);
    state[b] = (state[b] ^ state[c]).rotate_left(12);
    state[a] = state[a].wrapping_add(state[b]);
    state[d] = (state[d] ^ state[a]).rotate_left(8);
    state[c] = state[c].wrapping_add(state[d]);
    state[b] = (state[b] ^ state[c]).rotate_left(7);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{hex_decode, hex_encode};

    const EMPTY: &str = "dd5ad2a105c2d29495f577245c357409002329b9f4d6182c0af3dc2f462555c8";

    /// What a Bitcoin Core node reports for the coins it serialises as [`NODE_COINS`]: after block
    /// 1 of a regtest chain there is the first of them, after block 10 there are all.
    const NODE_AT_1: &str = "a943b1ee6d7b75cf83a098f84a6daf1ec20d41024f973093639546b37a89aa8c";
    const NODE_AT_10: &str = "e17dc04f3e8850d433d6ee4992ba199397067a19f1e4945f6517200f7380c98a";
    const NODE_COINS: [&str; 16] = [
        "d1388eed0ca3a3b2856311729bb6bc45e2e8ac0e1166ebb97b1efbf2bb3792d0000000000300000000f2052a01000000220020cc49976384479efbbcbbcace79bbc7ee129947da06110ff3225b5ccb8597146c",
        "c48b56714132b9ab8b27b6a91b20c7384e52ba8890fd4849c6d3c7e4b1586034000000000500000000f2052a010000004751210255f18247525105a87993aa2e5970f081cd19a6b82f55e3b7002a2d4d39778de8210229058b2cae56d42d184246f58bf4b064cd4b8f909a0922bbca6659155cf2a94252ae",
        "b348e170ba168bf638802e3bf5f2c3f0161a85955b2ddeaef50a1c33e80aab9e000000000700000000f2052a010000000451024e73",
        "6121d757a0dcc92fc7e5c8a650581d226f6749d95f12bebad77326cad6b710ef000000000900000000f2052a0100000016001410a5b9c3129189729e122cab35e7541ae164edf3",
        "e83f3449b5b9e2126b1f852e75ac3beb994860df6d7a45c90056ad62bcedfd98000000000b00000000f2052a010000000451024e73",
        "6020bd6f23fcedd5edb8757a016e31e06164c28af938dc04eede347b05421003000000000d00000000f2052a010000001976a9144984d7828de4d313d7b1e5d8bdc1a545e1279c5888ac",
        "f254c7fca9402f52a9f07a52058a4b1ad7464d7a57c73f23c4c82c572493165b000000000f00000000f2052a010000000451024e73",
        "3727ac509f950ba33ac822dc0387639eeb4a7fda69725b5a927e53e41de0ddf4000000001100000000f2052a0100000047512102cad29a526f82e8f9f05e591aa1d2a63d7d3ff5cde59f0ee486b73adce0a2831b2103641168961f9652b0b91aea05e9a348ccdc12eba4031dae936ec53aad0f4c185f52ae",
        "600a0cd27234eec9cfa89c2e0eddb157ebbcc6c1e81c80d480afaf24b9d6a8fc000000001300000000f2052a010000000451024e73",
        "c7e4982a279bfb82cf8035d38cf00cd5a15742994853ba0dbca908a0d572635600000000150000009222932a00000000225120760b283d4aa8d3263450ebab887722d835b1da3f525fc15befec65e1014f057c",
        "c7e4982a279bfb82cf8035d38cf00cd5a15742994853ba0dbca908a0d572635601000000150000009222932a0000000017a91466faf499cc2a89eea59a52dcb09c6b61b484fde787",
        "c7e4982a279bfb82cf8035d38cf00cd5a15742994853ba0dbca908a0d572635602000000150000009222932a000000001976a914e466b910ee0996414eaef57bdddb9714a939d2a888ac",
        "c7e4982a279bfb82cf8035d38cf00cd5a15742994853ba0dbca908a0d572635603000000150000009222932a00000000232102aca93c60200bcf0ae5dc858f839ab5b1b48727ae7673537c127ba2e5749f9c06ac",
        "c7e4982a279bfb82cf8035d38cf00cd5a15742994853ba0dbca908a0d572635604000000150000009222932a000000002321020fb19239e7719701f89387e655d28796d827a281d7fe5c5bcf28d1a1ad25f1c3ac",
        "c7e4982a279bfb82cf8035d38cf00cd5a15742994853ba0dbca908a0d572635605000000150000009222932a00000000160014aedfe33968ccd213d6cdcaf61a7c2aa2e90dc281",
        "c7e4982a279bfb82cf8035d38cf00cd5a15742994853ba0dbca908a0d572635606000000150000009422932a000000001976a914813e191291efd0227fa4bd36da8122e564edf6f188ac",
    ];

    fn display(set: &MuHash) -> String {
        let mut digest = set.digest();
        digest.reverse();
        hex_encode(&digest)
    }

    fn set_of(elements: &[&[u8]]) -> MuHash {
        let mut set = MuHash::new();
        for element in elements {
            set.insert(element);
        }
        set
    }

    fn node_coins() -> Vec<Vec<u8>> {
        NODE_COINS.iter().map(|hex| hex_decode(hex).unwrap()).collect()
    }

    #[test]
    fn the_key_stream_is_that_of_chacha20() {
        let stream = hex_encode(&key_stream(&[0; 32]));
        let blocks = stream.as_bytes().chunks(2 * 64);
        let starts: Vec<_> = blocks.map(|block| &block[..32]).collect();
        assert_eq!(starts[0], b"76b8e0ada0f13d90405d6ae55386bd28");
        assert_eq!(starts[1], b"9f07e7be5551387a98ba977c732d080d");
        assert_eq!(starts.len(), 6);
        assert!(stream.ends_with("7c5b56774a6b8a21aae88685868e094c"));
    }

    #[test]
    fn the_empty_set_has_the_known_digest() {
        assert_eq!(display(&MuHash::new()), EMPTY);
        assert_eq!(MuHash::default(), MuHash::new());
    }

    #[test]
    fn digests_agree_with_a_node() {
        let mut set = MuHash::new();
        let coins = node_coins();
        set.insert(&coins[0]);
        assert_eq!(display(&set), NODE_AT_1);
        coins[1..].iter().for_each(|coin| set.insert(coin));
        assert_eq!(display(&set), NODE_AT_10);
        coins[1..].iter().for_each(|coin| set.remove(coin));
        assert_eq!(display(&set), NODE_AT_1);
    }

    #[test]
    fn order_does_not_matter() {
        let mut removed_early = MuHash::new();
        removed_early.remove(b"gone");
        removed_early.insert(b"one");
        removed_early.insert(b"gone");
        removed_early.insert(b"two");
        assert_eq!(removed_early.digest(), set_of(&[b"two", b"one"]).digest());
        assert_eq!(set_of(&[b"one", b"two"]), set_of(&[b"two", b"one"]));
    }

    #[test]
    fn removing_what_was_inserted_leaves_the_empty_set() {
        let mut set = set_of(&[b"", b"coin"]);
        assert_ne!(display(&set), EMPTY);
        set.remove(b"coin");
        set.remove(b"");
        assert_eq!(display(&set), EMPTY);
        assert_ne!(set, MuHash::new());
    }

    #[test]
    fn an_element_counts_as_often_as_it_was_inserted() {
        let mut twice = set_of(&[b"coin", b"coin"]);
        let once = set_of(&[b"coin"]);
        assert_ne!(twice.digest(), once.digest());
        assert!(!twice.is_same_set(&once));
        twice.remove(b"coin");
        assert!(twice.is_same_set(&once) && twice != once);
        assert_eq!(twice.digest(), once.digest());
    }

    #[test]
    fn combining_equals_inserting_all() {
        let mut left = set_of(&[b"one", b"two"]);
        left.remove(b"three");
        let mut right = set_of(&[b"three", b"four"]);
        right.remove(b"one");
        left.combine(&right);
        assert_eq!(left.digest(), set_of(&[b"two", b"four"]).digest());
    }

    #[test]
    fn encodings_round_trip() {
        let mut set = set_of(&[b"one", b"two"]);
        set.remove(b"three");
        let bytes = set.to_bytes();
        let (numerator, denominator) = bytes.split_at(Num3072::ENCODED_LEN);
        assert_eq!(numerator, set.numerator.to_le_bytes());
        assert_eq!(denominator, set.denominator.to_le_bytes());
        assert_eq!(MuHash::from_bytes(&bytes), Some(set));
    }

    #[test]
    fn encodings_of_the_wrong_length_are_refused() {
        let mut long = MuHash::new().to_bytes().to_vec();
        long.push(0);
        for len in [0, 1, Num3072::ENCODED_LEN, MuHash::ENCODED_LEN - 1, MuHash::ENCODED_LEN + 1] {
            assert_eq!(MuHash::from_bytes(&long[..len]), None, "{len} bytes");
        }
        assert!(MuHash::from_bytes(&long[..MuHash::ENCODED_LEN]).is_some());
    }

    #[test]
    fn encodings_out_of_range_are_refused_in_either_half() {
        let mut modulus = [u8::MAX; Num3072::ENCODED_LEN];
        modulus[..8].copy_from_slice(&1_103_717_u64.wrapping_neg().to_le_bytes());
        let mut largest = modulus;
        largest[0] -= 1;
        let halves = [
            ([0; Num3072::ENCODED_LEN], false),
            (largest, true),
            (modulus, false),
            ([u8::MAX; Num3072::ENCODED_LEN], false),
        ];
        for (half, accepted) in halves {
            for start in [0, Num3072::ENCODED_LEN] {
                let mut bytes = MuHash::new().to_bytes();
                bytes[start..start + Num3072::ENCODED_LEN].copy_from_slice(&half);
                assert_eq!(MuHash::from_bytes(&bytes).is_some(), accepted);
            }
        }
    }
}
