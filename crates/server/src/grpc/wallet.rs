//! The service of the wallet ledger: every method leads to its operation.

use std::time::Duration;

use tokio::{
    task::spawn_blocking,
    time::{self, MissedTickBehavior},
};
use tonic::{Request, Response, Status};
use tonic_health::{ServingStatus, server::HealthReporter};

use super::{
    calls::{CallError, Calls},
    proto,
    services::wallets_server,
    wallet_events::{self as events, Events},
    wallet_operations::{self as operations, Limits},
    wallet_payments as payments,
    wallet_streams::{self as streams, Labels, Pruned},
};
use crate::wallets::Wallets;

/// How often the health service is told whether the database answers.
const HEALTH_EVERY: Duration = Duration::from_secs(5);

/// The wallet ledger as a service.
#[derive(Clone)]
pub(super) struct WalletService {
    pub(super) calls: Calls<Wallets>,
    pub(super) limits: Limits,
}

/// A response, or the status of a call that failed.
type Answer<T> = Result<Response<T>, Status>;

impl WalletService {
    async fn answer<A: Send + 'static, B: Send + 'static>(
        &self,
        request: Request<A>,
        operation: fn(&Wallets, A, &Limits) -> Result<B, CallError>,
    ) -> Answer<B> {
        let (request, limits) = (request.into_inner(), self.limits);
        let answer = self.calls.run(move |wallets| operation(wallets, request, &limits)).await?;
        Ok(Response::new(answer))
    }
}

/// Keeps the health service up to date, for ever.
pub(super) async fn watch_health(wallets: Wallets, health: HealthReporter) {
    let mut ticks = time::interval(HEALTH_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let asked = wallets.clone();
        let status = match spawn_blocking(move || asked.check()).await {
            Ok(Ok(())) => ServingStatus::Serving,
            Ok(Err(_)) | Err(_) => ServingStatus::NotServing,
        };
        health.set_service_status(wallets_server::SERVICE_NAME, status).await;
    }
}

#[tonic::async_trait]
impl wallets_server::Wallets for WalletService {
    type ExportLabelsStream = Labels;
    type PruneWalletStream = Pruned;
    type WatchWalletEventsStream = Events;

    async fn watch_wallet_events(
        &self,
        request: Request<proto::WatchWalletEventsRequest>,
    ) -> Answer<Events> {
        let events = events::watch_events(self.calls.clone(), request.into_inner(), self.limits);
        Ok(Response::new(events.await?))
    }

    async fn list_wallet_events(
        &self,
        request: Request<proto::ListWalletEventsRequest>,
    ) -> Answer<proto::ListWalletEventsResponse> {
        self.answer(request, events::list_events).await
    }

    async fn add_webhook(
        &self,
        request: Request<proto::AddWebhookRequest>,
    ) -> Answer<proto::AddWebhookResponse> {
        self.answer(request, events::add_webhook).await
    }

    async fn list_webhooks(
        &self,
        request: Request<proto::ListWebhooksRequest>,
    ) -> Answer<proto::ListWebhooksResponse> {
        self.answer(request, events::list_webhooks).await
    }

    async fn pause_webhook(
        &self,
        request: Request<proto::PauseWebhookRequest>,
    ) -> Answer<proto::PauseWebhookResponse> {
        self.answer(request, events::pause_webhook).await
    }

    async fn resume_webhook(
        &self,
        request: Request<proto::ResumeWebhookRequest>,
    ) -> Answer<proto::ResumeWebhookResponse> {
        self.answer(request, events::resume_webhook).await
    }

    async fn remove_webhook(
        &self,
        request: Request<proto::RemoveWebhookRequest>,
    ) -> Answer<proto::RemoveWebhookResponse> {
        self.answer(request, events::remove_webhook).await
    }

    async fn test_webhook(
        &self,
        request: Request<proto::TestWebhookRequest>,
    ) -> Answer<proto::TestWebhookResponse> {
        self.answer(request, events::test_webhook).await
    }

    async fn export_labels(&self, request: Request<proto::ExportLabelsRequest>) -> Answer<Labels> {
        let labels = streams::labels(self.calls.clone(), request.into_inner()).await?;
        Ok(Response::new(labels))
    }

    async fn prune_wallet(&self, request: Request<proto::PruneWalletRequest>) -> Answer<Pruned> {
        let calls = self.calls.clone();
        let pruned = streams::pruned(calls, request.into_inner(), &self.limits).await?;
        Ok(Response::new(pruned))
    }

    async fn create_wallet(
        &self,
        request: Request<proto::CreateWalletRequest>,
    ) -> Answer<proto::CreateWalletResponse> {
        self.answer(request, operations::create_wallet).await
    }

    async fn list_wallets(
        &self,
        request: Request<proto::ListWalletsRequest>,
    ) -> Answer<proto::ListWalletsResponse> {
        self.answer(request, operations::list_wallets).await
    }

