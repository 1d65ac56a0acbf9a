#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Shows the eight-FPGA lab at work. Usage: tools/show.sh PATH-OF-CROSSLANE
set -euo pipefail
crosslane=${1:?usage: tools/show.sh PATH-OF-CROSSLANE}

show() {
  printf '\n$ crosslane %s\n\n' "$*"
  "$crosslane" "$@"
}

say() { printf '\n%s\n' "$*"; }

say "== The tree: one host, three switches, eight FPGAs"
show topo rosta

say "== 1. An FPGA writes into host memory"
show bench traffic --lab rosta --flow fpga1:host:write:64K

say "== 2. An FPGA writes into another one on its board, past the host"
show bench traffic --lab rosta --flow fpga1:fpga2:write:64K

say "== 3. Four flows from board to board share one cable"
show bench traffic --lab rosta \
  --flow fpga1:fpga5:write:64K --flow fpga2:fpga6:write:64K \
  --flow fpga3:fpga7:write:64K --flow fpga4:fpga8:write:64K

say "== 4. An FPGA reads host memory"
show bench traffic --lab rosta --flow fpga1:host:read:64K

cat <<'END'

What was shown. Every packet above was simulated byte by byte on each link of its way, and its
data was checked where it arrived. A rate stands beside its ceiling: what the slowest link of the
path can carry with packets of that size. The idle time of each direction says why it was not
faster.

Where to go next:
  crosslane bench traffic --help          sizes, sweeps, several flows, traces
  crosslane topo rosta --svg rosta.svg    the tree as a drawing
  crosslane lab show rosta                every constant of the lab, and where it comes from
  crosslane lab show minimal              a small lab to copy and change
END
