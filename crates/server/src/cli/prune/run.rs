//! `pruner run`: on a store, or by a pruner that runs elsewhere.

use std::{thread, time::Duration};

use utxokeep::ops::pruner::PruneJob;
use utxokeep_core::Height;
use utxokeep_pruner::{Job, JobState, Pruner};

use super::{Asked, in_our_words, remote::Remote, remote_answers};
use crate::{
    cli::{
        args::PruneRun, error::CliError, exit::Exit, interrupt::Interrupt, open::Session, output,
        progress::Progress,
    },
    grpc::proto::{self, PrunerJobState},
};

/// How often progress is looked at here.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How often a pruner elsewhere is asked.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// Runs.
pub(super) fn run(session: &Session, args: &PruneRun) -> anyhow::Result<Exit> {
    match Asked::new(session, &args.target)? {
        Asked::Here(pruner) => run_here(session, &pruner, args.height),
        Asked::There(remote) => run_there(session, *remote, args.height),
    }
}

fn run_here(session: &Session, pruner: &Pruner, asked: Option<Height>) -> anyhow::Result<Exit> {
    let interrupt = Interrupt::watch()?;
    let height = pruner.safe_height(asked).map_err(in_our_words)?;
    let total = pruner.backlog(Some(height)).map_err(in_our_words)?.total;
    let mut progress = Progress::start("pruning", false);
    let job = thread::scope(|scope| {
        let run = scope.spawn(|| pruner.run_at(height));
        while !run.is_finished() {
            if interrupt.is_asked() {
                pruner.cancel();
            }
            let (examined, deleted) = pruner.progress();
            progress.update(examined, total, || format!("records, {deleted} deleted"));
            thread::sleep(LOOK_EVERY);
        }
        run.join()
    });
    progress.finish();
    let job: Job = job.map_err(|_| anyhow::anyhow!("the run broke down; see the log"))?;
    let mut shown = PruneJob::from(&job);
    let is_over = matches!(job.state, JobState::Completed(_));
    if is_over && !pruner.settings().skip_blob_deletions {
        let files = pruner.delete_blobs().map_err(in_our_words)?;
        shown.files_deleted = Some(files.deleted);
        shown.files_waiting = Some(files.failed.len() as u64);
    }
    output::answer(session.json(), &shown)?;
    match job.state {
        JobState::Cancelled(_) => Ok(Exit::Interrupted),
        JobState::Skipped(reason) => {
            let waits_for = pruner.status().map_err(in_our_words)?.waits_for;
            for one in waits_for {
                output::note(one);
            }
            Err(CliError::RunSkipped { reason: reason.name().to_owned() }.into())
        }
        JobState::Failed { error, .. } => Err(CliError::RunFailed { error }.into()),
        _ => Ok(Exit::Success),
    }
}

fn run_there(session: &Session, mut remote: Remote, asked: Option<Height>) -> anyhow::Result<Exit> {
    let interrupt = Interrupt::watch()?;
    let request = proto::PrunerTriggerRequest { height: asked.map(Height::get) };
    let accepted = remote.trigger(request)?.height;
    let status = remote.status(proto::PrunerStatusRequest {})?;
    let running = status.running.as_ref().map(|job| job.height);
    let Some(height) = accepted.or(status.pending_height).or(running) else {
        let done = status.completed_height.unwrap_or_default();
        output::note(format_args!("nothing to do: the pruner is complete up to height {done}"));
        return Ok(Exit::Success);
    };
    let total = remote.backlog(proto::PrunerBacklogRequest { height: Some(height) })?.records;
    let mut progress = Progress::start("pruning", false);
    let job = loop {
        let jobs = remote.jobs(proto::PrunerJobsRequest { limit: 100 })?.jobs;
        let is_ours = |job: &proto::PrunerJob| job.height >= height && job.ended_ms.is_some();
        if let Some(job) = jobs.into_iter().find(is_ours) {
            break job;
        }
        if interrupt.is_asked() {
            progress.finish();
            output::note(format_args!("the run at height {height} goes on without us"));
            return Ok(Exit::Interrupted);
        }
        let status = remote.status(proto::PrunerStatusRequest {})?;
        let deleted = status.deleted;
        progress.update(status.examined, total, || format!("records, {deleted} deleted"));
        thread::sleep(ASK_EVERY);
    };
    progress.finish();
    let state = job.state();
    let (skipped, error) = (job.skip_reason.clone(), job.error.clone());
    output::answer(session.json(), &remote_answers::job(job))?;
    match state {
        PrunerJobState::Skipped => {
            let waits_for = remote.status(proto::PrunerStatusRequest {})?.waits_for;
            for one in waits_for {
                output::note(one.detail);
            }
            Err(CliError::RunSkipped { reason: skipped.unwrap_or_default() }.into())
        }
        PrunerJobState::Failed => {
            Err(CliError::RunFailed { error: error.unwrap_or_default() }.into())
        }
        _ => Ok(Exit::Success),
    }
}
