# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The files that `tops/link_ports.sv` writes of each port, against crate `torus-link`: training in
each clock, and with 64b/66b each row that is sent."""

import itertools
import os
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import link_reference
from link_bench import COMMAND_BYTES

CHANNEL_DATAGRAMS = 16
# Clocks of a row, and line bits of a block.
ROW_CLOCKS = 8
BLOCK_BITS = 66
IDLE = 0x7C
# Idle columns of an end behind which it has no frame left.
DRAINED = 3
# How much of each file earlier tests have compared.
READ: Counter[str] = Counter()


def sections(name: str) -> Iterator[tuple[str, list[str]]]:
    """The new parts of a file, each from a reset on: the session, and a line of each clock."""
    with Path(name).open() as file:
        file.seek(READ[name])
        text = file.read()
    begin, end = text.index("reset"), text.rindex("\n") + 1
    READ[name] += end
    for one in text[begin:end].split("reset ")[1:]:
        session, *lines = one.splitlines()
        yield session, lines


def compare_training(number: int, lanes: int) -> int:
    """Compares the new clocks of a port's training, and returns their number."""
    clocks = 0
    for session, lines in sections(f"training-{number}.txt"):
        # A row has all that comes, and whether alignment begins anew; its state is that before.
        rows = [line.split("|", 2) for line in lines]
        kind = f"{os.environ['LONG']} {os.environ['BLOCKS']}"
        first = f"bring-up {lanes} {CHANNEL_DATAGRAMS} {session} {kind}"
        answers = link_reference.lanes(first, [row[0] for row in rows])
        for at, (row, behind) in enumerate(itertools.pairwise(rows)):
            found = f"{row[1]}|{behind[2]}"
            assert found == answers[at], f"port {number}, clock {at} of {first}: {row[0]}"
        clocks += len(rows)
    return clocks


# The bytes of a frame as far as an end has given them, and whether it is a command.
Begun = tuple[bytearray, bool]


def whole(begun: bytes, is_command: bool, datagram_bytes: int) -> str:
    """A frame, with zeros in place of what the end has not given."""
    length = COMMAND_BYTES if is_command else datagram_bytes
    content = begun[: length - 4].ljust(length - 4, b"\0")
    crc = zlib.crc32(content).to_bytes(4, "little")
    return (begun if len(begun) == length else content + crc).hex()


class Sent:
    """A port's clocks from a reset on, as the reference takes them row by row."""

    def __init__(self, lines: list[str], lanes: int, datagram_bytes: int):
        self.clocks = [line.split() for line in lines]
        self.lanes = lanes
        self.datagram_bytes = datagram_bytes
        # Whether training may begin in each clock, and the frame that waits.
        self.trains: list[bool] = []
        self.waits: list[Begun | None] = []
        self._follow()

    def _follow(self) -> None:
        """Gathers the end's frames out of its columns."""
        waits = sent = None
        idles = DRAINED
        for _, state, flags, control, symbols in self.clocks:
            is_off, _, ready, begins = (flag == "1" for flag in flags)
            column = int(symbols, 16).to_bytes(self.lanes, "little")
            is_control = int(control, 16) & 1 == 1
            is_idle = begins and is_control and column[0] == IDLE
            if begins and not is_idle:
                waits = waits or (bytearray(column), is_control)
            self.trains.append(state != "up" and idles == DRAINED)
            self.waits.append(waits)
            if ready and waits:
                sent, waits = waits, None
            elif ready and not is_idle:
                sent[0].extend(column)
            # An end whose link is lost still sends the frames that it has chosen.
            if is_off:
                idles, waits = DRAINED, None
            elif state == "up":
                idles = 0
            elif ready:
                idles = min(idles + 1, DRAINED) if is_idle else 0

    def rows(self) -> Iterator[tuple[str, str]]:
        """What the reference is told of each row, and how the gateware sends it."""
        # A row is gathered from the clock before a word begins on, and is the next word.
        words = [at for at, clock in enumerate(self.clocks) if clock[0] != "-"]
        assert self.clocks[words[0]][0][0] == "0", "nothing is sent in a reset"
        for first, word in itertools.pairwise(words):
            clocks = self.clocks[first - 1 : word - 1]
            enable, bits = self.clocks[word][0].split(":")
            if any(clock[2][0] == "1" for clock in clocks):
                yield "-", "-" if enable == "0" else "a row of a port that is off"
                continue
            assert len(clocks) == ROW_CLOCKS and enable == "1", f"row in clock {first - 1}"
            waiting = self.waits[first - 1 : word - 1 : ROW_CLOCKS // self.lanes]
            state = clocks[0][1] if self.trains[first - 1] else "up"
            frames = ("-" if one is None else whole(*one, self.datagram_bytes) for one in waiting)
            payload, mask = int(bits, 16), (1 << BLOCK_BITS) - 1
            lanes = (f"{payload >> BLOCK_BITS * lane & mask:x}" for lane in range(self.lanes))
            ended = [clock[2][1] for clock in clocks]
            assert "1" not in ended[:-1], f"a set ends within a row, clock {first - 1}"
            yield " ".join([state, *frames]), " ".join([*lanes, ended[-1]])


def compare_sent(number: int, lanes: int, datagram_bytes: int) -> int:
    """Compares the new rows of a port, and returns the number of those that were sent."""
    count = 0
    for _, lines in sections(f"sent-{number}.txt"):
        rows = list(Sent(lines, lanes, datagram_bytes).rows())
        first = f"rows {lanes} {CHANNEL_DATAGRAMS} {os.environ['LONG']}"
        answers = link_reference.lanes(first, [said for said, _ in rows])
        for at, ((said, found), answer) in enumerate(zip(rows, answers, strict=True)):
            assert found == answer, f"port {number}, row {at} of {first}: {said}"
        count += sum(found != "-" for _, found in rows)
    return count
