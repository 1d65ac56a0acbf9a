# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A card's memory, mapped into the guest: loads and stores there send no messages to the server."""

import socket
import struct
from pathlib import Path

from lab import BANK_BYTES, Serve, memory_card
from machine import Image, Machine

CARD = "0000:01:00.0"
# Four banks are at the beginning of BAR 4.
BANKS_BYTES = 4 * BANK_BYTES
# Registers of the card in BAR 0 (registers/memory_card.rdl): the counters of its requests.
CONTROL, SIZE_CLASSES, CLASSES = 0x10, 0x200, 13
MARK = 0x1122334455667788
# Commands of vfio-user, its region of configuration space, and registers there.
VERSION, REGION_READ, REGION_WRITE = 1, 9, 10
CONFIG, COMMAND, BAR4 = 7, 4, 0x20


class Guest:
    """The card in the guest, with its memory decoded."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        machine.run(f"echo 1 >/sys/bus/pci/devices/{CARD}/enable")
        lines = machine.run(f"cat /sys/bus/pci/devices/{CARD}/resource").splitlines()
        self.bars = [int(line.split()[0], 16) for line in lines[:6]]

    def access(self, bar: int, offset: int, bits: int, value: int | None = None) -> int:
        """Loads a value, or stores one."""
        written = "" if value is None else f" {value:#x}"
        said = self.machine.run(f"devmem {self.bars[bar] + offset:#x} {bits}{written}")
        return 0 if said.strip() == "" else int(said, 16)

    def requests(self) -> int:
        """Requests for its memory that the card has had since the last call."""
        self.access(0, CONTROL, 32, 1)
        at = range(SIZE_CLASSES, SIZE_CLASSES + 8 * CLASSES, 4)
        return sum(self.access(0, offset, 32) for offset in at)


class Client:
    """A client of the server that maps nothing."""

    def __init__(self, path: Path) -> None:
        self.line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.line.settimeout(60)
        self.line.connect(str(path))
        self.ask(VERSION, struct.pack("=HH", 0, 1) + b"{}\0")

    def ask(self, command: int, payload: bytes) -> bytes:
        self.line.sendall(struct.pack("=HHIII", 1, command, 16 + len(payload), 0, 0) + payload)
        head = self._take(16)
        _, _, length, flags, error = struct.unpack("=HHIII", head)
        assert flags == 1, f"command {command} is refused: {error}"
        return self._take(length - 16)

    def _take(self, count: int) -> bytes:
        taken = b""
        while len(taken) < count:
            part = self.line.recv(count - len(taken))
            assert part, "the server has closed the connection"
            taken += part
        return taken

    def write(self, region: int, offset: int, data: bytes) -> None:
        self.ask(REGION_WRITE, struct.pack("=QII", offset, region, len(data)) + data)

    def read(self, region: int, offset: int, count: int) -> bytes:
        return self.ask(REGION_READ, struct.pack("=QII", offset, region, count))[16:]


def test_a_guest_maps_a_cards_memory(image: Image, serve: Serve, tmp_path: Path) -> None:
    served = serve(str(memory_card(tmp_path)), "f1")
    places = (0, 0x1238, BANK_BYTES, BANKS_BYTES - 8)
    # Not the shared machine: the card takes its next client when this one has ended.
    with Machine(image, tmp_path / "machine", served.devices()) as machine:
        flat = machine.monitor("human-monitor-command", **{"command-line": "info mtree"})
        # In BAR 4 the part that is memory is mapped; registers and the FIFO are not.
        mapped = [line for line in flat.splitlines() if "mmaps[" in line]
        assert mapped and all("BAR 4 mmaps[0]" in line for line in mapped), flat
        guest = Guest(machine)
        guest.requests()
        for index, place in enumerate(places):
            guest.access(4, place, 64, MARK + index)
        for index, place in enumerate(places):
            assert guest.access(4, place, 64) == MARK + index, f"{place:#x}"
        assert guest.requests() == 0
        # Accesses behind the memory in the BAR reach the card, which refuses them.
        assert guest.access(4, BANKS_BYTES, 32) == 0xFFFFFFFF
        assert "Unsupported Request" in served.said()
    # The next client reads from the card itself the data that the guest has stored.
    client = Client(served.sockets[0])
    client.write(CONFIG, BAR4, struct.pack("=Q", 1 << 40))
    client.write(CONFIG, COMMAND, struct.pack("=H", 2))
    for index, place in enumerate(places):
        assert client.read(4, place, 8) == struct.pack("<Q", MARK + index), f"{place:#x}"
    client.line.close()
