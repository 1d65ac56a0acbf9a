# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_channel_state: compared with a model, clock by clock, under random events."""

import os
import random

import cocotb
import pytest
from cocotb.triggers import FallingEdge
from packed import CONSTANTS, pack, unpack
from simulate import SEED, simulate
from tlp_stream import Bench

H2C, C2H, PEER = (CONSTANTS[f"KIND_{name}"] for name in ("H2C", "C2H", "PEER"))
IDLE, RUNNING, STOPPED = 0, 1, 2
WAITS = ("descriptor", "data", "tag", "link", "credit")
COUNTED = {
    H2C: ("descriptor", "tag", "link"),
    C2H: ("descriptor", "data", "link"),
    PEER: ("descriptor", "data", "link", "credit"),
}


class Model:
    """Model of the outputs after each clock."""

    def __init__(self, kind):
        self.kind = kind
        self.restart()
        self.reset_counters()

    def restart(self):
        self.completed = self.error = self.error_address = self.stopped_at = 0
        self.status_due = self.interrupt_due = 0

    def reset_counters(self):
        self.bytes = self.tlps = self.first = self.last = 0
        self.begun_at, self.has_first = None, False
        self.idle = dict.fromkeys(WAITS, 0)
        # They count a clock later.
        self.tlp_is_due, self.waits = 0, dict.fromkeys(WAITS, 0)
        self.last_is_due = False

    def clock(self, n, settings, now):
        """One clock with the inputs `n`."""
        stopped = self.error != 0
        self.status_due &= not n.status_taken
        self.interrupt_due &= not n.interrupt_taken
        if not stopped:
            if n.complete_valid:
                self.completed = (self.completed + 1) % 2**32
                self.status_due |= n.complete_status and settings["status_enable"]
                self.interrupt_due |= n.complete_interrupt and settings["interrupt_enable"]
            if n.fault_valid:
                self.error, self.error_address = n.fault_error, n.fault_address
                self.stopped_at = n.fault_moved
                self.status_due = settings["status_enable"]
                self.interrupt_due = settings["interrupt_enable"]
        if settings["restart"]:
            self.restart()
        if n.moved_valid:
            self.bytes = (self.bytes + n.moved_bytes) % 2**64
        self.tlps += self.tlp_is_due
        self.tlp_is_due = n.tlp_begun
        if self.begun_at is not None and not self.has_first:
            self.first, self.has_first = self.begun_at, True
        self.begun_at = now if n.tlp_begun or n.data_begun else None
        if self.kind == H2C:
            self.last = now if n.last_event else self.last
        else:
            self.last = now if self.last_is_due else self.last
            self.last_is_due = n.last_event
        for wait in COUNTED[self.kind]:
            self.idle[wait] += self.waits[wait]
            self.waits[wait] = getattr(n, f"wait_{wait}")
        if n.reset_counters:
            last_is_due = self.last_is_due
            self.reset_counters()
            self.last_is_due = last_is_due

    def check(self, dut, n, settings):
        r = unpack("channel_readings_t", dut.readings.value)
        stopped = self.error != 0
        state = STOPPED if stopped else RUNNING if settings["run"] or n.busy else IDLE
        assert int(dut.stopped.value) == stopped
        assert int(dut.running.value) == (settings["run"] and not stopped)
        assert (r.state, r.error, r.error_address) == (state, self.error, self.error_address)
        assert r.completed == self.completed
        assert r.stopped_at == (self.stopped_at if stopped else n.moved)
        assert (r.bytes, r.tlps) == (self.bytes, self.tlps)
        assert (r.first, r.last) == (self.first, self.last)
        for wait in WAITS:
            assert (
                getattr(r, "idle_link" if wait == "link" else f"idle_no_{wait}")
                == (self.idle[wait])
            )
        assert r.in_flight == n.in_flight
        assert (r.fetched, r.credit, r.sent) == (0, 0, 0)
        due = unpack("due_t", dut.due.value)
        assert (due.status_due, due.interrupt_due) == (self.status_due, self.interrupt_due)


class Inputs:
    """Inputs of one clock, without the settings."""

    WIDTHS = {
        "status_taken": 0.2, "interrupt_taken": 0.2, "reset_counters": 0.002,
        "complete_valid": 0.3, "complete_status": 0.4, "complete_interrupt": 0.4,
        "fault_valid": 0.01, "busy": 0.5, "tlp_begun": 0.4, "moved_valid": 0.4, "last_event": 0.2,
        "data_begun": 0.1,
    }  # fmt: skip

    def __init__(self, seed):
        for name, often in self.WIDTHS.items():
            setattr(self, name, int(seed.random() < often))
        self.fault_error = seed.randrange(1, 9)
        self.fault_address = seed.getrandbits(64)
        self.fault_moved = seed.getrandbits(32)
        self.moved = seed.getrandbits(32)
        self.in_flight = seed.getrandbits(16)
        self.moved_bytes = seed.randrange(4097)
        waits = seed.choice([*WAITS, None])
        for wait in WAITS:
            setattr(self, f"wait_{wait}", int(wait == waits))

    def drive(self, dut):
        for name, value in vars(self).items():
            getattr(dut, name).value = value


@cocotb.test()
async def all_that_may_happen(dut):
    seed = random.Random(SEED)
    model = Model(int(os.environ["KIND"]))
    dut.settings.value = dut.time_i.value = 0
    Inputs(seed).drive(dut)
    dut.last_event.value = 0
    await Bench(dut).reset()
    run, now = 0, 2**32 - 3000
    stops = restarts = 0
    for _ in range(6000):
        inputs = Inputs(seed)
        run = run ^ (seed.random() < 0.02)
        restart = seed.random() < (0.05 if model.error else 0.002)
        settings = {
            "run": int(run and not restart),
            "status_enable": int(seed.random() < 0.8),
            "interrupt_enable": int(seed.random() < 0.8),
            "restart": int(restart),
        }
        now += 1
        dut.time_i.value = now
        dut.settings.value = pack("channel_settings_t", **settings)
        inputs.drive(dut)
        before = model.error
        model.clock(inputs, settings, now)
        await FallingEdge(dut.clk)
        model.check(dut, inputs, settings)
        stops += model.error and not before
        restarts += settings["restart"]
    assert stops > 20 and restarts > 20
    assert model.last > 2**32


@pytest.mark.parametrize("kind", [H2C, C2H, PEER])
def test_channel_state(kind):
    parameters = {"KIND": f"2'd{kind}"}
    simulate(__file__, "crosslane_channel_state", parameters, environment={"KIND": str(kind)})
