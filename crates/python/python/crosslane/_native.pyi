# SPDX-License-Identifier: Apache-2.0 OR MIT
from builtins import bytes as _bytes
from collections.abc import Generator, Iterable, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Generic, Literal, Protocol, Self, TypeVar, final

from typing_extensions import Buffer as _Bytes
from typing_extensions import TypeVar as _TypeVar

from crosslane._results import Result

__version__: str

_Level = Literal["accepted", "sent", "visible", "acknowledged"]
_Kind = Literal["h2c", "c2h", "peer"]
#: The generator, what comes in from host memory, or a receive queue by its number.
_Source = Literal["generator", "h2c"] | int
_T = TypeVar("_T", covariant=True)
_Outcome = _TypeVar("_Outcome", covariant=True, default="BridgeCompleted")

class _DlPack(Protocol):
    def __dlpack__(self) -> Any: ...

def pattern(bytes: int, seed: int, word: int = 0) -> bytes:
    """Bytes of the generator's pattern, from a word of 4 B on."""

def text(outcome: str) -> str: ...
def open(
    name: str | Sequence[str] | Lab,
    *,
    endpoint: str | None = None,
    engine: Literal["model", "rtl"] | None = None,
    seed: int = 1,
) -> Session:
    """Opens cards by their names: `lab:LAB`, `lab:LAB/ENDPOINT`, `vfio:ADDRESS`,
    `vfio-user:SOCKET`; or those of a lab, all of its first host or the one named by `endpoint`."""

def bridge(
    server: str,
    *,
    network: Literal["verbs", "efa", "shm", "tls", "tcp"] | None = None,
    name: str | None = None,
    key: str | PathLike[str] | None = None,
    tls_cert: str | PathLike[str] | None = None,
    tls_key: str | PathLike[str] | None = None,
    tls_ca: str | PathLike[str] | None = None,
    trust_network: bool = False,
    deadline: float = 60.0,
) -> BridgeClient:
    """Connects to a server of `crosslane bridge serve` in at most `deadline` seconds.

    Without a `network`, the fastest that fits the address is taken, as the server does. `name` is
    the client's in the server's policy, by default `anybody`; `key` is what both have, as
    hexadecimal digits or the path of a file with them. In its place, over `tls`, are three files
    (PEM): `tls_cert` has the client's certificate, `tls_key` its private key, `tls_ca` the
    certificates of the authorities that it trusts; the name is then found by the certificate. On a
    network that is trusted nothing is sealed over `tls`, and `tcp` may leave this machine.
    """

@final
class Lab:
    """A lab: a topology of hosts, switches and cards with its constants. It never changes: what
    changes it makes another one."""

    @staticmethod
    def load(source: str | PathLike[str], *, name: str | None = None) -> Lab:
        """Loads a shipped lab by its name (`NAME` or `NAME:VARIANT`), a file by its path, or the
        text of a lab file, which `name` stands for in errors."""
    @staticmethod
    def shipped() -> list[str]:
        """Lists the names of the shipped labs."""
    def with_(self, constants: Mapping[str, float]) -> Lab:
        """The same lab with other values of constants, by their paths."""
    def with_variant(self, name: str) -> Lab:
        """Returns one of its variants."""
    def with_engine(self, engine: Literal["model", "rtl"]) -> Lab:
        """Returns the same lab with another kind of engines."""
    def with_numa_node(self, node: int) -> Lab:
        """Returns the same lab with the buffers of hosts in the memory of another socket."""
    @property
    def name(self) -> str:
        """Name of the lab."""
    @property
    def summary(self) -> str:
        """One sentence about it."""
    @property
    def variant(self) -> str | None:
        """The variant that is loaded."""
    @property
    def variants(self) -> list[str]:
        """Names of its variants."""
    @property
    def text(self) -> str:
        """Text of its lab file."""
    @property
    def endpoints(self) -> list[str]:
        """Names of its endpoints."""
    @property
    def engines(self) -> list[str]:
        """Names of its endpoints with a DMA engine."""
    @property
    def constants(self) -> list[dict[str, Any]]:
        """Its constants in force, each with its provenance."""
    def topology(self) -> dict[str, Any]:
        """Its topology, enumerated."""
    def run(
        self,
        *flows: str,
        operations: int | None = None,
        outstanding: int | None = None,
        mps: int | None = None,
        window: int | None = None,
        offset: int = 0,
        relaxed: bool = False,
        random: bool = False,
        write_combined: bool = False,
        shuffle: bool = False,
        in_turn: bool = False,
        seed: int = 1,
        why: bool = True,
    ) -> Result:
        """Flows between generic requesters and memories: `crosslane bench traffic`. A flow is
        `FROM:TO:KIND:SIZE`, as `card0:host:write:4K`."""
    def bench(
        self,
        bench: Literal["write", "read", "p2p", "latency", "chain"],
        *,
        from_: str | None = None,
        to: str | None = None,
        size: int | str | None = None,
        iterations: int | None = None,
        outstanding: int | None = None,
        flows: int = 1,
        descriptors: Literal["ring", "table", "command"] = "ring",
        notify: Literal["poll", "interrupt"] = "poll",
        pages: Literal["huge", "small"] = "huge",
        payload: int | None = None,
        mps: int | None = None,
        credits: bool = True,
        both_ways: bool = False,
        by: Literal["write", "write-memory", "read", "both"] = "write",
        seed: int = 1,
        why: bool = True,
    ) -> Result:
        """Transfers by the driver with engines: `crosslane bench write`, `read`, `p2p`, `latency`
        and `chain`."""
    def overhead(
        self, card: str | None = None, *, rounds: int = 200, large: int = 4194304, seed: int = 1
    ) -> Result:
        """Single accesses and transfers: `crosslane bench overhead`."""
    def attach(self, *endpoints: str, seed: int = 1) -> RunningLab:
        """Runs the lab step by step beside code outside of it, whose logic takes the place of these
        endpoints. BARs, MSI-X, credits and latencies are those of the lab file; all other endpoints
        are generic."""
    def _repr_svg_(self) -> str: ...
    def _loads_svg(self, loads: str) -> str: ...

