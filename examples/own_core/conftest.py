# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Puts the program that builds and runs a core's simulation on the path."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "gateware" / "tb"))
