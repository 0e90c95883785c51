//! Errors of the Merkle mountain range: of the index, and of its commands.

use utxokeep_chains::BodyError;
use utxokeep_core::{
    Height, Network,
    mmr::{MmrProofError, MmrRefusal, MmrRule},
};

use utxokeep_index::{MmrEnableError, MmrError};

use super::*;

#[test]
fn roots_and_proofs_that_are_not_given() {
    let (created, tip) = (Height::new(1), Height::new(2));
    check(vec![
        case(ErrorKind::Disabled, MmrError::Off),
        case(ErrorKind::NotReady, MmrError::Empty),
        case(ErrorKind::Refused, MmrError::OtherRule),
        case(ErrorKind::Refused, MmrError::SpentInUtreexo),
        case(ErrorKind::NotFound, MmrError::Unknown),
        case(ErrorKind::NotFound, MmrError::NeverExisted),
        case(ErrorKind::NotFound, MmrError::NotYet { created }),
        case(ErrorKind::NotFound, MmrError::Passed { height: created }),
        case(ErrorKind::OutOfRange, MmrError::OutsideWindow { height: tip, oldest: created, tip }),
        case(ErrorKind::OutOfRange, MmrError::TooMuchWork { height: tip, max: 1 }),
        case(ErrorKind::Failed, MmrError::from(IndexError::SecondWriter)),
    ]);
}

#[test]
fn trees_that_are_not_built_and_proofs_that_are_refused() {
    let hash = Network::BitcoinRegtest.hash([7; 32]);
    let (height, path) = (Height::new(1), || "x".into());
    let (asked, stated) = (MmrRule::Utreexo, MmrRule::Tombstone);
    check(vec![
        case(ErrorKind::Refused, MmrEnableError::IsOn),
        case(ErrorKind::Refused, MmrEnableError::NotWhole { why: "x" }),
        case(ErrorKind::Refused, MmrEnableError::OtherRule { began: stated, asked }),
        case(ErrorKind::Refused, MmrEnableError::from(IndexOpenError::MmrRefused { why: "x" })),
        case(ErrorKind::Failed, MmrEnableError::from(FollowError::NoFirstBlock)),
        case(ErrorKind::Refused, MmrCommandError::BlocksNeeded { from: height, until: height }),
        case(ErrorKind::Refused, MmrCommandError::BlockMissing { hash, height }),
        case(ErrorKind::Cancelled, MmrCommandError::NodeFailed { source: BodyError::Stopped }),
        case(ErrorKind::Refused, MmrCommandError::SaysClassic),
        case(ErrorKind::Refused, MmrCommandError::OtherRuleIsOn { found: stated, asked }),
        case(ErrorKind::Invalid, MmrCommandError::TwoRules { asked, stated }),
        case(ErrorKind::Invalid, MmrCommandError::BadOutput),
        case(ErrorKind::Invalid, MmrCommandError::BinaryToTerminal),
        case(ErrorKind::Invalid, MmrCommandError::NoCbor),
        case(ErrorKind::Invalid, MmrCommandError::BadRoot { text: "x".to_owned() }),
        case(ErrorKind::Refused, MmrCommandError::IsSpent { path: path(), leaf: 1, height: 1 }),
        case(
            ErrorKind::Refused,
            MmrCommandError::OtherOutput {
                path: path(),
                found: "x".to_owned(),
                asked: "y".to_owned(),
            },
        ),
        case(ErrorKind::Refused, MmrCommandError::NamesNoOutput { path: path() }),
        case(
            ErrorKind::Corrupt,
            MmrCommandError::NotAProof { path: path(), source: MmrProofError::new("x") },
        ),
        case(
            ErrorKind::Corrupt,
            MmrCommandError::Refused { path: path(), source: MmrRefusal::WrongRoot },
        ),
    ]);
}
