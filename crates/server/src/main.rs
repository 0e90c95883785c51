//! The `utxokeep` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    // Files of the program are for its user alone: databases, ledgers, archives.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    heaps::limit();
    utxokeep_server::cli::run()
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod heaps {
    //! Keeps memory near what the configuration allows.
    //!
    //! The C library gives threads heaps of their own and keeps in each what was freed there:
    //! measured on an import with `cache_mib = 256`, 611 MiB in place of 339. It reads the limit
    //! from the environment when a process starts, so the process starts once more with it set,
    //! under the same id.

    use std::{env, os::unix::process::CommandExt, process::Command};

    const VARIABLE: &str = "MALLOC_ARENA_MAX";
    const HEAPS_MAX: &str = "2";

    pub(super) fn limit() {
        if env::var_os(VARIABLE).is_some() {
            return;
        }
        let mut args = env::args_os();
        let (Some(name), Ok(program)) = (args.next(), env::current_exe()) else { return };
        // It returns only when it failed; then the program runs with more heaps, that is all.
        let _ = Command::new(program).arg0(name).args(args).env(VARIABLE, HEAPS_MAX).exec();
    }
}
