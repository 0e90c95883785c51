//! Why a text is no descriptor that can be watched.

use utxokeep_core::Network;

/// Errors of descriptors. None of them holds a private key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DescriptorError {
    /// Descriptors exist on Bitcoin only.
    #[error("{network} has no descriptors; watch addresses instead")]
    NoDescriptors {
        /// The network of the wallet.
        network: Network,
    },
    /// Longer than any sensible descriptor.
    #[error("the descriptor has more than {chars_max} characters")]
    TooLong {
        /// The limit.
        chars_max: usize,
    },
    /// The eight characters behind `#` do not fit.
    #[error("the descriptor was mistyped or cut off: {reason}")]
    BadChecksum {
        /// What does not fit.
        reason: String,
    },
    /// No descriptor, or one that makes no sense.
    #[error("the descriptor cannot be read: {reason}")]
    Unreadable {
        /// What is wrong.
        reason: String,
    },
    /// It holds private keys.
    #[error(
        "the descriptor holds private keys, which are not needed to watch and were not stored; \
         use {public_form}"
    )]
    PrivateKeys {
        /// The same with public keys only.
        public_form: String,
    },
    /// Its keys are of another network.
    #[error("the keys of the descriptor are not all keys of {expected}")]
    WrongNetwork {
        /// The network it was expected on.
        expected: Network,
    },
    /// Its keys do not have equally many paths.
    #[error(
        "the keys of the descriptor have different numbers of paths in <…>, or more than \
         {branches_max}"
    )]
    UnequalPaths {
        /// The limit.
        branches_max: usize,
    },
    /// A text with several keychains where one is needed.
    #[error("the descriptor has several keychains; give one of them")]
    SeveralKeychains,
    /// A script cannot be derived.
    #[error("the script with index {index} cannot be derived: {reason}")]
    NotDerivable {
        /// The index.
        index: u32,
        /// Why.
        reason: String,
    },
}
