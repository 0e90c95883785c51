//! From the answers of the wallet ledger to messages.

use utxokeep_core::{ChainHash, ChainOutPoint};

use super::{operations::count, proto};
use crate::wallets::{
    Abandoned, AddressInfo, BalanceInfo, BlockApplied, BroadcastInfo, BumpInfo, CleanedLeases,
    CoinInfo, DescriptorInfo, LabelNote, LabelsImported, LeaseInfo, Leased, LedgerTip,
    NewAddressInfo, PsbtInfo, RecordedInfo, ReplacementInfo, RescanInfo, SelectedInfo,
    SelectionInfo, SetAsideInfo, TxDetails, TxInfo, Verified, ViolationInfo, WalletInfo,
    WalletStatus,
};

/// The number of a word in an enum of the contract, whose names are the words in capitals.
fn number<E: Into<i32>>(prefix: &str, word: &str, find: fn(&str) -> Option<E>) -> i32 {
    find(&format!("{prefix}_{}", word.to_ascii_uppercase())).map_or(0, Into::into)
}

pub(super) fn status(word: &str) -> i32 {
    number("WALLET_TX_STATUS", word, proto::WalletTxStatus::from_str_name)
}

pub(super) fn reason(word: &str) -> i32 {
    number("WALLET_INVALID_REASON", word, proto::WalletInvalidReason::from_str_name)
}

pub(super) fn event_kind(word: &str) -> i32 {
    number("WALLET_EVENT_KIND", word, proto::WalletEventKind::from_str_name)
}

pub(super) fn webhook_state(word: &str) -> i32 {
    number("WEBHOOK_STATE", word, proto::WebhookState::from_str_name)
}

fn class(word: &str) -> i32 {
    number("WALLET_COIN_CLASS", word, proto::WalletCoinClass::from_str_name)
}

fn change(word: &str) -> i32 {
    number("WALLET_CHANGE", word, proto::WalletChange::from_str_name)
}

fn algorithm(word: &str) -> i32 {
    number("WALLET_ALGORITHM", word, proto::WalletAlgorithm::from_str_name)
}

pub(super) fn wallet(wallet: WalletInfo) -> proto::Wallet {
    let WalletInfo {
        name, chain, network, created_at_us, set_aside, rescan, archived_at_us, ..
    } = wallet;
    let set_aside = set_aside.as_ref().map(self::set_aside);
    let rescan = rescan.map(self::rescan);
    proto::Wallet { name, chain, network, created_at_us, set_aside, rescan, archived_at_us }
}

pub(super) fn rescan(rescan: RescanInfo) -> proto::WalletRescan {
    let RescanInfo { from_height, next_height } = rescan;
    proto::WalletRescan { from_height, next_height }
}

pub(super) fn address(info: AddressInfo) -> proto::WalletAddress {
    let AddressInfo { id, address, script, spend_weight, used } = info;
    proto::WalletAddress { id, address, script: script.0, spend_weight, is_used: used }
}

pub(super) fn descriptor(info: DescriptorInfo) -> proto::WalletDescriptor {
    proto::WalletDescriptor {
        id: info.id,
        descriptor: info.descriptor,
        keychain: info.keychain,
        is_ranged: info.is_ranged,
        next_index: info.next_index,
        derived_count: info.derived_count,
        lookahead: info.lookahead,
        archived_at_us: info.archived_at_us,
        near_edge: info.near_edge.map(|near| proto::WalletNearEdge {
            index: near.index,
            raise_lookahead_to: near.raise_lookahead_to,
            scan_from_height: near.scan_from_height,
        }),
    }
}

pub(super) fn new_address(info: NewAddressInfo) -> proto::NextAddressResponse {
    let NewAddressInfo { index, address_id, address, script } = info;
    proto::NextAddressResponse { index, address_id, address, script: script.0 }
}

pub(super) fn labels_imported(done: LabelsImported) -> proto::ImportLabelsResponse {
    let note = |note: LabelNote| proto::WalletLabelNote { line: count(note.line), what: note.what };
    proto::ImportLabelsResponse {
        imported: count(done.imported),
        ignored: count(done.ignored),
        skipped: count(done.skipped),
        truncated: count(done.truncated),
        notes: done.notes.into_iter().map(note).collect(),
    }
}

pub(super) fn leased(leased: &Leased) -> proto::Leased {
    proto::Leased {
        owner: leased.owner.0.clone(),
        expires_at_us: leased.expires_at_us,
        owner_name: leased.owner_name.clone(),
    }
}

pub(super) fn cleaned(cleaned: CleanedLeases) -> proto::CleanLeasesResponse {
    let CleanedLeases { leases, has_more } = cleaned;
    proto::CleanLeasesResponse { leases, has_more }
}

/// A hash in internal order.
pub(super) fn hash(hash: &ChainHash) -> Vec<u8> {
    hash.as_bytes().to_vec()
}

