# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The bridge's protocol over unsealed streams of transport `tls`, for either end, written from
`docs/networks.md` and `docs/bridge.md`, with none of the program's code.

Nothing is checked on its way out: whoever uses this says what no program of ours says.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import socket
import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

#: Kinds of frames.
JOIN, JOINED, MESSAGE, TAKEN, WRITE, READ, DATA, DONE = range(8)
#: Ends of a read or write.
MOVED, NO_SUCH_KEY, NOT_ALLOWED, BEYOND = range(4)
FIRST, LAST = 1, 2
HEADER = struct.Struct("<BBHIQQQ")
#: Most bytes behind the header of each kind of frame.
MOST_BYTES = {MESSAGE: 4096, WRITE: 256 << 10, DATA: 256 << 10, READ: 1 << 30}
#: Messages that the other program may have without having taken them.
WINDOW = 64
MOST_U32, MOST_U64 = (1 << 32) - 1, (1 << 64) - 1
#: Seconds after which the other end counts as hanging.
PATIENCE_S = 20
#: Ways and stages, by number.
TO_FPGA, FROM_FPGA, ROUND_TRIP, TO_PEER, WITHIN_NODE = range(5)
PIPELINED, NAIVE = range(2)
STAGES = range(11)


class HangsError(Exception):
    """The other end neither answers nor closes the connection."""


# --- Messages: the encoding of the crate `postcard` -----------------------------------------------


def number(value: int) -> bytes:
    """An unsigned number: seven bits in a byte, the lowest first."""
    bytes_ = bytearray()
    while value > 127:
        bytes_.append(value & 127 | 128)
        value >>= 7
    return bytes([*bytes_, value])


def blob(data: bytes | str) -> bytes:
    """Bytes or text, with the length in front."""
    data = data.encode() if isinstance(data, str) else data
    return number(len(data)) + data


def maybe(value: bytes | None) -> bytes:
    """Something, or nothing."""
    return b"\0" if value is None else b"\1" + value


def many(values: list[bytes]) -> bytes:
    """A list, with its length in front."""
    return number(len(values)) + b"".join(values)


def hello(
    name: str = "anybody", version: int = 5, magic: bytes = b"XLBr", shake: bytes = b""
) -> bytes:
    """A client's greeting."""
    return magic + number(version) + blob(name) + blob(shake)


WELCOME = b"\0" + blob(b"")


def unwelcome(why: str) -> bytes:
    """A server's refusal."""
    return b"\1" + blob(why)


def memory(address: int, key: int, bytes_: int) -> bytes:
    """Memory that the other end may read or write."""
    return number(address) + number(key) + number(bytes_)


CARDS, READY, CANCEL, SURVEY = (bytes([kind]) for kind in (0, 2, 4, 5))


def chunk(offset: int, bytes_: int) -> bytes:
    """A client's announcement of data."""
    return b"\3" + number(offset) + number(bytes_)


def reload(card: str, ending: str, bytes_: int, source: bytes) -> bytes:
    """A client's request to reload a card."""
    sha256, time = bytes(32), number(10**12)
    return b"\6" + blob(card) + blob(ending) + number(bytes_) + sha256 + source + time


@dataclass
class Transfer:
    """A client's request for a transfer, by default a put that is possible but for its memory."""

    path: int = TO_FPGA
    mode: int = PIPELINED
    card: str = "card"
    address: int = 0
    length: int = 100_000
    first: int = 0
    carried: bytes | None = None
    source: bytes | None = None
    is_announced: bool = False
    destination: bytes | None = None
    peer: bytes | None = None
    chunk_bytes: tuple[int, int] | None = None
    time_ps: int = 10 * 10**12
    checksum: bool = True

    def encode(self) -> bytes:
        """The message."""
        chunks = self.chunk_bytes
        fields = [
            *(number(it) for it in (1, self.path, self.mode)),
            blob(self.card),
            *(number(it) for it in (self.address, self.length, self.first)),
            *(maybe(it) for it in (self.carried, self.source)),
            bytes([self.is_announced]),
            *(maybe(it) for it in (self.destination, self.peer)),
            maybe(chunks and number(chunks[0]) + number(chunks[1])),
            number(self.time_ps),
            bytes([self.checksum]),
        ]
        return b"".join(fields)


def carried(data: bytes) -> bytes:
    """Data within a request."""
    return b"\0" + blob(data)


CARRIED_GET = b"\1"


