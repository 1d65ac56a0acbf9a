# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Clients that mean harm, at the program's server: each gets an error or loses its connection, and
the server goes on serving others with the memory, files and threads that it had."""

from __future__ import annotations

import random
import select
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
import wire
from conftest import CARD_BYTES, OTHERS, Resources, Server, run
from wire import Link, Transfer, frame, message

#: Rounds of everything before the server's memory is looked at and after, and clients at once.
FIRST_ROUNDS, ROUNDS, AT_ONCE = 1, 2, 8
#: Memory by which the server may grow in the other rounds: what its allocator has not joined.
MOST_GROWN_KIB = 2 << 10
#: Seconds for the server to give back what was closed.
SETTLING_S = 15
MOST = wire.MOST_U64
SOURCE = wire.memory(0, 1, 100_000)


def loses_it(*frames: bytes) -> Callable[[str], None]:
    """A client that says this in place of a greeting, and another one that says it behind one: both
    lose their connection."""

    def attack(address: str) -> None:
        for begin in (wire.join, wire.greeted):
            with begin(address) as link:
                link.send(b"".join(frames))
                link.until_end()

    return attack


def is_let_be(*messages: bytes, replies: tuple[int, ...] = ()) -> Callable[[str], None]:
    """A client that says this out of turn: it has these replies, and is served as before."""

    def attack(address: str) -> None:
        with wire.greeted(address) as link:
            link.say(*messages, wire.CARDS)
            for kind in (*replies, wire.REPLY_CARDS):
                said = next(link.messages())
                assert said[0] == kind, said
            assert said == b"\0" + wire.many([wire.blob("card"), wire.blob(OTHERS)])

    return attack


def refused(*requests: bytes) -> Callable[[str], None]:
    """A client whose requests cannot be: each is refused, and the connection stays."""
    return is_let_be(*requests, replies=(wire.REPLY_FAILED,) * len(requests))


def is_no_message(*messages: bytes) -> Callable[[str], None]:
    """Clients that say what is no request: each hears why, and loses its connection."""

    def attack(address: str) -> None:
        for said in messages:
            with wire.greeted(address) as link:
                link.say(said)
                assert link.reply(wire.REPLY_FAILED) is not None, said
                link.until_end()

    return attack


def bad_greetings(address: str) -> None:
    """Greetings of other protocols and versions, too long, too short, and of other keys."""
    greetings = [
        wire.hello(magic=b"HTTP"),
        wire.hello(version=4),
        wire.hello(version=6),
        wire.hello(name="x" * 65),
        wire.hello(shake=b"\0" * 48),
        wire.hello(shake=b"\0" * 97),
        wire.hello() + b"\0",
        wire.hello()[:-1],
        b"",
        b"XLBr" + wire.number(5) + wire.number(MOST),
        b"\xff" * 4096,
        wire.CARDS,
        Transfer(source=SOURCE).encode(),
    ]
    for greeting in greetings:
        with wire.join(address) as link:
            link.say(greeting)
            # Sentences for people, never an invitation.
            assert all(said[:1] == b"\1" for said in link.messages()), greeting


def streams_that_do_not_fit(address: str) -> None:
    """Streams of no connection, of the same number, of too many, and of one that never comes."""
    for place in (5 << 32 | 5, 0, 17 << 32, MOST, 1 << 32 | 1, 2 << 32 | 9):
        with Link([wire.dial(address)]) as link:
            link.send(frame(wire.JOIN, id=next(wire._numbers), address=place))
            assert link.frame() is None
    # Of two that say that they are the first stream of one connection, one is let be.
    id = next(wire._numbers)
    with Link([wire.dial(address) for _ in range(3)]) as link:
        *firsts, second = link.streams
        for stream in firsts:
            stream.sendall(frame(wire.JOIN, id=id, address=2 << 32))
        (ended,), _, _ = select.select(firsts, [], [], wire.PATIENCE_S)
        assert ended.recv(1) == b""
        second.sendall(frame(wire.JOIN, id=id, address=2 << 32 | 1))
        firsts.remove(ended)
        joined = Link(firsts).frame()
        assert joined is not None
        assert joined.kind == wire.JOINED


def halves(address: str) -> None:
    """Frames, messages and requests of which half comes, and then the end."""
    put = message(Transfer(source=SOURCE).encode())
    for begin in (wire.join, wire.greeted):
        for part in (1, 31, 32, 33, len(put) - 1):
            with begin(address) as link:
                link.send(put[:part])
                link.streams[0].shutdown(socket.SHUT_WR)
                link.until_end()


def byte_by_byte(address: str) -> None:
    """A slow client is heard all the same."""
    with wire.join(address) as link:
        for byte in message(wire.hello()) + message(wire.CARDS):
            link.send(bytes([byte]))
        assert next(link.messages()) == wire.WELCOME
        assert link.reply(wire.REPLY_CARDS)


def keys_that_nobody_gave(address: str) -> None:
    """Reads and writes of the server's memory: each is answered with a no."""
    with wire.greeted(address) as link:
        for key in (0, 1, MOST):
            for place in (0, MOST):
                link.send(frame(wire.READ, length=1 << 30, id=3, key=key, address=place))
                assert link.until_frame(wire.DONE).address == wire.NO_SUCH_KEY
                link.send(frame(wire.WRITE, b"x" * 9, flags=3, id=4, key=key, address=place))
                assert link.until_frame(wire.DONE).address == wire.NO_SUCH_KEY
        link.say(wire.CARDS)
        assert link.reply(wire.REPLY_CARDS)


