# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Servers that mean harm, and the program's clients: each ends by itself with an error that names
the server or the place in the data, and no file is written that is wrong or half of one."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
import wire
from conftest import PROGRAM
from wire import Link, Server, frame, message

DATA = random.Random(27).randbytes(100_000)
RIGHT = zlib.crc32(DATA)
#: Sizes of the first two pieces of a long file, bytes, and of a file that has several.
FIRST_BYTES, SECOND_BYTES, LONG_BYTES = 2 << 20, 4 << 20, (32 << 20) + 5000
#: Content of a file that a transfer would replace.
BEFORE = b"as it was"
#: Seconds after which a client counts as hanging: all of them wait for less than 15.
HANGS_S = 60
#: Clients at the same time.
AT_ONCE = 12
#: A sequence that clears a terminal, which no client hands on.
CLEARS = "\x1b[2J"
MOST = wire.MOST_U64

Conversation = Callable[[Link], None]


@dataclass
class Lie:
    """A server's conversation, the command of its client, and the client's end."""

    command: str
    conversation: Conversation
    #: Parts of the client's error.
    words: tuple[str, ...]
    code: int = 1
    joins: bool = True


@dataclass
class Ended:
    """A client that has ended."""

    code: int
    output: str
    errors: str
    files: dict[str, bytes]
    server_errors: list[BaseException]


#: Commands, with a server's address and the folder of their files. They wait for 1 s, and then for
#: the last words of the server.
SHORT = "--network tls --timeout 1 --retries 0"
PUT = f"put {{folder}}/sent {{server}}/card {SHORT}"
PUT_SMALL = f"put {{folder}}/small {{server}}/card {SHORT}"
PUT_TWO = "put {folder}/two {server}/card:64 --network tls --timeout 20 --retries 0"
GET = f"get {{server}}/card {{folder}}/back --bytes {len(DATA)} {SHORT}"
GET_SMALL = f"get {{server}}/card {{folder}}/back --bytes 100 {SHORT}"
TRIP = f"roundtrip {{folder}}/sent {{server}}/card {SHORT}"
COPY = f"copy {{server}}/card 127.0.0.1:9/card --bytes 1000 {SHORT}"
POOL = "pool {server} --network tls"
FIND = f"put {{folder}}/sent card --servers {{server}} {SHORT}"
RELOAD = f"reload {{server}}/card {{folder}}/sent {SHORT}"


def silence(link: Link) -> None:
    """Hears the client out, and says no more."""
    link.until_end()


def hears_request(link: Link) -> None:
    """Lets the client in, and hears its request, whatever that is."""
    wire.welcome(link)
    next(link.messages())


def says(*replies: bytes, then: Conversation = silence) -> Conversation:
    """A server that answers a request with these messages."""

    def talk(link: Link) -> None:
        hears_request(link)
        link.say(*replies)
        then(link)

    return talk


def endlessly(*replies: bytes) -> Conversation:
    """A server that says the same again and again, as long as the client is there."""

    def talk(link: Link) -> None:
        hears_request(link)
        said = itertools.cycle(replies)
        untaken = 0
        while True:
            link.say(next(said))
            untaken += 1
            while untaken >= wire.WINDOW // 2:
                it = link.frame()
                if it is None:
                    return
                if it.kind == wire.TAKEN:
                    untaken = 0
            time.sleep(0.001)

    return talk


def sends(*frames: bytes, then: Conversation = silence) -> Conversation:
    """A server that answers a request with these frames."""

    def talk(link: Link) -> None:
        hears_request(link)
        link.send(b"".join(frames))
        then(link)

    return talk


def has_left(link: Link) -> None:
    """Ends the connection."""
    link.close()


def read_source(link: Link, key: int, address: int, length: int) -> tuple[bytes, int]:
    """Reads the client's memory: the data, and how the read ended."""
    data = bytearray()
    link.send(frame(wire.READ, length=length, id=1, key=key, address=address))
    while (it := link.until_frame(wire.DATA, wire.DONE)).kind == wire.DATA:
        assert it.address == len(data)
        data += it.body
    return bytes(data), it.address


def write_memory(link: Link, key: int, address: int, data: bytes) -> int:
    """Writes the client's memory; how that ended."""
    link.send(frame(wire.WRITE, data, flags=3, id=2, key=key, address=address))
    return link.until_frame(wire.DONE).address


