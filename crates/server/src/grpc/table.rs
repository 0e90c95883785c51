//! Services from the tables of operations: each operation is a method of the contract.
//!
//! The contract gives the types of messages, and their descriptors say how an answer is written and a
//! request is read: [`encode`] and [`decode`] are formats of serde, as JSON is one. So a method has no
//! code of its own, and no text stands between the operation and the message.
//!
//! # Invariants
//!
//! * A method is named after the command of its operation: `chain status` is `ChainStatus`.
//! * A field of a request that the contract does not have is refused, as REST refuses a parameter.
//! * An answer that does not fit its message is an error of the server, never a default.

mod codec;
mod decode;
mod descriptors;
mod encode;
mod error;

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use prost::bytes::Bytes;
use tonic::{Request, Response, Status, body::Body, codegen::http, server::NamedService};
use tower::Service;
use utxokeep::ops::{
    About, Answered, Known, Operation, Part, Visitor,
    chain::{self, Chain},
};

use self::{codec::BytesCodec, descriptors::Method};
use super::calls::{CallError, Calls};
use crate::{kinds::Coded, memory};

pub(super) use self::descriptors::labels;

/// A part whose operations are a service.
pub(super) trait Served: Part<Error: Coded> + Sized {
    /// The service of the contract.
    const SERVICE: &'static str;

    /// Shows every operation to a visitor.
    fn operations(visitor: &mut impl Visitor<Self>);
}

impl Served for Chain {
    const SERVICE: &'static str = "utxokeep.v1.Chain";

    fn operations(visitor: &mut impl Visitor<Self>) {
        chain::operations(visitor);
    }
}

/// Reads a request, runs its operation, and writes the answer.
type Ask<P> = fn(&P, &Method, &[u8]) -> Result<Vec<u8>, CallError>;

/// The operations of a part as a service.
pub(super) struct TableService<P> {
    calls: Calls<P>,
    methods: Arc<[(&'static Method, Ask<P>)]>,
    /// The largest request that is read, and the largest answer.
    message_bytes_max: usize,
}

impl<P> Clone for TableService<P> {
    fn clone(&self) -> Self {
        let (calls, methods) = (self.calls.clone(), Arc::clone(&self.methods));
        Self { calls, methods, message_bytes_max: self.message_bytes_max }
    }
}

impl<P: Served> TableService<P> {
    pub(super) fn new(calls: Calls<P>, message_bytes_max: usize) -> Self {
        let mut listed = Listed { methods: Vec::new() };
        P::operations(&mut listed);
        Self { calls, methods: listed.methods.into(), message_bytes_max }
    }
}

struct Listed<P> {
    methods: Vec<(&'static Method, Ask<P>)>,
}

impl<P: Served> Visitor<P> for Listed<P> {
    fn operation<O: Operation<Part = P>>(&mut self) {
        // A test walks the table, so that none is missing.
        self.methods.extend(method_of::<P>(&O::ABOUT).map(|method| (method, ask::<O> as Ask<P>)));
    }
}

/// The method of an operation.
fn method_of<P: Served>(about: &About) -> Option<&'static Method> {
    let capital = |word: &str| {
        let (first, rest) = word.split_at(1.min(word.len()));
        first.to_uppercase() + rest
    };
    let name: String = about.command.split([' ', '-']).map(capital).collect();
    descriptors::method(&format!("/{}/{name}", P::SERVICE))
}

fn ask<O: Operation<Part: Served>>(
    part: &O::Part,
    method: &Method,
    request: &[u8],
) -> Result<Vec<u8>, CallError> {
    let request = decode::message::<O::Request>(method.request, request)?;
    match O::run(part, request, Known::NOTHING).map_err(|error| CallError::of(&error))? {
        Answered::New(answer, _) => Ok(encode::message(method.answer, &answer)?),
        // Nobody who knows nothing has the answer.
        Answered::Same(_) => Ok(Vec::new()),
    }
}

impl<P: Served> TableService<P> {
    async fn answer(
        self,
        method: &'static Method,
        ask: Ask<P>,
        request: Bytes,
    ) -> Result<Response<Vec<u8>>, Status> {
        let bytes_max = self.message_bytes_max;
        let answer = self.calls.run(move |part| {
            let answer = ask(part, method, &request)?;
            let bytes = answer.len();
            if bytes > bytes_max {
                return Err(CallError::TooLarge { bytes, bytes_max });
            }
            memory::take(bytes)?;
            Ok(answer)
        });
        Ok(Response::new(answer.await?))
    }
}

impl<P: Served> NamedService for TableService<P> {
    const NAME: &'static str = P::SERVICE;
}

impl<P: Served> Service<http::Request<Body>> for TableService<P> {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let path = request.uri().path();
        let Some(&(method, ask)) = self.methods.iter().find(|(known, _)| known.path == path) else {
            let unknown = Status::unimplemented("the contract has no such method");
            return Box::pin(async move { Ok(unknown.into_http()) });
        };
        let service = self.clone();
        let bytes_max = Some(self.message_bytes_max);
        Box::pin(async move {
            let answering = tower::service_fn(move |request: Request<Bytes>| {
                service.clone().answer(method, ask, request.into_inner())
            });
            let mut grpc =
                tonic::server::Grpc::new(BytesCodec).apply_max_message_size_config(bytes_max, None);
            Ok(grpc.unary(answering, request).await)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the contract lacks of the operations, and the other way round.
    struct Walk<P>(Vec<&'static str>, std::marker::PhantomData<P>);

    impl<P: Served> Visitor<P> for Walk<P> {
        fn operation<O: Operation<Part = P>>(&mut self) {
            let command = O::ABOUT.command;
            let method = method_of::<P>(&O::ABOUT).unwrap_or_else(|| panic!("no {command}"));
            self.0.push(method.path);
        }
    }

    #[test]
    fn every_operation_is_a_method_of_the_contract_and_every_method_an_operation() {
        let mut walk = Walk::<Chain>(Vec::new(), std::marker::PhantomData);
        Chain::operations(&mut walk);
        let prefix = format!("/{}/", Chain::SERVICE);
        let methods = descriptors::methods().filter(|method| method.path.starts_with(&prefix));
        assert_eq!(walk.0, methods.map(|method| method.path).collect::<Vec<_>>());
    }
}