class Reader:
    """Reads a message."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def take(self, count: int) -> bytes:
        """So many bytes."""
        taken, self.data = self.data[:count], self.data[count:]
        assert len(taken) == count, "the message ends too early"
        return taken

    def number(self) -> int:
        """An unsigned number."""
        value = shift = 0
        while (byte := self.take(1)[0]) > 127:
            value |= (byte & 127) << shift
            shift += 7
        return value | byte << shift

    def blob(self) -> bytes:
        """Bytes or text."""
        return self.take(self.number())

    def maybe(self, read: Callable[[], object]) -> object:
        """Something, or nothing."""
        return read() if self.take(1)[0] else None

    def memory(self) -> tuple[int, int, int]:
        """The address, key and length of memory."""
        return self.number(), self.number(), self.number()

    def transfer(self) -> dict[str, object]:
        """A request for a transfer, behind the number of its kind."""
        asked: dict[str, object] = {"path": self.number(), "mode": self.number()}
        asked["card"] = self.blob().decode()
        asked |= {name: self.number() for name in ("address", "bytes", "first")}
        asked["carried"] = self.maybe(lambda: self.blob() if self.number() == 0 else True)
        asked["source"] = self.maybe(self.memory)
        asked["is_announced"] = self.take(1)[0]
        asked["destination"] = self.maybe(self.memory)
        return asked


def report(path: int, bytes_: int, checksum: int | None, every: int = 0, stages: int = 0) -> bytes:
    """A server's report, all of whose other numbers are `every`."""
    stage = number(3) + number(every) * 5
    fields = [
        number(path) + number(PIPELINED) + number(bytes_),
        number(every) * 4,
        b"\1",
        many([stage] * stages),
        many([]),
        maybe(number(every)),
        maybe(None if checksum is None else number(checksum)),
        number(every) * 2,
        maybe(None),
    ]
    return b"".join(fields)


def done(path: int, bytes_: int, checksum: int | None, **others: int) -> bytes:
    """A server's last reply."""
    return b"\4" + report(path, bytes_, checksum, **others)


def done_with(data: bytes) -> bytes:
    """A server's last reply, with the data of a small get."""
    return b"\5" + report(FROM_FPGA, len(data), zlib.crc32(data)) + blob(data)


def progress(bytes_: int, checksum: int | None = None) -> bytes:
    """A server's word on what has arrived."""
    return b"\3" + number(bytes_) + maybe(None if checksum is None else number(checksum))


def failed(stage: int, why: str, arrived: int = 0, total: int = 0) -> bytes:
    """A server's word that it does not go."""
    return b"\6" + number(stage) + blob(why) + number(arrived) + number(total)


REPLY_CARDS, REPLY_READY, REPLY_TAKEN, REPLY_PROGRESS, REPLY_DONE = range(5)
REPLY_DATA, REPLY_FAILED, REPLY_SURVEY, REPLY_RELOADED = range(5, 9)


# --- Frames ---------------------------------------------------------------------------------------


@dataclass
class Frame:
    """A frame as it came."""

    kind: int
    flags: int
    id: int
    key: int
    address: int
    length: int
    body: bytes


def frame(
    kind: int,
    body: bytes = b"",
    *,
    flags: int = 0,
    unused: int = 0,
    length: int | None = None,
    id: int = 0,
    key: int = 0,
    address: int = 0,
) -> bytes:
    """A frame, whose header may promise other bytes than there are."""
    length = len(body) if length is None else length
    return HEADER.pack(kind, flags, unused, length, id, key, address) + body


def message(body: bytes) -> bytes:
    """A frame with a message."""
    return frame(MESSAGE, body)