def put_with(checksum: int | None, **others: int) -> Conversation:
    """A server that reads what is put, and reports it with this checksum and other numbers."""

    def talk(link: Link) -> None:
        address, key, length = wire.asked(link)["source"]
        data, status = read_source(link, key, address, length)
        assert (data, status) == (DATA, wire.MOVED)
        # Reads beside it, and writes to it, are refused, and change nothing.
        assert read_source(link, key, address + 1, 1 << 30)[1] == wire.BEYOND
        assert read_source(link, key, MOST, 1)[1] == wire.BEYOND
        assert read_source(link, key + 1, address, 1)[1] == wire.NO_SUCH_KEY
        assert write_memory(link, key, address, b"x") == wire.NOT_ALLOWED
        link.say(wire.done(wire.TO_FPGA, length, checksum, **others))
        silence(link)

    return talk


def got_with(data: bytes, checksum: int | None, then: Conversation = silence) -> Conversation:
    """A server that writes these data for a get, and reports them with this checksum."""

    def talk(link: Link) -> None:
        asked = wire.asked(link)
        address, key, length = asked["destination"]
        for at in range(0, len(data), 1 << 16):
            assert write_memory(link, key, address + at, data[at : at + (1 << 16)]) == wire.MOVED
        assert write_memory(link, key, address + (64 << 20), b"x") == wire.BEYOND
        assert write_memory(link, key, MOST, b"x") == wire.BEYOND
        assert write_memory(link, key ^ 1, address, b"x") == wire.NO_SUCH_KEY
        assert read_source(link, key, address, 1)[1] == wire.NOT_ALLOWED
        if checksum is not None:
            link.say(wire.done(asked["path"], length, checksum))
        then(link)

    return talk


def leaves_in_a_write(link: Link) -> None:
    """Begins a write, and leaves before its end."""
    address, key, _ = wire.asked(link)["destination"]
    half = frame(wire.WRITE, DATA[:5000], length=9000, flags=3, id=1, key=key, address=address)
    link.send(half)
    link.close()


def trip_with(data: bytes) -> Conversation:
    """A server that sends other data back than it got, with the checksum of what it got."""

    def talk(link: Link) -> None:
        asked = wire.asked(link)
        (address, key, length), (to, to_key, _) = asked["source"], asked["destination"]
        assert read_source(link, key, address, length) == (DATA, wire.MOVED)
        assert write_memory(link, to_key, to, data) == wire.MOVED
        link.say(wire.done(wire.ROUND_TRIP, length, RIGHT))
        silence(link)

    return talk


def fails_in_second_piece(arrived: int, total: int) -> Conversation:
    """A server that has the first piece of a file, by its own word, and fails in the second."""

    def talk(link: Link) -> None:
        asked = wire.asked(link)
        assert (asked["address"], asked["bytes"]) == (64, FIRST_BYTES)
        link.say(wire.done(wire.TO_FPGA, FIRST_BYTES, zlib.crc32(bytes(FIRST_BYTES))))
        second = wire.Reader(next(link.messages()))
        assert second.number() == 1
        assert second.transfer()["address"] == 64 + FIRST_BYTES
        link.say(wire.progress(MOST, 7), wire.failed(4, "no more", arrived, total))
        silence(link)

    return talk


def survey(names: list[bytes], outage: bytes | None = None) -> bytes:
    """A server's description of itself, with the largest numbers that there are."""
    most, most32 = wire.number(MOST), wire.number(wire.MOST_U32)
    cards = [
        wire.blob(name)
        + wire.number(1)
        + wire.maybe(most)
        + most32
        + most
        + most32 * 3
        + wire.maybe(outage and wire.blob(outage))
        for name in names
    ]
    return b"\7" + wire.many(cards) + most * 2