def takes_no_answers(address: str) -> None:
    """A client with a million reads that takes no answer to any loses its connection."""
    reads = frame(wire.READ, length=1, key=7) * 20_000
    with wire.greeted(address) as link:
        try:
            for _ in range(50):
                link.streams[0].sendall(reads)
        except ConnectionError:
            return
        link.until_end()


def more_than_the_window(address: str) -> None:
    """Messages far beyond the window, with no answer taken, and false counts of those taken."""
    for count in (0, MOST, wire.MOST_U32, 1 << 31):
        with wire.greeted(address) as link:
            link.send(frame(wire.TAKEN, id=count))
            link.send(message(wire.CARDS) * (4 * wire.WINDOW))
            while (it := link.frame()) is not None:
                assert it.kind in (wire.MESSAGE, wire.TAKEN)
                if count and it.kind == wire.TAKEN and it.id == 4 * wire.WINDOW:
                    # The false count was as good as a right one.
                    break


def numbers_of_transfers(address: str) -> None:
    """Requests whose numbers do not fit each other, or lie at and past their limits."""
    peer = wire.blob("") + wire.blob("card") + wire.number(0)
    stranger = wire.blob("192.0.2.1:22") + wire.blob("card") + wire.number(0)
    transfers = [
        Transfer(),
        Transfer(length=0, source=SOURCE),
        Transfer(length=MOST, source=SOURCE),
        Transfer(address=MOST, source=SOURCE),
        Transfer(address=CARD_BYTES - 1, source=SOURCE),
        Transfer(address=CARD_BYTES, length=1, carried=wire.carried(b"x")),
        Transfer(first=100_000, source=SOURCE),
        Transfer(first=MOST, source=SOURCE),
        Transfer(length=100_001, source=SOURCE),
        Transfer(source=wire.memory(MOST, 1, 100_000)),
        Transfer(card="x" * 65, source=SOURCE),
        Transfer(card="\x1b[2J", source=SOURCE),
        Transfer(chunk_bytes=(0, 1), source=SOURCE),
        Transfer(chunk_bytes=(9, 8), source=SOURCE),
        Transfer(destination=SOURCE),
        Transfer(source=SOURCE, destination=SOURCE),
        Transfer(source=SOURCE, peer=peer),
        Transfer(wire.FROM_FPGA, source=SOURCE),
        Transfer(wire.FROM_FPGA, destination=SOURCE, is_announced=True),
        Transfer(wire.TO_PEER, peer=stranger),
        Transfer(wire.TO_PEER, peer=peer),
        Transfer(wire.WITHIN_NODE, peer=peer),
        Transfer(mode=wire.NAIVE, first=1, source=SOURCE),
        Transfer(mode=wire.NAIVE, is_announced=True, source=SOURCE),
        Transfer(length=5, carried=wire.carried(b"four")),
        Transfer(length=4000, carried=wire.carried(b"x" * 4000)),
        Transfer(length=3841, carried=wire.CARRIED_GET),
        Transfer(wire.FROM_FPGA, length=3841, carried=wire.CARRIED_GET),
    ]
    refused(*(it.encode() for it in transfers))(address)