@dataclass
class Link:
    """A connection, of one stream or several; everything goes by the first."""

    streams: list[socket.socket]
    #: Memory that the other end may use, by its key: honest answers come from it.
    lent: dict[int, bytearray] = field(default_factory=dict)
    taken: int = 0

    def __post_init__(self) -> None:
        """Waits for nothing without end."""
        for stream in self.streams:
            stream.settimeout(PATIENCE_S)

    def __enter__(self) -> Link:
        """Itself, until the end of a block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes it."""
        self.close()

    def close(self) -> None:
        """Closes all streams."""
        for stream in self.streams:
            stream.close()

    def send(self, data: bytes) -> None:
        """Sends bytes as they are. The other end may have closed the connection before."""
        with contextlib.suppress(ConnectionError):
            try:
                self.streams[0].sendall(data)
            except TimeoutError as late:
                raise HangsError("it takes no bytes") from late

    def say(self, *messages: bytes) -> None:
        """Sends messages."""
        self.send(b"".join(map(message, messages)))

    def bytes_of(self, count: int) -> bytes | None:
        """So many bytes; none if the connection has ended."""
        have = b""
        while len(have) < count:
            try:
                more = self.streams[0].recv(count - len(have))
            except TimeoutError as late:
                raise HangsError("it says nothing") from late
            except ConnectionError:
                return None
            if not more:
                return None
            have += more
        return have

    def frame(self) -> Frame | None:
        """The next frame; none if the connection has ended."""
        head = self.bytes_of(HEADER.size)
        if head is None:
            return None
        kind, flags, _, length, id, key, address = HEADER.unpack(head)
        body = b"" if kind == READ else self.bytes_of(length)
        return None if body is None else Frame(kind, flags, id, key, address, length, body)

    def answer(self, it: Frame) -> None:
        """Does as a read or write says, in the memory that is lent."""
        lent, end = self.lent.get(it.key), it.address + it.length
        if lent is None or end > len(lent):
            if it.kind == READ or it.flags & LAST:
                self.send(frame(DONE, id=it.id, address=BEYOND if lent else NO_SUCH_KEY))
        elif it.kind == WRITE:
            lent[it.address : end] = it.body
            if it.flags & LAST:
                self.send(frame(DONE, id=it.id))
        else:
            data = bytes(lent[it.address : end])
            for at in range(0, len(data), 256 << 10):
                piece = data[at : at + (256 << 10)]
                self.send(frame(DATA, piece, id=it.id, address=at))
            self.send(frame(DONE, id=it.id))

    def messages(self) -> Iterator[bytes]:
        """The messages until the connection ends; reads and writes in between are answered."""
        while (it := self.frame()) is not None:
            if it.kind in (READ, WRITE):
                self.answer(it)
            elif it.kind == MESSAGE:
                self.taken += 1
                self.send(frame(TAKEN, id=self.taken & MOST_U32))
                yield it.body

    def reply(self, *kinds: int) -> bytes | None:
        """The next reply of these kinds; none if the connection ends before."""
        return next((it for it in self.messages() if it[:1] in map(number, kinds)), None)

    def until_frame(self, *kinds: int) -> Frame:
        """The next frame of these kinds."""
        while (it := self.frame()) is not None:
            if it.kind in kinds:
                return it
        raise ConnectionAbortedError("it has ended instead")

    def until_end(self) -> None:
        """Waits for the other end to close the connection."""
        for _ in self.messages():
            pass


_numbers = itertools.count(random.randrange(1 << 60))


def dial(address: str) -> socket.socket:
    """A socket at the other end."""
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), PATIENCE_S)


def join(address: str, streams: int = 1) -> Link:
    """A connection of a client that has said nothing yet."""
    id = next(_numbers)
    link = Link([dial(address) for _ in range(streams)])
    for at, stream in enumerate(link.streams):
        stream.sendall(frame(JOIN, id=id, key=~id & MOST_U64, address=streams << 32 | at))
    assert (answer := link.frame()) is not None and answer.kind == JOINED
    return link


def greeted(address: str) -> Link:
    """A connection of a client that the server knows."""
    link = join(address)
    link.say(hello())
    assert next(link.messages()) == WELCOME
    return link


class Server:
    """A server whose conversations are a function each, in a thread, one for a connection. It lies
    to each client in the same way."""

    def __init__(self, conversation: Callable[[Link], None], joins: bool = True) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.conversation, self.joins = conversation, joins
        self.links: list[Link] = []
        self.errors: list[BaseException] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Server:
        """Itself, until the end of a block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends it, and its conversations."""
        # A thread in `accept` has the socket as long as it waits.
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for link in self.links:
            link.close()

    def _accept(self) -> None:
        gathered: dict[int, list[socket.socket]] = {}
        while True:
            try:
                stream = self.listener.accept()[0]
            except OSError:
                return
            link = Link([stream])
            if not self.joins:
                self._talk(link)
                continue
            head = link.bytes_of(HEADER.size)
            if head is None:
                continue
            kind, _, _, _, id, _, address = HEADER.unpack(head)
            assert kind == JOIN
            streams = gathered.setdefault(id, [])
            streams.append(stream)
            if len(streams) == address >> 32:
                link = Link(gathered.pop(id))
                link.send(frame(JOINED))
                self._talk(link)

    def _talk(self, link: Link) -> None:
        self.links.append(link)

        def work() -> None:
            try:
                self.conversation(link)
            # A client that has gone is the client's outcome, which the test looks at.
            except (OSError, HangsError):
                return
            except BaseException as error:
                self.errors.append(error)

        threading.Thread(target=work, daemon=True).start()


def welcome(link: Link) -> None:
    """Hears a greeting, and lets the client in."""
    greeting = Reader(next(link.messages()))
    assert greeting.take(4) == b"XLBr"
    assert greeting.number() == 5
    link.say(WELCOME)


def asked(link: Link) -> dict[str, object]:
    """Lets a client in, and returns the transfer that it asks for."""
    welcome(link)
    request = Reader(next(link.messages()))
    assert request.number() == 1, "not a transfer"
    return request.transfer()
