#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Shows the eight-FPGA system at work. Usage: tools/show.sh PATH-OF-CROSSLANE
set -euo pipefail
crosslane=${1:?usage: tools/show.sh PATH-OF-CROSSLANE}

# The networks that this build has, too.
echo
"$crosslane" --version

cat <<'END'

$ crosslane reproduce rosta    (eight FPGAs, three switches; every byte is compared)

END
reports=$(dirname "$crosslane")/../reports
mkdir -p "$reports"
reports=$(cd "$reports" && pwd)
# A page of an older build is not marked as crosslane's, and would be kept.
rm -f "$reports/rosta/index.html"
"$crosslane" reproduce rosta --report "$reports/rosta"

cat <<END

The same as a page, with plots and the load of every link. Open it in a browser:
  $reports/rosta/index.html
END
cat <<'END'

Where to go next: docs/reproductions/rosta.md   what each row is worth
  crosslane topo rosta     the tree and its ceilings   crosslane lab show rosta   every constant
  crosslane bench --help   runs of your own            crosslane validate         what matters
END
