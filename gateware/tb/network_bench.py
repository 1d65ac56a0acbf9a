# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Two network processors of `network_pair`, each with a host.

A host puts datagrams, gives credits and has memory. What the receive engines take, in their order,
is kept, and afterwards happens in the reference: its writes must be the same.
"""

import os
import random
from collections import deque
from dataclasses import dataclass, field

from network_reference import Reference
from packed import pack, part
from tlp_stream import Bench, Sink, Source, Tlp, memory_write

CHANNELS = 8
# Whether datagrams are long (parameter LONG).
LONG = os.environ.get("LONG") == "1"
PAYLOAD_BYTES, PUT_STRIDE = (256, 512) if LONG else (128, 256)
REQUEST_BAR, PUT_BAR = 2, 4
CREDITS_BASE = 0x4000
DONE, REFUSED, TOO_LONG, LINK_DOWN, CANCELLED, FAR_END, TAKEN, RESET = 1, 2, 4, 5, 6, 7, 8, 9
DROPPED = 10
# Of each host: memory for data and for notifications, and counts of puts.
DATA, DATA_BYTES = 0x12_3450_0000, 1 << 20
NOTIFY = 0x7654_0000
COUNTS = 0x40_0000_1000
STATE_UP = 3
# Registers of the reference.
CREDITS, PUTS, REFUSED_COUNT, MISROUTED, WAITING = 0x24, 0x28, 0x2C, 0x34, 0x38
LINK_CONTROL = 0x100
# Bits of arrived_t.
ARRIVED_BITS = 89


def request(**fields: int) -> bytes:
    """The 32 bytes of a request (registers/descriptors.rdl, network_request)."""
    f = {"last": 1, "routed": 0, "cancel": 0, "index": 0, "bytes": 0, "buffer": DATA, "node": 0}
    f |= {"reserved": 0} | fields
    what = f["link"] | f["channel"] << 3 | f["tag"] << 6 | f["last"] << 12 | f["routed"] << 13
    what |= f["cancel"] << 14 | f["index"] << 16
    words = [(what, 4), (f["bytes"], 4), (f["buffer"], 8), (f["notify"], 8)]
    words += [(f["node"] << 16 | f["token"], 4), (f["reserved"], 4)]
    return b"".join(value.to_bytes(size, "little") for value, size in words)


def put(tag: int, index: int, last: bool, data: bytes, **others: int) -> bytes:
    """A datagram as it is stored into a slot (put_control, payload)."""
    valid, count = others.get("valid", 1), others.get("bytes", len(data))
    what = tag | last << 6 | valid << 7 | index << 8
    return what.to_bytes(4, "little") + count.to_bytes(4, "little") + data


def joined(writes: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Writes, with those that go on where the one before ends joined to it: the model writes the
    data of several datagrams at once."""
    found: list[tuple[int, bytes]] = []
    for address, data in writes:
        if found and found[-1][0] + len(found[-1][1]) == address:
            found[-1] = (found[-1][0], found[-1][1] + data)
        else:
            found.append((address, data))
    return found


