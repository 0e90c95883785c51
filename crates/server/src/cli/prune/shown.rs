//! What the commands over the pruner print of runs.

use crate::{
    cli::output::{Human, Lines},
    pruner_runs::{Job, Jobs, Report},
};

impl Human for Report {
    fn describe(&self, lines: &mut Lines) {
        lines.field("height", self.height).field("due", self.examined);
        match self.bytes {
            Some(bytes) => lines
                .field("would be deleted", format_args!("{} ({bytes} bytes)", self.deleted))
                .field("would be kept", self.examined - self.deleted),
            None => {
                lines.field("deleted", self.deleted).field("kept", self.examined - self.deleted)
            }
        };
        for (reason, records) in &self.kept {
            lines.row(format!("  {reason:<16} {records}"));
        }
        let optional = [
            ("unreadable, kept", self.unreadable),
            ("outputs deleted", self.outputs_deleted.unwrap_or(0)),
            ("parents marked", self.parents_marked.unwrap_or(0)),
            ("old unmined", self.old_unmined),
            ("parents preserved", self.parents_preserved),
            ("preservations ended", self.preservations_expired),
            ("attempts again", self.retries),
        ];
        for (label, count) in optional {
            if count > 0 {
                lines.field(label, count);
            }
        }
        if !self.took_ms.is_empty() {
            lines.field("took", format_args!("{} ms", self.took_ms.values().sum::<u64>()));
        }
        if !self.complete {
            lines.field("complete", "no; the next run goes on");
        }
    }
}

impl Human for Job {
    fn describe(&self, lines: &mut Lines) {
        match &self.report {
            Some(report) => report.describe(lines),
            None => {
                lines.field("height", self.height);
            }
        }
        lines.field("state", self.outcome());
        for (label, count) in
            [("files deleted", self.files_deleted), ("files waiting", self.files_waiting)]
        {
            if let Some(count) = count.filter(|count| *count > 0) {
                lines.field(label, count);
            }
        }
    }
}

impl Human for Jobs {
    fn describe(&self, lines: &mut Lines) {
        if self.jobs.is_empty() {
            lines.row("no run yet");
        }
        for job in &self.jobs {
            let took = job.ended_ms.map_or_else(
                || "       -".to_owned(),
                |ended| format!("{:>5} ms", ended.saturating_sub(job.started_ms)),
            );
            let done = job.report.as_ref().map_or_else(String::new, |report| {
                format!(", {} of {} deleted", report.deleted, report.examined)
            });
            let (number, height) = (job.number, job.height);
            lines.row(format!("{number:>6}  height {height:>9}  {took}  {}{done}", job.outcome()));
        }
    }
}
