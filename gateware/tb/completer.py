# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A completer: host memory that answers reads, in any order and with every fault.

It knows clocks only by number, and no signals: `take` passes it a request, `next` returns the
completion to send now. Completions of one request stay in order, those of different requests come
in an order given by the seed.
"""

import enum
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from tlp_stream import COMPLETION, COMPLETION_DATA, Tlp

SUCCESSFUL, UNSUPPORTED_REQUEST, RETRY, COMPLETER_ABORT = 0, 1, 2, 4


class Fault(enum.Enum):
    """Faults in the answer to a request."""

    NONE = "none"
    UNSUPPORTED = "unsupported"  # status Unsupported Request in place of a completion
    ABORT = "abort"
    RETRY = "retry"
    POISON = "poison"  # one completion is poisoned
    TAKEN_BACK = "taken back"  # one completion is discarded with its last beat
    SILENCE = "silence"  # this completion and those behind it never come
    MISSING = "missing"  # one completion is missing, those behind it come
    DOUBLED = "doubled"  # one completion comes twice
    LATE = "late"  # this one and those behind it come `late_clocks` later
    BYTE_COUNT = "byte count"  # wrong by 4
    LOWER_ADDRESS = "lower address"  # wrong by 4
    LENGTH = "length"  # one double word too many
    UNALIGNED = "unaligned"  # cut away from a read completion boundary
    REQUESTER = "requester"  # for another requester


@dataclass
class Answer:
    """The outstanding completions of a request."""

    request: Tlp
    ready_clock: int
    completions: list[Tlp] = field(default_factory=list)


def bytes_of(request: Tlp) -> tuple[int, int]:
    """Address of the first byte of a read, and the number of bytes from there to the last."""
    first, last = request.first_be, request.last_be or request.first_be
    assert first, "zero-length read"
    skip = (first & -first).bit_length() - 1
    unused = 4 - last.bit_length()
    return request.address + skip, request.length_dw * 4 - skip - unused


class Completer:
    """Answers reads from `load(address, count)`.

    `boundary`: Read Completion Boundary. `max_payload`: of a completion. `split`: "most" as long
    as they may be, "least" at every boundary, "random". `latency`: least and most clocks.
    `shuffled`: whether requests may overtake each other; `window`: only so many of the oldest do,
    where it is set. `fault(address, count)`: the fault of a
    request and the number of its completion, counted from 0.
    """

    def __init__(
        self,
        load: Callable[[int, int], bytes],
        seed: int = 1,
        *,
        boundary: int = 64,
        max_payload: int = 256,
        split: str = "random",
        latency: tuple[int, int] = (10, 40),
        shuffled: bool = True,
        completer_id: int = 0x0008,
    ):
        self.load = load
        self.boundary = boundary
        self.max_payload = max_payload
        self.split = split
        self.latency = latency
        self.shuffled = shuffled
        self.fault: Callable[[int, int], tuple[Fault, int]] = lambda address, count: (Fault.NONE, 0)
        self.late_clocks = 0
        self.window: int | None = None
        self.answers: list[Answer] = []
        self._seed = random.Random(seed)
        self._completer_id = completer_id

    def in_order(self, clocks: int, length: int | None = None) -> None:
        """From now on answers requests one after the other, `clocks` apart, with completions that
        end at multiples of `length`, if given."""
        self.shuffled, self.latency = False, (clocks, clocks)
        if length:
            self.boundary, self.split = length, "least"

    def fail(self, at: int | range | None, fault: Fault = Fault.NONE, number: int = 0) -> None:
        """From now on answers reads at this address, or at all of these, with a fault, and every
        other read well; with None, every read well."""
        places = range(0) if at is None else range(at, at + 1) if isinstance(at, int) else at
        self.fault = lambda address, _: (fault, number) if address in places else (Fault.NONE, 0)

    def take(self, request: Tlp, now: int) -> None:
        """Takes a read; its answer may begin after the latency."""
        address, count = bytes_of(request)
        fault, number = self.fault(address, count)
        completions = self._pieces(request, address, count)
        number = min(number, len(completions) - 1)
        ready = now + self._seed.randint(*self.latency)
        self.answers.append(Answer(request, ready, completions))
        self._spoil(self.answers[-1], fault, number)

    def next(self, now: int) -> Tlp | None:
        """The completion to send now, if any."""
        ready = [answer for answer in self.answers if answer.ready_clock <= now]
        if not ready:
            return None
        answer = self._seed.choice(ready[: self.window]) if self.shuffled else ready[0]
        completion = answer.completions.pop(0)
        if not answer.completions:
            self.answers.remove(answer)
        return completion

    def _end_of_piece(self, at: int, end: int) -> int:
        most = (at + self.max_payload) // self.boundary * self.boundary
        least = at // self.boundary * self.boundary + self.boundary
        if self.split == "least":
            most = least
        elif self.split == "random":
            most = self._seed.randrange(least, max(most, least) + 1, self.boundary)
        return min(end, max(most, least))

    def _pieces(self, request: Tlp, address: int, count: int) -> list[Tlp]:
        completions, at, end = [], address, address + count
        while at < end:
            piece_end = self._end_of_piece(at, end)
            completions.append(self._piece(request, at, piece_end, end))
            at = piece_end
        return completions

    def _piece(self, request: Tlp, at: int, piece_end: int, end: int) -> Tlp:
        length = (piece_end + 3) // 4 - at // 4
        header = {
            "kind": COMPLETION_DATA,
            "address": at & 0x7F,
            "length_dw": length,
            "requester": request.requester,
            "tag": request.tag,
            "traffic_class": request.traffic_class,
            "attributes": request.attributes,
            "status": SUCCESSFUL,
            "byte_count": end - at,
            "completer": self._completer_id,
        }
        # The bytes beside the requested ones are random.
        data = self.load(at, piece_end - at)
        before, after = at % 4, -piece_end % 4
        data = b"\xa5" * before + data + b"\x5a" * after
        return Tlp(header, data)

    def _refuse(self, answer: Answer, number: int, status: int) -> None:
        header = dict(answer.completions[number].header)
        header.update(kind=COMPLETION, length_dw=0, status=status)
        # The byte count of a refusal is meaningless.
        header["byte_count"] = self._seed.choice([header["byte_count"], 4, 4096])
        answer.completions[number:] = [Tlp(header)]

    def _spoil(self, answer: Answer, fault: Fault, number: int) -> None:
        pieces = answer.completions
        header = pieces[number].header
        match fault:
            case Fault.NONE:
                pass
            case Fault.UNSUPPORTED:
                self._refuse(answer, number, UNSUPPORTED_REQUEST)
            case Fault.ABORT:
                self._refuse(answer, number, COMPLETER_ABORT)
            case Fault.RETRY:
                self._refuse(answer, number, RETRY)
            case Fault.POISON:
                header["poisoned"] = 1
            case Fault.TAKEN_BACK:
                pieces[number].is_aborted = True
            case Fault.SILENCE:
                del pieces[number:]
            case Fault.MISSING:
                del pieces[number]
            case Fault.DOUBLED:
                pieces.insert(number, Tlp(dict(header), pieces[number].payload))
            case Fault.LATE:
                late = Answer(answer.request, answer.ready_clock + self.late_clocks)
                late.completions = pieces[number:]
                del pieces[number:]
                self.answers.append(late)
            case Fault.BYTE_COUNT:
                header["byte_count"] = header["byte_count"] % 4096 + 4
            case Fault.LOWER_ADDRESS:
                header["address"] ^= 4
            case Fault.LENGTH:
                header["length_dw"] += 1
                pieces[number].payload += bytes(4)
            case Fault.UNALIGNED:
                header["length_dw"] = max(1, header["length_dw"] - 1)
                pieces[number].payload = pieces[number].payload[: header["length_dw"] * 4]
            case Fault.REQUESTER:
                header["requester"] ^= 8
        if not answer.completions:
            self.answers.remove(answer)
