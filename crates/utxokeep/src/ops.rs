//! Operations: what the engine offers, each stated once for every face.
//!
//! An operation is a type with a request, an answer, a few words about itself and the code that
//! answers ([`Operation`]). A part of the engine lists its operations in one function that hands each
//! to a [`Visitor`]; REST, the command line and the tests are visitors. A request is at the same time
//! the arguments of a command, the parameters of a route and their documentation.
//!
//! # Invariants
//!
//! * A face never looks into a request or an answer: what it shows is what the operation says.
//! * `--json` and REST print the same bytes for the same question to the same data.

pub mod chain;
pub mod pruner;
mod shown;
pub mod transactions;
pub mod wallets;

use serde::de::DeserializeOwned;
use utxokeep_core::ErrorKind;

pub use shown::{Answer, Lines};

/// A part of the engine that operations work on.
pub trait Part: Send + Sync + 'static {
    /// Why an operation on it fails.
    type Error: std::error::Error + Send + Sync + 'static;
}

/// One thing that a face can ask a part to do.
pub trait Operation: 'static {
    /// What it works on.
    type Part: Part;
    /// What it has to be told.
    type Request: Request;
    /// What it answers with.
    type Answer: Answer;
    /// What faces and documents say about it.
    const ABOUT: About;

    /// Carries it out.
    fn run(
        part: &Self::Part,
        request: Self::Request,
        known: Known<'_>,
    ) -> Result<Answered<Self::Answer>, <Self::Part as Part>::Error>;

    /// What it does to the data when it is asked for this: a dry run reads where the same operation
    /// changes things otherwise.
    fn effect(_request: &Self::Request) -> Effect {
        Self::ABOUT.effect
    }

    /// Where the request holds its idempotency key, if it takes one.
    fn key(_request: &mut Self::Request) -> Option<&mut Option<String>> {
        None
    }
}

/// Receives the operations of a part, one after the other.
pub trait Visitor<P: Part> {
    /// The next one.
    fn operation<O: Operation<Part = P>>(&mut self);
}

/// What a request has to be able to do: it is read from texts and described to people.
pub trait Request: DeserializeOwned + Arguments + Described + Send + 'static {}

impl<T: DeserializeOwned + Arguments + Described + Send + 'static> Request for T {}

/// The arguments of a command, where there is a command line.
#[cfg(feature = "clap")]
pub trait Arguments: clap::Args {}
#[cfg(feature = "clap")]
impl<T: clap::Args> Arguments for T {}

/// The arguments of a command, where there is a command line.
#[cfg(not(feature = "clap"))]
pub trait Arguments {}
#[cfg(not(feature = "clap"))]
impl<T> Arguments for T {}

/// What the description of REST says of a type, where there is one.
#[cfg(feature = "schema")]
pub trait Described: utoipa::ToSchema {}
#[cfg(feature = "schema")]
impl<T: utoipa::ToSchema> Described for T {}

/// What the description of REST says of a type, where there is one.
#[cfg(not(feature = "schema"))]
pub trait Described {}
#[cfg(not(feature = "schema"))]
impl<T> Described for T {}

/// The method of HTTP that an operation is asked for with. A body goes with `Post` and `Put`, parameters
/// of the query with the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Reads.
    Get,
    /// Makes or does something.
    Post,
    /// Sets something.
    Put,
    /// Removes something.
    Delete,
}

/// What an operation does to the data that it works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing. The data is opened to read, and the work ends when its client is gone.
    Reads,
    /// It changes data that exists. The work is finished even if its client is gone.
    Changes,
    /// It may create the data as well.
    Creates,
}

/// What travels besides JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Media {
    /// Nothing: requests and answers are JSON.
    Json,
    /// The body of a request is lines of JSON, which become this field.
    LinesIn(&'static str),
    /// The answer is lines of JSON, which [`Answer::lines`] has.
    LinesOut,
}

/// What faces and documents say about an operation.
#[derive(Debug, Clone, Copy)]
pub struct About {
    /// The command: a noun and a verb, or a noun, a group and a verb.
    pub command: &'static str,
    /// Whether the program writes the command by hand, because it takes more than the request, such
    /// as files.
    pub is_command_by_hand: bool,
    /// How the route is asked for.
    pub method: Method,
    /// What it does to the data, at most.
    pub effect: Effect,
    /// What travels besides JSON.
    pub media: Media,
    /// Whether it takes an idempotency key; [`Operation::key`] says where.
    pub takes_key: bool,
    /// The route, with the names of request fields in braces.
    pub path: &'static str,
    /// Further routes to the same, which the description leaves out.
    pub also: &'static [&'static str],
    /// The group of routes that it belongs to.
    pub tag: &'static str,
    /// One line, without a full stop.
    pub summary: &'static str,
    /// What else a caller should know; may be empty.
    pub description: &'static str,
    /// Which block an answer belongs to, if it belongs to one.
    pub mark: Option<&'static str>,
    /// What it may fail with, besides a wrong parameter and a busy server.
    pub refusals: &'static [Refusal],
}

impl About {
    /// A read with nothing said about it; an operation fills in the rest.
    pub const READ: Self = Self {
        command: "",
        is_command_by_hand: false,
        method: Method::Get,
        effect: Effect::Reads,
        media: Media::Json,
        takes_key: false,
        path: "",
        also: &[],
        tag: "",
        summary: "",
        description: "",
        mark: None,
        refusals: &[],
    };
}

/// A kind of failure, and when it happens.
pub type Refusal = (ErrorKind, &'static str);

/// Tells whether the caller has the answer of the block with this hash already.
#[derive(Clone, Copy)]
pub struct Known<'k>(&'k dyn Fn(&str) -> bool);

impl<'k> Known<'k> {
    /// A caller that has no answer.
    pub const NOTHING: Known<'static> = Known(&|_| false);

    /// A caller that has those of the blocks that `knows` says yes to.
    #[must_use]
    pub fn new(knows: &'k dyn Fn(&str) -> bool) -> Self {
        Self(knows)
    }

    /// Answers with `make`, unless the caller has the answer of this block.
    pub fn unless_same<T, E>(
        self,
        mark: Mark,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<Answered<T>, E> {
        if (self.0)(&mark.hash) {
            return Ok(Answered::Same(mark));
        }
        Ok(Answered::New(make()?, Some(mark)))
    }
}

impl std::fmt::Debug for Known<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Known")
    }
}

/// The block that an answer belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// Its hash, as people write it.
    pub hash: String,
    /// Whether the same block always means the same bytes; else details such as sizes may differ.
    pub is_exact: bool,
}

/// What an operation came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answered<T> {
    /// An answer, and the block that it belongs to.
    New(T, Option<Mark>),
    /// The caller has the answer already.
    Same(Mark),
}

impl<T> From<T> for Answered<T> {
    fn from(answer: T) -> Self {
        Self::New(answer, None)
    }
}