def chunks_of_any_size(address: str) -> None:
    """Chunks of one byte and of more than there is: the data arrive all the same."""
    for chunks in ((1, 1), (1, MOST), (MOST, MOST)):
        with wire.greeted(address) as link:
            link.lent = {1: bytearray(b"abc" * 100)}
            source = wire.memory(0, 1, 300)
            link.say(Transfer(length=300, source=source, chunk_bytes=chunks).encode())
            assert link.reply(wire.REPLY_DONE, wire.REPLY_FAILED)[0] == wire.REPLY_DONE, chunks


def reads_answered(*answer: Callable[[wire.Frame], bytes]) -> Callable[[str], None]:
    """A client that answers the server's first read like this: it loses its connection."""

    def attack(address: str) -> None:
        with wire.greeted(address) as link:
            link.say(Transfer(source=SOURCE).encode())
            read = link.until_frame(wire.READ)
            link.send(b"".join(it(read) for it in answer))
            link.until_end()

    return attack


def read_refused(status: int) -> Callable[[str], None]:
    """A client that says no to the server's reads: its transfer fails, in so many words."""

    def attack(address: str) -> None:
        with wire.greeted(address) as link:
            link.say(Transfer(source=SOURCE).encode())
            read = link.until_frame(wire.READ)
            link.send(frame(wire.DONE, id=read.id, address=status))
            assert b"read" in link.reply(wire.REPLY_FAILED)

    return attack


def writes_answered(*answer: Callable[[wire.Frame], bytes]) -> Callable[[str], None]:
    """A client that answers the server's first write like this: it loses its connection."""

    def attack(address: str) -> None:
        with wire.greeted(address) as link:
            link.say(Transfer(wire.FROM_FPGA, destination=SOURCE).encode())
            while not (write := link.until_frame(wire.WRITE)).flags & wire.LAST:
                pass
            link.send(b"".join(it(write) for it in answer))
            link.until_end()

    return attack


def leaves_in_the_middle(address: str) -> None:
    """Clients that go while the server reads from them, writes to them, or waits for them."""
    for asks, waits_for in (
        (Transfer(source=SOURCE), wire.READ),
        (Transfer(wire.FROM_FPGA, destination=SOURCE), wire.WRITE),
        (Transfer(mode=wire.NAIVE, source=SOURCE), wire.READ),
        (Transfer(source=SOURCE, is_announced=True), None),
        (Transfer(source=SOURCE), None),
    ):
        with wire.greeted(address) as link:
            link.say(asks.encode())
            if waits_for is not None:
                link.until_frame(waits_for)


def announcements(address: str) -> None:
    """Announced data that do not lie in the source, are empty, or more than was asked for."""
    put = Transfer(source=SOURCE, is_announced=True).encode()
    for offset, length in ((MOST, 1), (0, MOST), (99_999, 2), (100_000, 1), (0, 0)):
        with wire.greeted(address) as link:
            link.say(put, wire.chunk(offset, length))
            said = link.reply(wire.REPLY_DONE, wire.REPLY_FAILED)
            assert said is None or said[0] == wire.REPLY_FAILED, (offset, length)
    with wire.greeted(address) as link:
        link.lent = {1: bytearray(100_000)}
        link.say(put, *[wire.chunk(0, 60_000)] * 2)
        said = link.reply(wire.REPLY_DONE, wire.REPLY_FAILED)
        assert said is None or said[0] == wire.REPLY_FAILED


