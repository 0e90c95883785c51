# The entry points of this repository; `make` alone lists them.
#
# Every cargo call goes through scripts/cargo, which links the one RocksDB archive of this machine
# and keeps build output outside the checkout. UTXOKEEP_CACHE moves that cache.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help run test check package bench bench-peers setup bitcoind docs nightly features

CARGO := scripts/cargo
# A developer may be in the middle of adding a dependency; CI must test the committed lock file.
LOCKED := $(if $(CI),--locked)
# Crates that are never published; a package of the others leaves the test kit out.
UNPUBLISHED := --exclude utxokeep-bench --exclude utxokeep-examples --exclude utxokeep-testkit
# Arguments for `make run` and `make bench`.
ARGS ?=

help: ## List these targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

run: setup ## Build the program in release mode and start its demo; ARGS="..." adds arguments.
	@exec $(CARGO) run $(LOCKED) --release -p utxokeep-server --bin utxokeep -- demo $(ARGS)

test: check package $(if $(UTXOKEEP_REQUIRE_BITCOIND),bitcoind) ## Everything CI runs: formatting, lints, packages, all tests, documentation examples.
	$(CARGO) test $(LOCKED) --workspace --doc --quiet
	@if $(CARGO) nextest --version >/dev/null 2>&1; then \
		set -x; $(CARGO) nextest run $(LOCKED) --workspace --status-level slow; \
	else \
		set -x; $(CARGO) test $(LOCKED) --workspace --tests; \
	fi

check: setup ## Formatting and lints only; a warning is an error.
	$(CARGO) fmt --all --check
	$(CARGO) clippy $(LOCKED) --workspace --all-targets -- -D warnings
	@if $(CARGO) tree $(LOCKED) -p utxokeep-server -e normal,build,features | grep 'feature "testing"'; then \
		echo "the program is built with a feature that only tests may have" >&2; exit 1; \
	fi

package: setup ## Packages of all crates that are published, without compiling them once more.
	$(CARGO) package $(LOCKED) --workspace $(UNPUBLISHED) $(if $(CI),,--allow-dirty) --no-verify --quiet

features: setup ## Each library with one engine alone, and with none.
	scripts/features

nightly: setup features bitcoind ## Long random histories, many crashes and failovers on every engine, with new seeds each day.
	$(CARGO) package $(LOCKED) --workspace $(UNPUBLISHED) --allow-dirty
	UTXOKEEP_STEPS=100000 UTXOKEEP_ROUNDS=100 UTXOKEEP_SEED=$${UTXOKEEP_SEED:-$$(date +%Y%m%d00)} \
		UTXOKEEP_REQUIRE_POSTGRES=1 UTXOKEEP_REQUIRE_REDIS=1 \
		$(CARGO) test $(LOCKED) -p utxokeep-txstore --test it histories::
	UTXOKEEP_SIM_SEEDS=20000 UTXOKEEP_SEED=$${UTXOKEEP_SEED:-$$(date +%Y%m%d00)} \
		$(CARGO) test $(LOCKED) -p utxokeep-txstore --test it records::simulated::
	UTXOKEEP_REQUIRE_POSTGRES=1 UTXOKEEP_REQUIRE_REDIS=1 \
		$(CARGO) test $(LOCKED) -p utxokeep-txstore --test it contention::
	UTXOKEEP_HISTORY_STEPS=100000 UTXOKEEP_HISTORY_SEED=$${UTXOKEEP_SEED:-$$(date +%Y%m%d00)} \
		UTXOKEEP_REQUIRE_POSTGRES=1 $(CARGO) test $(LOCKED) -p utxokeep-wallet --test it histories::
	UTXOKEEP_TAMPER_ALL=1 UTXOKEEP_REQUIRE_POSTGRES=1 \
		$(CARGO) test $(LOCKED) -p utxokeep-wallet --test it scenarios::columns
	UTXOKEEP_FAILOVERS=50 UTXOKEEP_REQUIRE_POSTGRES=1 \
		$(CARGO) test $(LOCKED) -p utxokeep-server --test it standby::
	UTXOKEEP_CLUSTER_ROUNDS=25 UTXOKEEP_CLUSTER_OUTPUTS=1000000 UTXOKEEP_SEED=$${UTXOKEEP_SEED:-$$(date +%Y%m%d00)} \
		UTXOKEEP_REQUIRE_REDIS=1 UTXOKEEP_REQUIRE_NETNS=1 \
		$(CARGO) test $(LOCKED) -p utxokeep-txstore --test it cluster:: -- --nocapture --test-threads 1
	UTXOKEEP_BITCOIND_ROUNDS=300 UTXOKEEP_SEED=$${UTXOKEEP_SEED:-$$(date +%Y%m%d00)} UTXOKEEP_REQUIRE_BITCOIND=1 \
		$(CARGO) test $(LOCKED) -p utxokeep-server --test it bitcoin_follow::
	UTXOKEEP_PERSISTER_BLOCKS=10000 $(CARGO) test $(LOCKED) -p utxokeep --lib persister::
	UTXOKEEP_STORE_FOLLOW_BLOCKS=4000 $(CARGO) test $(LOCKED) -p utxokeep --lib store_follow::
	UTXOKEEP_SIM_SEEDS=3000 UTXOKEEP_SIM_BLOCKS=400 UTXOKEEP_REQUIRE_REDIS=1 \
		$(CARGO) test $(LOCKED) -p utxokeep-pruner --test it simulation::
	UTXOKEEP_SIM_SEEDS=20 UTXOKEEP_SIM_BLOCKS=10000 UTXOKEEP_REQUIRE_REDIS=1 \
		$(CARGO) test $(LOCKED) -p utxokeep-pruner --test it simulation::

bench: setup ## Run the benchmark program in release mode; ARGS="--help" shows what it measures.
	@exec $(CARGO) run $(LOCKED) --release -p utxokeep-bench -- $(ARGS)

bench-peers: setup ## Measure bdk_wallet on the wallet history, for comparison; ARGS="100000" names sizes.
	@exec $(CARGO) run --release --manifest-path benches/peers/Cargo.toml -- $(ARGS)

docs: setup ## Write the generated pages under docs/ anew; `make test` fails while they differ.
	UTXOKEEP_BLESS=1 $(CARGO) test $(LOCKED) -p utxokeep-server --test it generated_docs::

setup: ## Install missing system packages and compile RocksDB once for this machine.
	@scripts/setup

bitcoind: setup ## Compile the Bitcoin Core that tests follow, once for this machine.
	@scripts/bitcoind >/dev/null