@final
class Session:
    """Cards that are open, of one host. A context manager."""

    @property
    def cards(self) -> list[Card]:
        """The cards, in the order in which they were named."""
    def card(self, which: int | str | None = None) -> Card:
        """A card by its name or number; the first by default."""
    @property
    def now(self) -> float:
        """Time of the cards' bus in seconds: simulated in a lab."""
    @property
    def now_ps(self) -> int:
        """The same in picoseconds."""
    @property
    def is_lab(self) -> bool:
        """Whether the cards are a lab's, whose time is simulated."""
    @property
    def closed(self) -> bool:
        """Whether it is closed."""
    def plan(self, from_: Card | str | None = None, to: Card | str | None = None) -> Plan:
        """The path of writes between two functions, by card or by name in the tree; `None` is host
        memory. Without a path `PlanError` says why."""
    def set_max_payload(
        self, bytes: int, from_: Card | str | None = None, to: Card | str | None = None
    ) -> list[str]:
        """Sets Max_Payload_Size of every port of the path between two functions, as `setpci` would,
        and nothing else; returns their names. A channel learns of it when it is opened, as after
        `Card.set_channel`. The ports above real cards are not the program's to change."""
    def network_processor(
        self,
        function: Card | str,
        *,
        buffers: Literal["user", "copied", "mapped"] = "user",
        requests: Literal["fastest", "system_call", "uncached"] = "fastest",
        waiting: Literal["polling", "kernel_polling", "monitor"] = "polling",
    ) -> NetworkProcessor:
        """Opens a network processor; in a lab that of any host, so that one program acts for
        several nodes."""
    def sleep(self, span: float) -> None:
        """Lets seconds of the bus's time pass."""
    def finish(self) -> None:
        """In a lab, runs what the program has left, such as TLPs, to its end, and raises errors
        that ports have detected."""
    def close(self) -> None:
        """Closes channels and session. In a lab what is left runs to its end, and errors that
        ports have detected are raised."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        raised: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...

@final
class Card:
    """An open card."""

    @property
    def name(self) -> str:
        """Name of the card: its endpoint in the lab, or the name by which it was opened."""
    @property
    def address(self) -> str:
        """Bus, device and function."""
    @property
    def description(self) -> dict[str, Any]:
        """Returns the engine's abilities."""
    @property
    def now(self) -> float:
        """Time of the card's bus in seconds."""
    def buffer(self, bytes: int, *, huge: bool = True) -> Buffer:
        """Registers memory that this card reaches."""
    def to_card(
        self,
        data: _Bytes | _DlPack | PeerMemory,
        address: int | None = None,
        *,
        start: int = 0,
        stop: int | None = None,
        channel: int = 0,
        level: _Level | None = None,
        deadline: float = 10.0,
        reported: bool = True,
    ) -> Transfer:
        """Posts a transfer of data to the card: to its stream, or to an address of its memory. It
        fails if it is not complete `deadline` seconds from now. Data that are memory of another
        card are read past the host. One that is not `reported` has no interrupt: on a channel with
        interrupts its end is noticed with that of the next transfer that has one."""
    def from_card(
        self,
        target: _Bytes | _DlPack | PeerMemory,
        address: int | None = None,
        *,
        start: int = 0,
        stop: int | None = None,
        channel: int = 0,
        level: _Level | None = None,
        deadline: float = 10.0,
        reported: bool = True,
    ) -> Transfer:
        """Posts a transfer from the card: from its stream, or from an address of its memory. The
        data are in `target` when the transfer was waited for. Those for memory of another card go
        past the host, and were sent then: what `to_card` of this card reads there from then on ends
        behind them."""
    def send_packets(
        self,
        data: Iterable[_Bytes | _DlPack] | _Bytes,
        *,
        lengths: Sequence[int] | None = None,
        users: int | Sequence[int] | None = None,
        deadline: float = 10.0,
    ) -> Transfer:
        """Sends packets to the card's stream, with one doorbell: the objects of a sequence, such as
        the rows of an array, or the parts of one object that have these lengths, one behind the
        other. `users` are the user bits (`tuser`) of all, or of each. The transfer ends with the
        last of them."""
    def packet_receiver(self, places: int = 64, place_bytes: int = 2048) -> PacketReceiver:
        """Posts places for packets of the card's stream. A packet that is longer than a place goes
        on in the next one."""
    def copy(self, source: int, target: int, bytes: int, *, deadline: float = 10.0) -> Transfer:
        """Posts a copy between two addresses of the card's memory."""
    def peer(
        self,
        other: Card,
        *,
        channel: int = 0,
        credits: bool = True,
        policy: Literal["stall", "drop"] = "stall",
    ) -> Peer:
        """Connects a peer channel of this card to a receive queue of another card of the session.
        Without a path `PlanError` says why."""
    def peer_memory(self, other: Card | str, bar: int = 2) -> PeerMemory:
        """Opens memory behind a BAR of another card, so that `to_card` of this one can read it into
        its stream, or to an address of its memory, and `from_card` write it from there."""
    def window(
        self,
        bar: int,
        start: int = 0,
        stop: int | None = None,
        *,
        mapping: Literal["uncached", "write_combined"] = "uncached",
        contents: Literal["registers", "memory", "fifo"] = "registers",
        decoded_bytes: int = 0,
    ) -> Window:
        """Opens a window into a BAR, or a part of one, that the host stores into and loads from.
        `decoded_bytes` is what a FIFO decodes from its beginning."""
    def memory_card(self) -> MemoryCard:
        """Opens the card as a memory card, one that has no engine."""
    def set_channel(
        self,
        kind: _Kind,
        number: int = 0,
        *,
        ring_entries: int | None = None,
        table: bool = False,
        notify: Literal["poll", "interrupt"] = "poll",
        payload_bytes: int | None = None,
        relaxed_ordering: bool = False,
        packets: bool = False,
        drop_packets: bool = False,
        command_port: bool = False,
        oversize: bool = False,
    ) -> None:
        """Sets how a channel is opened, which its first transfer does. One that is open is closed
        before. With `packets` H2C 0 sends packets, and C2H 0 receives them; `drop_packets` there
        drops and counts those that find no place, which wait otherwise. With `command_port` peer
        channel 0 is for `Peer.command` and `Peer.ping_pong`. With `oversize` `payload_bytes` are
        used even beyond Max_Payload_Size; the ports that detect it are in the error's `ports`."""
    def counters(self, kind: _Kind, number: int = 0) -> dict[str, int]:
        """Counters of a channel: the host's since it was opened, the engine's since their reset."""
    def reset_counters(self) -> None:
        """Clears the engine's counters and hardware timers."""
    def route(self, c2h: _Source, peer: _Source | None = None) -> None:
        """Chooses the data of the streams to host memory and to the peer, while neither has
        anything to send. Those to the peer are the generator's by default."""
    def check_h2c(self, seed: int) -> None:
        """Starts comparing the data of H2C channel 0 with the pattern of a seed."""
    def h2c_check_result(self) -> Check:
        """Returns what the checker of H2C channel 0 has found so far."""
    def seed(self, seed: int) -> None:
        """Sets the seed of the generator's pattern."""
    def time_clocks(self) -> int:
        """Time of the engine, in clocks of `description["clock_ps"]`."""
    def reset(self) -> None:
        """Resets the card: transfers in flight are lost, and it is opened anew when it is used."""

