//! Why an item was refused, as the contract says it.

use utxokeep_core::{
    OutPoint, Txid,
    node::{NodeError, SpendError},
};

use super::{
    meter,
    proto::{self, ErrorCode},
    to_proto::{outpoint, spender, txid},
};

/// The message for a refused item, which is counted.
pub(super) fn of(error: &NodeError) -> proto::Error {
    let refusal = node_error(error);
    meter::count_refusal(refusal.code());
    refusal
}

/// A transaction that is not there, where the store has no error of its own for it.
pub(super) fn not_found(txid: Txid) -> proto::Error {
    of(&NodeError::NotFound(txid))
}

/// An output that is not there, where the store has no error of its own for it.
pub(super) fn no_output(outpoint: OutPoint) -> proto::Error {
    of(&NodeError::Output(SpendError::NotFound(outpoint)))
}

fn node_error(error: &NodeError) -> proto::Error {
    let base = |code: ErrorCode| proto::Error {
        code: code.into(),
        message: error.to_string(),
        ..proto::Error::default()
    };
    let about = |code, tx: &Txid| proto::Error { txid: txid(tx), ..base(code) };
    let about_output =
        |code, at: &OutPoint| proto::Error { outpoint: Some(outpoint(at)), ..base(code) };
    match error {
        NodeError::NotFound(tx) => about(ErrorCode::TxNotFound, tx),
        NodeError::Exists(tx) => about(ErrorCode::TxExists, tx),
        NodeError::Invalid(_) => base(ErrorCode::InvalidRequest),
        NodeError::Spend { spender, errors } => {
            let inputs = errors.iter().map(|(vin, error)| proto::InputError {
                vin: *vin,
                error: Some(spend_error(error)),
            });
            proto::Error { inputs: inputs.collect(), ..about(ErrorCode::UtxoError, spender) }
        }
        NodeError::ParentFailed(parent) => about(ErrorCode::ParentFailed, parent),
        NodeError::Output(error) => spend_error(error),
        NodeError::AlreadyFrozen(at) => about_output(ErrorCode::UtxoAlreadyFrozen, at),
        NodeError::NotFrozen(at) => about_output(ErrorCode::UtxoNotFrozen, at),
        NodeError::HeightZero => base(ErrorCode::HeightZero),
        NodeError::HeightMissing { field } => {
            proto::Error { field: Some((*field).to_owned()), ..base(ErrorCode::HeightZero) }
        }
        NodeError::BlockHeight { id, known, given } => proto::Error {
            block_id: Some(*id),
            from_height: Some(known.get()),
            at_height: Some(given.get()),
            ..base(ErrorCode::BlockHeight)
        },
        NodeError::ConflictTooLarge(limit) => {
            let limit = u64::try_from(*limit).unwrap_or(u64::MAX);
            proto::Error { limit: Some(limit), ..base(ErrorCode::ConflictTooLarge) }
        }
        NodeError::InProgress => base(ErrorCode::InProgress),
        NodeError::Storage { txid, .. } => about(ErrorCode::Storage, txid),
        _ => base(ErrorCode::Unspecified),
    }
}

