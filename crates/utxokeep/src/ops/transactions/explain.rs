//! What keeps a transaction from being deleted.

use serde::{Deserialize, Serialize};
use utxokeep_core::{
    Height, Txid,
    node::{Blocking, PruneRules},
};
use utxokeep_txstore::{Fields, PruneStore as _, TxStore as _};

use super::{TAG, TransactionReadError, Transactions, TxName, show::UNKNOWN};
use crate::ops::{About, Answer, Answered, Known, Lines, Operation};

/// Which transaction, and at which height.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ExplainRequest {
    /// The transaction, as nodes print it.
    #[cfg_attr(feature = "clap", arg(value_name = "TXID"))]
    #[cfg_attr(feature = "schema", schema(value_type = String, pattern = "^[0-9a-fA-F]{64}$"))]
    pub(in crate::ops) tx_hash: TxName,
    /// Height to ask for, which may lie ahead; by default that of the newest block.
    #[cfg_attr(feature = "clap", arg(long, value_name = "HEIGHT"))]
    #[cfg_attr(feature = "schema", schema(minimum = 0))]
    pub(in crate::ops) height: Option<u32>,
}

/// One fact that keeps a transaction.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct KeptFor {
    /// A word with a stable meaning.
    #[cfg_attr(feature = "schema", schema(example = "child_unmined"))]
    pub reason: String,
    /// The spending transaction that it is about.
    pub child: Option<String>,
    /// Height at which the fact ends, where that is known.
    pub until_height: Option<u32>,
}

impl From<&Blocking> for KeptFor {
    fn from(fact: &Blocking) -> Self {
        Self {
            reason: fact.reason.name().to_owned(),
            child: fact.child.map(|child| child.to_string()),
            until_height: fact.until.map(Height::get),
        }
    }
}

/// Why a transaction is still there.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Explanation {
    /// The transaction.
    pub tx_hash: String,
    /// Height that the answer is for.
    pub height: u32,
    /// Whether nothing keeps it.
    pub can_be_deleted: bool,
    /// Every fact that keeps it.
    pub blocking: Vec<KeptFor>,
}

impl Explanation {
    /// What the facts say about a transaction at a height.
    #[must_use]
    pub fn new(txid: &Txid, height: Height, facts: &[Blocking]) -> Self {
        Self {
            tx_hash: txid.to_string(),
            height: height.get(),
            can_be_deleted: facts.is_empty(),
            blocking: facts.iter().map(KeptFor::from).collect(),
        }
    }
}

impl Answer for Explanation {
    fn show(&self, lines: &mut Lines) {
        lines
            .field("transaction", &self.tx_hash)
            .field("asked at", format_args!("height {}", self.height));
        if self.can_be_deleted {
            lines.field("verdict", "can be deleted");
            return;
        }
        lines.field("verdict", "is kept, because:");
        for fact in &self.blocking {
            let child = fact.child.as_ref().map_or_else(String::new, |txid| format!(" {txid}"));
            let until = fact.until_height;
            let until = until.map_or_else(String::new, |height| format!(", until height {height}"));
            lines.row(format!("  {}{child}{until}", fact.reason));
        }
    }
}

/// What keeps a transaction.
#[derive(Debug)]
pub enum ExplainTransaction {}

impl Operation for ExplainTransaction {
    type Part = Transactions;
    type Request = ExplainRequest;
    type Answer = Explanation;

    const ABOUT: About = About {
        command: "tx explain",
        path: "/api/v1/transactions/{tx_hash}/explanation",
        tag: TAG,
        summary: "Say what keeps a transaction from being deleted, and until when",
        refusals: &[UNKNOWN],
        ..About::READ
    };

    fn run(
        transactions: &Transactions,
        ExplainRequest { tx_hash: TxName(txid), height }: ExplainRequest,
        _: Known<'_>,
    ) -> Result<Answered<Explanation>, TransactionReadError> {
        transactions.find(txid, Fields::default())?;
        let store = &transactions.store;
        let known = store.block_state()?.map(|state| state.height);
        let height = height.map(Height::new).or(known).ok_or(TransactionReadError::NoHeight)?;
        let rules = PruneRules::at(height, transactions.safety_window_blocks);
        Ok(Explanation::new(&txid, height, &store.explain(&txid, &rules)?).into())
    }
}
