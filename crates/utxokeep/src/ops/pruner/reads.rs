//! The questions.

use serde::Deserialize;
use utxokeep_core::{ErrorKind, Height, node::KeepReason};

use super::{
    BacklogAnswer, PruneJobs, PruneReport, PrunerPart, PrunerReadError, PrunerStatusAnswer, TAG,
};
use crate::ops::{
    About, Answered, Known, Operation, Refusal,
    chain::NoRequest,
    transactions::{ExplainRequest, Explanation, TxName},
};

/// Runs that are answered unless the request says otherwise.
const RUNS: u32 = 20;

/// The most runs that one answer has.
const RUNS_MAX: u32 = 1_000;

const NO_HEIGHT: Refusal =
    (ErrorKind::Refused, "`no_height`: the node store knows no height that two witnesses agree on");

/// What the pruner is doing.
#[derive(Debug)]
pub enum ShowStatus {}

impl Operation for ShowStatus {
    type Part = PrunerPart;
    type Request = NoRequest;
    type Answer = PrunerStatusAnswer;

    const ABOUT: About = About {
        command: "pruner status",
        path: "/api/v1/pruner/status",
        tag: TAG,
        summary: "Say what a running pruner is doing, and whether it keeps up",
        ..About::READ
    };

    fn run(
        PrunerPart(pruner): &PrunerPart,
        _: NoRequest,
        _: Known<'_>,
    ) -> Result<Answered<PrunerStatusAnswer>, PrunerReadError> {
        Ok(pruner.status()?.into())
    }
}

/// How many runs.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RunsRequest {
    /// Runs to list, up to 1,000; 20 without it.
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))
    )]
    #[cfg_attr(feature = "schema", schema(minimum = 1, maximum = 1000))]
    page_size: Option<u32>,
}

/// The last runs.
#[derive(Debug)]
pub enum Jobs {}

impl Operation for Jobs {
    type Part = PrunerPart;
    type Request = RunsRequest;
    type Answer = PruneJobs;

    const ABOUT: About = About {
        command: "pruner jobs",
        path: "/api/v1/pruner/jobs",
        also: &["/pruner/jobs"],
        tag: TAG,
        summary: "List the last runs of a pruner, newest first",
        description: "Also those from before a restart, and of other programs over the same store.",
        ..About::READ
    };

    fn run(
        PrunerPart(pruner): &PrunerPart,
        RunsRequest { page_size }: RunsRequest,
        _: Known<'_>,
    ) -> Result<Answered<PruneJobs>, PrunerReadError> {
        let runs = page_size.unwrap_or(RUNS);
        if !(1..=RUNS_MAX).contains(&runs) {
            let text = format!("page_size must be from 1 to {RUNS_MAX}");
            return Err(PrunerReadError::BadParameter(text));
        }
        Ok(pruner.jobs(runs)?.into())
    }
}

/// At which height.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct HeightRequest {
    /// Height to ask for, which may lie ahead; by default that of the newest block.
    #[cfg_attr(feature = "clap", arg(long, value_name = "HEIGHT"))]
    #[cfg_attr(feature = "schema", schema(minimum = 0))]
    height: Option<u32>,
}

/// What a run would do.
#[derive(Debug)]
pub enum DryRun {}

impl Operation for DryRun {
    type Part = PrunerPart;
    type Request = HeightRequest;
    type Answer = PruneReport;

    const ABOUT: About = About {
        command: "pruner dry-run",
        path: "/api/v1/pruner/dry-run",
        tag: TAG,
        summary: "Say what a run would delete and why it would keep the rest; change nothing",
        refusals: &[NO_HEIGHT],
        ..About::READ
    };

    fn run(
        PrunerPart(pruner): &PrunerPart,
        HeightRequest { height }: HeightRequest,
        _: Known<'_>,
    ) -> Result<Answered<PruneReport>, PrunerReadError> {
        Ok(pruner.dry_run(height.map(Height::new))?.into())
    }
}

/// What is past due.
#[derive(Debug)]
pub enum Backlog {}

impl Operation for Backlog {
    type Part = PrunerPart;
    type Request = HeightRequest;
    type Answer = BacklogAnswer;

    const ABOUT: About = About {
        command: "pruner backlog",
        path: "/api/v1/pruner/backlog",
        tag: TAG,
        summary: "Count what is past due, exactly, by age",
        refusals: &[NO_HEIGHT],
        ..About::READ
    };

    fn run(
        PrunerPart(pruner): &PrunerPart,
        HeightRequest { height }: HeightRequest,
        _: Known<'_>,
    ) -> Result<Answered<BacklogAnswer>, PrunerReadError> {
        Ok(pruner.backlog(height.map(Height::new))?.into())
    }
}

/// What keeps a transaction.
#[derive(Debug)]
pub enum Explain {}

impl Operation for Explain {
    type Part = PrunerPart;
    type Request = ExplainRequest;
    type Answer = Explanation;

    const ABOUT: About = About {
        command: "pruner explain",
        path: "/api/v1/pruner/explanations/{tx_hash}",
        tag: TAG,
        summary: "Say what keeps a transaction from being deleted, and until when",
        refusals: &[
            (
                ErrorKind::NotFound,
                "`unknown_transaction`: it never was in the node store, or it was pruned",
            ),
            NO_HEIGHT,
        ],
        ..About::READ
    };

    fn run(
        PrunerPart(pruner): &PrunerPart,
        ExplainRequest { tx_hash: TxName(txid), height }: ExplainRequest,
        _: Known<'_>,
    ) -> Result<Answered<Explanation>, PrunerReadError> {
        let explained = pruner.explain(&txid, height.map(Height::new))?;
        let missing = KeepReason::Missing.name();
        if explained.blocking.iter().any(|fact| fact.reason == missing) {
            return Err(PrunerReadError::Unknown { txid });
        }
        Ok(explained.into())
    }
}