fn hashes(all: &[ChainHash]) -> Vec<Vec<u8>> {
    all.iter().map(hash).collect()
}

fn outpoint(outpoint: &ChainOutPoint) -> proto::OutPoint {
    proto::OutPoint { txid: hash(outpoint.hash()), vout: outpoint.index() }
}

pub(super) fn tip(tip: &LedgerTip) -> proto::LedgerTip {
    proto::LedgerTip { height: tip.height, hash: hash(&tip.hash) }
}

pub(super) fn set_aside(aside: &SetAsideInfo) -> proto::WalletSetAside {
    proto::WalletSetAside {
        height: aside.height,
        hash: aside.hash.as_ref().map(hash).unwrap_or_default(),
        reason: aside.reason.clone(),
        at_us: aside.at_us,
    }
}

pub(super) fn verified(verified: Verified) -> proto::VerifyWalletResponse {
    let violation = |found: ViolationInfo| proto::WalletViolation {
        rule: found.rule.to_owned(),
        rows: found.rows,
        first_id: found.first_id,
        remedy: found.remedy.to_owned(),
        examples: found.examples,
        not_named: found.not_named,
    };
    proto::VerifyWalletResponse {
        is_sound: verified.is_sound,
        violations: verified.violations.into_iter().map(violation).collect(),
        transactions: verified.transactions,
        transactions_decoded: verified.transactions_decoded,
        scripts_derived: verified.scripts_derived,
        chain: verified.chain.map(|chain| proto::ChainCompared {
            tip: Some(tip(&chain.tip)),
            scripts: chain.scripts,
            outputs: chain.outputs,
            unseen_from_height: chain.unseen_from_height,
            unseen_reason: chain.unseen_reason.map(str::to_owned),
        }),
        definitions_compared: verified.definitions_compared,
    }
}

pub(super) fn wallet_status(status: WalletStatus) -> proto::GetWalletResponse {
    proto::GetWalletResponse {
        tip: status.tip.as_ref().map(self::tip),
        wallet: Some(wallet(status.wallet)),
        descriptors_near_edge: status.descriptors_near_edge,
        birthday_height: status.birthday_height,
    }
}

pub(super) fn balance(balance: &BalanceInfo) -> proto::GetBalanceResponse {
    proto::GetBalanceResponse {
        confirmed: balance.confirmed.0,
        trusted_unconfirmed: balance.trusted_unconfirmed.0,
        untrusted_unconfirmed: balance.untrusted_unconfirmed.0,
        pending: balance.pending.0,
        immature: balance.immature.0,
        leased: balance.leased.0,
        held_back: balance.held_back.0,
        available: balance.available.0,
        total: balance.total.0,
        tip: balance.tip.as_ref().map(self::tip),
        set_aside: balance.set_aside.as_ref().map(set_aside),
        rescan: balance.rescan.map(rescan),
        locked: balance.locked.0,
        archived_height: balance.archived_height,
    }
}

pub(super) fn coin(coin: &CoinInfo) -> proto::WalletCoin {
    proto::WalletCoin {
        outpoint: Some(outpoint(&coin.outpoint)),
        amount: coin.amount.0,
        address_id: coin.address_id,
        class: class(coin.class),
        height: coin.height,
        confirmations: coin.confirmations,
        is_coinbase: coin.is_coinbase,
        is_leased: coin.leased,
        is_spendable: coin.is_spendable,
        address: coin.address.clone(),
        script: coin.script.0.clone(),
    }
}

pub(super) fn transaction(tx: &TxInfo) -> proto::WalletTransaction {
    proto::WalletTransaction {
        txid: hash(&tx.tx_hash),
        status: status(tx.status),
        height: tx.height,
        position: tx.position,
        is_coinbase: tx.is_coinbase,
        is_waiting: tx.is_waiting,
        received_at_us: tx.received_at_us,
        spent: tx.spent.0,
        received: tx.received.0,
        delta: tx.delta.clamped(),
        fee: tx.fee.map(|fee| fee.0),
        invalid_reason: tx.invalid_reason.map(reason),
        invalidated_by: tx.invalidated_by.as_ref().map(hash),
    }
}

pub(super) fn details(details: TxDetails) -> proto::WalletTransactionDetails {
    let inputs = details.inputs.iter().map(|input| proto::WalletInput {
        outpoint: Some(outpoint(&input.outpoint)),
        amount: input.amount.map(|amount| amount.0),
    });
    let outputs = details
        .outputs
        .iter()
        .map(|output| proto::WalletOwnOutput { index: output.index, amount: output.amount.0 });
    proto::WalletTransactionDetails {
        transaction: Some(transaction(&details.summary)),
        inputs: inputs.collect(),
        outputs: outputs.collect(),
        raw: details.raw.map(|raw| raw.0),
        label: details.label,
    }
}

