# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Stores and loads of the host: windows, memory cards, slots."""

from __future__ import annotations

import array
from collections.abc import Iterator
from typing import Any

import crosslane
import pytest
from crosslane import MemoryCard, Session

#: Bytes of a line that a processor combines.
LINE = 64


@pytest.fixture
def session() -> Iterator[Session]:
    """A session with a memory card."""
    with crosslane.open("lab:aws-f1/f1") as session:
        yield session


@pytest.fixture
def memory_card(session: Session) -> MemoryCard:
    """The memory card."""
    return session.card().memory_card()


def test_stores_reach_the_memory(session: Session, memory_card: MemoryCard) -> None:
    card = session.card()
    with card.window(4, 0, 65_536, contents="memory") as window:
        assert len(window) == window.nbytes == 65_536
        memory_card.take_metrics()
        before = session.now
        window.write(128, crosslane.pattern(4096, 1))
        window.flush()
        assert session.now > before
        metrics = memory_card.take_metrics()
        # The widest store of the lab's processor, uncached: one write each.
        assert sum(writes for _, writes, _ in metrics["sizes"]) >= 4096 // LINE
        assert sum(writes for writes, _ in metrics["beats"]) > 0
        assert window.read(128, 4096) == crosslane.pattern(4096, 1)
        into = array.array("I", [0] * 16)
        window.read_into(192, into)
        assert bytes(into) == crosslane.pattern(64, 1, 16)
        assert memory_card.take_metrics()["fifo_writes"] == 0


def test_width_decides_what_the_card_sees(session: Session, memory_card: MemoryCard) -> None:
    def sizes(mapping: Any, width: int | None) -> dict[int, int]:
        with session.card().window(4, 0, 4096, mapping=mapping, contents="memory") as window:
            memory_card.take_metrics()
            window.write(0, bytes(1024), width=width)
            window.flush()
            found = memory_card.take_metrics()["sizes"]
            return {length: writes for length, writes, _ in found if writes}

    assert sizes("uncached", 4) == {4: 256}
    assert sizes("uncached", 8) == {8: 128}
    assert sizes("write_combined", 4) == {64: 16}


def test_a_fifo_takes_what_is_pushed(session: Session, memory_card: MemoryCard) -> None:
    decoded = memory_card.fifo_window_bytes
    fifo = session.card().window(2, contents="fifo", decoded_bytes=decoded)
    fifo.push(b"in the order of their arrival...")
    fifo.flush()
    assert memory_card.drain_fifo() == b"in the order of their arrival..."
    assert memory_card.drain_fifo() == b""
    with pytest.raises(crosslane.DriverError, match="pushed into"):
        fifo.write(0, b"1234")
    memory = session.card().window(4, contents="memory")
    with pytest.raises(crosslane.DriverError, match="not a FIFO"):
        memory.push(b"1234")


def test_messages_go_through_slots(session: Session, memory_card: MemoryCard) -> None:
    card = session.card()
    assert memory_card.fifo_window_bytes >= 0
    combined = card.window(4, 0, 256, mapping="write_combined", contents="memory")
    uncached = card.window(4, 0, 256, contents="memory")
    sender, receiver = combined.slot_sender(), uncached.slot_receiver()
    assert sender.slots == 3
    assert receiver.try_receive() is None
    for number in range(7):
        sender.send(b"message %d" % number)
        sender.flush()
        assert receiver.receive(deadline=1e-3) == b"message %d" % number
    for _ in range(3):
        assert sender.try_send(b"full")
    assert not sender.try_send(b"full")
    before = session.now
    with pytest.raises(crosslane.DeadlineError, match=r"no slot was free in 0\.001 s"):
        sender.send(b"full", deadline=1e-3)
    assert session.now - before >= 1e-3
    for _ in range(3):
        assert receiver.receive() == b"full"
    with pytest.raises(crosslane.DeadlineError, match=r"no message has arrived in 0\.0001 s"):
        receiver.receive(deadline=1e-4)
    with pytest.raises(crosslane.DriverError, match="48 B"):
        sender.send(bytes(48))
    with pytest.raises(crosslane.DriverError, match="uncached"):
        combined.slot_receiver()
    with pytest.raises(crosslane.DriverError, match="no room for a slot"):
        card.window(4, 0, 64, contents="memory").slot_sender()


def test_registers_are_read_through_a_window() -> None:
    with (
        crosslane.open("lab:rosta:crosslane/fpga1") as session,
        session.card().window(0, 0, 64) as window,
    ):
        before = session.now
        first = window.read(0, 4)
        # A load is a round trip.
        assert first not in (b"\0" * 4, b"\xff" * 4)
        assert session.now - before > 5e-7


def test_wrong_windows_are_refused(session: Session, memory_card: MemoryCard) -> None:
    card = session.card()
    window = card.window(4, 0, 256, contents="memory")
    for offset, length in [(255, 2), (256, 1), (1 << 63, 1 << 63), (0, 1 << 62)]:
        with pytest.raises(crosslane.ArgumentError, match="beyond a window of 256 B"):
            window.read(offset, length)
    with pytest.raises(crosslane.DriverError, match="beyond a window of 256 B"):
        window.write(250, bytes(8))
    with pytest.raises(crosslane.ArgumentError, match="beyond a window of 256 B"):
        window.read_into(0, bytearray(257))
    with pytest.raises(crosslane.ArgumentError, match="read only"):
        window.read_into(0, b"12")
    with pytest.raises(crosslane.ArgumentError, match="no bytes"):
        window.write(0, "text")  # type: ignore[arg-type]
    with pytest.raises(crosslane.DriverError):
        window.write(0, bytes(8), width=3)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"bar": 9}, "has no BAR9"),
        ({"bar": 4, "start": 8, "stop": 8}, "is not a part"),
        ({"bar": 4, "start": 0, "stop": 1 << 60}, "is not a part"),
        ({"bar": 4, "mapping": "cached"}, 'mapping "cached"'),
        ({"bar": 4, "contents": "data"}, 'contents "data"'),
        ({"bar": 4, "mapping": "write_combined"}, "registers cannot be write-combined"),
    ]
    for options, words in wrong:
        with pytest.raises(crosslane.Error, match=words):
            card.window(**options)
    window.close()
    window.close()
    with pytest.raises(crosslane.ClosedError, match="the window has been given back"):
        window.read(0, 4)
    assert "closed" in repr(window)


def test_a_card_is_what_it_is(session: Session) -> None:
    with pytest.raises(crosslane.DriverError, match="it has no engine"):
        session.card().to_card(bytes(64))
    with pytest.raises(crosslane.DriverError, match="it has no engine"):
        session.card().window(4)
    with (
        crosslane.open("lab:rosta:crosslane/fpga1") as other,
        pytest.raises(crosslane.DriverError, match="it has no memory card"),
    ):
        other.card().memory_card()
