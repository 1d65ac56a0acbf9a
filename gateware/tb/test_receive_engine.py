# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_receive_engine: any requests and any datagrams, in the order in which they are taken,
as in the behavioural model: what is written, and what is counted."""

import os
import random
from collections import deque

import cocotb
import pytest
from network_bench import (
    ARRIVED_BITS,
    CREDITS_BASE,
    DATA,
    DROPPED,
    FAR_END,
    LINK_CONTROL,
    LINK_DOWN,
    LONG,
    MISROUTED,
    NOTIFY,
    PAYLOAD_BYTES,
    REFUSED_COUNT,
    REQUEST_BAR,
    RESET,
    WAITING,
    joined,
    request,
)
from network_bench import CREDITS as CREDITS_REGISTER
from network_reference import Reference
from packed import part
from simulate import ALL, SEED, simulate
from tlp_stream import Bench

SIZES = {"links": 2, "credit_slots": 8, "channel_datagrams": 4}
# Whether there are routed messages, in a torus of 3 x 2 nodes.
ROUTED = bool(int(os.environ.get("ROUTED", "0")))
NODES, OWN_NODE = 6, 1
# Nodes of which messages come: with all of them there are more keys than remainders.
OTHERS = [0, 2, 3, 4, 5] if ALL else [0, 2, 3, 5]
DIMENSIONS = ((0x40, 3 | 1 << 16), (0x44, 2))
CONTROL, ROUTING = 0x10, 0x3C
WRITE_BITS = 118
WRITE_DATA, WRITE_DROP, WRITE_NOTIFY = range(3)
KIND_SHORT, KIND_ROUTED = 2, 3
# Of the word before a routed payload: bits of the index, and bytes of a message behind it.
INDEX_BITS, UNIT = 23 if LONG else 24, PAYLOAD_BYTES - 8


def of_run() -> dict[str, int]:
    """The sizes of this simulation."""
    return {name: int(os.environ[name.upper()]) for name in SIZES}


def is_here(header: int, payload: bytes) -> bool:
    """Whether a datagram is a routed one for this node."""
    source = int.from_bytes(payload[2:4], "little")
    is_routed = header >> 11 & 3 == KIND_ROUTED and header >> 8 & 7 >= 6
    return ROUTED and is_routed and source < NODES


def arrived_of(slot: int, header: int, payload: bytes) -> int:
    """A datagram as the engine sees it (arrived_t)."""
    what = header >> 11 << 12 | (header >> 8 & 7) << 9 | slot
    if not is_here(header, payload):
        is_abort = LONG and payload[-2:] == b"\xff\0"
        return what | payload[-1] << 33 | is_abort << 88
    word = int.from_bytes(payload[:8], "little")
    index = word >> 32 & (1 << INDEX_BITS) - 1
    what |= (word >> 63) << 88 if LONG else 0
    last_byte = word >> 32 + INDEX_BITS & 0xFF
    what = what & ~(0x1FFF << 20) | (index & 0x1FFF) << 20 | last_byte << 33
    return what | (word & 0xFFFFFFFF) << 41 | bool(index >> 13) << 86 | 1 << 87


def in_order(writes: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Writes, with the notifications of a reset, which may have any order, by their addresses."""
    found: list[tuple[int, bytes]] = []
    ends: list[tuple[int, bytes]] = []
    for write in writes:
        if write[0] < DATA and write[1][2] == RESET:
            ends.append(write)
            continue
        found += [*sorted(ends), write]
        ends.clear()
    return found + sorted(ends)