def is_strange(link: Link) -> None:
    """Answers in another protocol, before any frame."""
    link.send(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
    silence(link)


def greets_with(*messages: bytes) -> Conversation:
    """A server that answers a greeting like this."""

    def talk(link: Link) -> None:
        next(link.messages())
        link.say(*messages)
        silence(link)

    return talk


def is_busy(link: Link) -> None:
    """Reads a client's data again and again, and never says that it has them."""
    address, key, length = wire.asked(link)["source"]
    while True:
        assert read_source(link, key, address, length)[0] == DATA
        time.sleep(0.01)


LATE = "the server said nothing until after the deadline"
CHANGED = "data were changed on the way: the piece from byte 0 on has CRC-32"
LOST = "connection: "
UNANSWERED = ("127.0.0.1:", "waiting for the server to answer")
LIES: dict[str, Lie] = {
    # Before a request.
    "closes at once": Lie(PUT, has_left, ("127.0.0.1:",), joins=False),
    "speaks another protocol": Lie(PUT, is_strange, ("127.0.0.1:", "frame"), joins=False),
    "says nothing to a stream": Lie(PUT, silence, ("connecting to 127.0.0.1:",), joins=False),
    "closes after joining": Lie(PUT, has_left, (LOST,)),
    "says nothing to a greeting": Lie(PUT, silence, ("connecting to 127.0.0.1:",)),
    "says no": Lie(PUT, greets_with(wire.unwelcome(CLEARS + "no" * 1000)), ("server says:",)),
    "does not know the greeting": Lie(PUT, greets_with(b"\2"), ("a server's welcome",)),
    "greets with nothing": Lie(PUT, greets_with(b""), ("a server's welcome",)),
    "greets without an end": Lie(
        PUT, greets_with(b"\0" + wire.number(MOST)), ("a server's welcome",)
    ),
    # Frames.
    **{
        f"sends {name}": Lie(PUT, sends(data), (LOST, words))
        for name, data, words in (
            ("a kind that does not exist", frame(8), "unknown kind 8"),
            ("flags that do not exist", frame(wire.MESSAGE, flags=4), "unknown flags"),
            ("a long message", frame(wire.MESSAGE, length=4097), "4097 B"),
            ("a long write", frame(wire.WRITE, length=1 << 19), "524288 B"),
            ("another join", frame(wire.JOIN), "in the middle"),
            ("data of no read", frame(wire.DATA, b"x", id=5), "not under way"),
            ("the end of nothing", frame(wire.DONE, id=5), "not under way"),
        )
    },
    "sends half a header": Lie(PUT, sends(frame(wire.MESSAGE)[:31], then=has_left), (LOST,)),
    "sends half a message": Lie(
        PUT, sends(frame(wire.MESSAGE, b"half", length=9), then=has_left), (LOST,)
    ),
    "waits within a message": Lie(PUT, sends(frame(wire.MESSAGE, length=9)), (LATE,)),
    "takes nothing for read": Lie(PUT, sends(frame(wire.TAKEN, id=MOST)), (LATE,)),
    "sends more than the window": Lie(
        PUT, sends(message(b"\0" + wire.many([])) * 4000, then=has_left), (LOST,)
    ),
    # Answers to a put.
    "says nothing": Lie(PUT, says(), (LATE,)),
    "leaves": Lie(PUT, says(then=has_left), (LOST,)),
    "is busy for ever": Lie(PUT, is_busy, (LATE,)),
    "progresses for ever": Lie(PUT, endlessly(wire.progress(1), wire.progress(MOST)), (LATE,)),
    "is ready for ever": Lie(PUT, endlessly(bytes([wire.REPLY_READY])), (LATE,)),
    "answers other questions": Lie(
        PUT, endlessly(b"\0" + wire.many([]), b"\2" + wire.number(MOST) * 2), (LATE,)
    ),
    "has another checksum": Lie(PUT, put_with(RIGHT ^ 1), (CHANGED, f"{RIGHT ^ 1:08x}")),
    "has no checksum": Lie(PUT, put_with(None), ("the server has sent no checksum",)),
    "has none of a small put": Lie(
        PUT_SMALL, says(wire.done(wire.TO_FPGA, 100, RIGHT)), (CHANGED,)
    ),
    "reports the largest numbers": Lie(PUT, put_with(RIGHT, every=MOST, stages=9), (), code=0),
    "sends data for a put": Lie(PUT, says(wire.done_with(b"data")), ("has not the data",)),
    "answers with nothing": Lie(PUT, says(b""), ("a server's reply",)),
    "answers with no reply": Lie(PUT, says(b"\x09"), ("a server's reply",)),
    "answers with more behind it": Lie(PUT, says(b"\1\1"), ("a server's reply",)),
    "answers without an end": Lie(PUT, says(b"\0" + wire.number(MOST)), ("a server's reply",)),
    "answers in half": Lie(
        PUT, says(wire.done(wire.TO_FPGA, 100_000, RIGHT)[:-3]), ("a server's reply",)
    ),
    **{
        f"fails at stage {stage}": Lie(
            PUT, says(wire.failed(stage, CLEARS + "no\n" * 900, arrived, total)), ("no no",)
        )
        for stage in wire.STAGES
        for arrived, total in ((MOST, MOST - stage),)
    },
    "refuses": Lie(PUT, says(wire.failed(1, "no")), ("no", "0 of 100000 B have arrived")),
    "fails at no stage": Lie(PUT, says(wire.failed(11, "no")), ("a server's reply",)),
    "fails in the second piece": Lie(PUT_TWO, fails_in_second_piece(0, SECOND_BYTES), ("no more",)),
    "fails far behind the end": Lie(PUT_TWO, fails_in_second_piece(MOST, MOST), ("no more",)),
    # Answers to a get.
    "writes other data": Lie(GET, got_with(DATA[::-1], RIGHT), (CHANGED, f"{RIGHT:08x}")),
    "writes half": Lie(GET, got_with(DATA[:50_000], RIGHT), (CHANGED,)),
    "writes nothing": Lie(GET, got_with(b"", RIGHT), (CHANGED,)),
    "writes and says nothing": Lie(GET, got_with(DATA, None), (LATE,)),
    "writes and leaves": Lie(GET, got_with(DATA, None, has_left), (LOST,)),
    "leaves in a write": Lie(GET, leaves_in_a_write, (LOST,)),
    "says nothing to a get": Lie(GET, says(), (LATE,)),
    "has other small data": Lie(
        GET_SMALL,
        says(b"\5" + wire.report(wire.FROM_FPGA, 100, 7) + wire.blob(DATA[:100])),
        ("changed on the way",),
    ),
    **{
        f"has {count} B of 100": Lie(
            GET_SMALL, says(wire.done_with(DATA[:count])), ("has not the data",)
        )
        for count in (0, 99, 101, 3840)
    },
    "has no small data": Lie(
        GET_SMALL, says(wire.done(wire.FROM_FPGA, 100, 7)), ("has not the data",)
    ),
    "sends back other data": Lie(TRIP, trip_with(DATA[::-1]), ("not those that were sent",)),
    # Other commands.
    "says nothing to a copy": Lie(COPY, says(), (LATE,)),
    "has copied without a checksum": Lie(
        COPY, says(wire.done(wire.TO_PEER, 1000, None)), ("the server has sent no checksum",)
    ),
    "says nothing of its cards": Lie(POOL, says(), UNANSWERED),
    "is ready, and says nothing of its cards": Lie(
        POOL,
        endlessly(bytes([wire.REPLY_READY])),
        UNANSWERED,
    ),
    "says nothing of cards that are looked for": Lie(FIND, says(), UNANSWERED),
    "has cards without an end": Lie(POOL, says(b"\7" + wire.number(MOST)), ("a server's reply",)),
    "has cards with names that clear": Lie(
        POOL, says(survey([CLEARS.encode(), b"\n" * 64], CLEARS.encode())), (), code=0
    ),
    "has other cards, with names that clear": Lie(
        FIND, says(survey([CLEARS.encode() + b"card"])), ("no server of the list has it",)
    ),
    "has too many cards": Lie(POOL, says(survey([b"x"] * 80)), (), code=0),
    "says nothing to a reload": Lie(RELOAD, says(), ("card",)),
    "has reloaded another image": Lie(
        RELOAD, says(b"\x08" + wire.number(len(DATA)) + bytes(32) + wire.blob(CLEARS)), ("card",)
    ),
}


def play(lie: Lie, folder: Path) -> Ended:
    """Runs a client at a server that lies."""
    folder.mkdir()
    (folder / "sent").write_bytes(DATA)
    (folder / "small").write_bytes(DATA[:100])
    (folder / "back").write_bytes(BEFORE)
    with (folder / "two").open("wb") as two:
        two.truncate(LONG_BYTES)
    with Server(lie.conversation, lie.joins) as server:
        command = lie.command.format(server=server.address, folder=folder).split()
        # Colours as on a terminal: where there is none, sequences of others are taken out.
        environment = os.environ | {"CLICOLOR_FORCE": "1"}
        ended = subprocess.run(
            [PROGRAM, "bridge", *command],
            capture_output=True,
            text=True,
            timeout=HANGS_S,
            env=environment,
        )
        (folder / "two").unlink()
        files = {it.name: it.read_bytes() for it in folder.iterdir()}
        return Ended(ended.returncode, ended.stdout, ended.stderr, files, server.errors)


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Ended]]]:
    """All clients, several at a time, since most of them wait for most of their time."""
    folder = tmp_path_factory.mktemp("clients")
    # Those that wait longest first.
    names = sorted(LIES, key=lambda name: "nothing" not in name)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {
            name: pool.submit(play, LIES[name], folder / str(number))
            for number, name in enumerate(names)
        }


@pytest.mark.parametrize("name", LIES)
def test_a_hostile_server_deceives_nobody(clients: dict[str, Future[Ended]], name: str) -> None:
    lie, ended = LIES[name], clients[name].result()
    assert ended.server_errors == []
    said = ended.errors + ended.output
    assert ended.code == lie.code, said
    assert all(words in said for words in lie.words), said
    assert "panicked" not in said
    assert CLEARS not in said
    # Nothing is left of what was begun, and nothing is replaced.
    kept = {"sent": DATA, "small": DATA[:100], "back": BEFORE}
    assert ended.files == kept
