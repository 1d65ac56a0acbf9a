# SPDX-License-Identifier: Apache-2.0 OR MIT
from collections.abc import Generator, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Literal, Protocol, Self, final

from typing_extensions import Buffer as _Bytes

from crosslane._results import Result

__version__: str

class _DlPack(Protocol):
    def __dlpack__(self) -> Any: ...

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

@final
class Lab:
    """A lab: a topology of hosts, switches and cards with its constants. It never changes: what
    changes it makes another one."""

    @staticmethod
    def load(source: str | PathLike[str], *, name: str | None = None) -> Lab:
        """Loads a shipped lab by its name (`NAME` or `NAME:VARIANT`), a file by its path, or the
        text of a lab file, which `name` stands for in errors."""
    @staticmethod
    def shipped() -> list[str]: ...
    def with_(self, constants: Mapping[str, float]) -> Lab:
        """The same lab with other values of constants, by their paths."""
    def with_variant(self, name: str) -> Lab: ...
    def with_engine(self, engine: Literal["model", "rtl"]) -> Lab: ...
    def with_numa_node(self, node: int) -> Lab: ...
    @property
    def name(self) -> str: ...
    @property
    def summary(self) -> str: ...
    @property
    def variant(self) -> str | None: ...
    @property
    def variants(self) -> list[str]: ...
    @property
    def text(self) -> str: ...
    @property
    def endpoints(self) -> list[str]: ...
    @property
    def engines(self) -> list[str]: ...
    @property
    def constants(self) -> list[dict[str, Any]]: ...
    def topology(self) -> dict[str, Any]: ...
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
        by: Literal["write", "read", "both"] = "write",
        seed: int = 1,
        why: bool = True,
    ) -> Result:
        """Transfers by the driver with engines: `crosslane bench write`, `read`, `p2p`, `latency`
        and `chain`."""
    def overhead(
        self, card: str | None = None, *, rounds: int = 200, large: int = 4194304, seed: int = 1
    ) -> Result:
        """Single accesses and transfers: `crosslane bench overhead`."""
    def _repr_svg_(self) -> str: ...
    def _loads_svg(self, loads: str) -> str: ...

@final
class Session:
    """Cards that are open, of one host. A context manager."""

    @property
    def cards(self) -> list[Card]: ...
    def card(self, which: int | str | None = None) -> Card:
        """A card by its name or number; the first by default."""
    @property
    def now(self) -> float:
        """Time of the cards' bus in seconds: simulated in a lab."""
    @property
    def now_ps(self) -> int: ...
    @property
    def is_lab(self) -> bool: ...
    @property
    def closed(self) -> bool: ...
    def sleep(self, span: float) -> None:
        """Lets seconds of the bus's time pass."""
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
    def name(self) -> str: ...
    @property
    def address(self) -> str: ...
    @property
    def description(self) -> dict[str, Any]: ...
    @property
    def now(self) -> float: ...
    def buffer(self, bytes: int, *, huge: bool = True) -> Buffer:
        """Registers memory that this card reaches."""
    def to_card(
        self,
        data: _Bytes | _DlPack,
        address: int | None = None,
        *,
        start: int = 0,
        stop: int | None = None,
        deadline: float = 10.0,
    ) -> Transfer:
        """Posts a transfer of data to the card: to its stream, or to an address of its memory. It
        fails if it is not complete `deadline` seconds from now."""
    def from_card(
        self,
        target: _Bytes | _DlPack,
        address: int | None = None,
        *,
        start: int = 0,
        stop: int | None = None,
        deadline: float = 10.0,
    ) -> Transfer:
        """Posts a transfer from the card: from its stream, or from an address of its memory. The
        data are in `target` when the transfer was waited for."""
    def route(self, source: Literal["generator", "h2c"]) -> None:
        """Chooses the data of the stream to host memory: the generator's, or those that come in."""
    def seed(self, seed: int) -> None:
        """Sets the seed of the generator's pattern."""
    def reset(self) -> None: ...

@final
class Buffer:
    """Memory that a card reaches. `memoryview(buffer)` and `numpy.frombuffer(buffer)` see its bytes
    without a copy. A context manager."""

    def __len__(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
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
    def nbytes(self) -> int: ...
    @property
    def done(self) -> bool: ...
    def wait(self, deadline: float | None = None) -> Completed:
        """Waits for its end, at most `deadline` seconds of the card's clock; it then goes on, and
        `DeadlineError` is raised."""
    def cancel(self) -> None:
        """Cancels it, and everything else that is in flight on its channel."""
    def __await__(self) -> Generator[None, None, Completed]: ...

@final
class Completed:
    """Outcome of a transfer."""

    @property
    def bytes(self) -> int: ...
    @property
    def posted_ps(self) -> int: ...
    @property
    def completed_ps(self) -> int: ...
    @property
    def seconds(self) -> float: ...
    @property
    def bytes_per_second(self) -> float: ...
