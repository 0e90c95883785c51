//! Operations on the wallet ledger, as one table.

use utxokeep_core::ErrorKind;

use super::{About, Answered, Effect, Known, Media, Method, Operation, Part, Refusal, Visitor};
use crate::wallets::{
    Abandoned, AcknowledgePruned, AcquireLeases, AddAddresses, AddDescriptor, AddWebhook,
    AddressInfo, ApplyBlock, Archive, ArchiveDescriptor, Archived, BalanceInfo, BalanceOf,
    BlockApplied, BroadcastInfo, BroadcastTx, BumpFee, BumpInfo, CleanedLeases, CoinInfo, CoinWish,
    ConfirmTx, CreatePsbt, CreateWallet, DescriptorAdded, DescriptorInfo, DisconnectBlock,
    ImportLabels, InWallet, LabelLines, Labelled, LabelsImported, LeaseInfo, Leased, ListCoins,
    ListDescriptors, ListReplacements, ListTransactions, ListWallets, Listed, NewAddressInfo,
    NextAddress, OfNetwork, OfWallet, OneCoin, OneDescriptor, OneTx, OneWebhook, PruneWallet,
    PrunedAcknowledged, PrunedInfo, PrunedNow, PsbtInfo, RecordTx, RecordedInfo, ReleaseLeases,
    Released, Removed, ReplacementInfo, RescanInfo, RescanWallet, Restored, RollBack, SelectCoins,
    SelectionInfo, SetLabel, TipAnswer, TxDetails, TxInfo, Verified, VerifiedWallet, VerifyWallet,
    VerifyWallets, WalletInfo, WalletPage, WalletStatus, Wallets, WalletsError, Watched,
    WebhookAdded, WebhookInfo, WebhookRemoved, WebhookTested,
};

impl Part for Wallets {
    type Error = WalletsError;
}

const INVALID: Refusal = (ErrorKind::Invalid, "The request cannot be right");
const NOT_FOUND: Refusal = (ErrorKind::NotFound, "What it names does not exist");
const FAILED: Refusal =
    (ErrorKind::Failed, "Stored data is damaged, or the server failed; its log says more");
const NOT_NOW: Refusal =
    (ErrorKind::Unavailable, "Not now: too many requests, too slow, or the database is away");

/// What every read says.
const READ: About =
    About { tag: "wallets", refusals: &[INVALID, NOT_FOUND, FAILED, NOT_NOW], ..About::READ };

/// What every write says.
const WRITE: About = About {
    method: Method::Post,
    effect: Effect::Changes,
    refusals: &[
        INVALID,
        NOT_FOUND,
        FAILED,
        NOT_NOW,
        (ErrorKind::Refused, "It exists already, or the state of things forbids it"),
    ],
    ..READ
};

const COMPARING: &[Refusal] = &[
    INVALID,
    NOT_FOUND,
    FAILED,
    NOT_NOW,
    (
        ErrorKind::Refused,
        "The ledger and the chain database are not at the same block, or there is none",
    ),
];

/// What a row says in brackets: that the request takes an idempotency key, or may be a dry run.
macro_rules! marked {
    (keyed) => {
        fn key(request: &mut Self::Request) -> Option<&mut Option<String>> {
            Some(&mut request.idempotency_key)
        }
    };
    (dry) => {
        fn effect(request: &Self::Request) -> Effect {
            if request.is_dry() { Effect::Reads } else { Effect::Changes }
        }
    };
}

/// Each row: a type for the operation, its request and answer, the method that carries it out, command,
/// route, a line about it, what else a caller should know, and what differs from other reads or writes.
macro_rules! operations {
    ($(
        $name:ident $([$($mark:ident)+])?: $request:ty => $answer:ty = $run:path,
        $base:ident, $command:literal, $path:literal, $summary:literal, $description:literal
        $(, $field:ident: $value:expr)*;
    )+) => {
        $(
            #[doc = concat!($summary, ".")]
            #[derive(Debug)]
            pub enum $name {}

            impl Operation for $name {
                type Part = Wallets;
                type Request = $request;
                type Answer = $answer;

                const ABOUT: About = About {
                    command: $command,
                    path: $path,
                    summary: $summary,
                    description: $description,
                    $($field: $value,)*
                    ..$base
                };

                fn run(
                    wallets: &Wallets,
                    request: $request,
                    _: Known<'_>,
                ) -> Result<Answered<$answer>, WalletsError> {
                    $run(wallets, &request).map(Answered::from)
                }

                $($(marked!($mark);)+)?
            }
        )+

        /// Shows every operation of the wallet ledger to a visitor.
        pub fn operations(visitor: &mut impl Visitor<Wallets>) {
            $(visitor.operation::<$name>();)+
        }
    };
}

