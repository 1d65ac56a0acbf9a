#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Measures a topology of one's own: its rates, and their limits.

Four cards behind one switch: one alone, then all at once. The example names what limits each, asks
what other uplinks and payloads would bring, writes the rows as CSV, and draws the topology with the
load of every link. The cells (`# %%`) run in notebooks too, where labs and results are pictures.

    python examples/python/what_will_my_topology_give.py [FOLDER]
"""

# %% A lab of one's own: host, card and link of the shipped lab `minimal`, and a switch.
import csv
import sys
from pathlib import Path

import crosslane

FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else ".")

SWITCH = """
[part.switch]
kind = "switch"
identity = { value = "1234:0003", source = "assumption: any" }
latency_ns = { value = 150, source = "data sheet: of the switch on the backplane" }
forwarding = { value = "cut-through", source = "data sheet: of the switch on the backplane" }

[part.switch.port]
max_generation = { value = 3, source = "data sheet: of the switch on the backplane" }
max_width = { value = 16, source = "data sheet: of the switch on the backplane" }
max_payload_bytes = { value = 256, source = "data sheet: of the switch on the backplane" }
posted_headers = { value = 64, source = "assumption: never in the way" }
posted_data = { value = 512, source = "assumption: never in the way" }
nonposted_headers = { value = 64, source = "assumption: never in the way" }
nonposted_data = { value = 64, source = "assumption: never in the way" }
completion_headers = { value = 64, source = "assumption: never in the way" }
completion_data = { value = 512, source = "assumption: never in the way" }
replay_buffer_bytes = { value = 8192, source = "assumption: never in the way" }
ack_tlps = { value = 2, source = "assumption: as the host's ports" }
update_fc_tlps = { value = 2, source = "assumption: as the host's ports" }

[part.uplink]
kind = "link"
generation = { value = 3, source = "sysfs: current_link_speed and current_link_width" }
width = { value = 8, source = "sysfs: current_link_speed and current_link_width" }
flight_ns = { value = 1, source = "assumption: 15 cm of board" }

[[switch]]
name = "switch0"
part = "switch"

[[endpoint]]
name = "card{0..3}"
part = "card"

[[link]]
upper = "host0"
lower = "switch0"
part = "uplink"

[[link]]
upper = "switch0"
lower = "card{0..3}"
part = "slot"
"""
shipped = crosslane.Lab.load("minimal").text
lab = crosslane.Lab.load(shipped[: shipped.index("[[endpoint]]")] + SWITCH, name="mine.toml")

# %% One card alone, then all at once.
FLOWS = {"one card": "card0:host0:write:64K", "all cards": "*:host0:write:64K"}
results = {}
for name, flow in FLOWS.items():
    result = lab.run(flow)
    results[name] = result
    print(f"{name}: {result.figure() / 1e6:.1f} MB/s; limited by {result.why()}")

# %% What would others bring? Every combination is a run; `executor=` takes them anywhere.
grid = {
    "flow": FLOWS["all cards"],
    "part.uplink.width": [4, 8, 16],
    "part.host.port.max_payload_bytes": [128, 256],
}
rows = crosslane.sweep(lab, grid)
with (FOLDER / "topology.csv").open("w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["uplink_width", "max_payload_bytes", "mb_per_s"])
    for row in rows:
        width, payload = (row[name] for name in list(grid)[1:])
        writer.writerow([width, payload, round(row["figure"] / 1e6, 1)])
        print(f"uplink x{width}, payloads of {payload} B: {row['figure'] / 1e6:.1f} MB/s")

# %% The load of every link while all cards write; a notebook shows the result itself.
(FOLDER / "topology.svg").write_text(results["all cards"]._repr_svg_())
