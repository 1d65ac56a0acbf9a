# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes that the circuits of cards start themselves, round trips, payloads that ports refuse,
transfers without interrupts, and memory that goes from card to card."""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import threading
from collections.abc import Callable, Iterator

import crosslane
import pytest
from conftest import in_child
from crosslane import Card, Session


@pytest.fixture
def session() -> Iterator[Session]:
    """Two cards of one lab."""
    with crosslane.open(["lab:rosta:memory/fpga1", "lab:rosta:memory/fpga2"]) as session:
        yield session


@pytest.fixture
def cards(session: Session) -> list[Card]:
    """Its cards."""
    return session.cards


@pytest.fixture
def peers(cards: list[Card]) -> list[crosslane.Peer]:
    """Peers that both cards write to by their command ports."""
    for card in cards:
        card.set_channel("peer", command_port=True)
    return [cards[0].peer(cards[1]), cards[1].peer(cards[0])]


def test_a_circuit_writes_to_a_peer(
    session: Session, cards: list[Card], peers: list[crosslane.Peer]
) -> None:
    there, _ = peers
    there.check(8)
    cards[0].seed(8)
    before = cards[0].time_clocks()
    done = there.command(8192).wait(deadline=1)
    assert done.bytes == 8192
    assert done.seconds > 0
    assert cards[0].time_clocks() > before
    session.sleep(1e-4)
    assert there.counters()["drained_bytes"] == 8192
    assert there.check_result().errors == 0


def test_commands_of_two_cards_are_awaited(
    session: Session, cards: list[Card], peers: list[crosslane.Peer]
) -> None:
    async def all_of_them() -> list[crosslane.Completed]:
        out = cards[0].to_card(bytes(4096))
        return list(await asyncio.gather(*(peer.command(4096) for peer in peers), out))

    assert [done.bytes for done in asyncio.run(all_of_them())] == [4096] * 3


def test_messages_go_to_and_fro(cards: list[Card], peers: list[crosslane.Peer]) -> None:
    there, back = peers
    cards[1].route("generator", there.receive_queue)
    far = back.command(128 * 5)
    made = there.ping_pong(128, 5)
    far.wait()
    assert made.rounds == 5
    assert 0 < made.least_clocks <= made.sum_clocks / 5 <= made.most_clocks
    assert "rounds=5" in repr(made)
    # Nobody sends the message back.
    with pytest.raises(crosslane.DriverError, match="the end of a ping-pong") as caught:
        there.ping_pong(128, 1, deadline=1e-4)
    assert caught.value.kind == "timeout"


def test_one_command_is_worked_off_at_a_time(peers: list[crosslane.Peer]) -> None:
    there, _ = peers
    long = there.command(1 << 20)
    with pytest.raises(crosslane.DriverError, match="1048576 B is still being worked off") as busy:
        there.command(64)
    assert busy.value.kind == "busy"
    with pytest.raises(crosslane.DriverError, match="in flight"):
        there.close()
    with pytest.raises(crosslane.ArgumentError, match="cannot be cancelled"):
        long.cancel()
    with pytest.raises(crosslane.DeadlineError):
        long.wait(deadline=1e-6)
    assert long.wait().bytes == 1 << 20
    # One whose outcome nobody wants is no obstacle.
    lost, later = there.command(64), 0
    while not later:
        try:
            later = there.command(128).wait().bytes
        except crosslane.DriverError as error:
            assert error.kind == "busy"
    with pytest.raises(crosslane.ClosedError, match="a later one was started"):
        lost.wait()
    del long, lost
    gc.collect()
    with pytest.raises(crosslane.DriverError, match="deadline"):
        there.command(1 << 20, deadline=1e-6).wait()


def test_wrong_commands_are_refused(cards: list[Card], peers: list[crosslane.Peer]) -> None:
    there, _ = peers
    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: there.command(0), "0 B"),
        (lambda: there.command(6), "multiples of 4"),
        (lambda: there.command(64, deadline=-1), "a time in seconds"),
        (lambda: there.ping_pong(128, 0), "0 round trips"),
        (lambda: there.write(64), "open for the command port"),
        (lambda: cards[0].set_channel("peer", table=True, command_port=True), "a table or"),
        (lambda: cards[0].set_channel("peer", ring_entries=16, command_port=True), "ring_entries"),
    ]
    for call, words in wrong:
        with pytest.raises(crosslane.Error, match=words):
            call()
    for call in (lambda: there.command(-4), lambda: there.ping_pong(128, 1 << 16)):
        with pytest.raises(OverflowError):
            call()
    with pytest.raises(TypeError):
        there.command("64")  # type: ignore[arg-type]
    cards[0].set_channel("c2h", command_port=True)
    with pytest.raises(crosslane.DriverError, match="command port"):
        cards[0].from_card(bytearray(64))
    cards[0].set_channel("peer")
    with pytest.raises(crosslane.DriverError, match="not open for the command port"):
        there.command(64)
    there.close()
    with pytest.raises(crosslane.ClosedError, match="given back"):
        there.command(64)


def test_threads_and_children_use_commands(peers: list[crosslane.Peer]) -> None:
    there, _ = peers
    moved: list[int] = []
    thread = threading.Thread(target=lambda: moved.append(there.command(64).wait().bytes))
    thread.start()
    thread.join()
    assert moved == [64]

    def in_the_child() -> None:
        with pytest.raises(crosslane.ClosedError, match="forked"):
            there.command(64)

    assert in_child(in_the_child) == 0


def test_ports_that_refuse_payloads_are_named(session: Session, cards: list[Card]) -> None:
    card = cards[0]
    card.set_channel("c2h", payload_bytes=256)
    with pytest.raises(crosslane.DriverError, match="256 B"):
        card.from_card(bytearray(4096))
    card.set_channel("c2h", payload_bytes=256, oversize=True)
    with pytest.raises(crosslane.TransferError, match="refused on the way") as caught:
        card.from_card(bytearray(4096)).wait()
    assert caught.value.ports == {"rc47a.down0": "fatal error"}
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.ports, again.total_bytes) == (caught.value.ports, 4096)
    for bytes_, words in [(100, "100 B"), (4096, "4096 B")]:
        with pytest.raises(crosslane.PlanError, match=words):
            session.set_max_payload(bytes_, card)
    with pytest.raises(crosslane.ArgumentError, match="nobody"):
        session.set_max_payload(256, "nobody")
    # The way between the cards takes them, once it is set to.
    assert session.plan(*cards).max_payload_bytes == 128
    assert "fpga1" in session.set_max_payload(256, *cards)
    assert session.plan(*cards).max_payload_bytes == 256
    # Credits that wait are returned by the new limit.
    with pytest.raises(crosslane.TransferError) as other:
        card.from_card(bytearray(1 << 20), deadline=1e-6).wait()
    assert other.value.ports == {}
    # The first error of a port is on record in the lab.
    with pytest.raises(crosslane.RunError, match=r"rc47a\.down0"):
        session.close()


def test_some_transfers_have_no_interrupt(cards: list[Card]) -> None:
    card = cards[0]
    card.set_channel("c2h", notify="interrupt")
    back = [bytearray(1024) for _ in range(3)]
    card.seed(7)
    moved = [card.from_card(into, reported=index == 2) for index, into in enumerate(back)]
    assert [transfer.wait().bytes for transfer in reversed(moved)] == [1024] * 3
    assert b"".join(back) == crosslane.pattern(3 * 1024, 7)


def test_memory_of_a_card_goes_to_that_of_another(cards: list[Card]) -> None:
    reader, owner = cards
    data, back = os.urandom(8192), bytearray(8192 - 13)
    owner.to_card(data, 4096).wait()
    with reader.peer_memory(owner) as memory:
        done = reader.to_card(memory, 77, start=4096 + 13, stop=4096 + 8192).wait()
        assert done.bytes == 8192 - 13
        reader.from_card(back, 77).wait()
        assert back == data[13:]
        with pytest.raises(crosslane.ArgumentError, match="within it"):
            reader.to_card(memory, 0, start=1 << 40)
        with pytest.raises(crosslane.ArgumentError, match="opened for another card"):
            owner.to_card(memory, 0, stop=64)


def test_a_card_is_reset_and_used_again(session: Session, cards: list[Card]) -> None:
    card = cards[1]
    card.from_card(bytearray(64)).wait()
    card.reset()
    assert card.from_card(bytearray(64)).wait().bytes == 64
    # The port above it has seen its link go down.
    with pytest.raises(crosslane.RunError, match="Surprise Down"):
        session.close()
