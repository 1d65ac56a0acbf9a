# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A netlist of yosys for Xilinx parts (`write_json`) as a graph: the levels of LUTs between two
clocks, with signals under the names that the sources give them.

A LUT of any size is a level, and so is memory that is read without a clock. Carry chains, wide
multiplexers and inverters are none: chains have lines of their own, the others lie beside a LUT.
Paths begin at registers, memories and inputs, and end at them and at outputs. A path that no
input can ever use counts like any other.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path

LEVEL = re.compile(r"LUT[1-6]|RAM(32|64|128|256|512)[XM]|SRL")
NO_LEVEL = re.compile(r"INV|MUXF[789]|CARRY[48]|BUF")
# Memory is read by an address at once, and written by a clock: the address that an output shows is
# that of one word in four or eight (`DOA`), of the second port, or the only one.
MEMORY = re.compile(r"RAM|SRL")
READS = [
    (re.compile(r"DO([A-H])"), r"ADDR\1"),
    (re.compile(r"DPO"), r"DPRA\d*"),
    (re.compile(r"SPO|O|Q|Q15|Q31"), r"A\d*"),
]
CLOCK = re.compile(r"C|W?CLK|CLKARDCLK|CLKBWRCLK")
# Of a signal's bit, and of one of the cells that yosys makes of a memory.
INDEX = re.compile(r"\[\d+\]$")
PART = re.compile(r"(\.\d+)+$")


@dataclass(frozen=True)
class Depths:
    """Levels of LUTs of the deepest path into each register, memory and output."""

    # The names that it ends at, for each number of levels, the most first.
    ends: dict[str, list[str]]
    # Of the deepest path: levels so far and the signal, for each signal with a name.
    deepest: list[tuple[int, str]]

    @property
    def levels(self) -> int:
        """Those of the deepest path."""
        return max(map(int, self.ends))


@dataclass(frozen=True)
class Driver:
    """Of a bit without a clock: its level, and the bits that it follows."""

    level: int
    inputs: tuple[int, ...]


