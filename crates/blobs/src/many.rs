//! Writing many files at once, each with a bounded number of attempts.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::StreamExt as _;
use object_store::{ObjectStore, ObjectStoreExt as _, path::Path as Key};
use utxokeep_fault::crash_point;

use crate::{error::BlobError, store::BlobStore};

/// Files that belong together. `last` is written when all the others are: where it is, they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileGroup {
    /// Name and bytes of the files that come first, in any order.
    pub first: Vec<(String, Vec<u8>)>,
    /// The file that shows that the others are there.
    pub last: (String, Vec<u8>),
}

/// How often a file is tried, and how long to wait in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// Attempts after the first one.
    pub retries_max: u32,
    /// Wait before the first of them; doubles with every further one.
    pub wait_first: Duration,
    /// The longest such wait.
    pub wait_max: Duration,
}

impl Retry {
    /// How long to wait after attempt number `attempt`, counted from 0.
    #[must_use]
    pub fn wait(&self, attempt: u32) -> Duration {
        let doubled =
            2_u32.checked_pow(attempt).and_then(|times| self.wait_first.checked_mul(times));
        doubled.unwrap_or(self.wait_max).min(self.wait_max)
    }
}

/// What writing many files took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    /// Files that are there.
    pub files: u64,
    /// Their length together.
    pub bytes: u64,
    /// Attempts that failed.
    pub failures: u64,
}

#[derive(Debug, Default)]
struct Counts {
    files: AtomicU64,
    bytes: AtomicU64,
    failures: AtomicU64,
    /// The first file that could not be written: the others are not tried any more.
    failed: OnceLock<BlobError>,
}

impl BlobStore {
    /// Writes groups of files, at most `parallel` files at the same time. Whatever the outcome, what
    /// it took is in the first half of the answer. After a failure some files are there and others
    /// are not; writing all of them again is safe.
    pub fn put_groups(
        &self,
        groups: Vec<FileGroup>,
        parallel: usize,
        retry: Retry,
    ) -> (Written, Result<(), BlobError>) {
        let counts = Arc::new(Counts::default());
        let permits = Arc::new(tokio::sync::Semaphore::new(parallel.max(1)));
        let put = |(name, bytes): (String, Vec<u8>)| {
            let one =
                OneFile { store: self.store.clone(), timeout: self.timeout, retry, name, bytes };
            let (counts, permits) = (Arc::clone(&counts), Arc::clone(&permits));
            async move {
                let _permit = permits.acquire().await.expect("nobody closes it");
                one.put(&counts).await
            }
        };
        let work = groups.into_iter().map(|FileGroup { first, last }| {
            let first: Vec<_> = first.into_iter().map(put).collect();
            let last = put(last);
            async move {
                for outcome in futures_util::future::join_all(first).await {
                    outcome?;
                }
                last.await
            }
        });
        let work: Vec<_> = work.collect();
        let ended = self.runtime().block_on(async {
            let mut running = futures_util::stream::iter(work).buffer_unordered(parallel.max(1));
            let mut first_error = Ok(());
            while let Some(outcome) = running.next().await {
                first_error = first_error.and(outcome);
            }
            first_error
        });
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let written = Written {
            files: read(&counts.files),
            bytes: read(&counts.bytes),
            failures: read(&counts.failures),
        };
        (written, ended)
    }
}

struct OneFile {
    store: Arc<dyn ObjectStore>,
    timeout: Duration,
    retry: Retry,
    name: String,
    bytes: Vec<u8>,
}

impl OneFile {
    async fn put(self, counts: &Counts) -> Result<(), BlobError> {
        let Self { store, timeout, retry, name, bytes } = self;
        let (key, len) = (Key::from(name.as_str()), bytes.len() as u64);
        let payload = object_store::PutPayload::from(bytes);
        let failed = |reason| BlobError { what: "writing", name: name.clone(), reason };
        let mut attempt = 0;
        loop {
            if let Some(error) = counts.failed.get() {
                return Err(error.clone());
            }
            crash_point("before_group_file");
            let reason = match tokio::time::timeout(timeout, store.put(&key, payload.clone())).await
            {
                Ok(Ok(_)) => {
                    crash_point("after_group_file");
                    counts.files.fetch_add(1, Ordering::Relaxed);
                    counts.bytes.fetch_add(len, Ordering::Relaxed);
                    return Ok(());
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("no answer in {} ms", timeout.as_millis()),
            };
            counts.failures.fetch_add(1, Ordering::Relaxed);
            if attempt >= retry.retries_max {
                let attempts = u64::from(attempt) + 1;
                let error = failed(format!("{reason} ({attempts} attempts)"));
                return Err(counts.failed.get_or_init(|| error).clone());
            }
            tokio::time::sleep(retry.wait(attempt)).await;
            attempt += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use utxokeep_core::OpenMode;

    use super::*;
    use crate::BlobOptions;

    const RETRY: Retry = Retry {
        retries_max: 2,
        wait_first: Duration::from_millis(1),
        wait_max: Duration::from_millis(3),
    };

    fn group(name: &str, files: usize) -> FileGroup {
        let file = |at| (format!("{name}/{at}"), vec![1; at]);
        FileGroup { first: (0..files).map(file).collect(), last: (format!("{name}/last"), vec![9]) }
    }

    fn open(url: &str) -> BlobStore {
        let mode = OpenMode::Create;
        let options = BlobOptions { durable: true, timeout_ms: 5_000, mode, client_retries: false };
        BlobStore::open(url, &options).unwrap()
    }

    #[test]
    fn all_files_of_all_groups_are_written() {
        let store = open("memory:");
        let groups = (0..20).map(|at| group(&format!("g{at}"), 4)).collect();
        let (written, ended) = store.put_groups(groups, 3, RETRY);
        ended.unwrap();
        assert_eq!(written, Written { files: 100, bytes: 20 * (1 + 2 + 3 + 1), failures: 0 });
        let mut found = 0;
        store.list(None, &mut |_| found += 1).unwrap();
        assert_eq!(found, 100);
    }

    #[test]
    fn attempts_are_bounded_and_counted_and_the_last_file_is_not_there() {
        let dir = tempfile::tempdir().unwrap();
        // A file where a folder must be: nothing below it can be written.
        std::fs::write(dir.path().join("bad"), b"in the way").unwrap();
        let store = open(&format!("file:{}", dir.path().display()));
        let (written, ended) = store.put_groups(vec![group("good", 2), group("bad", 0)], 1, RETRY);
        let error = ended.unwrap_err();
        assert!(error.reason.ends_with("(3 attempts)"), "{error}");
        assert_eq!((error.what, error.name.as_str()), ("writing", "bad/last"));
        assert_eq!((written.files, written.failures), (3, 3));
    }

    #[test]
    fn waits_double_up_to_the_longest() {
        let waits: Vec<u128> = [0, 1, 2, 40].map(|at| RETRY.wait(at).as_millis()).to_vec();
        assert_eq!(waits, [1, 2, 3, 3]);
    }
}
