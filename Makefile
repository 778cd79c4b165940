# Everything a person or CI runs here. `make` alone says what there is.
#
# `demo`, `test` and `bench` install what they need first (scripts/setup). On a machine that has it
# all, that costs a few milliseconds and touches neither apt nor the network.

CARGO ?= cargo
# CI builds exactly what Cargo.lock says; by hand a new dependency may still be written into it.
LOCKED := $(if $(CI),--locked)
# CI builds once: state for incremental builds would only fill two thirds of target/.
ifdef CI
export CARGO_INCREMENTAL := 0
endif

.DEFAULT_GOAL := help
.PHONY: help setup build console run demo test unit simulate-long lint deny fmt bench bench-jobs-large bench-counts fixture fuzz clean

help: ## say what each target does
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what building, tests and benchmarks need (Debian packages, only the missing ones)
	@scripts/setup build test bench

build: console ## build the optimised binary, target/release/fieldpost
	@scripts/setup build
	$(CARGO) build $(LOCKED) --release --package fieldpost
	@scripts/split-debug target/release/fieldpost

# What the crate `console` embeds. Packages are those of package-lock.json, fetched when it has
# changed.
CONSOLE_SOURCES := $(shell find console/src clients/typescript/src -type f ! -name schema.ts) \
	$(wildcard console/*.html console/*.js console/*.json console/*.ts clients/typescript/*.json)

console: console/dist/index.html ## build what the browser shows at /console/ (needs Node), unless it is up to date

console/dist/index.html: node_modules/.package-lock.json $(CONSOLE_SOURCES)
	npm run --silent --workspace fieldpost-console build
	@touch $@

node_modules/.package-lock.json: package-lock.json
	@scripts/setup build
	npm ci --no-audit --no-fund
	@touch $@

run: build ## run a server with the default settings in ./fieldpost-data
	target/release/fieldpost serve

demo: build ## watch the main job for half a minute: locks, receivers, a SIGKILL in the middle
	target/release/fieldpost demo

# A test that waits for a server or a browser leaves its processor to others.
test: export RUST_TEST_THREADS ?= $(shell expr 2 '*' $$(nproc))
test: console ## format check, clippy, every test (what CI runs)
	@scripts/setup build test
	npm run --silent --workspace fieldpost-console check
	$(CARGO) fmt --all --check
	$(CARGO) clippy $(LOCKED) --workspace --all-targets -- --deny warnings
	$(CARGO) test $(LOCKED) --workspace
# The workspace is built with the console. Whatever differs without it is in this crate.
	$(CARGO) test $(LOCKED) --package console

unit: ## the tests of one crate: make unit CRATE=watch
	$(CARGO) test $(LOCKED) --package $(or $(CRATE),$(error name the crate: make unit CRATE=watch))

# Eight hours unless it is said otherwise: make simulate-long SIM_SECONDS=600
# Every workload has its `many_lives`.
simulate-long: export SIM_SECONDS ?= 28800
simulate-long: ## simulate lives of the server all night; a seed that fails is printed with how to repeat it
	@scripts/setup build
	$(CARGO) test $(LOCKED) --release --package simulation --test simulation many_lives -- --nocapture

lint: console ## format check and clippy alone
	@scripts/setup build
	$(CARGO) fmt --all --check
	$(CARGO) clippy $(LOCKED) --workspace --all-targets -- --deny warnings

deny: ## licences, sources and known advisories of every dependency (fetches the advisories)
	@command -v cargo-deny >/dev/null || $(CARGO) install --locked cargo-deny
	$(CARGO) deny check

fmt: ## format every Rust file
	$(CARGO) fmt --all

# The data lies below target/, because /tmp may be in memory, where a sync costs nothing.
bench: console ## print figures of this machine beside Mosquitto's, NATS', beanstalkd's and Redis'; the raw run goes to benches/runs
	@scripts/setup build bench
	@mkdir -p target/bench
	TMPDIR=$(CURDIR)/target/bench $(CARGO) bench $(LOCKED) --package fieldpost --bench main_job
	TMPDIR=$(CURDIR)/target/bench $(CARGO) bench $(LOCKED) --package fieldpost --bench overload
	TMPDIR=$(CURDIR)/target/bench $(CARGO) bench $(LOCKED) --package fieldpost --bench jobs
	TMPDIR=$(CURDIR)/target/bench $(CARGO) bench $(LOCKED) --package fieldpost --bench commands
	TMPDIR=$(CURDIR)/target/bench $(CARGO) bench $(LOCKED) --package fieldpost --bench tasks
	TMPDIR=$(CURDIR)/target/bench $(CARGO) bench $(LOCKED) --package fieldpost --bench streams
	TMPDIR=$(CURDIR)/target/bench $(CARGO) bench $(LOCKED) --package fieldpost --bench spool
	TMPDIR=$(CURDIR)/target/bench $(CARGO) bench $(LOCKED) --package fieldpost --bench relay
	TMPDIR=$(CURDIR)/target/bench $(CARGO) bench $(LOCKED) --package fieldpost --bench coordination
	TMPDIR=$(CURDIR)/target/bench $(CARGO) bench $(LOCKED) --package fieldpost --bench console
	TMPDIR=$(CURDIR)/target/bench $(CARGO) bench $(LOCKED) --package store --bench readings | tee -a "$$(ls -t benches/runs/*.txt | head -n 1)"
	$(CARGO) bench $(LOCKED) --package fleet --bench index | tee -a "$$(ls -t benches/runs/*.txt | head -n 1)"

bench-jobs-large: console ## the same with 20,000,000 delayed jobs, which takes minutes and gigabytes of disk
	@scripts/setup build bench
	@mkdir -p target/bench
	TMPDIR=$(CURDIR)/target/bench $(CARGO) bench $(LOCKED) --package fieldpost --bench jobs -- large

# make bench-counts RECORD=1 writes the counts of this toolchain into benches/counts
bench-counts: console ## count the instructions of the hot paths; fails where one has risen by more than 3 %
	@scripts/setup build bench
	@scripts/bench-counts $(if $(RECORD),--record)

# make fuzz TARGET=mqtt SECONDS=600; the corpora and mutations of them also run in `make test`
SECONDS ?= 60
fuzz: ## let libFuzzer look for inputs that a reader gets wrong, by default each target for a minute
	@scripts/setup build fuzz
	@set -e; for target in $(or $(TARGET),$(notdir $(basename $(wildcard fuzz/fuzz_targets/*.rs)))); do \
	    scripts/fuzz $$target $(SECONDS); done

# A stored format with a new version gets a new fixture: those of before stay, and go on being
# opened. For a later record of the same release, the newest is made again.
fixture: console ## make a data directory of the stored formats as they are now, to be opened by a test for ever after: make fixture NAME=format-5
	@test -n "$(NAME)" || { echo "make fixture NAME=format-5" >&2; exit 2; }
	$(CARGO) build $(LOCKED) --package fieldpost --bin fieldpost
	$(CARGO) run $(LOCKED) --package fieldpost --example fixture -- target/debug/fieldpost crates/fieldpost/tests/fixtures/$(NAME)

clean: ## remove what was built (never a data directory)
	$(CARGO) clean
	rm -rf console/dist node_modules clients/typescript/dist clients/typescript/src/schema.ts
