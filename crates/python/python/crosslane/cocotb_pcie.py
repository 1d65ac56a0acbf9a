# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Puts a lab above a hard block's model of cocotbext-pcie: UltraScale+ and others.

A test bench that has such a model for its core (`UltraScalePlusPcieDevice` with the streams CQ, CC,
RQ and RC, and those for other vendors) keeps it; in place of a root complex the model gets
`LabLink`. It needs cocotb and cocotbext-pcie and is not imported with the package.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import cocotb
from cocotb.queue import Queue
from cocotb.triggers import Lock, RisingEdge
from cocotbext.pcie.core.port import SimPort  # type: ignore[import-untyped]
from cocotbext.pcie.core.tlp import Tlp as Wire  # type: ignore[import-untyped]
from cocotbext.pcie.core.utils import PcieId  # type: ignore[import-untyped]

from crosslane._errors import ArgumentError
from crosslane._native import Port, Tlp
from crosslane.cocotb import CLASSES, Clocked

__all__ = ["LabLink"]

#: Credits that the model sees: headers and data of posted requests, of reads, and of completions.
CREDITS = [64, 1024, 64, 64, 0, 0]
BARS = 6
FIRST_BAR = 0x10
IS_64_BIT, IS_PREFETCHABLE = 4, 8


class LabLink:
    """The link between a device of cocotbext-pcie and the lab, in place of the device's own port.
    Make it directly behind the device, before time passes. The device's function gets BARs, numbers
    and settings from the lab, whose host has enumerated it; BARs that the test has configured must
    have the sizes of the lab. The model takes what arrives as soon as it comes; what it sends waits
    for room, and so for credits, in the order in which the model sends it."""

    def __init__(self, clocked: Clocked, port: Port, device: Any) -> None:
        self.log = logging.getLogger("cocotb.crosslane")
        # The model's own port gets a partner that never sends a TLP: it ends the exchange of
        # credits, which the model shows to the core.
        own = device.upstream_port
        own.connect(SimPort(fc_init=[CREDITS] * 8))
        # Attributes that a model looks for at its port.
        self.parent: Any = None
        self.rx_handler: Callable[[Any], Awaitable[None]]
        self.fc_state = own.fc_state
        self.max_link_speed, self.max_link_width = own.max_link_speed, own.max_link_width
        self.cur_link_speed, self.cur_link_width = own.cur_link_speed, own.cur_link_width
        self.max_payload_size = own.max_payload_size
        #: Times at which TLPs have left the model, ps, each with its TLP.
        self.sent: list[tuple[int, Tlp]] = []
        self._clocked, self._port, self._device = clocked, port, device
        self._turn = Lock()
        self._arrived: Queue[Any] = Queue()
        self._settings: dict[str, Any] = {}
        self._configure_bars()
        self._configure()
        device.set_port(self)
        clocked.add(self)
        cocotb.start_soon(self._hand_on())

    def _configure_bars(self) -> None:
        """Gives the function the BARs of the lab."""
        function, bars = self._device.functions[0], self._port.function["bars"]
        for number, (_, size) in enumerate(bars):
            if size == 0:
                continue
            low = self._port.config_read(FIRST_BAR + 4 * number)
            wide = bool(low & IS_64_BIT)
            mask = function.bar_mask[number]
            if not mask:
                function.configure_bar(number, size, wide, bool(low & IS_PREFETCHABLE))
            elif (-(mask & ~0xF)) & 0xFFFF_FFFF != size & 0xFFFF_FFFF:
                found = -(mask & ~0xF) & 0xFFFF_FFFF
                problem = f"BAR {number} has {found} B, and {size} B in the lab"
                raise ArgumentError(f"{self._port.name}: {problem}", "invalid_argument")

    def _configure(self) -> None:
        """Gives the function the settings that the lab's host has made."""
        settings = self._port.function
        if settings == self._settings:
            return
        self._settings = settings
        device, function = self._device, self._device.functions[0]
        device.bus_num = settings["id"] >> 8
        function.pcie_id = PcieId.from_int(settings["id"])
        function.bus_master_enable = settings["bus_master"]
        command = self._port.config_read(4)
        function.memory_space_enable = bool(command & 2)
        for number in range(BARS):
            mask = function.bar_mask[number]
            base = self._port.config_read(FIRST_BAR + 4 * number)
            function.bar[number] = base & mask | function.bar[number] & 0xF & ~mask
        express = function.pcie_cap
        express.max_payload_size = (settings["max_payload_bytes"] // 128).bit_length() - 1
        express.max_read_request_size = (settings["max_read_request_bytes"] // 128).bit_length() - 1
        express.extended_tag_field_enable = settings["tags"] > 32
        if getattr(function, "msix_cap", None) is not None:
            function.msix_cap.msix_enable = settings["msix_enabled"]

    def sample(self) -> None:
        """Nothing: the model looks at the signals."""

    def drive(self, now_ps: int) -> None:
        """Takes what has arrived."""
        self._configure()
        while (tlp := self._port.receive()) is not None:
            self._arrived.put_nowait(Wire.unpack(bytearray(bytes(tlp))))

    async def _hand_on(self) -> None:
        while True:
            await self.rx_handler(await self._arrived.get())

    async def send(self, wire: Any) -> None:
        """Sends a TLP of the model when there is room."""
        tlp = Tlp(bytes(wire.pack()))
        async with self._turn:
            while True:
                self._clocked.lab.advance(self._clocked.now_ps)
                if self._port.room(CLASSES[tlp.kind]):
                    break
                await RisingEdge(self._clocked.clk)
            self._port.send(tlp)
            self.sent.append((self._clocked.now_ps, tlp))
