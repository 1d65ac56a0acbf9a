# SPDX-License-Identifier: Apache-2.0 OR MIT
# What a person types. `make run` shows the system at work, `make test` is all that CI checks.

CARGO ?= cargo
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
# Seconds for each fuzz target of `make fuzz`.
FUZZ_SECONDS ?= 30
# More inputs than any target gets through in that time.
FUZZ_ITERATIONS := 1000000000000

.DEFAULT_GOAL := help
.PHONY: help run test check-format lint check-tests doc bench bench-document fuzz fmt readme pciebench clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## build, then show the eight-FPGA lab: its tree, and traffic in it
	$(CARGO) build --release --locked -p crosslane-cli
	tools/show.sh $(TARGET_DIR)/release/crosslane

test: check-format lint check-tests doc ## everything that CI checks

check-format: ## whether the source is formatted
	$(CARGO) fmt --all --check

lint: ## clippy, with warnings as errors
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

check-tests: ## all tests: of the code, of the tree (tidy), of the README and of the program
	$(CARGO) test --workspace --locked

doc: ## the reference documentation, with warnings as errors
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked --document-private-items

bench: ## speed of the simulator on this machine
	$(CARGO) bench --locked -p crosslane-fabric --bench hops

bench-document: ## the same, written into docs/fabric.md
	CARGO=$(CARGO) tools/write_bench.sh

fuzz: ## random lab files and random packets, FUZZ_SECONDS for each target
	BOLERO_RANDOM_TEST_TIME_MS=$$(( $(FUZZ_SECONDS) * 1000 )) \
	BOLERO_RANDOM_ITERATIONS=$(FUZZ_ITERATIONS) \
		$(CARGO) test --workspace --locked --test 'fuzz_*' -- --test-threads 1

fmt: ## format the source
	$(CARGO) fmt --all

readme: ## write the sample output in README.md anew
	CROSSLANE_UPDATE_README=1 $(CARGO) test --locked -p crosslane-cli --test program readme

pciebench: ## the lab pciebench against its published rows; writes docs/pciebench.md anew
	$(CARGO) run --release --locked -p crosslane-lab --example pciebench -- --write

clean: ## delete what was built
	$(CARGO) clean
