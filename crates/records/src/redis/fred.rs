//! Connections made by the `fred` client, one client for each, which never connects again by itself:
//! what is sent twice, and on which connection, is decided in this crate.

use std::{sync::Arc, time::Duration};

use fred::{
    clients::Client,
    error::{Error, ErrorKind},
    interfaces::ClientLike as _,
    rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs},
    types::{
        ClusterHash, ConnectHandle, CustomCommand, Value,
        config::{
            Config, ConnectionConfig, PerformanceConfig, Server, ServerConfig, TcpConfig,
            TlsConfig, TlsConnector,
        },
    },
};

use super::{
    client::{Address, Command, Connection, Connector, Future, Lost, Reply},
    options::RedisOptions,
};
use crate::error::RecordError;

/// Makes connections as the options say.
pub(crate) struct FredConnector {
    username: Option<String>,
    password: Option<String>,
    connect_timeout: Duration,
    command_timeout: Duration,
    tls: Option<TlsConfig>,
}

impl FredConnector {
    pub(crate) fn new(options: &RedisOptions) -> Result<Self, RecordError> {
        Ok(Self {
            username: options.username.clone(),
            password: options.password.clone(),
            connect_timeout: Duration::from_millis(options.connect_timeout_ms),
            command_timeout: Duration::from_millis(options.command_timeout_ms),
            tls: options.is_encrypted.then(tls).transpose()?,
        })
    }

    async fn open(&self, address: &Address) -> Result<FredConnection, Error> {
        let server = Server::new(address.host.clone(), address.port);
        let config = Config {
            fail_fast: true,
            username: self.username.clone(),
            password: self.password.clone(),
            server: ServerConfig::Centralized { server },
            tls: self.tls.clone(),
            ..Config::default()
        };
        let performance = PerformanceConfig {
            default_command_timeout: self.command_timeout,
            max_feed_count: 1_000,
            ..PerformanceConfig::default()
        };
        let connection = ConnectionConfig {
            connection_timeout: self.connect_timeout,
            internal_command_timeout: self.connect_timeout,
            max_command_attempts: 1,
            max_redirections: 0,
            tcp: TcpConfig { nodelay: Some(true), ..TcpConfig::default() },
            ..ConnectionConfig::default()
        };
        // NOTE: without a policy the client does not reconnect. With one it would send what was under
        // way again on a fresh connection, where WAIT is satisfied without waiting.
        let client = Client::new(config, Some(performance), Some(connection), None);
        let task = client.init().await?;
        Ok(FredConnection { client, task })
    }
}

/// Authorities that the machine trusts; `SSL_CERT_FILE` names others.
fn tls() -> Result<TlsConfig, RecordError> {
    let unusable = |what: String| RecordError::Config { what };
    let mut roots = RootCertStore::empty();
    let found = fred::rustls_native_certs::load_native_certs().certs;
    if roots.add_parsable_certificates(found).0 == 0 {
        return Err(unusable(
            "this machine trusts no certificate authority: install its ca-certificates, or name \
             a file with SSL_CERT_FILE"
                .to_owned(),
        ));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(format!("TLS cannot be used: {error}")))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(config).into())
}

impl Connector for FredConnector {
    fn connect<'a>(
        &'a self,
        address: &'a Address,
    ) -> Future<'a, Result<Box<dyn Connection>, Lost>> {
        Box::pin(async move {
            let limit = 2 * self.connect_timeout;
            match tokio::time::timeout(limit, self.open(address)).await {
                Ok(Ok(connection)) => Ok(Box::new(connection) as Box<dyn Connection>),
                Ok(Err(error)) => Err(Lost { what: format!("{address}: {error}") }),
                Err(_) => Err(Lost { what: format!("{address}: no connection in {limit:?}") }),
            }
        })
    }
}

struct FredConnection {
    client: Client,
    task: ConnectHandle,
}

impl Drop for FredConnection {
    fn drop(&mut self) {
        // Closing in due form would wait for a server that is paused.
        self.task.abort();
    }
}

impl Connection for FredConnection {
    fn is_open(&self) -> bool {
        !self.task.is_finished()
    }

    fn pipeline(&self, commands: Vec<Command>) -> Future<'_, Result<Vec<Reply>, Lost>> {
        Box::pin(async move {
            let count = commands.len();
            let pipeline = self.client.pipeline();
            for command in commands {
                let kind = CustomCommand::new_static(command.name, ClusterHash::FirstKey, false);
                let args = command.args.into_iter().map(|arg| Value::Bytes(arg.into())).collect();
                let queued: Result<(), Error> = pipeline.custom::<(), Value>(kind, args).await;
                queued.map_err(|error| Lost { what: error.to_string() })?;
            }
            let results = pipeline.try_all::<Value>().await;
            if results.len() != count {
                let first = results.into_iter().find_map(Result::err);
                let what =
                    first.map_or_else(|| "answers are missing".to_owned(), |e| e.to_string());
                return Err(Lost { what });
            }
            results.into_iter().map(reply).collect()
        })
    }
}

/// An answer; or a failure of the client itself, which looks the same in a pipeline of one command.
fn reply(result: Result<Value, Error>) -> Result<Reply, Lost> {
    match result {
        Ok(value) => Ok(value_of(value)),
        Err(error) if is_of_server(&error) => Ok(Reply::Error(error.details().to_owned())),
        Err(error) => Err(Lost { what: error.to_string() }),
    }
}

/// Errors of a server begin with a word in capitals; those of the client do not.
fn is_of_server(error: &Error) -> bool {
    let is_transport = matches!(
        error.kind(),
        ErrorKind::IO | ErrorKind::Timeout | ErrorKind::Canceled | ErrorKind::Protocol
    );
    let word = error.details().split_whitespace().next().unwrap_or_default();
    let is_capital = |byte: u8| byte.is_ascii_uppercase() || byte == b'_' || byte.is_ascii_digit();
    !is_transport && word.len() > 1 && word.bytes().all(is_capital)
}

fn value_of(value: Value) -> Reply {
    match value {
        Value::Null => Reply::Nil,
        Value::Integer(number) => Reply::Number(number),
        Value::Boolean(flag) => Reply::Number(i64::from(flag)),
        Value::Array(list) => Reply::List(list.into_iter().map(value_of).collect()),
        Value::String(text) => Reply::Bytes(text.as_bytes().to_vec()),
        Value::Bytes(bytes) => Reply::Bytes(bytes.to_vec()),
        Value::Double(number) => Reply::Bytes(number.to_string().into_bytes()),
        Value::Queued => Reply::Bytes(b"QUEUED".to_vec()),
        Value::Map(map) => {
            let pairs = map.inner().into_iter();
            let flat = pairs
                .flat_map(|(key, value)| [Reply::Bytes(key.as_bytes().to_vec()), value_of(value)]);
            Reply::List(flat.collect())
        }
    }
}