@final
class PacketReceiver:
    """Places in registered memory that packets of a card's stream are received into, and that are
    posted again when their packets were taken. A context manager."""

    @property
    def places(self) -> int:
        """Number of its places."""
    @property
    def place_bytes(self) -> int:
        """Bytes of each place."""
    def receive(self, most: int = 64, *, into: _Bytes | None = None) -> Reception:
        """Waits for packets, and takes `most` at most: as bytes, or into the rows of an array of
        two dimensions or more, one in each. A packet that is longer than a row is an error, and
        waits for another call."""
    def close(self) -> None:
        """Stops the channel, and gives the places back. Packets that were not taken are lost."""
    def __enter__(self) -> Self: ...
    def __exit__(self, *raised: object) -> None: ...

@final
class Reception:
    """A wait for packets. It can be awaited, and ends when there is one."""

    @property
    def done(self) -> bool:
        """Whether packets were received."""
    def wait(self, deadline: float | None = None) -> list[Packet]:
        """Waits for packets, at most `deadline` seconds of the card's clock; then `DeadlineError`
        is raised."""
    def __await__(self) -> Generator[None, None, list[Packet]]: ...

@final
class Packet:
    """A packet that was received."""

    @property
    def data(self) -> bytes | memoryview:
        """Its bytes; received into an array, a view of them there."""
    @property
    def nbytes(self) -> int:
        """Number of its bytes."""
    @property
    def user(self) -> int:
        """User bits of its last beat (`tuser`); 0 if it is not whole."""
    @property
    def whole(self) -> bool:
        """Whether it has its first and its last byte."""
    def __len__(self) -> int: ...

