//! Refusals of the wallet ledger, as the contract says them: a status, a word, figures.

use tonic::{
    Status,
    metadata::{MetadataMap, MetadataValue},
};
use utxokeep_core::ErrorKind;
use utxokeep_wallet::LedgerError;

use super::calls::CallError;
use crate::{kinds::Codes, wallets::WalletsError};

const CODE: &str = "utxokeep-code";
const GUARD: &str = "utxokeep-guard";

impl From<WalletsError> for CallError {
    fn from(error: WalletsError) -> Self {
        Self::Wallets(Box::new(error))
    }
}

/// A status with its word.
pub(super) fn with_code(kind: ErrorKind, code: &'static str, text: String) -> Status {
    let mut metadata = MetadataMap::new();
    metadata.insert(CODE, MetadataValue::from_static(code));
    Status::with_metadata(Codes::of(kind).grpc, text, metadata)
}

pub(super) fn status(error: &WalletsError) -> Status {
    let code = Codes::of(error.kind()).grpc;
    let mut metadata = MetadataMap::new();
    metadata.insert(CODE, MetadataValue::from_static(error.code()));
    if let WalletsError::Ledger(error) = error {
        for (key, figure) in figures(error) {
            metadata.insert(key, MetadataValue::from(figure));
        }
        if let LedgerError::Guarded(refusal) = error {
            metadata.insert(GUARD, MetadataValue::from_static(refusal.guard.name()));
            let (figure, bound) = (refusal.figure.to_string(), refusal.bound.to_string());
            for (key, text) in [("utxokeep-figure", figure), ("utxokeep-bound", bound)] {
                metadata.insert(key, text.parse().expect("digits are ASCII"));
            }
        }
    }
    Status::with_metadata(code, error.to_string(), metadata)
}

/// What a program needs to know to do better.
fn figures(error: &LedgerError) -> Vec<(&'static str, u64)> {
    match *error {
        LedgerError::InsufficientFunds {
            needed,
            available,
            leased,
            immature,
            held_back,
            pending,
            uneconomic,
            excluded,
            locked,
        } => vec![
            ("utxokeep-needed", needed),
            ("utxokeep-available", available),
            ("utxokeep-leased", leased),
            ("utxokeep-immature", immature),
            ("utxokeep-held-back", held_back),
            ("utxokeep-pending", pending),
            ("utxokeep-uneconomic", uneconomic),
            ("utxokeep-excluded", excluded),
            ("utxokeep-locked", locked),
        ],
        LedgerError::TooManyInputs { needed, available, inputs_max } => vec![
            ("utxokeep-needed", needed),
            ("utxokeep-available", available),
            ("utxokeep-inputs-max", u64::try_from(inputs_max).unwrap_or(u64::MAX)),
        ],
        LedgerError::Guarded(ref refusal) => {
            let output = refusal.output.and_then(|at| u64::try_from(at).ok());
            output.map(|at| ("utxokeep-output", at)).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;
    use utxokeep_core::{Network, wallet::PaymentGuards};
    use utxokeep_sql::SqlError;

    use super::*;

    fn text<'s>(status: &'s Status, key: &str) -> Option<&'s str> {
        status.metadata().get(key).map(|value| value.to_str().unwrap())
    }

    #[test]
    fn every_kind_has_its_status_and_a_word() {
        let txid = Network::BitcoinRegtest.hash([7; 32]);
        let cases = [
            (LedgerError::NoCodec, Code::InvalidArgument, "no_formats"),
            (LedgerError::TxNotFound(txid), Code::NotFound, "unknown_transaction"),
            (LedgerError::WalletExists("w".to_owned()), Code::AlreadyExists, "wallet_exists"),
            (LedgerError::NotALeaf(txid), Code::FailedPrecondition, "not_a_leaf"),
            (
                LedgerError::Sql(SqlError::Unavailable { source: "gone".into() }),
                Code::Unavailable,
                "database",
            ),
            (LedgerError::Damaged { what: "x".to_owned() }, Code::DataLoss, "damaged"),
        ];
        for (error, code, word) in cases {
            let status = status(&error.into());
            assert_eq!((status.code(), text(&status, CODE)), (code, Some(word)));
        }
    }

    #[test]
    fn figures_go_along() {
        let error = LedgerError::InsufficientFunds {
            needed: 6,
            available: 5,
            leased: 4,
            immature: 3,
            held_back: 2,
            pending: 1,
            uneconomic: 8,
            excluded: 7,
            locked: 9,
        };
        let poor = status(&error.into());
        let keys = [
            ("needed", "6"),
            ("available", "5"),
            ("leased", "4"),
            ("immature", "3"),
            ("held-back", "2"),
            ("pending", "1"),
            ("uneconomic", "8"),
            ("excluded", "7"),
            ("locked", "9"),
        ];
        for (key, figure) in keys {
            assert_eq!(text(&poor, &format!("utxokeep-{key}")), Some(figure), "{key}");
        }
        let error = LedgerError::TooManyInputs { needed: 9, available: 8, inputs_max: 7 };
        let many = status(&error.into());
        assert_eq!(text(&many, "utxokeep-inputs-max"), Some("7"));
        assert_eq!(text(&many, "utxokeep-needed"), Some("9"));
        let guards = PaymentGuards::default();
        let refusal = guards.check_outputs([(1, &[0x6a][..])]).unwrap_err();
        let guarded = status(&LedgerError::from(refusal).into());
        assert_eq!(text(&guarded, CODE), Some("guarded"));
        assert_eq!(text(&guarded, GUARD), Some("unspendable_value"));
        let keys = [("figure", "1"), ("bound", "0"), ("output", "0")];
        for (key, figure) in keys {
            assert_eq!(text(&guarded, &format!("utxokeep-{key}")), Some(figure), "{key}");
        }
    }
}
