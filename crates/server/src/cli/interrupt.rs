//! Ctrl-C: the first asks to stop at a good moment, the second stops at once.

use std::{
    io, process,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use tokio::{
    runtime,
    signal::unix::{SignalKind, signal},
};

use super::{exit::Exit, output};

/// Whether somebody asked to stop.
#[derive(Debug, Clone)]
pub(super) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Starts to listen for the signals that ask a program to stop.
    pub(super) fn watch() -> io::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let (mut interrupt, mut terminate) = {
            let _guard = runtime.enter();
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
        };
        let flag = Arc::clone(&asked);
        let listen = async move {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                if flag.swap(true, Ordering::Relaxed) {
                    // A batch in flight is lost whole, which every later start can cope with.
                    process::exit(i32::from(Exit::Interrupted.code()));
                }
                output::note("stopping at the next batch; Ctrl-C again stops at once");
            }
        };
        thread::Builder::new()
            .name("interrupt".to_owned())
            .spawn(move || runtime.block_on(listen))?;
        Ok(Self(asked))
    }

    /// The flag that says so.
    pub(super) fn flag(self) -> Arc<AtomicBool> {
        self.0
    }

    /// Whether to stop.
    pub(super) fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
