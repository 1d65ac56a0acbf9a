# SPDX-License-Identifier: Apache-2.0 OR MIT
"""crosslane_network_processor: two nodes joined by whole links. Puts of the one arrive in memory
of the other's host, write by write as in the behavioural model (network_bench.py)."""

import os
import random

import cocotb
import pytest
from network_bench import (
    CANCELLED,
    DATA,
    DATA_BYTES,
    DONE,
    LINK_DOWN,
    LONG,
    PAYLOAD_BYTES,
    PUT_BAR,
    PUT_STRIDE,
    REQUEST_BAR,
    RESET,
    TOO_LONG,
    begin,
    is_up,
    put,
)
from simulate import ALL, SEED, simulate, widths
from tlp_stream import memory_read, memory_write

SIZES = {"links": 1, "put_slots": 4, "credit_slots": 16, "max_write": 128, "channel_datagrams": 8}


# From the last beat of a put's store to the first beat of its write, with 20 bits of cable.
# 64b/66b takes whole rows of eight columns.
BLOCKS = os.environ.get("BLOCKS") == "1"
LATENCY_CLOCKS = (86 if LONG else 70) + 18 * BLOCKS
# A datagram on the cable.
FRAME_CLOCKS = (PAYLOAD_BYTES + 8) // 8


def of_run() -> dict[str, int]:
    """The sizes of this simulation."""
    return {name: int(os.environ[name.upper()]) for name in SIZES}


async def prepared(dut, which: str):
    """Two nodes with links that are up, and random numbers of this test."""
    seed = random.Random(f"{SEED} {which}")
    dut.node_rst.value = 0
    bench, pair = await begin(dut, of_run(), seed)
    return bench, pair, seed


