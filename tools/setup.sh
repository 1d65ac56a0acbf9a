#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Looks for the tools that a make target needs, and installs those that are missing.
# Usage: tools/setup.sh run|test|soak [--yes]
#
# Debian's packages need root: it asks first on a terminal, and otherwise prints the command to run.
# `--yes` (CI) installs without asking. Rust's components need no root.
set -euo pipefail
target=${1:?usage: tools/setup.sh run|test|soak [--yes]}
yes=${2:-}

# The oldest Rust, whose clippy `check-lint` runs: `rust-version` in Cargo.toml.
MSRV=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$(dirname "$0")/../Cargo.toml")

packages=()
lacks() { ! command -v "$1" >/dev/null; }

if lacks cc; then packages+=(gcc libc6-dev); fi
if [ "$target" != run ]; then
  # Verilator is a Perl script and writes C++.
  if lacks g++; then packages+=(g++); fi
  if lacks perl; then packages+=(perl); fi
  # Debian's Python needs a separate package with pip to make virtual environments.
  if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then packages+=(python3 python3-venv); fi
  # The C library's programs are compiled by it, too: 13 MB beside libclang, which bindings need.
  if lacks clang; then packages+=(clang); fi
  # `ring` has C in it, which the check for Arm compiles too.
  if lacks aarch64-linux-gnu-gcc; then packages+=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross); fi
  # Networks are tested on libfabric, and between namespaces that `ip` makes.
  if lacks pkg-config; then packages+=(pkg-config); fi
  if ! [ -e /usr/include/rdma/fabric.h ]; then packages+=(libfabric-dev); fi
  if lacks ip; then packages+=(iproute2); fi
  # Certificates of clients and servers are made as a page of `docs/how-to` says.
  if lacks openssl; then packages+=(openssl); fi
  # Processes that simulate a lab together, and examples in C and Python, are tested on Open MPI. Its
  # bindings are made by libclang.
  if lacks mpirun; then packages+=(openmpi-bin); fi
  if lacks mpicc; then packages+=(libopenmpi-dev); fi
  if ! compgen -G '/usr/lib/llvm-*/lib/libclang.so*' >/dev/null; then
    packages+=(libclang1-14 libclang-common-14-dev)
  fi
  # The virtual machine is unpacked from Debian's packages.
  if lacks strip; then packages+=(binutils); fi
  if ! [ -e /usr/share/keyrings/debian-archive-keyring.gpg ]; then
    packages+=(debian-archive-keyring)
  fi
  # LiteX's simulations stand on these.
  if ! [ -e /usr/include/json-c/json.h ]; then packages+=(libjson-c-dev); fi
  if ! [ -e /usr/include/event2/event.h ]; then packages+=(libevent-dev); fi
  if ! [ -e /usr/include/zlib.h ]; then packages+=(zlib1g-dev); fi
  # Scripts of boards are run without the vendor's tool.
  if lacks tclsh; then packages+=(tcl); fi
  # Completions are tried in each shell.
  for shell in zsh fish; do
    if lacks "$shell"; then packages+=("$shell"); fi
  done
  # The simulator's instructions are counted.
  if lacks valgrind; then packages+=(valgrind); fi
  # Reports are tested in a browser, which needs a font.
  if lacks chromium; then packages+=(chromium); fi
  if [ -z "$(find /usr/share/fonts -name '*.ttf' -print -quit 2>/dev/null)" ]; then
    packages+=(fonts-dejavu-core)
  fi
fi
# The kernel with iommufd is built from Debian's source.
if [ "$target" = soak ] && lacks bc; then packages+=(bc); fi
# Packages for Arm are tried on an emulated processor.
if [ "$target" = soak ] && lacks qemu-aarch64; then packages+=(qemu-user); fi

install_packages() {
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then as_root=(sudo); fi
  local line="${as_root[*]} apt-get install --no-install-recommends ${packages[*]}"
  if [ "$yes" != --yes ]; then
    if lacks apt-get; then
      echo "missing: the packages that Debian calls ${packages[*]}" >&2
      exit 1
    fi
    if ! [ -t 0 ] || ! [ -t 1 ]; then
      printf 'missing packages; install them with:\n  %s\n' "$line" >&2
      exit 1
    fi
    read -r -p "\`make $target\` needs ${packages[*]}. Run \"$line\"? [y/N] " answer
    if [ "$answer" != y ] && [ "$answer" != Y ]; then exit 1; fi
  fi
  "${as_root[@]}" apt-get update -q
  "${as_root[@]}" apt-get install -q -y --no-install-recommends "${packages[@]}"
}
if [ "${#packages[@]}" -gt 0 ]; then install_packages; fi

if lacks cargo; then
  echo "missing: Rust $MSRV or newer with cargo (https://rustup.rs)" >&2
  exit 1
fi
if [ "$target" = run ]; then exit 0; fi

rustup_needed() {
  if lacks rustup; then
    echo "missing: $1; this Rust did not come from rustup, which would install it" >&2
    exit 1
  fi
  echo "installing $1"
}
components=()
if ! cargo fmt --version >/dev/null 2>&1; then components+=(rustfmt); fi
if [ "${#components[@]}" -gt 0 ]; then
  rustup_needed "${components[*]}"
  rustup component add "${components[@]}"
fi
for compiled_for in aarch64-unknown-linux-gnu wasm32-unknown-unknown wasm32-wasip1; do
  if ! [ -d "$(rustc --print sysroot)/lib/rustlib/$compiled_for" ]; then
    rustup_needed "Rust's target $compiled_for"
    rustup target add "$compiled_for"
  fi
done
if ! cargo "+$MSRV.0" clippy --version >/dev/null 2>&1; then
  rustup_needed "Rust $MSRV.0"
  rustup toolchain install "$MSRV.0" --profile minimal --component clippy
fi
if [ "$target" = soak ] && ! cargo +nightly miri --version >/dev/null 2>&1; then
  rustup_needed "miri"
  rustup toolchain install nightly --profile minimal --component miri --component rust-src
fi