def in_the_middle_of_a_transfer(address: str) -> None:
    """Other requests while a transfer is under way."""
    for said in (wire.CARDS, wire.SURVEY, wire.READY, wire.chunk(0, 1), wire.CANCEL):
        with wire.greeted(address) as link:
            link.say(Transfer(source=SOURCE).encode())
            link.until_frame(wire.READ)
            link.say(said, said)
            if said == wire.CANCEL:
                assert b"cancelled" in link.reply(wire.REPLY_FAILED)


def naive_words_out_of_turn(address: str) -> None:
    """A naive get whose client is ready before it is asked, and again and again."""
    with wire.greeted(address) as link:
        link.lent = {1: bytearray(100_000)}
        get = Transfer(wire.FROM_FPGA, mode=wire.NAIVE, destination=SOURCE)
        link.say(*[wire.READY] * 3, get.encode(), *[wire.READY] * 9)
        said = link.reply(wire.REPLY_DONE, wire.REPLY_FAILED)
        assert said is not None


def changed_bits(address: str) -> None:
    """Requests with a bit flipped, cut, or with more behind them."""
    rng = random.Random(27)
    right = Transfer(source=SOURCE, chunk_bytes=(64, 4096)).encode()
    for _ in range(30):
        said = bytearray(right)
        for _ in range(rng.randint(1, 3)):
            said[rng.randrange(len(said))] ^= 1 << rng.randrange(8)
        said = said[: rng.choice((len(said), rng.randrange(len(said))))] + rng.randbytes(
            rng.choice((0, 0, 9))
        )
        with wire.greeted(address) as link:
            link.lent = {1: bytearray(100_000)}
            link.say(bytes(said), wire.CANCEL)
            link.streams[0].shutdown(socket.SHUT_WR)
            link.until_end()


ATTACKS: dict[str, Callable[[str], None]] = {
    "a kind of frame that does not exist": loses_it(frame(8)),
    "the last kind": loses_it(frame(255)),
    "flags that do not exist": loses_it(frame(wire.MESSAGE, wire.CARDS, flags=4)),
    "unused bytes in use": loses_it(frame(wire.MESSAGE, wire.CARDS, unused=1)),
    "a second join": loses_it(frame(wire.JOIN, address=1 << 32)),
    "a joined": loses_it(frame(wire.JOINED)),
    "data of no read": loses_it(frame(wire.DATA, b"x", id=1)),
    "the end of no read": loses_it(frame(wire.DONE, id=1)),
    "an end of another kind": loses_it(frame(wire.DONE, id=1, address=4)),
    **{
        f"kind {kind}, longer than it can be": loses_it(frame(kind, length=most))
        for kind in range(8)
        for most in (wire.MOST_BYTES.get(kind, 0) + 1, wire.MOST_U32)
    },
    "a message of zeros": is_no_message(bytes(4096)),
    "an empty message": is_no_message(b""),
    "no request": is_no_message(b"\7", b"\xff" * 4000, wire.number(MOST)),
    "a request with more behind it": is_no_message(wire.CARDS + b"\0", wire.READY * 2),
    "a name without an end": is_no_message(b"\1\0\0" + wire.number(MOST), b"\1\0\0\x40x"),
    "numbers that are too long": is_no_message(b"\3" + b"\x80" * 11, b"\3" + b"\xff" * 10),
    "a way that does not exist": is_no_message(Transfer(path=5, source=SOURCE).encode()),
    "words out of turn": is_let_be(
        wire.READY, wire.CANCEL, wire.chunk(0, 1), wire.chunk(MOST, MOST), wire.CANCEL
    ),
    "every question": is_let_be(
        wire.SURVEY, wire.SURVEY, replies=(wire.REPLY_SURVEY, wire.REPLY_SURVEY)
    ),
    "a reload that nobody allows": refused(
        wire.reload("card", "bit", 1 << 20, wire.memory(0, 1, 1 << 20)),
        wire.reload("card", "../x", 1, SOURCE),
        wire.reload("x" * 65, "", 1, SOURCE),
        wire.reload("card", "", MOST, wire.memory(0, 1, MOST)),
        wire.reload("card", "", 0, SOURCE),
    ),
    "greetings": bad_greetings,
    "streams that do not fit": streams_that_do_not_fit,
    "halves": halves,
    "byte by byte": byte_by_byte,
    "keys that nobody gave": keys_that_nobody_gave,
    "takes no answers": takes_no_answers,
    "more than the window": more_than_the_window,
    "numbers of transfers": numbers_of_transfers,
    "chunks of any size": chunks_of_any_size,
    "data of another read": reads_answered(
        lambda it: frame(wire.DATA, b"x", id=it.id + 99, address=0)
    ),
    "data at another place": reads_answered(lambda it: frame(wire.DATA, b"x", id=it.id, address=1)),
    "more data than were asked for": reads_answered(
        lambda it: frame(wire.DATA, bytes(it.length), id=it.id),
        lambda it: frame(wire.DATA, b"x", id=it.id, address=it.length),
    ),
    "the end before the data": reads_answered(lambda it: frame(wire.DONE, id=it.id)),
    "the same end twice": reads_answered(
        lambda it: frame(wire.DONE, id=it.id, address=wire.BEYOND),
        lambda it: frame(wire.DONE, id=it.id, address=wire.BEYOND),
    ),
    "the end of a write twice": writes_answered(
        lambda it: frame(wire.DONE, id=it.id), lambda it: frame(wire.DONE, id=it.id)
    ),
    "data for a write": writes_answered(lambda it: frame(wire.DATA, b"x", id=it.id)),
    **{f"a read refused by {status}": read_refused(status) for status in (1, 2, 3)},
    "leaves in the middle": leaves_in_the_middle,
    "announcements": announcements,
    "in the middle of a transfer": in_the_middle_of_a_transfer,
    "naive words out of turn": naive_words_out_of_turn,
    "changed bits": changed_bits,
}


