//! Commands from the tables of operations.
//!
//! # Invariants
//!
//! * A command has no code of its own: its arguments are the request, its output is the answer.
//! * An operation that only reads opens its data to read.

use clap::{ArgMatches, Args as _, Command, FromArgMatches as _};
use utxokeep::ops::{
    Answered, Known, Operation, Part, Visitor,
    chain::{self, Chain, ChainLimits},
};

use super::{open::Session, output};

/// Groups of commands that consist of operations alone.
const NOUNS: &[(&str, &str)] = &[
    ("utxo", "Look at single outputs"),
    ("address", "Look at what an address, script or credential owns"),
    ("credential", "Look at what a credential of Cardano owns"),
    ("script", "Look at what an output script of Bitcoin owns, by its hash"),
];

/// An operation that the arguments chose, with its request.
pub(super) type Chosen = Box<dyn FnOnce(&Session) -> anyhow::Result<()>>;

/// A part that a command can open.
trait Opens: Part + Sized {
    fn open(session: &Session) -> anyhow::Result<Self>;
}

impl Opens for Chain {
    fn open(session: &Session) -> anyhow::Result<Self> {
        Ok(Self::new(session.open()?, ChainLimits::ALONE))
    }
}

/// Adds a command for each operation.
pub(super) fn with_operations(root: Command) -> Command {
    let mut adding = Adding { root };
    chain::operations(&mut adding);
    adding.root
}

struct Adding {
    root: Command,
}

impl<P: Part> Visitor<P> for Adding {
    fn operation<O: Operation<Part = P>>(&mut self) {
        let about = O::ABOUT;
        let (noun, verb) = about.command.split_once(' ').expect("a noun and a verb");
        let mut command = O::Request::augment_args(Command::new(verb)).about(about.summary);
        if !about.description.is_empty() {
            command = command.long_about(format!("{}.\n\n{}", about.summary, about.description));
        }
        let mut root = std::mem::take(&mut self.root);
        if root.find_subcommand(noun).is_none() {
            let known = NOUNS.iter().find(|(known, _)| *known == noun);
            let (_, text) = known.expect("every noun is described");
            let group = Command::new(noun).about(*text).subcommand_required(true);
            root = root.subcommand(group.arg_required_else_help(true));
        }
        self.root = root.mut_subcommand(noun, |group| group.subcommand(command));
    }
}

/// The operation that the arguments name, if they name one.
pub(super) fn chosen(matches: &ArgMatches) -> Result<Option<Chosen>, clap::Error> {
    let Some((noun, group)) = matches.subcommand() else { return Ok(None) };
    let Some((verb, matches)) = group.subcommand() else { return Ok(None) };
    let mut choosing = Choosing { words: format!("{noun} {verb}"), matches, chosen: Ok(None) };
    chain::operations(&mut choosing);
    choosing.chosen
}

struct Choosing<'m> {
    words: String,
    matches: &'m ArgMatches,
    chosen: Result<Option<Chosen>, clap::Error>,
}

impl<P: Opens> Visitor<P> for Choosing<'_> {
    fn operation<O: Operation<Part = P>>(&mut self) {
        if O::ABOUT.command == self.words {
            self.chosen = O::Request::from_arg_matches(self.matches).map(|request| {
                let run = |session: &Session| run::<O>(session, request);
                Some(Box::new(run) as Chosen)
            });
        }
    }
}

fn run<O: Operation<Part: Opens>>(session: &Session, request: O::Request) -> anyhow::Result<()> {
    let part = O::Part::open(session)?;
    match O::run(&part, request, Known::NOTHING)? {
        Answered::New(answer, _) => output::answer(session.json(), &answer),
        // Nobody who knows nothing has the answer.
        Answered::Same(_) => Ok(()),
    }
}
