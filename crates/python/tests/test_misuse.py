# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Bad input gets an exception of this package, and nothing breaks."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import crosslane
import pytest
from conftest import in_child, still_works
from crosslane import Card, Session


@pytest.fixture
def session() -> Iterator[Session]:
    """A session with a card that has memory."""
    with crosslane.open("lab:kc705:crosslane") as session:
        yield session


@pytest.fixture
def card(session: Session) -> Card:
    """Its card."""
    return session.card()


def test_wrong_memory_is_refused(card: Card, numpy: Any) -> None:
    words = numpy.zeros((16, 16), dtype="u4")
    frozen = words.copy()
    frozen.setflags(write=False)
    refused: list[tuple[Callable[[Any, int], object], Any, str]] = [
        (card.to_card, words[:, ::2], "not contiguous"),
        (card.from_card, words[::2], "not contiguous"),
        (card.to_card, numpy.array([None, 1]), "references"),
        (card.from_card, numpy.zeros(4, dtype=[("a", "i4"), ("b", "O")]), "references"),
        (card.from_card, frozen, "read only"),
        (card.from_card, b"bytes never change", "read only"),
        (card.to_card, "text", "no bytes"),
        (card.to_card, None, "no bytes"),
        (card.to_card, 5, "no bytes"),
        (card.to_card, b"", "at least one"),
    ]
    for call, memory, words_of_error in refused:
        with pytest.raises(crosslane.ArgumentError, match=words_of_error):
            call(memory, 0)
    still_works(card)


def test_wrong_places_are_refused(card: Card) -> None:
    with pytest.raises(crosslane.TransferError, match="the card's memory refused it"):
        card.to_card(bytes(64), 1 << 60).wait()
    with pytest.raises(OverflowError):
        card.to_card(bytes(64), -4)
    with pytest.raises(crosslane.ArgumentError, match="bytes 8 to 4 of 64 B"):
        card.to_card(bytes(64), 0, start=8, stop=4)
    with pytest.raises(crosslane.ArgumentError, match="bytes 0 to 99 of 64 B"):
        card.to_card(bytes(64), 0, stop=99)
    for deadline in (-1.0, float("nan"), float("inf"), 1e30):
        with pytest.raises(crosslane.ArgumentError, match="a time in seconds"):
            card.to_card(bytes(64), 0, deadline=deadline)
    for nothing in (0, 1 << 62):
        with pytest.raises(crosslane.Error):
            card.buffer(nothing)
    still_works(card)


def test_card_without_memory_refuses_addresses() -> None:
    with (
        crosslane.open("lab:rosta:crosslane/fpga1") as session,
        pytest.raises(crosslane.DriverError, match="memory"),
    ):
        session.card().to_card(bytes(64), 0)


def test_freed_buffer_is_refused(card: Card) -> None:
    buffer = card.buffer(4096)
    buffer.close()
    buffer.close()
    assert "given back" in repr(buffer)
    for call in (card.to_card, card.from_card):
        with pytest.raises(crosslane.ClosedError, match="given back"):
            call(buffer, 0)
    with pytest.raises(crosslane.ClosedError, match="given back"):
        memoryview(buffer)
    still_works(card)


def test_buffer_with_views_is_not_freed(card: Card) -> None:
    buffer = card.buffer(4096)
    view = memoryview(buffer)
    with pytest.raises(crosslane.DriverError, match="has 1 views") as caught:
        buffer.close()
    assert caught.value.kind == "busy"
    view.release()
    buffer.close()


def test_buffer_in_flight_is_not_freed(card: Card) -> None:
    with card.buffer(1 << 20) as buffer:
        transfer = card.to_card(buffer, 0)
        with pytest.raises(crosslane.DriverError, match="in flight") as caught:
            buffer.close()
        assert caught.value.kind == "busy"
        with pytest.raises(crosslane.DriverError, match="in flight"):
            card.from_card(buffer, 0)
        transfer.wait()


def test_objects_outlive_what_nobody_waits_for(card: Card) -> None:
    view = memoryview(card.buffer(4096))
    view[:4] = b"kept"
    for _ in range(50):
        card.to_card(view, 0)
        card.from_card(bytearray(4096), 0)
    gc.collect()
    assert bytes(view[:4]) == b"kept"
    still_works(card)


def test_target_in_flight_cannot_shrink(card: Card) -> None:
    target = bytearray(4096)
    transfer = card.from_card(target, 0)
    with pytest.raises(BufferError):
        del target[:100]
    transfer.wait()
    del target[:100]


def test_buffer_of_another_card_is_refused() -> None:
    with crosslane.open("lab:rosta:crosslane") as session:
        first, second = session.cards[:2]
        with pytest.raises(crosslane.ArgumentError, match="another card"):
            second.to_card(first.buffer(4096))


def test_closed_session_is_refused() -> None:
    session = crosslane.open("lab:kc705:crosslane")
    card = session.card()
    buffer, transfer = card.buffer(4096), card.to_card(bytes(64), 0)
    view = memoryview(buffer)
    session.close()
    session.close()
    assert session.closed
    calls: list[Callable[[], object]] = [
        lambda: card.to_card(bytes(64), 0),
        lambda: card.from_card(bytearray(64), 0),
        lambda: card.buffer(4096),
        lambda: transfer.wait(),
        lambda: next(transfer.__await__()),
        lambda: session.now,
        lambda: session.sleep(1),
        lambda: card.description,
        lambda: card.reset(),
    ]
    for call in calls:
        with pytest.raises(crosslane.ClosedError, match="the session is closed"):
            call()
    view[:1] = b"x"
    view.release()


def test_an_error_in_the_block_is_the_one_that_is_seen() -> None:
    with pytest.raises(ZeroDivisionError), crosslane.open("lab:kc705:crosslane") as session:
        session.card().to_card(bytes(1 << 20), 0)
        raise ZeroDivisionError


def test_a_session_is_dropped_in_another_thread() -> None:
    kept = [crosslane.open("lab:kc705:crosslane")]
    kept[0].card().to_card(bytes(64), 0).wait()
    thread = threading.Thread(target=kept.clear)
    thread.start()
    thread.join()
    gc.collect()
    assert not kept


def test_a_session_is_refused_after_a_fork(session: Session) -> None:
    card = session.card()
    buffer, transfer = card.buffer(4096), card.to_card(bytes(64), 0)
    kept: list[Any] = [buffer, transfer, session, card]

    def misuse() -> None:
        for call in (
            lambda: card.to_card(bytes(64), 0),
            lambda: card.to_card(buffer, 0),
            lambda: transfer.wait(),
            lambda: session.now,
            lambda: buffer.close(),
        ):
            with pytest.raises(crosslane.ClosedError, match="forked"):
                call()
        session.close()
        kept.clear()
        with crosslane.open("lab:kc705:crosslane") as own:
            still_works(own.card())

    assert in_child(misuse) == 0
    transfer.wait()
    still_works(card)


def test_labs_run_after_a_fork() -> None:
    lab = crosslane.Lab.load("minimal")
    flow = "card0:host:write:4K"
    rate = lab.run(flow, operations=64).figure()

    def run() -> None:
        assert lab.run(flow, operations=64).figure() == rate

    assert in_child(run) == 0
