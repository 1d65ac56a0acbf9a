# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Puts the boards' modules, and those of the gateware's tests, on the path."""

import os
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent / "tb")]
# The program has to be built first: `make check-rtl` names it.
collect_ignore = [] if "CROSSLANE_PROGRAM" in os.environ else ["test_device.py"]
