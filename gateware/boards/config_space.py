# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Configuration space as a core shows it with a board's settings (PCIe 6.x 7.5, 7.7.2, 7.9.3)."""

import struct
from collections.abc import Callable

from boards import PCIE4, PTILE, Core

BYTES = 4096
COMMAND, BAR0, SUBSYSTEM, CAPABILITIES = 0x04, 0x10, 0x2C, 0x34
COMMAND_MEMORY, COMMAND_BUS_MASTER = 1 << 1, 1 << 2
# Places of power management, PCI Express and MSI-X: as pcie_7x puts them, pcie3_7x (attributes of a
# generated core: docs/boards.md), pcie4 (PG213), and the P-Tile (cocotbext-pcie's model).
PLACES = {"pcie_7x": (0x40, 0x60, 0x9C), "pcie3_7x": (0x80, 0xC0, 0xB0)}
PLACES |= dict.fromkeys(PCIE4, (0x40, 0x70, 0x60)) | {PTILE: (0x40, 0x70, 0xB0)}
EXTENDED_CAPABILITIES = 0x100
# The P-Tile's errors are before its serial number, which lies between 0x148 and 0x178 (the same).
ERRORS, SERIAL_NUMBER = 0x0001, 0x0003
SERIAL_NUMBER_PLACES = {PTILE: 0x16C}
PREFETCHABLE_64_BIT = 0xC
DEVICE_CONTROL = 8
MSIX_ENABLE, MSIX_MASK = 1 << 15, 1 << 14
# Set by firmware: payloads of 256 B, reads of 512 B.
FIRMWARE_CONTROL = 1 << 5 | 2 << 12


class ConfigSpace:
    """Bytes, and which bits of them software may write. `changed` is called after each write;
    `serial_number` is what the card gives the core."""

    def __init__(self, core: Core, changed: Callable[[], None] = lambda: None):
        self.core = core
        self.serial_number = 0
        self.changed = changed
        self.bytes = bytearray(BYTES)
        self.writable = bytearray(BYTES)
        power, self.express, self.msix = PLACES[core.name]
        self._put(0x00, "HH", core.vendor, core.device)
        self._put(COMMAND, "HH", 0, 0x10)
        self._put(0x08, "I", core.class_code << 8)
        self._put(SUBSYSTEM, "HH", *core.subsystem)
        self.writable[COMMAND : COMMAND + 2] = struct.pack("<H", 0x0546)
        for number, count in core.bars.items():
            place = BAR0 + 4 * number
            self.writable[place : place + 4] = struct.pack("<I", -count & 0xFFFFFFFF)
            if number in core.wide_bars:
                self._put(place, "I", PREFETCHABLE_64_BIT)
                self.writable[place : place + 8] = struct.pack("<q", -count)
        self.bytes[CAPABILITIES] = power
        first, second = sorted((self.express, self.msix))
        self._put(power, "BBH", 0x01, first, 3)
        following = {first: second, second: 0}
        self._express(following[self.express])
        msix = core.msix
        self._put(self.msix, "BBH", 0x11, following[self.msix], msix.vectors - 1)
        self._put(self.msix + 4, "II", msix.table_offset, msix.pending_offset)
        self.writable[self.msix + 3] = (MSIX_ENABLE | MSIX_MASK) >> 8
        self._initial = bytes(self.bytes)

    def _put(self, place: int, format_: str, *values: int) -> None:
        struct.pack_into("<" + format_, self.bytes, place, *values)

    def _express(self, following: int) -> None:
        core, at = self.core, self.express
        link = core.lanes << 4 | core.generation
        payload = core.max_payload_bytes.bit_length() - 8
        self._put(at, "BBH", 0x10, following, 2)
        self._put(at + 4, "IHH", payload | core.extended_tags << 5, 0, 0)
        self.writable[at + 8 : at + 10] = struct.pack("<H", 0x7FFF)
        self._put(at + 12, "IHH", link, 0, link)
        self._put(at + 0x2C, "I", (2 << core.generation) - 2)

    def reset(self) -> None:
        """Puts all registers back; then firmware sets its own."""
        self.bytes[:] = self._initial
        if self.core.has_serial_number:
            at = SERIAL_NUMBER_PLACES.get(self.core.name, EXTENDED_CAPABILITIES)
            if at != EXTENDED_CAPABILITIES:
                self._put(EXTENDED_CAPABILITIES, "HH", ERRORS, at << 4 | 2)
            self._put(at, "HHQ", SERIAL_NUMBER, 1, self.serial_number)
        control = FIRMWARE_CONTROL | self.core.extended_tags << 8
        self._put(self.express + DEVICE_CONTROL, "H", control)
        self.changed()

    def read(self, offset: int, count: int) -> bytes:
        """Bytes of configuration space."""
        return bytes(self.bytes[offset : offset + count])

    def write(self, offset: int, data: bytes) -> None:
        """Writes the bits that software may write."""
        for at, value in enumerate(data, offset):
            mask = self.writable[at]
            self.bytes[at] = self.bytes[at] & ~mask | value & mask
        self.changed()

    def word(self, offset: int) -> int:
        """16 bits."""
        return struct.unpack_from("<H", self.bytes, offset)[0]

    def bar(self, number: int) -> int:
        """Bus address of a BAR."""
        return struct.unpack_from("<I", self.bytes, BAR0 + 4 * number)[0]

    def settings(self) -> dict[str, int]:
        """The function's settings as the card's bench names them."""
        control, command = self.word(self.express + DEVICE_CONTROL), self.word(COMMAND)
        msix = self.word(self.msix + 2)
        return {
            "max_payload": control >> 5 & 7,
            "max_read_request": control >> 12 & 7,
            "extended_tags": control >> 8 & 1,
            "relaxed_ordering": control >> 4 & 1,
            "bus_master": command >> 2 & 1,
            "msix_enabled": int(msix & MSIX_ENABLE != 0 and not msix & MSIX_MASK),
        }
