//! Commands from the tables of operations.
//!
//! # Invariants
//!
//! * A command has no code of its own: its arguments are the request, its output is the answer.
//! * An operation that only reads opens its data to read.

use clap::{ArgMatches, Args as _, Command, FromArgMatches as _};
use utxokeep::{
    engine::known_ledger,
    ops::{
        About, Answer as _, Answered, Effect, Known, Operation, Part, Visitor,
        chain::{self, Chain, ChainLimits},
        pruner::{self, PrunerPart},
        transactions::{self, Transactions},
        wallets,
    },
    wallets::Wallets,
};
use utxokeep_core::OpenMode;

use super::{
    args::{Store, Target},
    exit::Exit,
    open::Session,
    output, prune, tx,
};
use crate::kinds::Codes;

/// Groups of commands that consist of operations alone.
const NOUNS: &[(&str, &str)] = &[
    ("utxo", "Look at single outputs"),
    ("address", "Look at what an address, script or credential owns"),
    ("credential", "Look at what a credential of Cardano owns"),
    ("wallet address", "Watch addresses, and hand out new ones"),
    ("wallet descriptor", "Watch output descriptors"),
    ("wallet webhook", "Send events to other programs over HTTP; `serve` delivers them"),
    ("wallet lease", "Take coins out of circulation for a while"),
    ("script", "Look at what an output script of Bitcoin owns, by its hash"),
];

/// An operation that the arguments chose.
pub(super) struct Chosen {
    /// How it opens the data that it works on.
    pub(super) mode: OpenMode,
    /// Carries it out.
    pub(super) run: Run,
}

/// Carries an operation out.
type Run = Box<dyn FnOnce(&Session) -> anyhow::Result<Exit>>;

/// A part that a command can open.
trait Opens: Part + Sized {
    /// Adds options that say which one, where the configuration does not.
    fn with_options(command: Command) -> Command {
        command
    }

    /// Opens it for an operation, as the options say.
    fn open(session: &Session, about: &About, options: &ArgMatches) -> anyhow::Result<Self>;
}

impl Opens for Wallets {
    fn open(session: &Session, _: &About, options: &ArgMatches) -> anyhow::Result<Self> {
        let ledger = options.get_one::<String>("ledger");
        let session = session.with_ledger(ledger.map(String::as_str))?;
        Ok(known_ledger(session.config(), session.mode())?.alone())
    }
}

impl Opens for Chain {
    fn open(session: &Session, _: &About, _: &ArgMatches) -> anyhow::Result<Self> {
        Ok(Self::new(session.open()?, ChainLimits::ALONE))
    }
}

impl Opens for Transactions {
    fn with_options(command: Command) -> Command {
        Store::augment_args(command)
    }

    fn open(session: &Session, _: &About, options: &ArgMatches) -> anyhow::Result<Self> {
        let Store { store } = Store::from_arg_matches(options)?;
        let url = tx::url_of(session, store.as_deref())?;
        let window = session.config().pruner.safety_window_blocks;
        Ok(Self::new(tx::open(session, Some(url))?, url, window))
    }
}

/// Operations that a store alone answers only where it is named.
const OF_A_RUNNING_PRUNER: &[&str] = &["pruner status", "pruner jobs"];

impl Opens for PrunerPart {
    fn with_options(command: Command) -> Command {
        Target::augment_args(command)
    }

    fn open(session: &Session, about: &About, options: &ArgMatches) -> anyhow::Result<Self> {
        let target = Target::from_arg_matches(options)?;
        prune::asked(session, &target, OF_A_RUNNING_PRUNER.contains(&about.command))
    }
}

/// How an operation of this effect opens its data.
const fn mode(effect: Effect) -> OpenMode {
    match effect {
        Effect::Reads => OpenMode::Read,
        Effect::Changes => OpenMode::Existing,
        Effect::Creates => OpenMode::Create,
    }
}

/// Adds a command for each operation.
pub(super) fn with_operations(root: Command) -> Command {
    let mut adding = Adding { root };
    chain::operations(&mut adding);
    transactions::operations(&mut adding);
    pruner::operations(&mut adding);
    wallets::operations(&mut adding);
    adding.root
}

struct Adding {
    root: Command,
}

impl<P: Opens> Visitor<P> for Adding {
    fn operation<O: Operation<Part = P>>(&mut self) {
        let about = O::ABOUT;
        if about.is_command_by_hand {
            return;
        }
        let (groups, verb) = about.command.rsplit_once(' ').expect("a noun and a verb");
        let command = P::with_options(O::Request::augment_args(Command::new(verb)));
        let mut command = command.about(about.summary);
        if !about.description.is_empty() {
            command = command.long_about(format!("{}.\n\n{}", about.summary, about.description));
        }
        let root = std::mem::take(&mut self.root);
        self.root = with_command(root, "", groups, command);
    }
}

/// Adds a command below groups, which are made where they are missing.
fn with_command(parent: Command, above: &str, groups: &'static str, command: Command) -> Command {
    let (group, rest) = groups.split_once(' ').unwrap_or((groups, ""));
    if group.is_empty() {
        return parent.subcommand(command);
    }
    let name = format!("{above} {group}");
    let parent = if parent.find_subcommand(group).is_some() {
        parent
    } else {
        let known = NOUNS.iter().find(|(known, _)| *known == name.trim_start());
        let (_, text) = known.expect("every group is described");
        let new = Command::new(group).about(*text).subcommand_required(true);
        parent.subcommand(new.arg_required_else_help(true))
    };
    parent.mut_subcommand(group, |group| with_command(group, &name, rest, command))
}

/// The words of a command, and its own arguments.
fn command(mut matches: &ArgMatches) -> (Vec<&str>, &ArgMatches) {
    let mut words = Vec::new();
    while let Some((word, inner)) = matches.subcommand() {
        words.push(word);
        matches = inner;
    }
    (words, matches)
}

/// The operation that the arguments name, if they name one.
pub(super) fn chosen(matches: &ArgMatches) -> Result<Option<Chosen>, clap::Error> {
    let (words, matches) = command(matches);
    let mut choosing = Choosing { words: words.join(" "), matches, chosen: Ok(None) };
    chain::operations(&mut choosing);
    transactions::operations(&mut choosing);
    pruner::operations(&mut choosing);
    wallets::operations(&mut choosing);
    choosing.chosen
}

struct Choosing<'m> {
    words: String,
    matches: &'m ArgMatches,
    chosen: Result<Option<Chosen>, clap::Error>,
}

impl<P: Opens> Visitor<P> for Choosing<'_> {
    fn operation<O: Operation<Part = P>>(&mut self) {
        if O::ABOUT.command == self.words && !O::ABOUT.is_command_by_hand {
            self.chosen = O::Request::from_arg_matches(self.matches).map(|request| {
                let (mode, options) = (mode(O::effect(&request)), self.matches.clone());
                let run = move |session: &Session| run::<O>(session, &options, request);
                Some(Chosen { mode, run: Box::new(run) })
            });
        }
    }
}

fn run<O: Operation<Part: Opens>>(
    session: &Session,
    options: &ArgMatches,
    request: O::Request,
) -> anyhow::Result<Exit> {
    let part = O::Part::open(session, &O::ABOUT, options)?;
    // Nobody who knows nothing has the answer.
    let Answered::New(answer, _) = O::run(&part, request, Known::NOTHING)? else {
        return Ok(Exit::Success);
    };
    output::answer(session.json(), &answer)?;
    if let Some(advice) = answer.advice() {
        output::note(advice);
    }
    Ok(answer.fault().map_or(Exit::Success, |kind| Codes::of(kind).exit))
}