    async fn get_wallet(
        &self,
        request: Request<proto::GetWalletRequest>,
    ) -> Answer<proto::GetWalletResponse> {
        self.answer(request, operations::get_wallet).await
    }

    async fn add_addresses(
        &self,
        request: Request<proto::AddAddressesRequest>,
    ) -> Answer<proto::AddAddressesResponse> {
        self.answer(request, operations::add_addresses).await
    }

    async fn list_addresses(
        &self,
        request: Request<proto::ListAddressesRequest>,
    ) -> Answer<proto::ListAddressesResponse> {
        self.answer(request, operations::list_addresses).await
    }

    async fn add_descriptor(
        &self,
        request: Request<proto::AddDescriptorRequest>,
    ) -> Answer<proto::AddDescriptorResponse> {
        self.answer(request, operations::add_descriptor).await
    }

    async fn list_descriptors(
        &self,
        request: Request<proto::ListDescriptorsRequest>,
    ) -> Answer<proto::ListDescriptorsResponse> {
        self.answer(request, operations::list_descriptors).await
    }

    async fn archive_wallet(
        &self,
        request: Request<proto::ArchiveWalletRequest>,
    ) -> Answer<proto::ArchiveWalletResponse> {
        self.answer(request, operations::archive_wallet).await
    }

    async fn restore_wallet(
        &self,
        request: Request<proto::RestoreWalletRequest>,
    ) -> Answer<proto::RestoreWalletResponse> {
        self.answer(request, operations::restore_wallet).await
    }

    async fn archive_descriptor(
        &self,
        request: Request<proto::ArchiveDescriptorRequest>,
    ) -> Answer<proto::ArchiveDescriptorResponse> {
        self.answer(request, operations::archive_descriptor).await
    }

    async fn restore_descriptor(
        &self,
        request: Request<proto::RestoreDescriptorRequest>,
    ) -> Answer<proto::RestoreDescriptorResponse> {
        self.answer(request, operations::restore_descriptor).await
    }

    async fn next_address(
        &self,
        request: Request<proto::NextAddressRequest>,
    ) -> Answer<proto::NextAddressResponse> {
        self.answer(request, operations::next_address).await
    }

    async fn get_balance(
        &self,
        request: Request<proto::GetBalanceRequest>,
    ) -> Answer<proto::GetBalanceResponse> {
        self.answer(request, operations::get_balance).await
    }

    async fn list_coins(
        &self,
        request: Request<proto::ListCoinsRequest>,
    ) -> Answer<proto::ListCoinsResponse> {
        self.answer(request, operations::list_coins).await
    }

    async fn get_coin(
        &self,
        request: Request<proto::GetCoinRequest>,
    ) -> Answer<proto::GetCoinResponse> {
        self.answer(request, operations::get_coin).await
    }

    async fn list_transactions(
        &self,
        request: Request<proto::ListTransactionsRequest>,
    ) -> Answer<proto::ListTransactionsResponse> {
        self.answer(request, operations::list_transactions).await
    }

    async fn get_transaction(
        &self,
        request: Request<proto::GetTransactionRequest>,
    ) -> Answer<proto::GetTransactionResponse> {
        self.answer(request, operations::get_transaction).await
    }

    async fn list_replacements(
        &self,
        request: Request<proto::ListReplacementsRequest>,
    ) -> Answer<proto::ListReplacementsResponse> {
        self.answer(request, operations::list_replacements).await
    }

    async fn record_transaction(
        &self,
        request: Request<proto::RecordTransactionRequest>,
    ) -> Answer<proto::RecordTransactionResponse> {
        self.answer(request, operations::record_transaction).await
    }

    async fn publish_transaction(
        &self,
        request: Request<proto::PublishTransactionRequest>,
    ) -> Answer<proto::PublishTransactionResponse> {
        self.answer(request, operations::publish_transaction).await
    }

    async fn broadcast_transaction(
        &self,
        request: Request<proto::BroadcastTransactionRequest>,
    ) -> Answer<proto::BroadcastTransactionResponse> {
        self.answer(request, operations::broadcast_transaction).await
    }

    async fn confirm_transaction(
        &self,
        request: Request<proto::ConfirmTransactionRequest>,
    ) -> Answer<proto::ConfirmTransactionResponse> {
        self.answer(request, operations::confirm_transaction).await
    }

    async fn unconfirm_transaction(
        &self,
        request: Request<proto::UnconfirmTransactionRequest>,
    ) -> Answer<proto::UnconfirmTransactionResponse> {
        self.answer(request, operations::unconfirm_transaction).await
    }

    async fn abandon_transaction(
        &self,
        request: Request<proto::AbandonTransactionRequest>,
    ) -> Answer<proto::AbandonTransactionResponse> {
        self.answer(request, operations::abandon_transaction).await
    }

