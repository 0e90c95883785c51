//! What a node says about a transaction that it is to take, and what follows from it.
//!
//! Nodes of Bitcoin name their reasons by words that are the same in `testmempoolaccept` and
//! `sendrawtransaction`. This is the one place that reads them.
//!
//! # Invariants
//!
//! * A payment is given up only where no node can ever take it. Whatever is not known here may be
//!   better later.
//! * A transaction that a node has already, in its mempool or in a block, was sent.

use std::fmt;

/// What a node says about a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeAnswer {
    /// It takes the transaction, or would.
    Takes {
        /// The fee, where the node says it.
        fee: Option<u64>,
        /// Virtual bytes, where the node says them.
        vsize: Option<u64>,
    },
    /// It is in the node's mempool.
    InMempool,
    /// It is in a block of the node's chain.
    InBlock,
    /// The node does not take it, for this reason.
    Refuses(String),
}

impl NodeAnswer {
    /// Reads the reason for which a node does not take a transaction.
    #[must_use]
    pub fn of_reason(reason: &str) -> Self {
        match word(reason) {
            "txn-already-in-mempool"
            | "txn-same-nonwitness-data-in-mempool"
            | "already in mempool" => Self::InMempool,
            "txn-already-known"
            | "Transaction already in block chain"
            | "Transaction outputs already in utxo set" => Self::InBlock,
            _ => Self::Refuses(reason.to_owned()),
        }
    }
}

/// What is known of a payment beside the node's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpendFacts {
    /// Every output that it spends was made by a transaction that the ledger knows to be in a block.
    pub parents_in_blocks: bool,
    /// The ledger has applied the node's last block, so that a block which holds the payment would be
    /// known.
    pub is_at_node_tip: bool,
}

/// Whether a payment that a node refused can still be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prospect {
    /// The same bytes may be taken later.
    Later,
    /// These bytes are never taken; the same payment may be, when it is signed in another way.
    NeverTheseBytes,
    /// No form of the payment can be taken: what it spends was spent by another one in a block.
    Never,
}

/// A refusal by a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRefusal {
    /// The node's word.
    pub reason: String,
    /// What it means for the payment.
    pub prospect: Prospect,
}

/// Reasons that are about the node's present state or policy. All that begin with one of these are
/// meant.
const LATER: &[(&str, &str)] = &[
    ("mempool full", "the node's mempool is full of transactions that pay more"),
    ("mempool min fee not met", "the fee is below what the node's mempool asks for at present"),
    ("min relay fee not met", "the fee is below what the node relays"),
    ("insufficient fee", "it does not pay enough more than what it replaces in the node's mempool"),
    (
        "txn-mempool-conflict",
        "another transaction in the node's mempool spends the same and cannot be replaced",
    ),
    (
        "bip125-replacement-disallowed",
        "another transaction in the node's mempool spends the same and cannot be replaced",
    ),
    ("too-long-mempool-chain", "too many unconfirmed transactions depend on each other"),
    ("too-large-cluster", "too many unconfirmed transactions depend on each other"),
    ("too many potential replacements", "it would push too many transactions out"),
    ("non-final", "its lock time lies ahead"),
    ("non-BIP68-final", "an input is locked for some more blocks"),
    ("bad-txns-premature-spend-of-coinbase", "it spends a coinbase that is not mature"),
    ("max-fee-exceeded", "its fee rate is above the ceiling that was sent along"),
    (
        "Fee exceeds maximum configured by user",
        "its fee rate is above the ceiling that was sent along",
    ),
    ("TRUC-violation", "it breaks the node's rules for transactions of version 3"),
    ("dust", "the node does not relay an output this small"),
    ("scriptpubkey", "the node does not relay one of its output scripts"),
    ("bad-txns-nonstandard-inputs", "the node does not relay one of its inputs"),
    ("bad-witness-nonstandard", "the node does not relay one of its witnesses"),
    ("tx-size", "the node does not relay a transaction this large"),
    ("version", "the node does not relay this version of transactions"),
];

/// Reasons that hold for these bytes at every node and for ever.
const NEVER_THESE_BYTES: &[(&str, &str)] = &[
    (
        "mandatory-script-verify-flag-failed",
        "a signature or script is wrong: sign the payment again",
    ),
    ("mempool-script-verify-flag-failed", "a signature or script is wrong: sign the payment again"),
    ("block-script-verify-flag-failed", "a signature or script is wrong: sign the payment again"),
    ("bad-txns-in-belowout", "it pays out more than it spends"),
    ("bad-txns-vin-empty", "it spends nothing"),
    ("bad-txns-vout-empty", "it pays nothing"),
    ("bad-txns-vout-negative", "an amount is impossible"),
    ("bad-txns-vout-toolarge", "an amount is impossible"),
    ("bad-txns-txouttotal-toolarge", "an amount is impossible"),
    ("bad-txns-inputvalues-outofrange", "an amount is impossible"),
    ("bad-txns-fee-outofrange", "an amount is impossible"),
    ("bad-txns-inputs-duplicate", "it spends an output twice"),
    ("bad-txns-prevout-null", "it spends nothing that can exist"),
    ("bad-txns-oversize", "it is larger than a block"),
    ("coinbase", "a coinbase exists only in its block"),
];