@pytest.fixture(scope="module")
def attacks(server: Server) -> Iterator[dict[str, Future[None]]]:
    """All of them, several at a time."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {name: pool.submit(attack, server.address) for name, attack in ATTACKS.items()}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_hostile_client_gets_nowhere(
    server: Server, attacks: dict[str, Future[None]], name: str
) -> None:
    attacks[name].result()
    assert server.process.poll() is None, server.log.read_text()


def play_round(server: Server) -> Resources:
    """All attacks, several at once, beside those who say nothing; what the server has then."""
    idle = server.idle
    # They say half of something, as long as the round lasts.
    silent = [wire.dial(server.address) for _ in range(20)]
    silent += [wire.greeted(server.address).streams[0] for _ in range(20)]
    for stream in silent:
        stream.sendall(frame(wire.MESSAGE, length=9)[:31])
    with ThreadPoolExecutor(AT_ONCE) as pool:
        attacks = pool.map(lambda attack: attack(server.address), ATTACKS.values())
        server.serves()
        assert list(attacks) == [None] * len(ATTACKS)
    for stream in silent:
        stream.close()
    begun = time.monotonic()
    while (now := server.resources()).files > idle.files or now.threads > idle.threads:
        assert time.monotonic() - begun < SETTLING_S, (idle, now)
        time.sleep(0.02)
    return now


def test_all_at_once_leave_nothing_behind(server: Server, tmp_path: Path) -> None:
    for _ in range(FIRST_ROUNDS):
        before = play_round(server)
    for _ in range(ROUNDS):
        now = play_round(server)
    assert now.memory_kib - before.memory_kib <= MOST_GROWN_KIB, (before, now)
    log = server.log.read_text()
    assert "panicked" not in log
    assert "\x1b" not in log
    # The program's own client, at last.
    sent, back = tmp_path / "sent", tmp_path / "back"
    sent.write_bytes(random.Random(1).randbytes(300_000))
    options = ["--network", "tls", "--retries", "0"]
    assert run("put", str(sent), f"{server.address}/{OTHERS}", *options)[0] == 0
    got = run("get", f"{server.address}/{OTHERS}", str(back), "--bytes", "300000", *options)
    assert got[0] == 0, got
    assert back.read_bytes() == sent.read_bytes()