@final
class Peer:
    """A connection from a card's peer channel to a receive queue of another card. A context
    manager."""

    @property
    def plan(self) -> Plan:
        """The path, and its expected rate."""
    @property
    def address(self) -> int:
        """Bus address of the receive queue."""
    @property
    def receive_queue(self) -> int:
        """Its number at the target: the source for `route` there."""
    @property
    def has_credits(self) -> bool:
        """Whether the sender stops when the receive queue is full."""
    def write(self, bytes: int, *, level: _Level | None = None, deadline: float = 10.0) -> Transfer:
        """Posts a transfer of bytes of the sender's stream. With credits it is complete when the
        peer has taken them, else when they were sent."""
    def command(self, bytes: int, *, deadline: float = 10.0) -> Transfer:
        """Has the circuit behind the sender's engine write bytes of the sender's stream to the
        receive queue, at the command port: the sender's peer channel 0 has been set to it by
        `set_channel`. It is complete when the bytes were sent, and cannot be cancelled. One command
        of a card is worked off at a time."""
    def ping_pong(self, bytes: int, rounds: int, *, deadline: float = 10.0) -> PingPong:
        """Makes round trips at the command port: messages of so many bytes, each sent when the one
        before has come back into the receive queue that the sender's card routes. The other card
        sends them back: its peer stream is routed from the receive queue, and a command of it
        covers them all."""
    def check(self, seed: int) -> None:
        """Starts comparing what the receive queue takes with the pattern of a seed."""
    def check_result(self) -> Check:
        """Returns what the receive queue's checker has found so far."""
    def counters(self) -> dict[str, int]:
        """Returns the counters of the receive queue."""
    def close(self) -> None:
        """Gives the receive queue back once all data in flight have arrived."""
    def __enter__(self) -> Self: ...
    def __exit__(self, *raised: object) -> None: ...

@final
class PingPong:
    """Round trips, as measured by the sender's hardware timer in clocks of its engine."""

    @property
    def rounds(self) -> int:
        """Number of round trips."""
    @property
    def sum_clocks(self) -> int:
        """Sum of all round trips, in clocks."""
    @property
    def least_clocks(self) -> int:
        """Shortest round trip, in clocks."""
    @property
    def most_clocks(self) -> int:
        """Longest round trip, in clocks."""

@final
class PeerMemory:
    """Memory of another card, which one card can read and write. A context manager."""

    @property
    def plan(self) -> Plan:
        """The path of what is read, and its expected rate."""
    @property
    def write_plan(self) -> Plan:
        """The path of what is written, and its expected rate."""
    def __len__(self) -> int: ...
    @property
    def nbytes(self) -> int:
        """Its size, in bytes."""
    def close(self) -> None:
        """Gives the memory back."""
    def __enter__(self) -> Self: ...
    def __exit__(self, *raised: object) -> None: ...

@final
class Plan:
    """The path between two places."""

    @property
    def path(self) -> list[str]:
        """Names of its ports, from source to target."""
    @property
    def expected_bytes_per_second(self) -> float:
        """Payload bytes a second that the slowest link can carry."""
    @property
    def slowest_link(self) -> str:
        """Port at the upper end of that link."""
    @property
    def max_payload_bytes(self) -> int:
        """Largest payload that every port of the path takes, bytes."""
    @property
    def through_root_complex(self) -> bool:
        """Whether it goes through the root complex."""
    @property
    def addressing(self) -> str:
        """Kind of address by which requests name the target."""
    @property
    def refused(self) -> list[str]:
        """Reasons for which no faster path is used."""

@final
class Check:
    """Result of a checker, which compares data with the generator's pattern."""

    @property
    def errors(self) -> int:
        """Number of wrong words of 4 B."""
    @property
    def first_word(self) -> int | None:
        """Position of the first wrong word."""

@final
class Window:
    """A part of a BAR that the host stores into and loads from. A context manager."""

    def __len__(self) -> int: ...
    @property
    def nbytes(self) -> int:
        """Its size, in bytes."""
    def write(self, offset: int, data: _Bytes | _DlPack, *, width: int | None = None) -> None:
        """Stores bytes, lowest address first: by the widest stores of the processor, or by those of
        `width` bytes."""
    def push(self, data: _Bytes | _DlPack) -> None:
        """Pushes bytes into a FIFO; write-combined in whole lines of 64 B."""
    def read(self, offset: int, bytes: int) -> bytes:
        """Loads bytes."""
    def read_into(self, offset: int, target: _Bytes | _DlPack) -> None:
        """Loads bytes into an object."""
    def flush(self) -> None:
        """Waits until everything that was stored has left the core: a fence."""
    def slot_sender(self) -> SlotSender:
        """Fills the window with slots for messages, and clears it of earlier ones."""
    def slot_receiver(self) -> SlotReceiver:
        """The receiving end of slots, in an uncached window onto the same memory."""
    def close(self) -> None:
        """Closes it. What the core has combined is stored before."""
    def __enter__(self) -> Self: ...
    def __exit__(self, *raised: object) -> None: ...