/// An input that the node does not find.
const MISSING: &[&str] = &["missing-inputs", "bad-txns-inputs-missingorspent", "Missing inputs"];

impl NodeRefusal {
    /// Judges the reason of a node.
    #[must_use]
    pub fn judge(reason: &str, facts: SpendFacts) -> Self {
        let prospect = if is_missing(reason) && facts.parents_in_blocks && facts.is_at_node_tip {
            Prospect::Never
        } else if said(NEVER_THESE_BYTES, reason).is_some() {
            Prospect::NeverTheseBytes
        } else {
            Prospect::Later
        };
        Self { reason: reason.to_owned(), prospect }
    }

    /// The reason in plain words.
    #[must_use]
    pub fn words(&self) -> &'static str {
        match self.prospect {
            Prospect::Never => "a block has spent one of its inputs in another transaction",
            _ if is_missing(&self.reason) => {
                "the node does not know one of its inputs, or something has spent it"
            }
            _ => said(NEVER_THESE_BYTES, &self.reason)
                .or_else(|| said(LATER, &self.reason))
                .unwrap_or("the node has a reason of its own"),
        }
    }
}

impl fmt::Display for NodeRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (\"{}\")", self.words(), self.reason)
    }
}

fn is_missing(reason: &str) -> bool {
    MISSING.contains(&word(reason))
}

/// The reason without what a node adds behind a comma.
fn word(reason: &str) -> &str {
    reason.split_once(',').map_or(reason, |(word, _)| word).trim()
}

fn said(table: &[(&str, &'static str)], reason: &str) -> Option<&'static str> {
    table.iter().find(|(start, _)| reason.starts_with(start)).map(|(_, words)| *words)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTLED: SpendFacts = SpendFacts { parents_in_blocks: true, is_at_node_tip: true };

    fn prospect(reason: &str, facts: SpendFacts) -> Prospect {
        NodeRefusal::judge(reason, facts).prospect
    }

    #[test]
    fn what_a_node_has_was_sent() {
        for reason in ["txn-already-in-mempool", "txn-same-nonwitness-data-in-mempool"] {
            assert_eq!(NodeAnswer::of_reason(reason), NodeAnswer::InMempool);
        }
        for reason in ["txn-already-known", "Transaction outputs already in utxo set"] {
            assert_eq!(NodeAnswer::of_reason(reason), NodeAnswer::InBlock);
        }
        let refused = NodeAnswer::of_reason("missing-inputs");
        assert_eq!(refused, NodeAnswer::Refuses("missing-inputs".to_owned()));
    }

    #[test]
    fn a_full_or_expensive_mempool_is_no_reason_to_give_a_payment_up() {
        for reason in [
            "mempool full",
            "mempool min fee not met, 300 < 500",
            "min relay fee not met, 1 < 110",
            "insufficient fee, rejecting replacement 9a…; new feerate 0.1 <= old feerate 0.2",
            "txn-mempool-conflict",
            "bip125-replacement-disallowed",
            "too-long-mempool-chain, too many descendants",
            "non-final",
            "non-BIP68-final",
            "bad-txns-premature-spend-of-coinbase, tried to spend coinbase at depth 3",
            "max-fee-exceeded",
            "a reason that is invented tomorrow",
        ] {
            assert_eq!(prospect(reason, SETTLED), Prospect::Later, "{reason}");
        }
    }

    #[test]
    fn bytes_that_break_a_rule_of_every_node_are_never_taken() {
        for reason in [
            "mandatory-script-verify-flag-failed (Signature must be zero for failed CHECK(MULTI)SIG operation)",
            "mempool-script-verify-flag-failed (Witness program hash mismatch)",
            "bad-txns-in-belowout, value in (1) < value out (2)",
            "bad-txns-inputs-duplicate",
            "coinbase",
        ] {
            assert_eq!(
                prospect(reason, SpendFacts::default()),
                Prospect::NeverTheseBytes,
                "{reason}"
            );
        }
    }

    #[test]
    fn a_missing_input_ends_a_payment_only_where_a_block_must_have_spent_it() {
        for reason in ["missing-inputs", "bad-txns-inputs-missingorspent"] {
            assert_eq!(prospect(reason, SETTLED), Prospect::Never);
            let unknown_parent = SpendFacts { parents_in_blocks: false, ..SETTLED };
            assert_eq!(prospect(reason, unknown_parent), Prospect::Later);
            let behind = SpendFacts { is_at_node_tip: false, ..SETTLED };
            assert_eq!(prospect(reason, behind), Prospect::Later, "it may be in that block itself");
        }
    }

    #[test]
    fn a_refusal_says_the_reason_in_plain_words_and_in_the_nodes() {
        let refusal = NodeRefusal::judge("mempool full", SETTLED);
        let text = refusal.to_string();
        assert!(text.contains("full of transactions that pay more"), "{text}");
        assert!(text.contains("(\"mempool full\")"), "{text}");
        let missing = NodeRefusal::judge("missing-inputs", SpendFacts::default());
        assert!(missing.to_string().contains("does not know one of its inputs"), "{missing}");
    }
}
