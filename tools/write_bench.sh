#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Measures the simulator and writes the result into docs/fabric.md, between its two marks.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
result=$(mktemp)
trap 'rm -f "$result"' EXIT
{
  echo '```text'
  "${CARGO:-cargo}" bench --quiet --locked -p crosslane-fabric --bench hops -- 9
  echo '```'
  printf '(%s core(s) of %s, %s)\n' "$(nproc)" \
    "$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | sed -n 1p)" "$(rustc --version)"
} | tee "$result"
sed -i -e "/<!-- bench -->/,/<!-- \/bench -->/{ /<!-- bench -->/{ r $result
  }
  /<!-- /!d }" docs/fabric.md
