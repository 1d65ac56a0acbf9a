# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Cards: opened, and transfers with whatever has bytes."""

from __future__ import annotations

import array
import asyncio
import os
import threading
from collections.abc import Iterator
from typing import Any

import crosslane
import pytest
from crosslane import Card, Lab, Session

#: A card with memory of its own.
MEMORY_CARD = "lab:kc705:crosslane"


@pytest.fixture
def session() -> Iterator[Session]:
    """A session with a card that has memory."""
    with crosslane.open(MEMORY_CARD) as session:
        yield session


@pytest.fixture
def card(session: Session) -> Card:
    """Its card."""
    return session.card()


def test_data_go_to_the_card_and_come_back(card: Card) -> None:
    data = os.urandom(10_000)
    done = card.to_card(data, 4096).wait()
    assert done.bytes == 10_000
    assert 0 < done.seconds < 1e-3
    back = bytearray(10_000)
    card.from_card(back, 4096).wait()
    assert back == data


def test_simulated_time_is_deterministic() -> None:
    def times() -> list[int]:
        with crosslane.open(MEMORY_CARD) as session:
            card = session.card()
            assert session.now_ps == 0
            ends = [card.to_card(bytes(size), 0).wait().completed_ps for size in (64, 4096)]
            return [*ends, session.now_ps]

    assert times() == times()
    assert 0 < times()[0] < times()[1] <= times()[2]


def test_sleep_lets_simulated_time_pass(session: Session) -> None:
    before = session.now
    session.sleep(0.25)
    assert session.now - before == pytest.approx(0.25)


def test_streams_loop_back() -> None:
    with crosslane.open("lab:rosta:crosslane/fpga2") as session:
        card = session.card("fpga2")
        card.route("h2c")
        data, back = os.urandom(4096), bytearray(4096)
        into = card.from_card(back)
        card.to_card(data).wait()
        into.wait()
        assert back == data


def test_every_object_with_bytes_is_taken(card: Card) -> None:
    words = array.array("I", range(64))
    for data in (bytes(words), bytearray(words), memoryview(words), words):
        card.to_card(data, 0).wait()
        back = array.array("I", [0] * 64)
        card.from_card(back, 0).wait()
        assert back == words


def test_arrays_are_moved(card: Card, numpy: Any) -> None:
    data = numpy.arange(4096, dtype=numpy.float64).reshape(64, 64)
    card.to_card(data, 0).wait()
    back = numpy.zeros_like(data)
    card.from_card(back, 0).wait()
    assert (back == data).all()
    card.from_card(back[8:16], 0).wait()
    assert (back[8:16] == data[:8]).all()


def test_buffers_are_seen_without_a_copy(card: Card, numpy: Any) -> None:
    buffer = card.buffer(8192)
    assert len(buffer) == buffer.nbytes == 8192
    values = numpy.frombuffer(buffer, dtype="u4")
    values[:] = numpy.arange(2048)
    card.to_card(buffer, 0).wait()
    other = card.buffer(8192)
    seen = memoryview(other)
    card.from_card(other, 0).wait()
    assert bytes(seen) == values.tobytes()
    card.from_card(other, 0, start=4096, stop=8192).wait()
    assert bytes(seen[4096:]) == values[:1024].tobytes()


def test_transfers_are_awaited_in_the_order_of_their_ends(session: Session) -> None:
    card = session.card()
    order: list[tuple[str, int]] = []

    async def one(name: str, size: int) -> None:
        done = await card.to_card(bytes(size), 0)
        # Nobody else has moved the time since its end.
        assert done.completed_ps == session.now_ps
        order.append((name, session.now_ps))

    async def back() -> None:
        done = await card.from_card(bytearray(64), 0)
        assert done.completed_ps == session.now_ps
        order.append(("back", session.now_ps))

    async def all_of_them() -> None:
        await asyncio.gather(one("long", 1 << 20), one("last", 64), back())

    asyncio.run(all_of_them())
    assert [name for name, _ in order] == ["back", "long", "last"]
    assert sorted(time for _, time in order) == [time for _, time in order]


def test_two_labs_are_awaited_together() -> None:
    async def moved(name: str) -> int:
        with crosslane.open(name) as session:
            card = session.card()
            for _ in range(3):
                done = await card.to_card(bytes(4096), 0)
        return done.bytes

    async def both() -> list[int]:
        return list(await asyncio.gather(moved(MEMORY_CARD), moved(MEMORY_CARD)))

    assert asyncio.run(both()) == [4096, 4096]


def test_a_wait_ends_at_its_deadline(card: Card) -> None:
    transfer = card.to_card(bytes(1 << 20), 0)
    before = card.now
    with pytest.raises(crosslane.DeadlineError, match=r"has not ended in 0\.000001 s") as caught:
        transfer.wait(deadline=1e-6)
    assert isinstance(caught.value, TimeoutError)
    assert card.now - before == pytest.approx(1e-6)
    assert not transfer.done
    assert transfer.wait(deadline=1.0).bytes == 1 << 20
    assert transfer.done
    assert transfer.wait().bytes == 1 << 20


def test_a_transfer_fails_at_its_deadline(card: Card) -> None:
    transfer = card.to_card(bytes(1 << 20), 0, deadline=2e-4)
    with pytest.raises(crosslane.TransferError, match="not complete at the deadline") as caught:
        transfer.wait()
    error = caught.value
    assert error.kind == "timeout"
    assert 0 < error.moved_bytes < error.total_bytes == 1 << 20
    with pytest.raises(crosslane.TransferError):
        transfer.wait()
    assert card.to_card(bytes(64), 0).wait().bytes == 64


def test_a_cancelled_transfer_says_so(card: Card) -> None:
    transfer = card.to_card(bytes(1 << 20), 0)
    transfer.cancel()
    with pytest.raises(crosslane.TransferError, match="cancelled"):
        transfer.wait()


def test_data_that_never_come_are_a_failed_transfer() -> None:
    with crosslane.open("lab:rosta:crosslane/fpga1") as session:
        card = session.card()
        card.route("h2c")
        with pytest.raises(crosslane.TransferError, match="deadline"):
            card.from_card(bytearray(64), deadline=1e-3).wait()


def test_threads_share_a_session(session: Session) -> None:
    card = session.card()
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(8):
                data = bytes([number, turn]) * 512
                card.to_card(data, number * 4096).wait()
                back = bytearray(1024)
                card.from_card(back, number * 4096).wait()
                assert back == data
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_changed_lab_is_opened() -> None:
    lab = Lab.load("rosta:crosslane")
    with crosslane.open(lab, endpoint="fpga3") as session:
        assert [card.name for card in session.cards] == ["fpga3"]
        assert session.card().description["tags"] > 0
    with crosslane.open(lab) as session:
        assert len(session.cards) == 8


def test_bad_names_are_errors() -> None:
    for name, kind in [
        ("nothing", "invalid_argument"),
        ("lab:rosta:crosslane/fpga99", "not_found"),
        ("vfio:ff:1f.7", None),
        ("vfio-user:/nowhere/socket", None),
    ]:
        with pytest.raises(crosslane.OpenError) as caught:
            crosslane.open(name)
        assert kind in (None, caught.value.kind)
        assert isinstance(caught.value, crosslane.Error)
    with pytest.raises(crosslane.LabError):
        crosslane.open("lab:no-such-lab")
    with pytest.raises(crosslane.ArgumentError, match="no names"):
        crosslane.open([])
    with (
        crosslane.open(MEMORY_CARD) as session,
        pytest.raises(crosslane.ArgumentError, match="there is no card nothing; there are kc705"),
    ):
        session.card("nothing")
