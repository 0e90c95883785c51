# shellcheck shell=bash
# Shared by the scripts beside this file, which source it first; not meant to be run.

set -euo pipefail

# shellcheck disable=SC2034 # the scripts that source this file use it
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

# Results go to stdout, so everything for people goes to stderr.
say() { printf 'utxokeep: %s\n' "$*" >&2; }
die() {
    say "$*"
    exit 1
}

if [[ -z "${UTXOKEEP_CACHE:-}" && -z "${XDG_CACHE_HOME:-}" && -z "${HOME:-}" ]]; then
    die "no place for the build cache: set UTXOKEEP_CACHE to a directory, or set HOME"
fi
cache="${UTXOKEEP_CACHE:-${XDG_CACHE_HOME:-${HOME:-}/.cache}/utxokeep}"
[[ "$cache" == /* ]] || cache="$PWD/$cache"
mkdir -p "$cache" || die "cannot create $cache: set UTXOKEEP_CACHE to a directory you can write"

# rustup changes PATH only for later logins; this serves the shell it was installed from, and CI.
cargo_bin="${CARGO_HOME:-${HOME:-}/.cargo}/bin"
if ! command -v cargo >/dev/null && [[ -x "$cargo_bin/cargo" ]]; then
    PATH="$cargo_bin:$PATH"
fi

# Under `make -j` these name a job server that cargo cannot reach from a plain recipe line.
unset MAKEFLAGS MFLAGS