class Engine:
    """The engine's surroundings, as a part of a Bench."""

    def __init__(self, dut, seed: random.Random):
        self.dut, self.seed, self.sizes = dut, seed, of_run()
        links = self.sizes["links"]
        self.requests: deque[bytes] = deque()
        # Of each link, datagrams that it has delivered: channel, slot, header, payload.
        self.arrived = [deque() for _ in range(links)]
        slots = range(self.sizes["channel_datagrams"])
        self.free = {(link, c): list(slots) for link in range(links) for c in range(8)}
        self.held = {}  # payloads, by link, channel and slot
        self.forget, self.outcome = 0, LINK_DOWN
        self.hold = False  # whether datagrams without a credit may take all places
        self.pause = 0.0
        self.events: list = []
        self.writes: list = []
        self.counters = dict.fromkeys(("refused", "credited", "misrouted"), 0)
        self.offered = 0

    def deliver(self, link: int, header: int, payload: bytes) -> None:
        """Lets a link deliver a datagram, if its channel has a place."""
        channel = header >> 8 & 7
        if self.free[link, channel]:
            slot = self.free[link, channel].pop(self.seed.randrange(len(self.free[link, channel])))
            self.held[link, channel, slot] = payload
            self.arrived[link].append((slot, header, payload))

    def set_hold(self, hold: bool) -> None:
        """Sets it, for what is taken from now on."""
        self.hold = hold
        self.events.append(hold)

    def drive(self) -> None:
        """Sets the inputs of a clock."""
        dut = self.dut
        dut.hold_routed.value = self.hold
        # A request beside the end of its link may be looked at before it or behind it.
        dut.request_valid.value = int(bool(self.requests) and not self.forget)
        if self.requests:
            dut.request.value = int.from_bytes(self.requests[0], "little")
        valid = arrived = 0
        for link, waiting in enumerate(self.arrived):
            # The buffers of a link that is being forgotten are empty.
            if waiting and not self.forget >> link & 1:
                slot, header, payload = waiting[0]
                valid |= 1 << link
                arrived |= arrived_of(slot, header, payload) << ARRIVED_BITS * link
        dut.arrived_valid.value, dut.arrived.value = valid, arrived
        dut.takes.value = ~self.forget & (1 << len(self.arrived)) - 1
        dut.forget.value, dut.forget_outcome.value = self.forget, self.outcome
        dut.write_ready.value = int(self.seed.random() >= self.pause)
        self.offered = valid

    def sample(self, clock: int) -> None:
        """Sees what is taken, written and counted."""
        dut = self.dut
        # A datagram taken in the clock of `forgotten` comes behind it.
        forgotten = int(dut.forgotten.value)
        for link in range(len(self.arrived)):
            if forgotten >> link & 1:
                self.events.append((self.outcome, link))
                for slot, header, _ in self.arrived[link]:
                    del self.held[link, header >> 8 & 7, slot]
                self.arrived[link].clear()
        if dut.request_valid.value and dut.request_ready.value:
            self.events.append(self.requests.popleft())
        for link in range(len(self.arrived)):
            if self.offered & int(dut.arrived_ready.value) >> link << link & 1 << link:
                _, header, payload = self.arrived[link].popleft()
                self.events.append((link, header, payload))
        self.forget &= ~forgotten
        for name in self.counters:
            self.counters[name] += int(getattr(dut, name).value)
        if dut.write_valid.value and dut.write_ready.value:
            self.take(int(dut.write.value))
        if forgotten:
            # Places of datagrams that waited are free, too.
            for link, channel, slot in [k for k in self.held if forgotten >> k[0] & 1]:
                del self.held[link, channel, slot]
            for link, channel in self.free:
                if forgotten >> link & 1:
                    self.free[link, channel] = list(range(self.sizes["channel_datagrams"]))

    def take(self, write: int) -> None:
        """Takes work of the writer."""
        kind, address, what = write >> 116, write >> 52 & (1 << 64) - 1, write & (1 << 52) - 1
        if kind == WRITE_NOTIFY:
            word, count = what & 0xFFFFF, what >> 20
            data = word.to_bytes(4, "little") + count.to_bytes(4, "little")
            self.writes.append((address, data))
            return
        slot, channel, link, count = what >> 15 & 511, what >> 12 & 7, what >> 9 & 7, what & 511
        payload = self.held.pop((link, channel, slot))
        if what >> 24:
            payload = payload[8:]
        self.free[link, channel].append(slot)
        if kind == WRITE_DATA:
            assert 1 <= count <= PAYLOAD_BYTES
            self.writes.append((address, payload[:count]))
        else:
            assert kind == WRITE_DROP

    @property
    def is_idle(self) -> bool:
        """Whether all has been taken."""
        return not (self.requests or any(self.arrived) or self.forget)

    def replay(self) -> set[int]:
        """Lets all of it happen in the reference, and compares. Returns the outcomes seen."""
        reference = Reference(**self.sizes)
        enable = (1).to_bytes(4, "little")
        controls = [LINK_CONTROL + 0x40 * link for link in range(len(self.arrived))]

        def begin() -> None:
            for register, value in DIMENSIONS if ROUTED else ():
                reference.store(0, register, value.to_bytes(4, "little"))
            for control in controls:
                reference.store(0, control, enable)

        begin()
        expected, reset = [], set()
        hold = bytes(4)
        for event in self.events:
            if isinstance(event, bool):
                hold = event.to_bytes(4, "little")
                said = reference.store(0, ROUTING, hold)
            elif isinstance(event, bytes):
                said = reference.store(REQUEST_BAR, CREDITS_BASE, event)
            elif len(event) == 3:
                said = reference.deliver(*event)
            elif event[0] == LINK_DOWN:
                said = reference.store(0, controls[event[1]], bytes(4))
                reference.store(0, controls[event[1]], enable)
            else:
                # All links are reset one behind the other, and at once in the reference.
                reset.add(event[1])
                if len(reset) < len(controls):
                    continue
                reset.clear()
                said = reference.store(0, CONTROL, enable)
                begin()
                reference.store(0, ROUTING, hold)
            expected += [(int(address, 16), bytes.fromhex(data)) for _, address, data in said]
        found, wanted = joined(in_order(self.writes)), joined(in_order(expected))
        for at, (one, other) in enumerate(zip(found, wanted, strict=False)):
            assert one == other, f"write {at}: {one}, expected {other}"
        assert len(found) == len(wanted)
        counters = {"refused": REFUSED_COUNT, "credited": CREDITS_REGISTER, "misrouted": MISROUTED}
        for name, register in counters.items():
            assert self.counters[name] == reference.read(register), name
        waiting = int(self.dut.waiting.value)
        waits = sum(part(waiting, 13, link) for link in range(len(self.arrived)))
        assert waits == reference.read(WAITING)
        reference.close()
        return {data[2] for address, data in self.writes if address < DATA}