operations! {
    List: ListWallets => Listed<WalletInfo> = Wallets::list_wallets,
        READ, "wallet list", "/api/v1/wallets",
        "List all wallets",
        "In the order they were made; archived ones only when they are asked for.";
    Show: InWallet => WalletStatus = Wallets::show_wallet,
        READ, "wallet show", "/api/v1/wallets/{wallet}",
        "Show a wallet, and how far the ledger has come on its network", "";
    Balance: BalanceOf => BalanceInfo = Wallets::balance,
        READ, "wallet balance", "/api/v1/wallets/{wallet}/balance",
        "Add up what a wallet has", "";
    Utxos: ListCoins => Listed<CoinInfo> = Wallets::list_coins,
        READ, "wallet utxos", "/api/v1/wallets/{wallet}/utxos",
        "List the unspent outputs of a wallet",
        "By amount. What a live transaction spends is not listed.";
    Utxo: OneCoin => OfWallet<CoinInfo> = Wallets::show_coin,
        READ, "wallet utxo", "/api/v1/wallets/{wallet}/utxos/{outpoint}",
        "Show one unspent output of a wallet", "";
    Txs: ListTransactions => Listed<TxInfo> = Wallets::list_transactions,
        READ, "wallet txs", "/api/v1/wallets/{wallet}/transactions",
        "List the transactions of a wallet",
        "In the order of recording; with `from_height` or `to_height` in the order of the chain.";
    Tx: OneTx => OfWallet<TxDetails> = Wallets::show_transaction,
        READ, "wallet tx", "/api/v1/wallets/{wallet}/transactions/{tx_hash}",
        "Show a transaction, whatever became of it", "";
    Replacements: ListReplacements => Listed<ReplacementInfo> = Wallets::list_replacements,
        READ, "wallet replacements", "/api/v1/wallets/{wallet}/transactions/{tx_hash}/replacements",
        "Show what a transaction replaced and what replaced it", "Oldest first.";
    Addresses: WalletPage => Listed<AddressInfo> = Wallets::list_addresses,
        READ, "wallet address list", "/api/v1/wallets/{wallet}/addresses",
        "List watched addresses",
        "In the order they were added, those of descriptors included.";
    Descriptors: ListDescriptors => Listed<DescriptorInfo> = Wallets::list_descriptors,
        READ, "wallet descriptor list", "/api/v1/wallets/{wallet}/descriptors",
        "List the keychains of a wallet",
        "All of them at once; archived ones only when they are asked for.";
    Leases: WalletPage => Listed<LeaseInfo> = Wallets::list_leases,
        READ, "wallet lease list", "/api/v1/wallets/{wallet}/leases",
        "List active leases",
        "Also of outputs that a live transaction spends by now: raising its fee asks for them.";
    Pruned: WalletPage => Listed<PrunedInfo> = Wallets::list_pruned,
        READ, "wallet pruned", "/api/v1/wallets/{wallet}/pruned",
        "List pruned transactions that were not acknowledged",
        "In the order they were pruned.";
    ExportLabels: InWallet => LabelLines = Wallets::export_labels,
        READ, "wallet labels export", "/api/v1/wallets/{wallet}/labels",
        "Export all labels of a wallet", "One line of JSON each, as BIP-329 has them.",
        media: Media::LinesOut, is_command_by_hand: true;
    Verify: VerifyWallet => Verified = Wallets::verify_wallet,
        READ, "wallet verify", "/api/v1/wallets/{wallet}/verify",
        "Check that everything stored about a wallet fits together",
        "With `with_chain` also to the UTXO set of the chain database, at the same block.",
        refusals: COMPARING, is_command_by_hand: true;
    VerifyAll: VerifyWallets => Listed<VerifiedWallet> = Wallets::verify_wallets,
        READ, "wallet verify-all", "/api/v1/ledger/verify",
        "Check every wallet of the ledger",
        "Archived ones too, in the order they were made. A wallet that cannot be checked says why, \
         and does not end the others.",
        refusals: COMPARING, is_command_by_hand: true;
    Tip: OfNetwork => TipAnswer = Wallets::network_tip,
        READ, "wallet tip", "/api/v1/ledger/{chain}/{network}/tip",
        "Show the last block of a network that the ledger has applied", "";
    Create: CreateWallet => WalletInfo = Wallets::create_wallet,
        WRITE, "wallet create", "/api/v1/wallets",
        "Create a wallet", "",
        effect: Effect::Creates;
    ArchiveIt: Archive => Archived = Wallets::archive_wallet,
        WRITE, "wallet archive", "/api/v1/wallets/{wallet}/archive",
        "Archive a wallet",
        "It is not followed any more, takes no transactions, and is not listed. Its history stays \
         readable. Refused while it has coins, live transactions in no block or leases that are not \
         allowed by name.";
    Restore: InWallet => Restored = Wallets::restore_wallet,
        WRITE, "wallet restore", "/api/v1/wallets/{wallet}/restore",
        "Take a wallet out of the archive", "";
    Rescan: RescanWallet => RescanInfo = Wallets::rescan_wallet,
        WRITE, "wallet rescan", "/api/v1/wallets/{wallet}/rescan",
        "Ask that a wallet looks at blocks again",
        "Stored, and done by the program that follows the chain for this ledger, in steps between new \
         blocks; show the wallet to see how far it has come. A wallet that is set aside is rewound to \
         before the first block, takes blocks again up to the tip, and pays again then. For a wallet \
         that watches more than before, give the height of the first payment.";
    AddAddress: AddAddresses => Watched = Wallets::add_addresses,
        WRITE, "wallet address add", "/api/v1/wallets/{wallet}/addresses",
        "Watch addresses, all or none",
        "What is watched already takes the weight that is given. Blocks that were applied before are \
         not looked at again: `scan_from_height` says from where to scan.";
    Next [keyed]: NextAddress => NewAddressInfo = Wallets::next_address,
        WRITE, "wallet address next", "/api/v1/wallets/{wallet}/descriptors/{descriptor_id}/next-address",
        "Hand out the next address of a keychain", "No address is handed out twice.",
        takes_key: true;
    AddKeychain: AddDescriptor => DescriptorAdded = Wallets::add_descriptor,
        WRITE, "wallet descriptor add", "/api/v1/wallets/{wallet}/descriptors",
        "Watch a descriptor",
        "One with private keys is refused, and not printed. One that is watched already takes a larger \
         `lookahead` or `next_index`; a smaller one, or another keychain, is refused. Blocks that were \
         applied before are not looked at again: `scan_from_height` says from where to scan.";
    ArchiveKeychain: ArchiveDescriptor => Archived = Wallets::archive_descriptor,
        WRITE, "wallet descriptor archive",
        "/api/v1/wallets/{wallet}/descriptors/{descriptor_id}/archive",
        "Archive a keychain",
        "Its scripts are not watched any more, and it hands out no address. Coins that it still has stay \
         in the wallet. Refused while it has coins, live transactions in no block or leases that are \
         not allowed by name.";
    RestoreKeychain: OneDescriptor => Restored = Wallets::restore_descriptor,
        WRITE, "wallet descriptor restore",
        "/api/v1/wallets/{wallet}/descriptors/{descriptor_id}/restore",
        "Take a keychain out of the archive", "";
    Record [keyed]: RecordTx => RecordedInfo = Wallets::record_tx,
        WRITE, "wallet record", "/api/v1/wallets/{wallet}/transactions",
        "Record a transaction",
        "Recording the same again is no error; the answer says what changed.",
        takes_key: true, is_command_by_hand: true;
    Publish: OneTx => RecordedInfo = Wallets::publish_tx,
        WRITE, "wallet publish", "/api/v1/wallets/{wallet}/transactions/{tx_hash}/publish",
        "Say that a recorded transaction was sent",
        "It is sent elsewhere: `broadcast` sends. What it replaces is replaced from now on.";
    Broadcast [keyed]: BroadcastTx => BroadcastInfo = Wallets::broadcast_tx,
        WRITE, "wallet broadcast", "/api/v1/wallets/{wallet}/transactions/{tx_hash}/broadcast",
        "Give a signed transaction to the node",
        "Signatures of a PSBT are put together first. The node is asked whether it takes the transaction, \
         its signed bytes are kept, and it is sent and published. What the node has already counts as \
         sent, so that the request may be repeated. A refusal says why in the node's word and in plain \
         ones, and what became of the payment. Needs `[chain] source`; without a node, send it yourself \
         and publish it.",
        takes_key: true, is_command_by_hand: true;
    Confirm: ConfirmTx => RecordedInfo = Wallets::confirm_tx,
        WRITE, "wallet confirm", "/api/v1/wallets/{wallet}/transactions/{tx_hash}/confirm",
        "Say that a recorded transaction is in a block",
        "The ledger must have reached that block.";
    Unconfirm: OneTx => RecordedInfo = Wallets::unconfirm_tx,
        WRITE, "wallet unconfirm", "/api/v1/wallets/{wallet}/transactions/{tx_hash}/unconfirm",
        "Take back what was said about the block of a transaction",
        "It is in no block again. Refused when the ledger itself found it in a block that it followed.";
    Abandon: OneTx => Abandoned = Wallets::abandon_tx,
        WRITE, "wallet abandon", "/api/v1/wallets/{wallet}/transactions/{tx_hash}/abandon",
        "Give up a transaction that is in no block",
        "It stays on record as failed, with everything that depends on it; its inputs are free again.";
    Remove: OneTx => Removed = Wallets::remove_tx,
        WRITE, "wallet remove", "/api/v1/wallets/{wallet}/transactions/{tx_hash}",
        "Remove a transaction that is in no block, as if it had never been recorded",
        "Only a live one that nothing live spends from.",
        method: Method::Delete;
    Label: SetLabel => Labelled = Wallets::set_tx_label,
        WRITE, "wallet label", "/api/v1/wallets/{wallet}/transactions/{tx_hash}/label",
        "Set the label of a transaction", "Empty text clears it.",
        method: Method::Put;
    Lease [keyed]: AcquireLeases => Leased = Wallets::acquire_leases,
        WRITE, "wallet lease acquire", "/api/v1/wallets/{wallet}/leases",
        "Lease outputs, all or none", "Those that the owner has leased already are renewed.",
        takes_key: true;
    Renew [keyed]: AcquireLeases => Leased = Wallets::renew_leases,
        WRITE, "wallet lease renew", "/api/v1/wallets/{wallet}/leases/renew",
        "Renew leases that the owner holds, all or none",
        "From now on. One that has expired, or that the owner does not hold, is refused.",
        takes_key: true;
    Release: ReleaseLeases => Released = Wallets::release_leases,
        WRITE, "wallet lease release", "/api/v1/wallets/{wallet}/leases",
        "End one lease of an owner, or all", "",
        method: Method::Delete;
    CleanLeases: InWallet => CleanedLeases = Wallets::clean_leases,
        WRITE, "wallet lease clean", "/api/v1/wallets/{wallet}/leases/clean",
        "Remove rows of leases that have expired",
        "They count for nothing; a server does it by itself, see `lease_cleanup_secs`.";
    Select [keyed dry]: SelectCoins => SelectionInfo = Wallets::select_coins,
        WRITE, "wallet select", "/api/v1/wallets/{wallet}/selections",
        "Choose coins for a payment",
        "With a lease they are leased in the same step; without it nothing is changed.",
        takes_key: true;
    Psbt [keyed]: CreatePsbt => PsbtInfo = Wallets::create_psbt,
        WRITE, "wallet psbt", "/api/v1/wallets/{wallet}/psbts",
        "Choose and lease coins, and make the transaction that spends them, to be signed elsewhere",
        "The ledger has no keys: sign and send elsewhere, then publish.",
        takes_key: true, is_command_by_hand: true;
    Bump [keyed dry]: BumpFee => BumpInfo = Wallets::bump_fee,
        WRITE, "wallet bump", "/api/v1/wallets/{wallet}/transactions/{tx_hash}/bump",
        "Make the replacement of a transaction with a higher fee",
        "To be signed elsewhere. The old one stays live until the replacement is published.",
        takes_key: true, is_command_by_hand: true;
    SetLabels: ImportLabels => LabelsImported = Wallets::import_labels,
        WRITE, "wallet labels import", "/api/v1/wallets/{wallet}/labels",
        "Set labels from lines of BIP-329",
        "A record changes only what it says: one without `label` leaves the text as it is, one without \
         `spendable` leaves the output as it is. Lines that cannot be used are skipped and reported.",
        media: Media::LinesIn("lines"), is_command_by_hand: true;
    Freeze: OneCoin => CoinWish = Wallets::freeze,
        WRITE, "wallet freeze", "/api/v1/wallets/{wallet}/utxos/{outpoint}/freeze",
        "Hold an unspent output back",
        "It is neither selected nor leased until it is released. Its label keeps its text.";
    Unfreeze: OneCoin => CoinWish = Wallets::unfreeze,
        WRITE, "wallet unfreeze", "/api/v1/wallets/{wallet}/utxos/{outpoint}/unfreeze",
        "Release an output that was held back", "";
    Prune [dry]: PruneWallet => PrunedNow = Wallets::prune_wallet,
        WRITE, "wallet prune", "/api/v1/wallets/{wallet}/prune",
        "Remove old transactions that no balance needs",
        "They move to an archive inside the ledger in the same transaction. Read them from there, keep \
         them, and acknowledge them. With `discard` they are in the answer and nowhere else from then \
         on. Labels stay.",
        is_command_by_hand: true;
    Acknowledge: AcknowledgePruned => PrunedAcknowledged = Wallets::acknowledge_pruned,
        WRITE, "wallet acknowledge", "/api/v1/wallets/{wallet}/pruned/acknowledge",
        "Acknowledge pruned transactions that are kept elsewhere",
        "All up to a number leave the archive.";
    Webhooks: InWallet => Listed<WebhookInfo> = Wallets::list_webhooks,
        READ, "wallet webhook list", "/api/v1/wallets/{wallet}/webhooks",
        "List webhooks, and how they get on", "";
    WebhookAdd: AddWebhook => WebhookAdded = Wallets::add_webhook,
        WRITE, "wallet webhook add", "/api/v1/wallets/{wallet}/webhooks",
        "Send events to a URL",
        "They are signed with the secret of the answer, which is shown this once.";
    WebhookRemove: OneWebhook => WebhookRemoved = Wallets::remove_webhook,
        WRITE, "wallet webhook remove", "/api/v1/wallets/{wallet}/webhooks/{id}",
        "Remove a webhook", "Events stay.",
        method: Method::Delete;
    WebhookPause: OneWebhook => WebhookInfo = Wallets::pause_webhook,
        WRITE, "wallet webhook pause", "/api/v1/wallets/{wallet}/webhooks/{id}/pause",
        "Pause a webhook", "Events wait, as long as they are kept.";
    WebhookResume: OneWebhook => WebhookInfo = Wallets::resume_webhook,
        WRITE, "wallet webhook resume", "/api/v1/wallets/{wallet}/webhooks/{id}/resume",
        "Resume a webhook",
        "Also one that was disabled. Events that were forgotten meanwhile are skipped.";
    WebhookTest: OneWebhook => WebhookTested = Wallets::test_webhook,
        WRITE, "wallet webhook test", "/api/v1/wallets/{wallet}/webhooks/{id}/test",
        "Try a webhook out",
        "Sends a signed delivery without events, whatever the state of the webhook. Nothing is stored.",
        effect: Effect::Reads;
    Apply: ApplyBlock => BlockApplied = Wallets::apply_block,
        WRITE, "wallet apply-block", "/api/v1/ledger/{chain}/{network}/blocks",
        "Apply the next block",
        "For a ledger that does not follow a chain database. A block that is applied already changes \
         nothing.";
    Disconnect: DisconnectBlock => TipAnswer = Wallets::disconnect_block,
        WRITE, "wallet disconnect-block", "/api/v1/ledger/{chain}/{network}/disconnect",
        "Take the last block off",
        "Its payments are unconfirmed again; its coinbase is orphaned.";
    Rollback: RollBack => TipAnswer = Wallets::roll_back,
        WRITE, "wallet disconnect", "/api/v1/ledger/{chain}/{network}/rollback",
        "Take a block and all above it off a network, for all its wallets",
        "Payments in those blocks are unconfirmed again. A ledger that follows a chain does this by \
         itself. Refused (`reaches_pruned`) when transactions were pruned from one of them, unless \
         `pruned` is allowed.";
}
