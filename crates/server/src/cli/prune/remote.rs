//! A pruner that runs elsewhere, over gRPC.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use tokio::runtime::{self, Runtime};
use tonic::{
    Code, Response, Status,
    service::interceptor::InterceptedService,
    transport::{Channel, Endpoint},
};
use utxokeep_core::{Height, Txid};

use crate::{
    access,
    cli::{error::CliError, open::Session},
    grpc::{
        TokenSender,
        proto::{self, pruner_client::PrunerClient},
    },
};

/// How long to wait for a connection.
const CONNECT_WAIT: Duration = Duration::from_secs(5);

/// A connection to a running pruner.
#[derive(Debug)]
pub(super) struct Remote {
    runtime: Runtime,
    client: PrunerClient<InterceptedService<Channel, TokenSender>>,
    address: String,
}

/// Makes a method that sends a request of one kind.
macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident($request:ident) -> $response:ident;)+) => {
        impl Remote {
            $(
                $(#[$doc])*
                pub(super) fn $name(
                    &mut self,
                    request: proto::$request,
                ) -> Result<proto::$response, CliError> {
                    let answer = self.runtime.block_on(self.client.$name(request));
                    self.answer(answer)
                }
            )+
        }
    };
}

calls! {
    /// Everything the pruner needs.
    health(PrunerHealthRequest) -> PrunerHealthResponse;
    /// Asks for a run.
    trigger(PrunerTriggerRequest) -> PrunerTriggerResponse;
    /// What it is doing.
    status(PrunerStatusRequest) -> PrunerStatusResponse;
    /// Its last runs.
    jobs(PrunerJobsRequest) -> PrunerJobsResponse;
    /// Lets no further run start.
    pause(PrunerPauseRequest) -> PrunerPauseResponse;
    /// Lets runs start again.
    resume(PrunerResumeRequest) -> PrunerResumeResponse;
    /// What a run would do.
    dry_run(PrunerDryRunRequest) -> PrunerDryRunResponse;
    /// Why a transaction is still there.
    explain(PrunerExplainRequest) -> PrunerExplainResponse;
    /// What is past due.
    backlog(PrunerBacklogRequest) -> PrunerBacklogResponse;
    /// Keeps transactions.
    preserve(PrunerPreserveRequest) -> PrunerPreserveResponse;
    /// Brings deleted transactions back.
    restore(PrunerRestoreRequest) -> PrunerRestoreResponse;
    /// Says at which height the chain is.
    confirm_height(PrunerConfirmHeightRequest) -> PrunerConfirmHeightResponse;
    /// Says that there is no persister any more.
    forget_persister(PrunerForgetPersisterRequest) -> PrunerForgetPersisterResponse;
    /// Says that the node reports no marks and no block assembly any more.
    forget_node_state(PrunerForgetNodeStateRequest) -> PrunerForgetNodeStateResponse;
}

impl Remote {
    /// Connects to the pruner at an address.
    pub(super) fn connect(session: &Session, address: &str) -> anyhow::Result<Self> {
        Self::first_of(session, &[address.to_owned()])
    }

    /// Connects to the one that is named, or to where the configuration would have one listen.
    pub(super) fn named_or_configured(
        session: &Session,
        named: Option<&str>,
    ) -> anyhow::Result<Self> {
        if let Some(address) = named {
            return Self::connect(session, address);
        }
        let config = session.config();
        let url = |listen: SocketAddr| format!("http://{listen}");
        Self::first_of(session, &[url(config.pruner.listen), url(config.grpc.listen)])
    }

    fn first_of(session: &Session, addresses: &[String]) -> anyhow::Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        for address in addresses {
            let url =
                if address.contains("://") { address.clone() } else { format!("http://{address}") };
            let endpoint = Endpoint::from_shared(url)
                .map_err(|_| CliError::BadAddress { text: address.clone() })?;
            let endpoint = endpoint.connect_timeout(CONNECT_WAIT);
            if let Ok(channel) = runtime.block_on(endpoint.connect()) {
                let is_local = is_loopback(endpoint.uri().host());
                let token = access::token_for(session.config(), session.data(), is_local)?;
                let sender = TokenSender::new(token.as_ref());
                let client = PrunerClient::with_interceptor(channel, sender);
                return Ok(Self { runtime, client, address: address.clone() });
            }
        }
        Err(CliError::NoPruner { tried: addresses.join(" and ") }.into())
    }

    fn answer<T>(&self, answer: Result<Response<T>, Status>) -> Result<T, CliError> {
        let status = match answer {
            Ok(answer) => return Ok(answer.into_inner()),
            Err(status) => status,
        };
        let address = self.address.clone();
        Err(match status.code() {
            Code::Unimplemented => CliError::NoPrunerThere { address },
            Code::Unauthenticated => CliError::PrunerWantsToken { address },
            Code::FailedPrecondition => {
                CliError::PrunerRefused { message: status.message().to_owned() }
            }
            _ => CliError::PrunerFailed { address, message: status.message().to_owned() },
        })
    }

    /// Brings one transaction back.
    pub(super) fn restore_txid(
        &mut self,
        txid: &Txid,
        newest: Option<Height>,
    ) -> Result<proto::PrunerRestoreResponse, CliError> {
        use proto::pruner_restore_request::What;
        let what = Some(What::Txid(txid.as_bytes().to_vec()));
        let newest_height = newest.map(Height::get);
        self.restore(proto::PrunerRestoreRequest { what, newest_height })
    }

    /// Brings back what runs at a height deleted.
    pub(super) fn restore_height(
        &mut self,
        height: Height,
    ) -> Result<proto::PrunerRestoreResponse, CliError> {
        use proto::pruner_restore_request::What;
        let what = Some(What::PrunedAtHeight(height.get()));
        self.restore(proto::PrunerRestoreRequest { what, newest_height: None })
    }
}

/// Whether the host of an address is this machine, whatever names lead where.
fn is_loopback(host: Option<&str>) -> bool {
    let host = host.unwrap_or("").trim_matches(['[', ']']);
    host.eq_ignore_ascii_case("localhost")
        || host.parse().is_ok_and(|address: IpAddr| address.to_canonical().is_loopback())
}