@final
class SlotSender:
    """The sending end of slots. A message has at most 47 B."""

    @property
    def slots(self) -> int:
        """Number of slots."""
    def try_send(self, message: _Bytes | _DlPack) -> bool:
        """Sends a message if a slot is free, and returns whether one was."""
    def send(self, message: _Bytes | _DlPack, *, deadline: float = 10.0) -> None:
        """Sends a message, once a slot is free."""
    def flush(self) -> None:
        """Makes all messages sent so far visible to the receiver: a fence."""

@final
class SlotReceiver:
    """The receiving end of slots."""

    def try_receive(self) -> bytes | None:
        """Takes the next message if it has arrived in whole, and frees its slot."""
    def receive(self, *, deadline: float = 10.0) -> bytes:
        """Waits for the next message, and frees its slot."""

@final
class MemoryCard:
    """A card with memory that the host stores into."""

    @property
    def fifo_window_bytes(self) -> int:
        """Bytes that the FIFO decodes from the beginning of its BAR."""
    def take_metrics(self) -> dict[str, Any]:
        """Counters of what has reached it, which begin anew: `beats`, written and read of each
        bank, `sizes`, bytes, writes and reads by length, and those of the FIFO."""
    def drain_fifo(self) -> bytes:
        """Takes all bytes out of the FIFO, oldest first."""

@final
class NetworkProcessor:
    """An open network processor. A context manager."""

    @property
    def name(self) -> str:
        """Name of its function in the tree."""
    @property
    def links(self) -> int:
        """Number of its links."""
    def enable_link(self, link: int) -> None:
        """Enables a link, which then trains. Both ends must be enabled."""
    def wait_link_up(self, link: int, *, deadline: float = 10.0) -> None:
        """Waits until a link is up."""
    def place_in_torus(self, dimensions: Sequence[tuple[int, int, bool]]) -> None:
        """The node's place: size, position and whether the ring is open, for each dimension."""
    def buffer(self, bytes: int) -> Buffer:
        """Registers memory for messages."""
    def nget(
        self,
        data: _Bytes | _DlPack,
        *,
        link: int | None = None,
        channel: int = 0,
        node: int | None = None,
        tag: int = 0,
        start: int = 0,
        stop: int | None = None,
        deadline: float = 10.0,
    ) -> Transfer:
        """Posts a message along a link, or to a node of the torus. `deadline` is the longest wait
        for a place for its request."""
    def credit(
        self,
        target: _Bytes | _DlPack,
        *,
        link: int | None = None,
        channel: int = 0,
        node: int | None = None,
        tag: int = 0,
        start: int = 0,
        stop: int | None = None,
        deadline: float = 10.0,
    ) -> Transfer:
        """Makes room for a message, which is in `target` when its transfer was waited for."""
    def counters(self) -> dict[str, int]:
        """Returns the counters since its reset."""
    def close(self) -> None:
        """Resets it. Messages in flight end."""
    def __enter__(self) -> Self: ...
    def __exit__(self, *raised: object) -> None: ...

