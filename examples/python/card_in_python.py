#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A card with one register, in plain Python, in the place of a lab's endpoint.

python examples/python/card_in_python.py
"""

import crosslane

with crosslane.Lab.load("minimal").attach("card0") as lab:
    port, host = lab.port(), lab.host()
    loaded = host.read_register("card0", 0, 0x10)
    port.wait(1_000_000)  # until a TLP is there, at most until 1 us
    read = port.receive()
    assert read is not None
    port.send(read.completion((42).to_bytes(4, "little"), completer=port.id))
    value, ended_ps = loaded.wait(), loaded.ended_ps
    print(f"register {read.offset:#x} is {value}, read in {ended_ps} ps")
