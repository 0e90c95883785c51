//! Connections to one server, and who may use them.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::client::{Address, Command, Connection, Connector, Lost, Reply};

/// One server, with the connections that are idle.
pub(crate) struct Node {
    pub(crate) address: Address,
    connector: Arc<dyn Connector>,
    idle: Mutex<Vec<Box<dyn Connection>>>,
    /// One permit for each connection that there may be.
    permits: Arc<Semaphore>,
}

/// A connection for one call alone.
pub(crate) struct Lease<'n> {
    node: &'n Node,
    connection: Box<dyn Connection>,
    _permit: OwnedSemaphorePermit,
}

impl Node {
    pub(crate) fn new(address: Address, connector: Arc<dyn Connector>, most: usize) -> Self {
        let permits = Arc::new(Semaphore::new(most));
        Self { address, connector, idle: Mutex::new(Vec::new()), permits }
    }

    /// An idle connection, or a new one; waits where all are in use.
    pub(crate) async fn lease(&self) -> Result<Lease<'_>, Lost> {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.map_err(|_| Lost { what: "the store is closed".to_owned() })?;
        let connection = match self.idle() {
            Some(connection) => connection,
            None => self.connector.connect(&self.address).await?,
        };
        Ok(Lease { node: self, connection, _permit: permit })
    }

    fn idle(&self) -> Option<Box<dyn Connection>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        // A write on one that the server has closed would be in doubt for nothing.
        idle.retain(|connection| connection.is_open());
        idle.pop()
    }

    /// One command, on any connection. One that went stale while it was idle is replaced once.
    pub(crate) async fn ask(&self, command: Command) -> Result<Reply, Lost> {
        let mut attempt = 0;
        loop {
            let outcome = self.lease().await?.pipeline(vec![command.clone()]).await;
            attempt += 1;
            match outcome {
                Ok(replies) => {
                    let none = || Lost { what: "an answer is missing".to_owned() };
                    return replies.into_iter().next().ok_or_else(none);
                }
                Err(_) if attempt == 1 => self.forget_idle(),
                Err(lost) => return Err(lost),
            }
        }
    }

    /// Closes the connections that are idle: one was found lost, so that the others may be.
    pub(crate) fn forget_idle(&self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Lease<'_> {
    /// Sends commands; the connection goes back afterwards unless it is lost.
    pub(crate) async fn pipeline(self, commands: Vec<Command>) -> Result<Vec<Reply>, Lost> {
        let replies = self.connection.pipeline(commands).await?;
        let mut idle = self.node.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(self.connection);
        Ok(replies)
    }
}