async def begin(dut, which: str) -> tuple[Bench, Engine, random.Random]:
    """The engine after a reset."""
    seed = random.Random(f"{SEED} {which}")
    engine = Engine(dut, seed)
    dut.torus.value = (1 << 34 | NODES << 16 | OWN_NODE) if ROUTED else 0
    bench = Bench(dut, [engine])
    engine.drive()
    await bench.reset(3)
    return bench, engine, seed


class Traffic:
    """Requests and datagrams of few keys, so that they meet."""

    def __init__(self, seed: random.Random, engine: Engine):
        self.seed, self.engine, self.token = seed, engine, 0
        self.asked: list[dict[str, int]] = []

    def key(self) -> dict[str, int]:
        """A key of few."""
        links = self.engine.sizes["links"]
        pick = self.seed.choice
        key = {"link": self.seed.randrange(links), "channel": pick([1, 6]), "tag": pick([0, 9])}
        if ROUTED and self.seed.random() < 0.7:
            return key | {"routed": 1, "channel": 6, "node": pick(OTHERS)}
        # Channels of routed messages have no others.
        return key | {"channel": 1} if ROUTED and self.seed.random() < 0.9 else key

    def credit(self) -> None:
        """A credit of some runs; not all of it may be possible."""
        seed, key = self.seed, self.key()
        self.token = self.token % 0xFFFF + 1
        address, index, runs = DATA + seed.randrange(1 << 16), 0, seed.choice([1, 1, 2, 3])
        unit = UNIT if "routed" in key else PAYLOAD_BYTES
        for run in range(runs):
            is_last = run == runs - 1 and seed.random() < 0.97
            count = (
                unit * seed.randrange(1, 4) if not is_last else seed.randrange(3 * PAYLOAD_BYTES)
            )
            fields = key | {"index": index, "last": int(is_last), "buffer": address}
            fields |= {"bytes": count, "token": self.token, "notify": NOTIFY + 8 * self.token}
            if seed.random() < 0.05:
                fields |= seed.choice(
                    [
                        {"index": index + 1},
                        {"bytes": count + 1},
                        {"bytes": 1 << 20 | 1},
                        {"bytes": 0},
                        {"index": 8190},
                        {"buffer": (1 << 64) - 100},
                        {"notify": 0},
                        {"notify": NOTIFY + 4},
                        {"reserved": 1 << 31},
                        {"link": 7},
                        {"routed": 1, "channel": 6},
                        {"routed": 1, "channel": 6, "node": OWN_NODE},
                        {"routed": 1, "channel": 6, "node": NODES},
                        {"routed": 1, "channel": 7},
                        {"token": self.token ^ 1},
                    ]
                )
            self.engine.requests.append(request(**fields))
            self.asked = [*self.asked[-3:], fields]
            address += count + seed.randrange(200)
            index += count // unit

    def cancel(self) -> None:
        """A cancel of a credit that may be there."""
        if self.asked:
            self.engine.requests.append(request(**self.seed.choice(self.asked), cancel=1))

    def datagram(self) -> None:
        """A datagram of a message that may be short."""
        seed, key = self.seed, self.key()
        kind = seed.choice([0, 0, 0, 1, 1, 2, 2, 2, 3 * (seed.random() < 0.3)])
        index = seed.choice([0, 0, 1, 1, 2, 3, seed.randrange(8192)])
        payload = seed.randbytes(PAYLOAD_BYTES - 2) + bytes([seed.choice([0, 7, 255])])
        payload += bytes([seed.choice([0, 0, 1, 100, 127, 128, 200, 255, 255])])
        if "routed" in key:
            key["channel"] = seed.choice([6, 7])
            kind = KIND_ROUTED
            node = key["node"] if seed.random() < 0.97 else NODES
            count = seed.choice([UNIT, UNIT, UNIT, 1, 60, 0, UNIT + 7])
            beyond = 1 << seed.randrange(13, INDEX_BITS)
            place = seed.choice([index, index, index, index | beyond])
            last = seed.random() < 0.3
            word = OWN_NODE | node << 16 | place << 32 | count << 32 + INDEX_BITS | last << 63
            payload = word.to_bytes(8, "little") + payload[8:]
            index = seed.choice([0, 0, index])
        header = key["channel"] << 8 | kind << 11 | key["tag"] << 13 | index << 19
        self.engine.deliver(key["link"], header, payload)


