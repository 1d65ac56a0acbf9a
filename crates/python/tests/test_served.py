# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A card behind a socket, which is to the package what a real one is."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import crosslane
import pytest
from conftest import PROGRAM
from crosslane import Card, Session


@contextlib.contextmanager
def served_card(socket: Path, lab: str, device: str) -> Iterator[str]:
    """The name of a card of a lab that a program serves meanwhile."""
    command = [str(PROGRAM), "lab", "serve", lab, "--device", device, "--socket", str(socket)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    until = time.monotonic() + 20
    while not socket.exists() and time.monotonic() < until:
        time.sleep(0.01)
    yield f"vfio-user:{socket}"
    server.send_signal(signal.SIGTERM)
    server.wait(20)


@pytest.fixture(scope="module")
def name(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name of a card with memory."""
    socket = tmp_path_factory.mktemp("served") / "card"
    with served_card(socket, "kc705:crosslane", "kc705") as name:
        yield name


@pytest.fixture
def session(name: str) -> Iterator[Session]:
    """A session with the card."""
    with crosslane.open(name) as session:
        yield session


@pytest.fixture
def card(session: Session) -> Card:
    """The card."""
    return session.card()


def test_data_go_to_a_served_card_and_back(session: Session, card: Card) -> None:
    data, back = os.urandom(8192), bytearray(8192)
    assert not session.is_lab
    assert card.to_card(data, 0).wait(deadline=5).bytes == 8192
    card.from_card(back, 0).wait(deadline=5)
    assert back == data


def test_buffers_are_the_pages_of_the_card(card: Card) -> None:
    buffer = card.buffer(4096)
    seen = memoryview(buffer)
    seen[:4] = b"page"
    card.to_card(buffer, 0).wait()
    other = card.buffer(4096)
    view = memoryview(other)
    transfer = card.from_card(other, 0)
    until = time.monotonic() + 10
    # The card writes what Python sees, before anybody waits for the transfer.
    while bytes(view[:4]) != b"page" and time.monotonic() < until:
        time.sleep(0.001)
    assert bytes(view[:4]) == b"page"
    transfer.wait()


def test_served_and_simulated_cards_are_awaited_together(card: Card) -> None:
    async def moved(card: Card) -> int:
        total = 0
        for _ in range(3):
            total += (await card.to_card(bytes(4096), 0)).bytes
        return total

    async def both() -> list[int]:
        with crosslane.open("lab:kc705:crosslane") as simulated:
            return list(await asyncio.gather(moved(card), moved(simulated.card())))

    assert asyncio.run(both()) == [12288, 12288]


def test_a_wait_does_not_keep_other_threads_away(card: Card) -> None:
    card.route("h2c")
    waiting = card.from_card(bytearray(64), deadline=30)
    failures: list[str] = []

    def wait() -> None:
        try:
            waiting.wait(deadline=20)
        except crosslane.Error as error:
            failures.append(str(error))

    thread = threading.Thread(target=wait)
    thread.start()
    begun = time.monotonic()
    card.to_card(bytes(64)).wait(deadline=20)
    assert time.monotonic() - begun < 10
    thread.join()
    assert not failures


def test_a_wait_ends_in_the_time_of_the_machine(card: Card) -> None:
    card.route("h2c")
    transfer = card.from_card(bytearray(64), deadline=30)
    begun = time.monotonic()
    with pytest.raises(crosslane.DeadlineError):
        transfer.wait(deadline=0.05)
    assert 0.04 < time.monotonic() - begun < 5
    transfer.cancel()
    with pytest.raises(crosslane.TransferError, match="cancelled"):
        transfer.wait()


def test_a_signal_ends_a_wait(card: Card) -> None:
    card.route("h2c")
    transfer = card.from_card(bytearray(64), deadline=60)
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        transfer.wait()
    assert time.monotonic() - begun < 10
    transfer.cancel()


def test_a_signal_handler_may_use_the_card_that_is_waited_for(card: Card) -> None:
    card.route("h2c")
    back = bytearray(64)
    transfer = card.from_card(back, deadline=60)
    before = signal.signal(signal.SIGUSR1, lambda *_: card.to_card(b"\x22" * 64).wait())
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1)).start()
    try:
        transfer.wait(deadline=20)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert back == b"\x22" * 64


def test_a_forked_child_does_not_disturb_a_served_card(card: Card) -> None:
    kept = [card.buffer(4096), card.to_card(bytes(64), 0)]
    child = os.fork()
    if child == 0:
        try:
            kept.clear()
            gc.collect()
            with pytest.raises(crosslane.ClosedError, match="forked"):
                card.buffer(4096)
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    back = bytearray(64)
    card.to_card(b"\x11" * 64, 0).wait()
    card.from_card(back, 0).wait()
    assert back == b"\x11" * 64


def test_packets_of_a_served_card(tmp_path: Path) -> None:
    with (
        served_card(tmp_path / "card", "minimal", "card0") as name,
        crosslane.open(name) as session,
    ):
        card = session.card()
        card.route("h2c")
        card.set_channel("h2c", packets=True)
        card.set_channel("c2h", packets=True)
        with card.packet_receiver(4, 256) as receiver:
            with pytest.raises(crosslane.DeadlineError, match="no packet has come"):
                receiver.receive().wait(deadline=0.01)

            async def echo(turn: int) -> list[bytes]:
                await card.send_packets([bytes([turn]) * 300, b"end"], users=turn, deadline=60)
                packets: list[crosslane.Packet] = []
                while len(packets) < 2:
                    packets += await receiver.receive()
                assert [packet.user for packet in packets] == [turn] * 2
                return [bytes(packet.data) for packet in packets]

            for turn in range(20):
                assert asyncio.run(echo(turn)) == [bytes([turn]) * 300, b"end"]
            card.send_packets([b"last"])
            assert receiver.receive().wait(deadline=60)[0].data == b"last"