    async fn remove_transaction(
        &self,
        request: Request<proto::RemoveTransactionRequest>,
    ) -> Answer<proto::RemoveTransactionResponse> {
        self.answer(request, operations::remove_transaction).await
    }

    async fn acquire_leases(
        &self,
        request: Request<proto::AcquireLeasesRequest>,
    ) -> Answer<proto::AcquireLeasesResponse> {
        self.answer(request, payments::acquire_leases).await
    }

    async fn renew_leases(
        &self,
        request: Request<proto::RenewLeasesRequest>,
    ) -> Answer<proto::RenewLeasesResponse> {
        self.answer(request, payments::renew_leases).await
    }

    async fn clean_leases(
        &self,
        request: Request<proto::CleanLeasesRequest>,
    ) -> Answer<proto::CleanLeasesResponse> {
        self.answer(request, payments::clean_leases).await
    }

    async fn release_leases(
        &self,
        request: Request<proto::ReleaseLeasesRequest>,
    ) -> Answer<proto::ReleaseLeasesResponse> {
        self.answer(request, payments::release_leases).await
    }

    async fn list_leases(
        &self,
        request: Request<proto::ListLeasesRequest>,
    ) -> Answer<proto::ListLeasesResponse> {
        self.answer(request, payments::list_leases).await
    }

    async fn select_coins(
        &self,
        request: Request<proto::SelectCoinsRequest>,
    ) -> Answer<proto::SelectCoinsResponse> {
        self.answer(request, payments::select_coins).await
    }

    async fn create_psbt(
        &self,
        request: Request<proto::CreatePsbtRequest>,
    ) -> Answer<proto::CreatePsbtResponse> {
        self.answer(request, payments::create_psbt).await
    }

    async fn bump_fee(
        &self,
        request: Request<proto::BumpFeeRequest>,
    ) -> Answer<proto::BumpFeeResponse> {
        self.answer(request, payments::bump_fee).await
    }

    async fn set_transaction_label(
        &self,
        request: Request<proto::SetTransactionLabelRequest>,
    ) -> Answer<proto::SetTransactionLabelResponse> {
        self.answer(request, operations::set_transaction_label).await
    }

    async fn import_labels(
        &self,
        request: Request<proto::ImportLabelsRequest>,
    ) -> Answer<proto::ImportLabelsResponse> {
        self.answer(request, operations::import_labels).await
    }

    async fn freeze_coin(
        &self,
        request: Request<proto::FreezeCoinRequest>,
    ) -> Answer<proto::FreezeCoinResponse> {
        self.answer(request, operations::freeze_coin).await
    }

    async fn unfreeze_coin(
        &self,
        request: Request<proto::UnfreezeCoinRequest>,
    ) -> Answer<proto::UnfreezeCoinResponse> {
        self.answer(request, operations::unfreeze_coin).await
    }

    async fn list_pruned(
        &self,
        request: Request<proto::ListPrunedRequest>,
    ) -> Answer<proto::ListPrunedResponse> {
        self.answer(request, operations::list_pruned).await
    }

    async fn acknowledge_pruned(
        &self,
        request: Request<proto::AcknowledgePrunedRequest>,
    ) -> Answer<proto::AcknowledgePrunedResponse> {
        self.answer(request, operations::acknowledge_pruned).await
    }

    async fn verify_wallet(
        &self,
        request: Request<proto::VerifyWalletRequest>,
    ) -> Answer<proto::VerifyWalletResponse> {
        self.answer(request, operations::verify_wallet).await
    }

    async fn verify_wallets(
        &self,
        request: Request<proto::VerifyWalletsRequest>,
    ) -> Answer<proto::VerifyWalletsResponse> {
        self.answer(request, operations::verify_wallets).await
    }

    async fn get_tip(
        &self,
        request: Request<proto::GetTipRequest>,
    ) -> Answer<proto::GetTipResponse> {
        self.answer(request, operations::get_tip).await
    }

    async fn apply_block(
        &self,
        request: Request<proto::ApplyBlockRequest>,
    ) -> Answer<proto::ApplyBlockResponse> {
        self.answer(request, operations::apply_block).await
    }

    async fn disconnect_block(
        &self,
        request: Request<proto::DisconnectBlockRequest>,
    ) -> Answer<proto::DisconnectBlockResponse> {
        self.answer(request, operations::disconnect_block).await
    }

    async fn rescan_wallet(
        &self,
        request: Request<proto::RescanWalletRequest>,
    ) -> Answer<proto::RescanWalletResponse> {
        self.answer(request, operations::rescan_wallet).await
    }

    async fn roll_back(
        &self,
        request: Request<proto::RollBackRequest>,
    ) -> Answer<proto::RollBackResponse> {
        self.answer(request, operations::roll_back).await
    }
}
