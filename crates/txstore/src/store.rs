//! The contract of the node store.

use utxokeep_core::{
    Height, OutPoint, Txid,
    node::{
        BlockState, ConflictIntent, CreateOptions, MinedInfo, NodeError, NodeTx, PreviousOutput,
        SpendAndCreate, SpendFlags, SpendInput, SpendRequest, SpendView, Spent, Stored, TxRecord,
        UnspendRequest,
    },
};

use utxokeep_kv::Trouble;

use crate::{error::StoreError, records::CreationLock, sample::Sample};

/// Which parts of a transaction to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fields {
    /// Its body.
    pub body: bool,
    /// Its outputs as they stand.
    pub slots: bool,
}

/// A stored transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredTx {
    /// Its mutable part.
    pub record: TxRecord,
    /// Its body, if it was asked for.
    pub body: Option<NodeTx>,
    /// Its outputs, if they were asked for; `None` where nobody can spend one.
    pub slots: Option<Vec<Option<utxokeep_core::node::OutputRecord>>>,
}

/// What an input spends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decorated {
    /// The output.
    Found(PreviousOutput),
    /// Its transaction is not there.
    NoTransaction,
    /// Its transaction has no such output.
    NoOutput,
}

/// What a validator has to know of an output that is to be spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParentOutput {
    /// Its transaction is in blocks, the lowest at this height.
    Mined(Height),
    /// Its transaction is in no block.
    NotMined,
    /// Its transaction is not there.
    NoTransaction,
    /// Its transaction has no such output.
    NoOutput,
}

/// Result of a call: failed below, or one answer per item.
pub type PerItem<T> = Result<Vec<Result<T, NodeError>>, StoreError>;

/// A node store. Every call is one commit; heights are the caller's, never a cached tip.
pub trait TxStore: Send + Sync {
    /// Why no writes are taken at present, if that is known without trying.
    fn trouble(&self) -> Option<Trouble> {
        None
    }

    /// About how much it holds; `None` where that is not known. The work is bounded however large
    /// the store is.
    fn sample(&self) -> Result<Option<Sample>, StoreError> {
        Ok(None)
    }

    /// Stores transactions that spend nothing here, such as coinbases or those of a snapshot.
    fn create(&self, txs: &[(NodeTx, CreateOptions)], height: Height) -> PerItem<()>;

    /// Reads transactions; `None` for one that is not there.
    fn get(&self, txids: &[Txid], fields: Fields) -> Result<Vec<Option<StoredTx>>, StoreError>;

    /// Says whether outputs can be spent at a height, and who spent them.
    fn spend_views(
        &self,
        outputs: &[(OutPoint, Option<[u8; 32]>)],
        height: Height,
    ) -> PerItem<SpendView>;

    /// Spends the inputs of transactions.
    fn spend(&self, requests: &[SpendRequest]) -> PerItem<Spent>;

    /// Takes spends back.
    fn unspend(&self, requests: &[UnspendRequest]) -> PerItem<bool>;

    /// Spends the inputs of a transaction and stores it, in one commit.
    fn spend_and_create(
        &self,
        tx: &NodeTx,
        height: Height,
        how: SpendAndCreate,
        options: &CreateOptions,
    ) -> Result<Result<Stored, NodeError>, StoreError>;

    /// The same for a list with parents before children. The outer refusal means that nothing of
    /// the list was written.
    #[allow(clippy::type_complexity, reason = "the three levels are the contract")]
    fn spend_and_create_list(
        &self,
        txs: &[(NodeTx, CreateOptions)],
        height: Height,
        flags: SpendFlags,
    ) -> Result<Result<Vec<Result<Stored, NodeError>>, NodeError>, StoreError>;

    /// Puts a block on transactions, or takes it off.
    fn set_mined(&self, txids: &[Txid], info: &MinedInfo) -> PerItem<Vec<u32>>;

    /// Says whether transactions are on the longest chain.
    fn mark_on_longest_chain(
        &self,
        txids: &[Txid],
        on_longest_chain: bool,
        height: Height,
    ) -> PerItem<()>;

    /// Locks or unlocks transactions.
    fn set_locked(&self, txids: &[Txid], is_locked: bool, height: Height) -> PerItem<()>;

    /// Marks losers of conflicts. Answers what each spends, and who spends it.
    fn set_conflicting(
        &self,
        txids: &[Txid],
        is_conflicting: bool,
        height: Height,
    ) -> PerItem<(Vec<SpendInput>, Vec<Txid>)>;

    /// Lets conflicting transactions win; answers the losers.
    fn process_conflicting(
        &self,
        winners: &[Txid],
        height: Height,
    ) -> Result<Result<Vec<Txid>, NodeError>, StoreError>;

    /// Writes down that a conflict is about to be resolved, before anything changes; answers its
    /// name. Doing so twice leaves one.
    fn begin_conflict_intent(&self, intent: &ConflictIntent) -> Result<[u8; 32], StoreError>;

    /// Takes an intent off again; one that is not there is fine.
    fn complete_conflict_intent(&self, id: &[u8; 32]) -> Result<(), StoreError>;

    /// Intents that nobody completed, at most `limit`.
    fn pending_conflict_intents(&self, limit: usize) -> Result<Vec<ConflictIntent>, StoreError>;

    /// Freezes outputs.
    fn freeze(&self, outputs: &[(OutPoint, [u8; 32])]) -> PerItem<()>;

    /// Unfreezes outputs.
    fn unfreeze(&self, outputs: &[(OutPoint, [u8; 32])]) -> PerItem<()>;

    /// Gives a frozen output to the owner of another script; answers the new commitment.
    fn reassign(
        &self,
        outpoint: OutPoint,
        hash: [u8; 32],
        script: &[u8],
        height: Height,
    ) -> Result<Result<[u8; 32], NodeError>, StoreError>;

    /// Keeps transactions until a height; answers how many it held for.
    fn preserve(&self, txids: &[Txid], until: Height) -> Result<usize, StoreError>;

    /// Ends preservations whose height has come, at most `limit`; answers how many.
    fn expire_preservations(&self, height: Height, limit: usize) -> Result<usize, StoreError>;

    /// Transactions that are off the longest chain since a height up to `cutoff`, oldest first,
    /// behind `after`, at most `limit`.
    fn unmined(
        &self,
        cutoff: Height,
        after: Option<(Height, Txid)>,
        limit: usize,
    ) -> Result<Vec<(Height, Txid)>, StoreError>;

    /// What outputs are, for inputs that do not say.
    fn decorate(&self, outputs: &[OutPoint]) -> Result<Vec<Decorated>, StoreError>;

    /// Whether and since when outputs to be spent are in blocks.
    fn parent_outputs(&self, outputs: &[OutPoint]) -> Result<Vec<ParentOutput>, StoreError>;

    /// Deletes transactions with everything that belongs to them; answers how many were there.
    fn delete(&self, txids: &[Txid]) -> Result<usize, StoreError>;

    /// Who creates a transaction of several records at present. Engines that create in one commit
    /// have no such lock.
    fn creation_lock(&self, _txid: &Txid) -> Result<Option<CreationLock>, StoreError> {
        Ok(None)
    }

    /// Height and median time, if they were ever set.
    fn block_state(&self) -> Result<Option<BlockState>, StoreError>;

    /// Sets height and median time together.
    fn set_block_state(&self, state: BlockState) -> Result<Result<(), NodeError>, StoreError>;
}