fn spend_error(error: &SpendError) -> proto::Error {
    let base = |code: ErrorCode| proto::Error {
        code: code.into(),
        message: error.to_string(),
        ..proto::Error::default()
    };
    let about = |code, tx: &Txid| proto::Error { txid: txid(tx), ..base(code) };
    let about_output =
        |code, at: &OutPoint| proto::Error { outpoint: Some(outpoint(at)), ..base(code) };
    match error {
        SpendError::NotFound(at) => about_output(ErrorCode::UtxoNotFound, at),
        SpendError::Conflicting(tx) => about(ErrorCode::TxConflicting, tx),
        SpendError::Locked(tx) => about(ErrorCode::TxLocked, tx),
        SpendError::Creating(tx) => about(ErrorCode::TxCreating, tx),
        SpendError::Immature { txid, from, at } => proto::Error {
            from_height: Some(from.get()),
            at_height: Some(at.get()),
            ..about(ErrorCode::TxCoinbaseImmature, txid)
        },
        SpendError::Mismatch(at) => about_output(ErrorCode::UtxoMismatch, at),
        SpendError::Frozen(at) => about_output(ErrorCode::UtxoFrozen, at),
        SpendError::FrozenUntil { outpoint, from } => proto::Error {
            from_height: Some(*from),
            ..about_output(ErrorCode::UtxoFrozen, outpoint)
        },
        SpendError::Spent { outpoint, by } => proto::Error {
            spent_by: Some(spender(by)),
            ..about_output(ErrorCode::UtxoSpent, outpoint)
        },
        SpendError::SpenderPruned { outpoint, by } => proto::Error {
            spent_by: Some(spender(by)),
            ..about_output(ErrorCode::UtxoSpenderPruned, outpoint)
        },
        _ => base(ErrorCode::Unspecified),
    }
}

#[cfg(test)]
mod tests {
    use utxokeep_core::{Height, node::SpendingData};

    use super::*;

    #[test]
    fn numbers_of_the_contract_are_pinned() {
        let tx = Txid::from_bytes([7; 32]);
        let at = OutPoint::new(tx, 3);
        let by = SpendingData { txid: Txid::from_bytes([8; 32]), vin: 2 };
        let (from, height) = (Height::new(101), Height::new(100));
        let inputs: [(SpendError, i32); 10] = [
            (SpendError::NotFound(at), 73),
            (SpendError::Conflicting(tx), 36),
            (SpendError::Locked(tx), 37),
            (SpendError::Creating(tx), 1008),
            (SpendError::Immature { txid: tx, from, at: height }, 38),
            (SpendError::Mismatch(at), 74),
            (SpendError::Frozen(at), 72),
            (SpendError::FrozenUntil { outpoint: at, from: 9 }, 72),
            (SpendError::Spent { outpoint: at, by }, 70),
            (SpendError::SpenderPruned { outpoint: at, by }, 1005),
        ];
        for (error, code) in inputs {
            let message = error.to_string();
            let refusal = node_error(&error.into());
            assert_eq!((refusal.code, refusal.message), (code, message));
        }
        let items: [(NodeError, i32); 13] = [
            (NodeError::NotFound(tx), 30),
            (NodeError::Exists(tx), 33),
            (NodeError::Spend { spender: tx, errors: Vec::new() }, 79),
            (NodeError::Invalid(String::new()), 1000),
            (NodeError::HeightZero, 1001),
            (NodeError::HeightMissing { field: "block.height" }, 1001),
            (NodeError::BlockHeight { id: 1, known: height, given: from }, 1007),
            (NodeError::ParentFailed(tx), 1002),
            (NodeError::AlreadyFrozen(at), 1003),
            (NodeError::NotFrozen(at), 1004),
            (NodeError::ConflictTooLarge(5), 1006),
            (NodeError::InProgress, 1009),
            (NodeError::Storage { txid: tx, reason: "full".to_owned() }, 69),
        ];
        for (error, code) in items {
            assert_eq!(node_error(&error).code, code, "{error}");
        }
    }

    #[test]
    fn facts_go_along() {
        let at = OutPoint::new(Txid::from_bytes([7; 32]), 3);
        let by = SpendingData { txid: Txid::from_bytes([8; 32]), vin: 2 };
        let errors = vec![(4, SpendError::Spent { outpoint: at, by })];
        let refusal = node_error(&NodeError::Spend { spender: *at.txid(), errors });
        assert_eq!(refusal.txid, [7; 32]);
        let input = &refusal.inputs[0];
        let error = input.error.as_ref().unwrap();
        assert_eq!((input.vin, error.code()), (4, ErrorCode::UtxoSpent));
        assert_eq!(error.outpoint, Some(proto::OutPoint { txid: vec![7; 32], vout: 3 }));
        assert_eq!(error.spent_by, Some(proto::Spender { txid: vec![8; 32], vin: 2 }));
    }
}