class Netlist:
    """Cells and signals of the top module of what yosys has written."""

    def __init__(self, file: Path) -> None:
        modules = json.loads(file.read_text())["modules"]
        [top] = [m for m in modules.values() if int(m["attributes"].get("top", "0"), 2)]
        self._cells: dict[str, dict] = top["cells"]
        self._ports: dict[str, dict] = top["ports"]
        self._nets: dict[str, dict] = top["netnames"]
        self._places: dict[str, str] = {}
        self._names: dict[int, str] = {}
        for name, net in self._nets.items():
            if net["hide_name"]:
                continue
            self._places[name] = _place(net["attributes"].get("src", ""))
            wide = len(net["bits"]) > 1
            for index, bit in enumerate(net["bits"]):
                if isinstance(bit, int):
                    self._names.setdefault(bit, f"{name}[{index}]" if wide else name)
        for name, cell in self._cells.items():
            for _, bit in _bits(cell, "output") if MEMORY.match(cell["type"]) else ():
                self._names.setdefault(bit, PART.sub("", name))

    def depths(self, half_rate: str | None = None, most: int = 12) -> Depths:
        """Levels into everything that has a clock; a list of names ends after `most`. Those into
        registers of a clock that is half as fast, if there is one, count half."""
        drivers = self._drivers()
        depth: dict[int, int] = {}
        order = TopologicalSorter({bit: driver.inputs for bit, driver in drivers.items()})
        for bit in order.static_order():
            driver = drivers.get(bit, Driver(0, ()))
            depth[bit] = driver.level + max((depth[b] for b in driver.inputs), default=0)
        deepest: dict[str, tuple[int, int]] = {}
        slow = self._buffered(self._nets[half_rate]["bits"][0]) if half_rate else None
        for name, bit, clock in self._ends():
            levels = depth.get(bit, 0)
            if slow is not None and clock == slow:
                levels = (levels + 1) // 2
            deepest[name] = max(deepest.get(name, (0, 0)), (levels, bit))
        ends: dict[str, list[str]] = {}
        for name, (levels, _) in sorted(deepest.items(), key=lambda item: (-item[1][0], item[0])):
            ends.setdefault(str(levels), []).append(name)
        end = ends[max(ends, key=int)][0]
        path = [deepest[end][1]]
        while path[-1] in drivers and drivers[path[-1]].inputs:
            path.append(max(drivers[path[-1]].inputs, key=lambda bit: (depth[bit], -bit)))
        path.reverse()
        named = [(depth.get(bit, 0), self._label(bit)) for bit in path if bit in self._names]
        named.append((deepest[end][0], self._with_place(end)))
        return Depths({levels: names[:most] for levels, names in ends.items()}, named)

    def _buffered(self, clock: int) -> int:
        """A clock behind the buffer that yosys has put in, if there is one."""
        for cell in self._cells.values():
            if cell["type"] == "BUFG" and cell["connections"]["I"] == [clock]:
                return cell["connections"]["O"][0]
        return clock

    def _drivers(self) -> dict[int, Driver]:
        """The driver of each bit that no clock drives."""
        drivers = {}
        for cell in self._cells.values():
            kind = cell["type"]
            if not (LEVEL.match(kind) or NO_LEVEL.match(kind)):
                continue
            level = 1 if LEVEL.match(kind) else 0
            for port, way in cell["port_directions"].items():
                for index, bit in enumerate(cell["connections"][port] if way == "output" else ()):
                    drivers[bit] = Driver(level, tuple(_followed(cell, port, index)))
        return drivers

    def _ends(self) -> Iterator[tuple[str, int, int | None]]:
        """Each bit that a register or a memory takes by a clock, or an output shows: the name of
        what takes it, the bit, and the clock."""
        for name, cell in self._cells.items():
            kind = cell["type"]
            if MEMORY.match(kind):
                addresses = "|".join(address for _, address in READS).replace(r"\1", "[A-H]")
                is_read = re.compile(addresses) if LEVEL.match(kind) else re.compile("(?!)")
                for port, bit in _bits(cell, "input"):
                    if not is_read.fullmatch(port):
                        yield PART.sub("", name), bit, _clock(cell)
            elif not (LEVEL.match(kind) or NO_LEVEL.match(kind)):
                names = (self._names[b] for _, b in _bits(cell, "output") if b in self._names)
                end = INDEX.sub("", next(names, "a register without a name"))
                yield from ((end, bit, _clock(cell)) for _, bit in _bits(cell, "input"))
        for name, port in self._ports.items():
            if port["direction"] == "output":
                yield from ((name, bit, None) for bit in port["bits"] if isinstance(bit, int))

    def _label(self, bit: int) -> str:
        return self._with_place(self._names[bit])

    def _with_place(self, name: str) -> str:
        """A signal with the file and line that declare it, where yosys still knows them."""
        place = self._places.get(INDEX.sub("", name)) or self._places.get(name)
        return f"{name} ({place})" if place else name


def _bits(cell: dict, way: str) -> Iterator[tuple[str, int]]:
    """The bits of a cell's ports of a direction that are not constant."""
    for port, bits in cell["connections"].items():
        if cell["port_directions"][port] == way:
            yield from ((port, bit) for bit in bits if isinstance(bit, int))


def _clock(cell: dict) -> int | None:
    """The clock of a register or a memory; none if it has more than one."""
    clocks = {bit for port, bit in _bits(cell, "input") if CLOCK.fullmatch(port)}
    return clocks.pop() if len(clocks) == 1 else None


def _place(source: str) -> str:
    """Of `folder/file:line.column-line.column|...`: `file:line`."""
    file, _, line = source.split("|")[0].rpartition("/")[2].partition(":")
    return f"{file}:{line.split('.')[0]}" if line else ""


def _followed(cell: dict, output: str, index: int) -> Iterator[int]:
    """The bits that a bit of an output follows without a clock."""
    kind = cell["type"]
    for port, bits in cell["connections"].items():
        if cell["port_directions"][port] != "input":
            continue
        if MEMORY.match(kind) and not _reads(output, port):
            continue
        if kind.startswith("CARRY") and port in ("DI", "S"):
            # A place follows those below it, and a sum not the carry that its own place makes.
            bits = bits[: index + (output == "CO" or port == "S")]
        yield from (bit for bit in bits if isinstance(bit, int))


def _reads(output: str, port: str) -> bool:
    """Whether an output of a memory shows what lies at the address at this port."""
    for shape, address in READS:
        if found := shape.fullmatch(output):
            return bool(re.fullmatch(found.expand(address) if found.groups() else address, port))
    return False