@final
class Buffer:
    """Memory that a card reaches. `memoryview(buffer)` and `numpy.frombuffer(buffer)` see its bytes
    without a copy. A context manager."""

    def __len__(self) -> int: ...
    @property
    def nbytes(self) -> int:
        """Its size, in bytes."""
    def close(self) -> None:
        """Gives the memory back."""
    def __enter__(self) -> Self: ...
    def __exit__(self, *raised: object) -> None: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __dlpack__(self, **options: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

@final
class Transfer:
    """A transfer that was posted. It can be awaited."""

    @property
    def nbytes(self) -> int:
        """Bytes of the transfer."""
    @property
    def done(self) -> bool:
        """Whether it has ended, as far as this object knows."""
    def wait(self, deadline: float | None = None) -> Completed:
        """Waits for its end, at most `deadline` seconds of the card's clock; it then goes on, and
        `DeadlineError` is raised."""
    def cancel(self) -> None:
        """Cancels it; of a channel, everything else that is in flight there, too."""
    def __await__(self) -> Generator[None, None, Completed]: ...

@final
class Completed:
    """Outcome of a transfer."""

    @property
    def bytes(self) -> int:
        """Bytes moved."""
    @property
    def posted_ps(self) -> int:
        """Time of its doorbell, picoseconds."""
    @property
    def completed_ps(self) -> int:
        """Time at which the host learnt of its completion, picoseconds."""
    @property
    def seconds(self) -> float:
        """Seconds from its doorbell until the host learnt of its completion."""
    @property
    def bytes_per_second(self) -> float:
        """Bytes divided by the seconds."""

@final
class RunningLab:
    """A lab that runs beside code outside of it, which takes the place of some of its endpoints.
    Its time moves only by `advance` and by calls that wait. A context manager."""

    def port(self, endpoint: str | None = None) -> Port:
        """The port of an endpoint that is attached; of the only one by default."""
    def host(self, name: str | None = None) -> Host:
        """A host by its name; the only one by default."""
    def advance(self, until_ps: int) -> None:
        """Runs the lab until a time: everything that happens up to then has happened."""
    @property
    def now_ps(self) -> int:
        """Simulated time in picoseconds."""
    def traffic(
        self,
        *flows: str,
        operations: int | None = None,
        outstanding: int | None = None,
        window: int | None = None,
        relaxed: bool = False,
        random: bool = False,
    ) -> list[Flow]:
        """Starts flows between the lab's own endpoints and memories, as those of `Lab.run`. Flows
        to a host get memory that nothing else has."""
    @property
    def errors(self) -> list[str]:
        """Errors that ports have detected so far."""
    @property
    def closed(self) -> bool:
        """Whether it has ended."""
    def close(self) -> None:
        """Ends it, and raises what ports have detected."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        raised: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...

@final
class Flow:
    """A flow of a running lab."""

    @property
    def name(self) -> str:
        """Its name, `FROM:TO:KIND:SIZE`."""
    def report(self) -> dict[str, Any]:
        """Its counts and times so far."""

@final
class Port:
    """The place of an endpoint that code outside has taken."""

    @property
    def name(self) -> str:
        """Name of the endpoint."""
    def receive(
        self,
        which: Literal["any", "requests", "completions"] = "any",
        *,
        hold: bool = False,
    ) -> Tlp | None:
        """Takes the oldest TLP that has arrived and was not taken. Its receive buffer is freed, or
        with `hold` kept until `release`. A completion is not handed out ahead of a posted request
        that came before it."""
    def release(self, tlp: Tlp) -> None:
        """Frees the receive buffer of a TLP that was taken with `hold`: its credits return."""
    def wait(self, until_ps: int) -> bool:
        """Runs the lab until a TLP waits here, at most until a time. Whether one does."""
    @property
    def waiting(self) -> int:
        """Number of TLPs that wait to be taken."""
    def room(self, class_: Literal["posted", "nonposted", "completion"] = "posted") -> bool:
        """Whether a TLP of a class can be sent now: without credits the queue fills."""
    def send(self, tlp: Tlp | _Bytes, *, begun_ps: int | None = None) -> None:
        """Sends a TLP, whose last byte leaves the core now and whose first byte left it at
        `begun_ps`. `PortError` says why it cannot be; its kind is `busy` where `room` is false."""
    def config_read(self, offset: int) -> int:
        """A double word of the endpoint's configuration space."""
    @property
    def id(self) -> int:
        """Bus, device and function of the endpoint."""
    @property
    def function(self) -> dict[str, Any]:
        """Settings of the function, as the host has made them."""

@final
class Tlp:
    """A TLP: bytes in the layout of the specification, and the fields that they have."""

    def __new__(cls, bytes: _Bytes) -> Self: ...
    @staticmethod
    def memory_write(address: int, data: _Bytes, *, requester: int) -> Tlp:
        """Makes a write of some bytes, within 4 KiB."""
    @staticmethod
    def memory_read(address: int, nbytes: int, *, tag: int, requester: int) -> Tlp:
        """Makes a read of some bytes, within 4 KiB."""
    def completion(self, data: _Bytes, *, completer: int, skip: int = 0) -> Tlp:
        """The completion of this read with data that begin `skip` bytes behind its start."""
    def refusal(self, *, completer: int, abort: bool = False) -> Tlp:
        """The completion of this read with Unsupported Request, or Completer Abort."""
    def __bytes__(self) -> bytes: ...
    @property
    def header(self) -> bytes:
        """Bytes of the header."""
    @property
    def payload(self) -> bytes:
        """Payload, whole double words."""
    @property
    def data(self) -> bytes:
        """Bytes that a write's enables mark, or that a completion has for its read."""
    @property
    def kind(self) -> Literal["memory_write", "memory_read", "completion", "completion_data"]:
        """`memory_write`, `memory_read`, `completion` or `completion_data`."""
    @property
    def fmt(self) -> int:
        """Fmt, three bits."""
    @property
    def type(self) -> int:
        """Type, five bits."""
    @property
    def address(self) -> int:
        """Address of a request's first byte; of a completion the low seven bits."""
    @property
    def nbytes(self) -> int:
        """Bytes of a request from the first to the last that is enabled."""
    @property
    def length_dw(self) -> int:
        """Length in double words."""
    @property
    def first_be(self) -> int:
        """Byte enables of the first double word."""
    @property
    def last_be(self) -> int:
        """Byte enables of the last one."""
    @property
    def requester(self) -> int:
        """Bus, device and function of the requester."""
    @property
    def completer(self) -> int:
        """Bus, device and function of the completer."""
    @property
    def tag(self) -> int:
        """Tag of a request, or that which a completion answers."""
    @property
    def status(self) -> int:
        """Completion status: 0 of a successful one."""
    @property
    def byte_count(self) -> int:
        """Bytes of the read that are left, with this completion."""
    @property
    def poisoned(self) -> bool:
        """Whether its data are marked as damaged (EP)."""
    @property
    def relaxed_ordering(self) -> bool:
        """Its attribute relaxed ordering."""
    @property
    def no_snoop(self) -> bool:
        """Its attribute no snoop."""
    @property
    def id_based_ordering(self) -> bool:
        """Its attribute ID-based ordering."""
    @property
    def time_ps(self) -> int | None:
        """Time at which it reached the endpoint's logic; `None` if it has not arrived anywhere."""
    @property
    def bar(self) -> int | None:
        """BAR that a request has hit."""
    @property
    def offset(self) -> int | None:
        """Offset of its first byte in that BAR."""

@final
class Operation(Generic[_T]):
    """Something that a host does in simulated time. It has begun when it is made."""

    @property
    def done(self) -> bool:
        """Whether it has ended."""
    @property
    def begun_ps(self) -> int:
        """Simulated time at which it began, ps."""
    @property
    def ended_ps(self) -> int | None:
        """Simulated time at which it ended, ps."""
    def result(self) -> _T:
        """Its result, or its error raised."""
    def wait(self, until_ps: int | None = None) -> _T:
        """Runs the lab until it has ended, at most until a time; then `DeadlineError`. For labs
        beside which no simulator runs."""

@final
class Host:
    """A host of a running lab: its processor's accesses, memory for devices, interrupts."""

    @property
    def name(self) -> str:
        """Name of the host."""
    @property
    def functions(self) -> list[dict[str, Any]]:
        """Functions below it, as it has enumerated them: name, id, kind and placed BARs (number,
        address, bytes)."""
    def config_read(self, endpoint: str, offset: int) -> int:
        """A double word of an endpoint's configuration space, in no simulated time."""
    def config_write(self, endpoint: str, offset: int, value: int, byte_enables: int = 0xF) -> None:
        """Writes the enabled bytes of a double word of an endpoint's configuration space."""
    def store(
        self,
        endpoint: str,
        bar: int,
        offset: int,
        data: _Bytes,
        *,
        width: int = 4,
        combined: bool = False,
    ) -> Operation[None]:
        """Stores bytes behind a BAR, `width` at a time. It ends when they have left the core."""
    def load(self, endpoint: str, bar: int, offset: int, nbytes: int) -> Operation[bytes]:
        """Loads bytes from behind a BAR."""
    def write_register(self, endpoint: str, bar: int, offset: int, value: int) -> Operation[None]:
        """Writes a register of 32 bits."""
    def read_register(self, endpoint: str, bar: int, offset: int) -> Operation[int]:
        """Reads a register of 32 bits."""
    def fence(self) -> Operation[None]:
        """Waits until all stores of the core have left it."""
    def sleep(self, span_ps: int) -> Operation[None]:
        """Lets time pass."""
    def work(self, span_ps: int) -> Operation[None]:
        """Keeps the core busy."""
    def memory(self, endpoint: str, nbytes: int, *, huge: bool = True) -> Operation[HostMemory]:
        """Memory that an endpoint reaches: allocated, pinned, and mapped by an IOMMU."""
    def enable_interrupts(self, endpoint: str, vectors: int = 1) -> Operation[None]:
        """Writes the endpoint's MSI-X table, by stores to it, and enables it."""
    def wait_interrupt(
        self, endpoint: str, vector: int = 0, *, within_ps: int = 10_000_000_000
    ) -> Operation[int]:
        """Interrupts of a vector since the last such wait; at least one."""
    def wait_memory(
        self,
        memory: HostMemory,
        offset: int,
        seen: int = 0,
        *,
        within_ps: int = 10_000_000_000,
    ) -> Operation[int]:
        """The value of a 32-bit word when it is no longer `seen`."""

@final
class HostMemory:
    """Memory of a host that an endpoint reaches."""

    @property
    def address(self) -> int:
        """Address of its first byte, as the endpoint has to send it."""
    @property
    def segments(self) -> list[tuple[int, int]]:
        """Addresses and lengths of its runs."""
    @property
    def nbytes(self) -> int:
        """Its size, in bytes."""
    def read(self, offset: int = 0, nbytes: int | None = None) -> bytes:
        """Reads bytes, in no simulated time."""
    def write(self, offset: int, data: _Bytes) -> None:
        """Writes bytes, in no simulated time."""
    def __len__(self) -> int: ...

@final
class BridgeClient:
    """A connection to a bridge's server. It makes one transfer after the other; use several for
    more. A context manager."""

    @property
    def server(self) -> str:
        """Address and port of the server."""
    @property
    def network(self) -> str:
        """Name of the network."""
    @property
    def cards(self) -> list[RemoteCard]:
        """The cards that it serves."""
    def card(self, which: int | str | None = None) -> RemoteCard:
        """A card of the server by its name or number; the first by default."""
    def survey(self, deadline: float = 60.0) -> dict[str, Any]:
        """The server as it describes itself: `memory_bytes` for naive transfers and copies to other
        servers, `free_memory_bytes` of these, and `cards`, each with its `name`, `kind`,
        `memory_bytes`, `transfers` under way, `moved_bytes`, `slots`, `free_slots` to the card and
        from it, and `outage`, the reason for which it is out of service. It is asked when the
        transfers posted before have ended."""
    def buffer(self, bytes: int) -> BridgeBuffer:
        """Registers memory that the server reads and writes."""
    @property
    def closed(self) -> bool:
        """Whether the connection is closed."""
    def close(self) -> None:
        """Closes the connection; transfers in flight end with `ClosedError`."""
    def __enter__(self) -> Self: ...
    def __exit__(self, *raised: object) -> None: ...

@final
class RemoteCard:
    """A card of another node. Each transfer fails if it is not complete `deadline` seconds from
    now. With a `checksum` the server sums up the data, and they are compared. A `naive` one makes
    the stages one after the other, each with all data, for comparison. One that has failed goes on,
    on a new connection, behind the `first` bytes, those of the error's `arrived_bytes`."""

    @property
    def name(self) -> str:
        """Name of the card at the server."""
    def to_card(
        self,
        data: _Bytes | _DlPack,
        address: int,
        *,
        start: int = 0,
        stop: int | None = None,
        deadline: float = 60.0,
        checksum: bool = False,
        naive: bool = False,
        first: int = 0,
    ) -> BridgeTransfer:
        """Posts a transfer of data to an address of the card's memory."""
    def from_card(
        self,
        target: _Bytes | _DlPack,
        address: int,
        *,
        start: int = 0,
        stop: int | None = None,
        deadline: float = 60.0,
        checksum: bool = False,
        naive: bool = False,
        first: int = 0,
    ) -> BridgeTransfer:
        """Posts a transfer from an address of the card's memory. The data are in `target` when
        the transfer was waited for."""
    def through_card(
        self,
        data: _Bytes | _DlPack,
        target: _Bytes | _DlPack,
        *,
        deadline: float = 60.0,
        checksum: bool = False,
        naive: bool = False,
        first: int = 0,
    ) -> BridgeTransfer:
        """Posts a transfer of data through the card's stream into `target`."""
    def copy_to(
        self,
        far: RemoteCard,
        address: int,
        far_address: int,
        bytes: int,
        *,
        deadline: float = 60.0,
        first: int = 0,
    ) -> BridgeTransfer:
        """Posts a transfer of this card's memory into that of a card of another server, which
        this card's server reaches at the address that was given for it. The data do not come
        here."""
    def reload(
        self,
        image: _Bytes | PathLike[str],
        *,
        ending: str | None = None,
        deadline: float = 600.0,
    ) -> BridgeTransfer[BridgeReloaded]:
        """Has the server reload this card with an image, bytes or a file, and serve it again, for
        which the client needs the right. `ending` is that of the image's name, without the point,
        by default the file's. The image has to be there in `deadline` seconds, and the card in the
        same time again."""

@final
class BridgeBuffer:
    """Registered memory of this node. `memoryview(buffer)` and `numpy.frombuffer(buffer)` see its
    bytes, and a transfer moves them, without a copy. A context manager."""

    def __len__(self) -> int: ...
    @property
    def nbytes(self) -> int:
        """Its size, in bytes."""
    def close(self) -> None:
        """Gives the memory back."""
    def __enter__(self) -> Self: ...
    def __exit__(self, *raised: object) -> None: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __dlpack__(self, **options: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

@final
class BridgeTransfer(Generic[_Outcome]):
    """A transfer with a card of another node, or its reload, that was posted. It can be awaited."""

    @property
    def nbytes(self) -> int:
        """Bytes of the transfer."""
    @property
    def arrived_bytes(self) -> int:
        """Bytes that have arrived, as far as the server has said."""
    @property
    def done(self) -> bool:
        """Whether it has ended."""
    def wait(self, deadline: float | None = None) -> _Outcome:
        """Waits for its end, at most `deadline` seconds; it then goes on, and `DeadlineError` is
        raised."""
    def cancel(self) -> None:
        """Has the server end it: it then fails with what has arrived."""
    def __await__(self) -> Generator[None, None, _Outcome]: ...

@final
class BridgeCompleted:
    """Outcome of a transfer with a card of another node."""

    @property
    def bytes(self) -> int:
        """Bytes moved."""
    @property
    def seconds(self) -> float:
        """Time of this node from the request until all was done."""
    @property
    def bytes_per_second(self) -> float:
        """Bytes divided by the seconds."""
    @property
    def why(self) -> str:
        """Why it was not faster."""
    @property
    def report(self) -> dict[str, Any]:
        """The server's report: times and bytes of every stage."""

@final
class BridgeReloaded:
    """A card of another node that was reloaded."""

    @property
    def bytes(self) -> int:
        """Bytes of the image, the same at both ends."""
    @property
    def sha256(self) -> _bytes:
        """SHA-256 of the image, the same at both ends."""
    @property
    def said(self) -> str:
        """The last lines that the server's program has written."""
    @property
    def seconds(self) -> float:
        """Seconds from the request until the card was served again."""