@cocotb.test()
async def anything_is_as_in_the_model(dut):
    bench, engine, seed = await begin(dut, "anything")
    traffic = Traffic(seed, engine)
    outcomes = set()
    for _ in range(1000 if ALL else 120):
        engine.pause = seed.choice([0, 0, 0.5, 0.9])
        for _ in range(seed.randrange(10)):
            seed.choice([traffic.credit, traffic.datagram, traffic.datagram, traffic.cancel])()
        await bench.step(seed.randrange(200))
        if seed.random() < 0.1:
            await bench.until(lambda: dut.idle.value, 2000)
            if seed.random() < 0.5:
                engine.set_hold(not engine.hold)
                continue
            engine.forget |= 1 << seed.randrange(engine.sizes["links"])
        await bench.until(lambda: not engine.forget, 40000)
    await bench.until(lambda: engine.is_idle, 20000)
    await bench.step(200)
    outcomes = engine.replay()
    dropped = {DROPPED} if ROUTED else set()
    assert outcomes >= {1, 2, 4, LINK_DOWN, 6, FAR_END, 8} | dropped, outcomes


@cocotb.test()
async def a_reset_ends_everything(dut):
    bench, engine, seed = await begin(dut, "reset")
    traffic = Traffic(seed, engine)
    for _ in range(4):
        for _ in range(20):
            seed.choice([traffic.credit, traffic.datagram])()
        await bench.until(lambda: engine.is_idle, 20000)
        await bench.step(50)
        engine.outcome = RESET
        engine.forget = (1 << engine.sizes["links"]) - 1
        await bench.until(lambda: not engine.forget, 20000)
        engine.counters = dict.fromkeys(engine.counters, 0)
    await bench.step(200)
    assert RESET in engine.replay()


@cocotb.test()
async def a_datagram_takes_seven_clocks(dut):
    """And a notification with the place of its credit three more."""
    bench, engine, _ = await begin(dut, "rate")
    await bench.until(lambda: dut.idle.value, 1400)
    fields = {"link": 0, "channel": 1, "tag": 5, "bytes": PAYLOAD_BYTES * 100, "token": 1}
    engine.requests.append(request(**fields, notify=NOTIFY + 8))
    await bench.until(lambda: not engine.requests, 4000)
    await bench.step(8)
    clocks = []
    for index in range(100):
        header = 1 << 8 | (index == 99) << 11 | 5 << 13 | index << 19
        engine.deliver(0, header, bytes(PAYLOAD_BYTES))
        count = len(engine.writes)
        begun = bench.clock
        await bench.until(lambda c=count: len(engine.writes) > c, 40)
        clocks.append(bench.clock - begun)
        await bench.until(lambda: engine.is_idle, 40)
        await bench.step(1)
    assert max(clocks) <= 7, clocks
    engine.replay()


@pytest.mark.parametrize(
    "routed, long", [(0, 0), (1, 0), (0, 1), (1, 1)] if ALL else [(0, 0), (1, 0), (1, 1)]
)
def test_receive_engine(routed, long):
    sizes = {name.upper(): value for name, value in SIZES.items()}
    simulate(__file__, "crosslane_receive_engine", sizes | {"ROUTED": routed, "LONG": long})