def send(host, key: tuple[int, int, int], data: bytes, order=None) -> None:
    """Puts a message of a key (link, channel, tag) of the other host."""
    link, channel, tag = host.sizes["links"] - 1 - key[0], *key[1:]
    count = max(1, -(-len(data) // PAYLOAD_BYTES))
    for index in order or range(count):
        piece = data[PAYLOAD_BYTES * index : PAYLOAD_BYTES * (index + 1)]
        host.put(link, channel, put(tag, index, index == count - 1, piece))


def credit(host, key: tuple[int, int, int], runs: list[tuple[int, int]]) -> int:
    """Gives a credit of runs (address, bytes); returns the token."""
    link, channel, tag = key
    token, index = host.next_token(), 0
    for at, (address, count) in enumerate(runs):
        fields = {"link": link, "channel": channel, "tag": tag, "token": token}
        fields |= {"index": index, "last": int(at == len(runs) - 1)}
        host.ask(**fields, buffer=address, bytes=count)
        index += -(-count // PAYLOAD_BYTES)
    return token


@cocotb.test()
async def a_put_arrives_behind_its_data(dut):
    bench, pair, seed = await prepared(dut, "first")
    near, far = pair.hosts
    data = seed.randbytes(300)
    token = credit(far, (0, 3, 17), [(DATA + 64, 512)])
    await bench.until(lambda: far.is_idle, 1000)
    send(near, (0, 3, 17), data)
    await bench.until(lambda: token in far.notified, 2000)
    assert far.notified[token] == (DONE, 300)
    assert far.memory[64:364] == data
    # Data of each datagram, then the notification.
    expected = [64, 128, 64, 44] if LONG else [64, 64] * 2 + [44]
    assert [len(written) for _, written in far.writes[:-1]] == expected
    await bench.until(lambda: pair.is_quiet)
    pair.replay()


class Message:
    """A message from a host to the other, with its credit."""

    def __init__(self, seed: random.Random, key: tuple[int, int, int], place: int):
        full = PAYLOAD_BYTES
        sizes = [1, full - 1, full, full + 1, 2 * full, 700, 1000]
        self.key, self.data = key, seed.randbytes(seed.choice(sizes))
        self.kind = seed.choice(["fits", "fits", "longer", "short"])
        if place == 0 and seed.random() < 0.5:
            # All of it may wait for another credit, and must not fill its channel.
            self.kind, self.data = "cancelled", self.data[:700]
        room = len(self.data)
        if self.kind == "longer":
            room += seed.randrange(1, 300)
        if self.kind == "short":
            room = seed.randrange(room + 1)
        self.runs = []
        for run in range(seed.choice([1, 1, 2, 3])):
            address = DATA + place + 2048 * run + seed.randrange(600)
            full = PAYLOAD_BYTES * seed.randrange(1, 4)
            if room <= full or run == 2:
                break
            self.runs.append((address, full))
            room -= full
        self.runs.append((DATA + place + 6144 + seed.randrange(300), room))
        count = -(-len(self.data) // PAYLOAD_BYTES)
        self.order = list(range(count))
        if seed.random() < 0.3:
            seed.shuffle(self.order)
        self.token = 0

    def expected(self, memory: bytearray) -> bool:
        """Whether all that fits is in memory."""
        at = 0
        for address, count in self.runs:
            here = self.data[at : at + count]
            if memory[address - DATA : address - DATA + len(here)] != here:
                return False
            at += count
        return True


async def exchange(bench, pair, seed: random.Random) -> list[list[Message]]:
    """Messages of different keys in both directions, until everything has ended. Returns those
    that each host has taken."""
    links = pair.sizes["links"]
    taken = []
    for n, far in enumerate(pair.hosts):
        near, messages = pair.hosts[1 - n], []
        for place in range(4):
            # In a crowd many messages share a channel.
            key = (seed.randrange(links), seed.choice([2, 2, seed.randrange(8)]), 9 * place + 5)
            message = Message(seed, key, 10240 * place)
            messages.append(message)
            is_early = seed.random() < 0.5
            if not is_early:
                send(near, key, message.data, message.order)
                await bench.step(seed.randrange(300))
            message.token = credit(far, key, message.runs)
            if is_early:
                await bench.step(seed.randrange(100))
                send(near, key, message.data, message.order)
            if seed.random() < 0.3:
                disturb(far, seed, key)
            if message.kind == "cancelled":
                await bench.step(seed.choice([0, 0, seed.randrange(300)]))
                cancel(far, key, message.token)
        taken.append(messages)
    await bench.until(lambda: not any(h.requests for h in pair.hosts), 20000)
    await bench.until(lambda: pair.is_quiet, 20000)
    for far, messages in zip(pair.hosts, taken, strict=True):
        for message in messages:
            await bench.until(lambda h=far, m=message: m.token in h.notified, 4000)
        # Data sent to a credit that was cancelled before go to another one.
        for message in messages:
            if far.notified[message.token][0] == CANCELLED:
                token = credit(far, message.key, [(DATA + DATA_BYTES - 4096, 2048)])
                await bench.until(lambda h=far: h.is_idle, 2000)
                await bench.step(400)
                cancel(far, message.key, token)
                await bench.until(lambda h=far, t=token: t in h.notified, 2000)
    await bench.until(lambda: pair.is_quiet, 4000)
    return taken


def cancel(host, key: tuple[int, int, int], token: int) -> None:
    """Takes a credit back."""
    link, channel, tag = key
    host.ask(link=link, channel=channel, tag=tag, token=token, cancel=1)


def disturb(host, seed: random.Random, key: tuple[int, int, int]) -> None:
    """A request that must change nothing."""
    link, channel, tag = key
    fields = {"link": link, "channel": channel, "tag": tag, "bytes": 128}
    other = fields | {"tag": 63}
    wrong = [
        fields,  # taken, while the key has a credit
        fields | {"index": 3},
        other | {"link": 7},
        other | {"bytes": (1 << 20) + 1},
        other | {"bytes": 100, "last": 0},
        other | {"bytes": 0, "last": 0},
        other | {"buffer": (1 << 64) - 64},
        other | {"reserved": 5},
        other | {"routed": 1, "node": 1, "channel": 6},
        other | {"cancel": 1},
        other | {"notify": 0},
    ]
    host.ask(**seed.choice(wrong[1:]))


@cocotb.test()
async def everything_is_as_in_the_model(dut):
    bench, pair, seed = await prepared(dut, "random")
    seen = set()
    for _ in range(30 if ALL else 6):
        for host in pair.hosts:
            host.sink.pause = seed.choice([0, 0.5, 0.9])
        for host, messages in zip(pair.hosts, await exchange(bench, pair, seed), strict=True):
            for message in messages:
                outcome, count = host.notified[message.token]
                seen.add(outcome)
                room = sum(count for _, count in message.runs)
                if outcome != CANCELLED:
                    assert outcome == (TOO_LONG if room < len(message.data) else DONE)
                    assert count == min(room, len(message.data))
                    assert message.expected(host.memory)
    assert seen >= {DONE, TOO_LONG, CANCELLED}
    for n in range(2):
        assert pair.counters(n)["waiting"] == 0
    pair.replay()


@cocotb.test()
async def wrong_bits_lose_nothing(dut):
    bench, pair, seed = await prepared(dut, "bits")
    for odds in (500, 200):
        dut.error_odds.value = (1 << 32) // odds
        await exchange(bench, pair, seed)
    dut.error_odds.value = 0
    await exchange(bench, pair, seed)
    assert int(dut.repeated.value) > 0
    pair.replay()


@cocotb.test()
async def wrong_puts_are_refused_and_the_channel_goes_on(dut):
    bench, pair, seed = await prepared(dut, "puts")
    near, far = pair.hosts
    size = 2 * PAYLOAD_BYTES - 6
    key, data = (0, 2, 7), seed.randbytes(size)
    wrong = [
        put(7, 0, True, b"", valid=0, bytes=5),
        put(7, 0, True, b"", bytes=PAYLOAD_BYTES + 1),
        put(7, 0, True, b"", bytes=256 + 5),
        put(7, 0, True, b"", bytes=0),
        put(7, 0, False, bytes(PAYLOAD_BYTES - 1)),
    ]
    for datagram in wrong:
        near.put(pair.sizes["links"] - 1, 2, datagram)
    send(near, key, data)
    token = credit(far, key, [(DATA + 3, size)])
    await bench.until(lambda: token in far.notified, 4000)
    await bench.until(lambda: pair.is_quiet)
    assert far.notified[token] == (DONE, size) and far.memory[3 : 3 + size] == data
    counters = pair.counters(0)
    assert (counters["refused"], counters["puts"]) == (len(wrong), 2)
    # Slots that are not there, bytes behind a datagram, poison, reads.
    stray = [memory_write(8 + PAYLOAD_BYTES, data[:64], bar=PUT_BAR)]
    stray += [memory_write(64 * n, data[:32], bar=REQUEST_BAR) for n in (200, 300)]
    stray += [memory_write(0, put(1, 0, True, data[:9]), bar=PUT_BAR, poisoned=1)]
    stray += [memory_read(0, 64, 0, bar=PUT_BAR)]
    near.source.queue.extend(stray)
    await bench.until(lambda: pair.is_quiet)
    assert pair.counters(0) == counters
    pair.replay()


@cocotb.test()
async def slots_leave_in_their_order(dut):
    """Whatever the order in which they become complete, and refused ones too: a count of puts says
    which slots are free."""
    bench, pair, seed = await prepared(dut, "slots")
    near, far = pair.hosts
    channel, slots = 2, pair.sizes["put_slots"]
    link = pair.sizes["links"] - 1
    data = seed.randbytes(3 * PAYLOAD_BYTES)
    pieces = [data[PAYLOAD_BYTES * n :][:PAYLOAD_BYTES] for n in range(3)]
    datagrams = [put(9, n, n == 2, piece) for n, piece in enumerate(pieces)]
    wrong = put(9, 7, False, b"not a whole payload")
    near.sent[link, channel] = 8

    def store(number: int, datagram: bytes) -> None:
        slot = ((8 * link + channel) * slots + number % slots) * PUT_STRIDE
        near.store(PUT_BAR, slot, datagram, simply=True)
        near.stored_puts.append((slot, datagram))

    async def settled(count: int) -> None:
        await bench.until(lambda: not near.source.queue, 1000)
        await bench.step(300)
        assert near.counted[link, channel] == count

    token = credit(far, (0, channel, 9), [(DATA, 3 * PAYLOAD_BYTES)])
    await bench.until(lambda: far.is_idle, 1000)
    store(2, datagrams[1])
    store(3, datagrams[2])
    store(1, wrong)
    await settled(0)
    assert not far.writes
    store(0, datagrams[0])
    await settled(4)
    assert far.notified[token] == (DONE, len(data))
    assert far.memory[: len(data)] == data
    # With a refused one before them, too.
    store(5, datagrams[1])
    store(6, wrong)
    await settled(4)
    store(4, wrong)
    await settled(7)
    near.sent[link, channel] = 7
    pair.replay()


@cocotb.test()
async def a_full_channel_stops_no_other(dut):
    bench, pair, seed = await prepared(dut, "full")
    near, far = pair.hosts
    size = pair.sizes["channel_datagrams"]
    # One more than there are places wait for a credit; another channel goes on.
    messages = [seed.randbytes(100) for _ in range(size + 1)]
    for tag, data in enumerate(messages):
        send(near, (0, 4, tag), data)
    other = credit(far, (0, 5, 0), [(DATA, 1000)])
    send(near, (0, 5, 0), messages[0] * 9)
    await bench.until(lambda: other in far.notified, 4000)
    await bench.until(lambda: pair.counters(1)["waiting"] == size, 4000)
    # Those behind the first pass it; its place and theirs are freed in any order.
    tokens = {}
    for tag in (3, 1, size, 7, 0, 5, 2, 6, 4):
        tokens[tag] = credit(far, (0, 4, tag), [(DATA + 4096 + 128 * tag, 128)])
        await bench.step(300)
    await bench.until(lambda: pair.is_quiet)
    for tag, data in enumerate(messages):
        assert far.notified[tokens[tag]] == (DONE, 100)
        assert far.memory[4096 + 128 * tag :][:100] == data
    pair.replay()


@cocotb.test()
async def a_link_that_is_disabled_is_forgotten(dut):
    bench, pair, seed = await prepared(dut, "disabled")
    near, far = pair.hosts
    links, last = pair.sizes["links"], pair.sizes["links"] - 1
    for _ in range(3):
        data = seed.randbytes(PAYLOAD_BYTES)
        begun = credit(far, (0, 1, 1), [(DATA, 512)])
        unused = credit(far, (0, 6, 2), [(DATA + 512, 512)])
        near.put(last, 1, put(1, 0, False, data))
        near.put(last, 1, put(9, 0, True, data))
        await bench.until(lambda: pair.counters(1)["waiting"] == 1, 2000)
        # Half a put, which is forgotten.
        far.source.queue.append(memory_write(0, put(1, 0, True, bytes(8))[:12], bar=PUT_BAR))
        dut.enable.value = (1 << links) - 1 | ((1 << links) - 2) << links
        await bench.until(lambda u=unused: u in far.notified, 4000)
        assert far.notified[begun] == (LINK_DOWN, PAYLOAD_BYTES)
        assert far.notified[unused] == (LINK_DOWN, 0)
        late = credit(far, (0, 0, 0), [(DATA, 512)])
        await bench.until(lambda t=late: t in far.notified, 2000)
        assert far.notified[late] == (LINK_DOWN, 0)
        refused = pair.counters(1)["refused"]
        far.put(0, 1, put(1, 0, True, data))
        await bench.until(lambda: far.is_idle, 2000)
        assert pair.counters(1)["refused"] == refused + 1
        assert pair.counters(1)["waiting"] == 0
        # The other end forgets, too; then both come up and all goes on.
        dut.enable.value = (1 << links) - 1 - (1 << last) | ((1 << links) - 2) << links
        await bench.step(2)
        await bench.until(lambda: pair.is_quiet, 4000)
        dut.enable.value = (1 << 2 * links) - 1
        await bench.until(lambda: is_up(dut, links), 8000)
        await exchange(bench, pair, seed)


@cocotb.test()
async def a_reset_ends_all_messages(dut):
    bench, pair, seed = await prepared(dut, "reset")
    far = pair.hosts[1]
    links = pair.sizes["links"]
    tokens = [credit(far, (0, n, n), [(DATA, 384)]) for n in range(8)]
    await bench.until(lambda: pair.is_quiet, 4000)
    assert pair.counters(1)["credits"] == 8
    dut.enable.value = (1 << links) - 1
    dut.reset_i.value = 2
    await bench.step(1)
    dut.reset_i.value = 0
    await bench.until(lambda: int(dut.quiet.value) == 3, 4000 * links)
    assert [far.notified.get(token) for token in tokens] == [(RESET, 0)] * 8
    assert set(pair.counters(1).values()) == {0}
    far.sent = dict.fromkeys(far.sent, 0)
    far.counted = dict.fromkeys(far.sent, 0)
    dut.enable.value = 0
    await bench.step(2)
    await bench.until(lambda: int(dut.quiet.value) == 3, 4000)
    dut.enable.value = (1 << 2 * links) - 1
    await bench.until(lambda: is_up(dut, links), 8000)
    await exchange(bench, pair, seed)


async def reset_alone(dut, bench, host, how: str) -> None:
    """Resets the first node alone: the card, by its register, or its links by theirs. They are
    enabled again."""
    links = host.sizes["links"]
    others = ((1 << links) - 1) << links
    if how == "card":
        dut.node_rst.value = 1
        # The session of a link that comes from the same reset of both is 1.
        dut.first_session.value = 0x0100_0040
        await bench.step(40)
        dut.node_rst.value = 0
    else:
        dut.enable.value = others
        dut.reset_i.value = int(how == "register")
        await bench.step(1)
        dut.reset_i.value = 0
    await bench.step(2)
    await bench.until(lambda: int(dut.quiet.value) & 1, 4000 * links)
    if how != "links":
        host.sent, host.counted = dict.fromkeys(host.sent, 0), dict.fromkeys(host.sent, 0)
    dut.enable.value = others | (1 << links) - 1


@cocotb.test()
async def an_end_reset_alone_ends_the_others_messages(dut):
    """The end that was not reset finds a session that does not fit, and begins anew as well."""
    bench, pair, seed = await prepared(dut, "alone")
    near, far = pair.hosts
    links, last = pair.sizes["links"], pair.sizes["links"] - 1
    for how, outcome in (("card", None), ("register", RESET), ("links", LINK_DOWN)):
        data = seed.randbytes(PAYLOAD_BYTES)
        begun = credit(far, (0, 1, 1), [(DATA, 512)])
        unused = credit(far, (0, 6, 2), [(DATA + 512, 512)])
        own = credit(near, (last, 4, 3), [(DATA, 512)])
        near.put(last, 1, put(1, 0, False, data))
        near.put(last, 1, put(9, 0, True, data))
        await bench.until(lambda: pair.counters(1)["waiting"] == 1, 2000)
        await bench.until(lambda: near.is_idle and far.is_idle, 2000)
        # A put of which one part comes before the links go, and the other when they are back.
        half, at = put(11, 0, True, data), PUT_STRIDE * (3 * far.sizes["put_slots"])
        at += PUT_STRIDE * (far.sent[0, 3] % far.sizes["put_slots"])
        far.source.queue.append(memory_write(at, half[:72], bar=PUT_BAR))
        # More than near's receive buffer takes: its link keeps some, and its queue.
        size = pair.sizes["channel_datagrams"] + 5
        for index in range(size):
            far.put(0, 5, put(7, index, False, data))
        full = size - 5
        await bench.until(lambda n=full: pair.counters(0)["waiting"] == n, 4000)
        await reset_alone(dut, bench, near, how)
        # The far end's training fails first, and it forgets its links.
        await bench.until(
            lambda t=begun: t in far.notified or not int(dut.quiet.value) & 2, 2000 * links
        )
        for token, count in ((begun, PAYLOAD_BYTES), (unused, 0)):
            # Keys of the links are looked at one after the other.
            await bench.until(lambda t=token: t in far.notified, 2000 * links)
            assert far.notified[token] == (LINK_DOWN, count)
        assert far.memory[:PAYLOAD_BYTES] == data
        assert near.notified.get(own) == (outcome and (outcome, 0))
        # Both come up without a word of the software at the other end.
        await bench.until(lambda: is_up(dut, links), 8000)
        await bench.until(lambda: far.is_idle and pair.is_quiet, 4000)
        assert [pair.counters(n)["waiting"] for n in range(2)] == [0, 0]
        room = credit(near, (last, 3, 11), [(DATA + 1024, 512)])
        far.source.queue.append(memory_write(at + 72, half[72:], bar=PUT_BAR))
        far.sent[0, 3] += 1
        await bench.until(lambda t=room: t in near.notified, 2000)
        assert near.memory[1024 : 1024 + PAYLOAD_BYTES] == data
        await bench.until(lambda: pair.is_quiet, 4000)
        await exchange(bench, pair, seed)


async def shares_of_limit(bench, seed: random.Random, takers, pair) -> list[float]:
    """Puts in all channels for each of these hosts at once; of each the share of the frame limit at
    which their data are written."""
    each, channels = 12, 8
    for far in takers:
        for channel in range(channels):
            credit(far, (0, channel, 0), [(DATA + 4096 * channel, PAYLOAD_BYTES * each)])
    await bench.until(lambda: all(far.is_idle for far in takers), 1000)
    begun = [(len(far.clocks), len(far.notified) + channels) for far in takers]
    for far in takers:
        for channel in range(channels):
            send(pair.hosts[1 - far.number], (0, channel, 0), seed.randbytes(PAYLOAD_BYTES * each))
    for far, (_, count) in zip(takers, begun, strict=True):
        await bench.until(lambda f=far, n=count: len(f.notified) == n, 4000)
    ideal = FRAME_CLOCKS * (each * channels - 1)
    return [
        ideal / (far.clocks[-2] - far.clocks[count])
        for far, (count, _) in zip(takers, begun, strict=True)
    ]


@cocotb.test()
async def a_put_is_early_and_puts_fill_the_link(dut):
    """From the last beat of a put to the first of its write; 17 or 33 columns a datagram."""
    bench, pair, seed = await prepared(dut, "rates")
    near, far = pair.hosts
    near.cuts = far.cuts = False
    one = credit(far, (0, 0, 1), [(DATA, PAYLOAD_BYTES)])
    await bench.until(lambda: far.is_idle, 1000)
    send(near, (0, 0, 1), seed.randbytes(PAYLOAD_BYTES))
    await bench.until(lambda: one in far.notified, 1000)
    latency = far.clocks[0] - near.source.sent[-1].last_clock
    assert latency <= LATENCY_CLOCKS, latency
    [share] = await shares_of_limit(bench, seed, [far], pair)
    check_share(share)
    dut._log.warning("latency %d clocks, share of the frame limit %.3f", latency, share)
    pair.replay()


def check_share(share: float) -> None:
    """At least 97 % of the frame limit; with 64b/66b and long datagrams 93 % of the line's bits are
    payload: 66 of each of eight lanes in eight clocks."""
    assert share >= 0.97, share
    if BLOCKS and LONG:
        assert share * PAYLOAD_BYTES * 8 / FRAME_CLOCKS >= 0.93 * 66


@cocotb.test()
async def puts_fill_the_link_both_ways(dut):
    """At once: 97 % of the frame limit each way, where the counts of freed places fit into the
    acknowledgements. In small receive buffers a quarter of the places is worth a command."""
    bench, pair, seed = await prepared(dut, "both ways")
    places = pair.sizes["channel_datagrams"]
    datagrams = min(8, max(1, places // 4))
    skipped = 1 / 1281 if BLOCKS else 3 / 1283
    limit = FRAME_CLOCKS / (FRAME_CLOCKS + 1 / datagrams) * (1 - skipped)
    for host in pair.hosts:
        host.cuts = False
    shares = await shares_of_limit(bench, seed, pair.hosts, pair)
    for share in shares:
        # At the begin and the end some clocks; writes of 64 bits are hardly faster than the link.
        assert share >= limit - 0.005, (share, limit)
        if places >= 32:
            check_share(share)
    text = " and ".join(f"{share:.3f}" for share in shares)
    dut._log.warning("share of the frame limit both ways %s, expected %.3f", text, limit)
    pair.replay()


def sizes_of(**others: int) -> dict[str, int]:
    """Parameters of the model."""
    return {name.upper(): value for name, value in (SIZES | others).items()}


@pytest.mark.parametrize("long, blocks", [(0, 0), *([(1, 0)] if ALL else []), (1, 1)])
@pytest.mark.parametrize("links", [1, 2] if ALL else [1])
@pytest.mark.parametrize("width", widths(256))
def test_network_processor(width, links, long, blocks):
    sizes = {"DATA_BITS": width, "LONG": long, "BLOCKS": blocks}
    simulate(__file__, "network_pair", sizes | sizes_of(links=links))


@pytest.mark.parametrize("long, blocks", [(0, 0), (1, 1)])
def test_rates_of_hosts(long, blocks):
    """With receive buffers as a card's."""
    sizes = {"DATA_BITS": 256, "LONG": long, "BLOCKS": blocks} | sizes_of(channel_datagrams=64)
    simulate(__file__, "network_pair", sizes, tests="fill_the_link")