pub(super) fn replacement(edge: &ReplacementInfo) -> proto::WalletReplacement {
    proto::WalletReplacement {
        replaced: hash(&edge.replaced),
        replacement: hash(&edge.replacement),
        reason: reason(edge.reason),
        created_at_us: edge.created_at_us,
    }
}

pub(super) fn recorded(recorded: &RecordedInfo) -> proto::WalletRecorded {
    proto::WalletRecorded {
        txid: hash(&recorded.tx_hash),
        change: change(&recorded.change),
        status: status(&recorded.status),
        height: recorded.height,
        is_waiting: recorded.is_waiting,
        losers: hashes(&recorded.losers),
        failed_descendants: hashes(&recorded.failed_descendants),
    }
}

pub(super) fn broadcast(sent: &BroadcastInfo) -> proto::BroadcastTransactionResponse {
    let node = match sent.node.as_ref() {
        "taken" => proto::WalletNodeAnswer::Taken,
        "in_mempool" => proto::WalletNodeAnswer::InMempool,
        "in_block" => proto::WalletNodeAnswer::InBlock,
        _ => proto::WalletNodeAnswer::Unspecified,
    };
    proto::BroadcastTransactionResponse {
        txid: hash(&sent.tx_hash),
        node: node.into(),
        status: status(&sent.status),
        height: sent.height,
        fee: sent.fee.map(|fee| fee.0),
        losers: hashes(&sent.losers),
        failed_descendants: hashes(&sent.failed_descendants),
    }
}

pub(super) fn abandoned(abandoned: &Abandoned) -> proto::AbandonTransactionResponse {
    proto::AbandonTransactionResponse {
        txid: hash(&abandoned.tx_hash),
        failed_descendants: hashes(&abandoned.failed_descendants),
        released_leases: abandoned.released_leases,
    }
}

pub(super) fn lease(lease: &LeaseInfo) -> proto::WalletLease {
    proto::WalletLease {
        outpoint: Some(outpoint(&lease.outpoint)),
        amount: lease.amount.0,
        owner: lease.owner.0.clone(),
        expires_at_us: lease.expires_at_us,
        hold_confirmations: lease.hold_confirmations,
        is_held: lease.held,
        spent_height: lease.spent_height,
        spent_by: lease.spent_by.as_ref().map(hash),
    }
}

fn selected(coin: &SelectedInfo) -> proto::SelectedCoin {
    proto::SelectedCoin {
        outpoint: Some(outpoint(&coin.outpoint)),
        amount: coin.amount.0,
        script: coin.script.0.clone(),
        weight: coin.weight,
    }
}

pub(super) fn selection(selection: &SelectionInfo) -> proto::CoinSelection {
    proto::CoinSelection {
        coins: selection.coins.iter().map(selected).collect(),
        input_total: selection.input_total.0,
        fee: selection.fee.0,
        change: selection.change.map(|change| change.0),
        waste: selection.waste.clamped(),
        algorithm: algorithm(&selection.algorithm),
        leased: selection.leased.as_ref().map(leased),
        weight: selection.weight,
    }
}

pub(super) fn psbt(made: PsbtInfo) -> proto::CreatePsbtResponse {
    proto::CreatePsbtResponse {
        txid: hash(&made.tx_hash),
        is_txid_final: made.is_tx_hash_final,
        selection: Some(selection(&made.selection)),
        recorded: made.recorded.as_ref().map(self::recorded),
        psbt: made.psbt,
        change_address: made.change_address,
        valid_from_height: made.valid_from_height,
        valid_from_time: made.valid_from_time,
    }
}

pub(super) fn bump(bump: BumpInfo) -> proto::BumpFeeResponse {
    proto::BumpFeeResponse {
        replaces: hash(&bump.replaces),
        evicts: hashes(&bump.evicts),
        inputs: bump.inputs.iter().map(selected).collect(),
        kept_inputs: count(bump.kept_inputs),
        fee: bump.fee.0,
        replaced_fees: bump.replaced_fees.0,
        weight: bump.weight,
        txid: hash(&bump.tx_hash),
        is_txid_final: bump.is_tx_hash_final,
        leased: bump.leased.as_ref().map(leased),
        recorded: bump.recorded.as_ref().map(self::recorded),
        psbt: bump.psbt,
        change: bump.change.map(|change| change.0),
        change_address: bump.change_address,
        valid_from_height: bump.valid_from_height,
        valid_from_time: bump.valid_from_time,
    }
}

pub(super) fn applied(applied: &BlockApplied) -> proto::ApplyBlockResponse {
    proto::ApplyBlockResponse {
        already_applied: applied.is_already_applied,
        recorded: count(applied.recorded),
        tip: applied.tip.as_ref().map(self::tip),
        set_aside: applied.set_aside.clone(),
    }
}

#[cfg(test)]
mod tests;