@dataclass
class Host:
    """A host with its network processor."""

    number: int
    source: Source
    sink: Sink
    seed: random.Random
    sizes: dict[str, int]
    # Stores that wait: of requests, and of each channel of each link.
    requests: deque = field(default_factory=deque)
    puts: dict = field(default_factory=dict)
    # Requests and datagrams that its receive engine has taken, and the stores of puts, in order.
    taken: list = field(default_factory=list)
    stored_puts: list = field(default_factory=list)
    # Writes of the network processor: all, those of data and notifications, counts.
    memory: bytearray = field(default_factory=lambda: bytearray(DATA_BYTES))
    writes: list = field(default_factory=list)
    notified: dict = field(default_factory=dict)
    token: int = 0
    # Whether stores are cut into pieces; clocks in which the first beats of writes were taken.
    cuts: bool = True
    clocks: list[int] = field(default_factory=list)

    def __post_init__(self):
        self.sink.took = self.take
        keys = [(link, c) for link in range(self.sizes["links"]) for c in range(CHANNELS)]
        self.sent = dict.fromkeys(keys, 0)
        self.counted = dict.fromkeys(keys, 0)
        self.puts = {key: deque() for key in keys}

    # --- The network processor's writes ------------------------------------------------------
    def take(self, tlp: Tlp) -> None:
        """Takes a write, and looks at its form."""
        where = tlp.enabled
        assert where == list(range(where[0], where[-1] + 1)), "bytes of a write have a gap"
        address, data = tlp.address + where[0], tlp.payload[where[0] : where[-1] + 1]
        most = self.sizes["max_write"]
        assert address // most == (address + len(data) - 1) // most, hex(address)
        assert tlp.attributes == 0 and tlp.requester == 0x100
        if COUNTS <= address < COUNTS + 256:
            key = divmod((address - COUNTS) // 4, CHANNELS)
            count = int.from_bytes(data, "little")
            assert len(data) == 4 and self.counted[key] <= count <= self.sent[key]
            self.counted[key] = count
            return
        self.writes.append((address, data))
        self.clocks.append(tlp.first_clock)
        if DATA <= address < DATA + DATA_BYTES:
            self.memory[address - DATA : address - DATA + len(data)] = data
        else:
            assert len(data) == 8, hex(address)
            word, count = (int.from_bytes(data[n : n + 4], "little") for n in (0, 4))
            token = word & 0xFFFF
            assert token not in self.notified, f"token {token} has two notifications"
            assert address == NOTIFY + 8 * token
            self.notified[token] = (word >> 16, count)

    # --- The host's stores -------------------------------------------------------------------
    def store(self, bar: int, offset: int, data: bytes, simply: bool = False) -> None:
        """Stores bytes, in pieces of any order and size."""
        at, pieces = 0, []
        while at < len(data):
            size = len(data) if simply else self.seed.choice([4, 8, 8, 64, 256, 1, 7, 33])
            pieces.append((at, data[at : at + size]))
            at += size
        if self.seed.random() < 0.3:
            self.seed.shuffle(pieces)
        for at, piece in pieces:
            self.source.queue.append(memory_write(offset + at, piece, bar=bar))

    def next_token(self) -> int:
        """A token that no request has."""
        self.token += 1
        return self.token

    def ask(self, **fields: int) -> int:
        """Gives a request that wants a notification; returns its token."""
        token = fields.pop("token", None) or self.next_token()
        fields.setdefault("notify", NOTIFY + 8 * token)
        self.requests.append(request(token=token, **fields))
        return token

    def put(self, link: int, channel: int, datagram: bytes) -> None:
        """Puts a datagram."""
        self.puts[link, channel].append(datagram)

    def drive(self) -> None:
        """Begins a store, if the last one has been taken and there is room for another."""
        if not self.source.is_idle:
            return
        slots = self.sizes["put_slots"]
        free = [
            key
            for key, waiting in self.puts.items()
            if waiting and self.sent[key] - self.counted[key] < slots
        ]
        chosen = self.seed.choice([*free, *([None] * bool(self.requests))] or [()])
        if chosen == ():
            return
        simply = not self.cuts or self.seed.random() < 0.5
        if chosen is None:
            slot = self.seed.randrange(self.sizes["credit_slots"])
            self.store(REQUEST_BAR, CREDITS_BASE + 64 * slot, self.requests.popleft(), simply)
            return
        link, channel = chosen
        slot = ((8 * link + channel) * slots + self.sent[chosen] % slots) * PUT_STRIDE
        datagram = self.puts[chosen].popleft()
        self.store(PUT_BAR, slot, datagram, simply)
        self.stored_puts.append((slot, datagram))
        self.sent[chosen] += 1

    def sample(self, clock: int) -> None:
        """Nothing: its ports are sampled by source and sink."""

    @property
    def is_idle(self) -> bool:
        """Whether all stores have been taken, and all slots are free."""
        waits = self.requests or any(self.puts.values()) or not self.source.is_idle
        return not waits and self.counted == self.sent


class Pair:
    """Both hosts, as a part of a Bench."""

    def __init__(self, dut, sizes: dict[str, int], seed: random.Random):
        self.dut, self.sizes, self.seed = dut, sizes, seed
        self.hosts = [
            Host(
                n,
                Source(dut, f"rx_{n}", seed),
                Sink(dut, f"tx_{n}", seed, gapless=True),
                seed,
                sizes,
            )
            for n in range(2)
        ]

    @property
    def parts(self) -> list:
        """All that a Bench drives."""
        return [self, *self.hosts, *(p for h in self.hosts for p in (h.source, h.sink))]

    def drive(self) -> None:
        """Nothing."""

    def sample(self, clock: int) -> None:
        """Keeps what the receive engines take."""
        dut = self.dut
        requests, datagrams = int(dut.event_is_request.value), int(dut.event_is_datagram.value)
        for n, host in enumerate(self.hosts):
            if requests >> n & 1:
                host.taken.append(part(dut.event_request.value, 256, n).to_bytes(32, "little"))
            if datagrams >> n & 1:
                link = part(dut.event_link.value, 3, n)
                host.taken.append((link, part(dut.event_datagram.value, ARRIVED_BITS, n)))

    def counters(self, number: int) -> dict[str, int]:
        """Counters of a node."""
        names = ("forwarded", "waiting", "misrouted", "refused", "puts", "credits", "gets")
        all_of = part(self.dut.counters.value, 32 * len(names), number)
        return {name: part(all_of, 32, at) for at, name in enumerate(names)}

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is left to do."""
        return all(host.is_idle for host in self.hosts) and int(self.dut.quiet.value) == 3

    # --- Beside the reference ----------------------------------------------------------------
    def replay(self) -> None:
        """Lets all of it happen in the reference, and compares datagrams, writes and counters."""
        names = ("links", "put_slots", "credit_slots", "max_write", "channel_datagrams")
        references = [Reference(**{n: self.sizes[n] for n in names}) for _ in self.hosts]
        links = self.sizes["links"]
        way = []
        for host, reference in zip(self.hosts, references, strict=True):
            for link in range(links):
                control = LINK_CONTROL + 0x40 * link
                reference.store(0, control, (1).to_bytes(4, "little"))
            # Datagrams by their link at the other node, and channel.
            sent = {key: deque() for key in host.sent}
            for slot, datagram in host.stored_puts:
                for kind, link, header, payload in reference.store(PUT_BAR, slot, datagram):
                    assert kind == "s"
                    word = int(header, 16)
                    far = links - 1 - int(link), word >> 8 & 7
                    sent[far].append((word, bytes.fromhex(payload)))
            way.append(sent)
        for n, (host, reference) in enumerate(zip(self.hosts, references, strict=True)):
            expected = []
            for event in host.taken:
                if isinstance(event, bytes):
                    said = reference.store(REQUEST_BAR, CREDITS_BASE, event)
                else:
                    link, arrived = event
                    channel, label = arrived >> 9 & 7, arrived >> 12 & 0x1FFFFF
                    header, payload = way[1 - n][link, channel].popleft()
                    assert header >> 11 == label, (n, hex(header), hex(label))
                    assert payload[-1] == arrived >> 33 & 0xFF
                    assert arrived >> 88 == (LONG and payload[-2:] == b"\xff\0")
                    said = reference.deliver(link, header, payload)
                for kind, address, data in said:
                    assert kind == "t"
                    expected.append((int(address, 16), bytes.fromhex(data)))
            assert not any(way[1 - n].values()), "datagrams are lost"
            assert joined(host.writes) == joined(expected), f"writes of node {n}"
            registers = {"credits": CREDITS, "puts": PUTS, "refused": REFUSED_COUNT}
            registers |= {"misrouted": MISROUTED, "waiting": WAITING}
            counters = self.counters(n)
            for name, register in registers.items():
                assert counters[name] == reference.read(register), name
            reference.close()


async def begin(dut, sizes: dict[str, int], seed: random.Random) -> tuple[Bench, Pair]:
    """Both nodes after a reset, with their links up."""
    pair = Pair(dut, sizes, seed)
    links = sizes["links"]
    all_links = (1 << 2 * links) - 1
    settings = {"routing_id": 0x100, "bus_master": 1, "link_up": 1}
    dut.function_i.value = pack("function_t", **settings, max_payload=0)
    dut.reset_i.value, dut.counts_written.value = 0, 0
    dut.enable.value, dut.is_cut.value, dut.error_odds.value = 0, 0, 0
    dut.counts_address.value = COUNTS << 64 | COUNTS
    dut.first_session.value = 0x0100_0001
    bench = Bench(dut, pair.parts)
    await bench.reset(8)
    await bench.step(20)
    dut.enable.value = all_links
    await bench.until(lambda: is_up(dut, links) and int(dut.quiet.value) == 3, 4000)
    return bench, pair


def is_up(dut, links: int) -> bool:
    """Whether all links are up."""
    return all(part(dut.state.value, 3, n) == STATE_UP for n in range(2 * links))
