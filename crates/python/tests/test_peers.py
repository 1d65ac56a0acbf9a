# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Cards that write to each other and read each other, past the host; plans and channels."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import crosslane
import pytest
from conftest import in_child
from crosslane import Card, Lab, Session


@pytest.fixture
def session() -> Iterator[Session]:
    """Three cards of one lab; the third is on another board."""
    names = [f"lab:rosta:crosslane/{name}" for name in ("fpga1", "fpga2", "fpga5")]
    with crosslane.open(names) as session:
        yield session


@pytest.fixture
def cards(session: Session) -> list[Card]:
    """Its cards."""
    return session.cards


def test_generated_data_reach_the_peer(session: Session, cards: list[Card]) -> None:
    sender, receiver, _ = cards
    sender.route("generator")
    sender.seed(7)
    with sender.peer(receiver) as peer:
        assert peer.has_credits
        assert peer.plan.path[0] == "fpga1"
        assert peer.plan.path[-1] == "fpga2"
        peer.check(7)
        done = peer.write(1 << 20).wait(deadline=1)
        assert done.bytes == 1 << 20
        # The path's slowest link carries no more than the plan says.
        assert 0.8 < done.bytes_per_second / peer.plan.expected_bytes_per_second <= 1
        assert peer.check_result() == peer.check_result()
        assert peer.check_result().errors == 0
        assert peer.check_result().first_word is None
        counters = peer.counters()
        assert counters["received_bytes"] == counters["drained_bytes"] == 1 << 20
        assert not counters["overflow"]
    assert "closed" in repr(peer)
    assert sender.counters("peer")["bytes"] == 1 << 20


def test_what_was_sent_arrives_in_the_end(session: Session, cards: list[Card]) -> None:
    sender, receiver, _ = cards
    peer = sender.peer(receiver, credits=False)
    peer.write(1 << 16, level="accepted").wait()
    assert peer.counters()["received_bytes"] < 1 << 16
    session.finish()
    assert peer.counters()["received_bytes"] == 1 << 16


def test_a_wrong_seed_is_found(cards: list[Card]) -> None:
    sender, receiver, _ = cards
    sender.seed(7)
    with sender.peer(receiver) as peer:
        peer.check(8)
        peer.write(4096).wait()
        found = peer.check_result()
        assert found.errors == 1024
        assert found.first_word == 0


def test_host_data_go_through_two_cards(session: Session, cards: list[Card]) -> None:
    first, second, _ = cards
    data, back = os.urandom(100_000), bytearray(100_000)
    peer = first.peer(second)
    first.route("generator", peer="h2c")
    second.route(peer.receive_queue)
    into = second.from_card(back)
    moved = peer.write(len(data))
    out = first.to_card(data)

    async def all_of_them() -> list[crosslane.Completed]:
        return list(await asyncio.gather(out, moved, into))

    assert [done.bytes for done in asyncio.run(all_of_them())] == [100_000] * 3
    assert back == data
    peer.close()
    peer.close()


def test_levels_are_kept_or_refused(cards: list[Card]) -> None:
    sender, receiver, _ = cards
    peer = sender.peer(receiver)
    sent = peer.write(4096, level="sent").wait()
    taken = peer.write(4096).wait()
    assert sent.seconds < taken.seconds
    accepted = peer.write(4096, level="accepted").wait()
    assert accepted.seconds == 0
    for level, words in [("visible", "cannot be promised"), ("seen", 'level "seen": it is')]:
        with pytest.raises(crosslane.Error, match=words):
            peer.write(4096, level=level)  # type: ignore[arg-type]
    with pytest.raises(crosslane.ArgumentError, match="accepted cannot be promised"):
        receiver.from_card(bytearray(64), level="accepted")
    peer.write(64).wait()
    peer.close()
    unsure = sender.peer(receiver, credits=False, policy="drop")
    assert not unsure.has_credits
    unsure.write(4096).wait()
    with pytest.raises(crosslane.DriverError, match="acknowledged cannot be promised"):
        unsure.write(4096, level="acknowledged")


def test_peers_of_an_engine_are_counted(cards: list[Card]) -> None:
    sender, receiver, other = cards
    peer = sender.peer(receiver)
    with pytest.raises(crosslane.DriverError, match="is connected to receive queue 0") as caught:
        sender.peer(other)
    assert caught.value.kind == "busy"
    peer.close()
    with sender.peer(other, channel=0) as again:
        again.write(4096).wait()
    with pytest.raises(crosslane.DriverError, match="no peer channel 9"):
        sender.peer(receiver, channel=9)
    with pytest.raises(crosslane.DriverError, match="to itself"):
        sender.peer(sender)
    with pytest.raises(crosslane.ArgumentError, match='policy "wait"'):
        sender.peer(receiver, policy="wait")  # type: ignore[arg-type]


def test_a_peer_that_is_used_is_not_closed(cards: list[Card]) -> None:
    sender, receiver, _ = cards
    peer = sender.peer(receiver)
    transfer = peer.write(1 << 20)
    with pytest.raises(crosslane.DriverError, match="in flight") as caught:
        peer.close()
    assert caught.value.kind == "busy"
    transfer.wait()
    peer.close()
    for call in (lambda: peer.write(64), lambda: peer.check(1), peer.counters):
        with pytest.raises(crosslane.ClosedError, match="the peer has been given back"):
            call()
    # One that is dropped gives its receive queue back, too.
    for _ in range(20):
        sender.peer(receiver)
        gc.collect()


def test_wrong_lengths_and_deadlines_are_refused(cards: list[Card]) -> None:
    sender, receiver, _ = cards
    peer = sender.peer(receiver)
    for length, words in [(0, "0 B"), (6, "multiples of 4")]:
        with pytest.raises(crosslane.DriverError, match=words):
            peer.write(length)
    with pytest.raises(OverflowError):
        peer.write(-4)
    with pytest.raises(crosslane.ArgumentError, match="a time in seconds"):
        peer.write(64, deadline=-1)
    transfer = peer.write(1 << 20)
    with pytest.raises(crosslane.DeadlineError):
        transfer.wait(deadline=1e-6)
    transfer.wait()
    with pytest.raises(crosslane.TransferError, match="deadline"):
        peer.write(1 << 20, deadline=1e-5).wait()
    assert peer.write(64).wait().bytes == 64


def test_cards_of_other_sessions_are_refused(session: Session, cards: list[Card]) -> None:
    calls: list[Callable[[Card], object]] = [
        lambda other: cards[0].peer(other),
        lambda other: cards[0].peer_memory(other),
        lambda other: session.plan(cards[0], other),
        lambda other: session.network_processor(other),
    ]
    with crosslane.open("lab:rosta:crosslane/fpga2") as other:
        for call in calls:
            with pytest.raises(crosslane.ArgumentError, match="fpga2: it is a card of another"):
                call(other.card())


def test_a_route_has_a_source(cards: list[Card]) -> None:
    for source in ("nowhere", 300, -1, None, 1.5):
        with pytest.raises(crosslane.ArgumentError, match="the number of a receive queue"):
            cards[0].route(source)  # type: ignore[arg-type]
    with pytest.raises(crosslane.DriverError, match="there is no receive queue 99"):
        cards[0].route(99)
    with pytest.raises(crosslane.DriverError, match="cannot both be routed"):
        cards[0].route(0, 1)


def test_a_plan_has_path_rate_and_reasons(session: Session, cards: list[Card]) -> None:
    plan = session.plan(cards[0], "fpga2")
    assert plan == session.plan("fpga1", cards[1])
    assert plan.path[0] == "fpga1"
    assert plan.path[-1] == "fpga2"
    assert not plan.through_root_complex
    assert plan.max_payload_bytes == 128
    assert 1.6e9 < plan.expected_bytes_per_second < 1.8e9
    assert any("payloads are 128 B" in reason for reason in plan.refused)
    assert "fpga1 -> " in str(plan)
    far = session.plan(cards[0], cards[2])
    assert len(far.path) > len(plan.path)
    assert session.plan(cards[0]).path[0] == "fpga1"
    assert session.plan(to=cards[0]).path[-1] == "fpga1"
    with pytest.raises(crosslane.PlanError, match="no link on the path") as caught:
        session.plan(cards[0], cards[0])
    assert isinstance(caught.value, crosslane.DriverError)
    assert caught.value.kind == "invalid_argument"
    with pytest.raises(crosslane.ArgumentError, match='there is no function "fpga99"'):
        session.plan("fpga99")
    with pytest.raises(crosslane.ArgumentError, match="a Card, or the name"):
        session.plan(5)  # type: ignore[arg-type]


def rosta_with(*switches: str) -> Lab:
    """The lab rosta, with ports of switches that redirect peer requests (ACS)."""
    text = Lab.load("rosta").text.replace('[[measurements]]\nfile = "published/rosta.csv"', "")
    for switch in switches:
        name = f'name = "{switch}"'
        assert text.count(name) == 1
        text = text.replace(name, f"{name}\nacs = true")
    return Lab.load(text, name="redirecting.toml").with_variant("crosslane")


def test_a_path_that_is_forbidden_says_why() -> None:
    with crosslane.open(rosta_with("rc47a")) as session:
        first, second = session.cards[:2]
        reason = r"rc47a\S* redirects peer requests .* and rha25\S* above it does not"
        for call in (lambda: session.plan(first, second), lambda: first.peer(second)):
            with pytest.raises(crosslane.PlanError, match=reason) as caught:
                call()
            assert caught.value.kind == "unsupported"
        assert session.plan(first).path[0] == "fpga1"


def test_a_path_that_is_longer_says_why() -> None:
    with crosslane.open(rosta_with("rc47a", "rha25")) as session:
        plan = session.plan("fpga1", "fpga2")
        assert plan.through_root_complex
        assert "redirects peer requests to the root complex (ACS)" in plan.refused[0]
        assert plan.refused[0] in str(plan)


def test_memory_of_another_card_is_read() -> None:
    names = [f"lab:rosta:memory/{name}" for name in ("fpga1", "fpga2")]
    with crosslane.open(names) as session:
        reader, owner = session.cards
        data = crosslane.pattern(8192, 3)
        # The other card's memory, through its own window.
        with owner.window(2, 0, 8192, contents="memory") as window:
            window.write(0, data)
            window.flush()
        reader.check_h2c(3)
        with reader.peer_memory(owner) as memory:
            assert len(memory) == memory.nbytes == 1 << 28
            assert memory.plan.path[0] == "fpga2"
            transfer = reader.to_card(memory, start=0, stop=8192)
            with pytest.raises(crosslane.DriverError, match="in flight"):
                memory.close()
            assert transfer.wait().bytes == 8192
            with pytest.raises(crosslane.ArgumentError, match="bytes 0 to 0 of"):
                reader.to_card(memory, stop=0)
            with pytest.raises(crosslane.ArgumentError, match="opened for another card"):
                owner.to_card(memory, stop=64)
        assert reader.h2c_check_result().errors == 0
        with pytest.raises(crosslane.ClosedError, match="memory has been given back"):
            reader.to_card(memory, stop=64)
        with pytest.raises(crosslane.DriverError, match="has no BAR5"):
            reader.peer_memory(owner, 5)


def test_memory_of_another_card_is_written() -> None:
    names = [f"lab:rosta:memory/{name}" for name in ("fpga1", "fpga2")]
    with crosslane.open(names) as session:
        writer, owner = session.cards
        data, back = os.urandom(4099), bytearray(4099)
        writer.to_card(data, 13).wait()
        with writer.peer_memory(owner) as memory:
            assert memory.write_plan.path[0] == "fpga1"
            transfer = writer.from_card(memory, 13, start=64, stop=64 + 4099)
            with pytest.raises(crosslane.DriverError, match="in flight"):
                memory.close()
            assert transfer.wait().bytes == 4099
            # Behind the write, so its data are there for their owner, too.
            writer.to_card(memory, 1 << 20, start=64, stop=64 + 4099).wait()
            with pytest.raises(crosslane.DriverError, match="visible cannot be promised"):
                writer.from_card(memory, 13, stop=64, level="visible")
        for card, address in ((writer, 1 << 20), (owner, 64)):
            card.from_card(back, address).wait()
            assert back == data


def test_data_are_copied_within_a_card() -> None:
    with crosslane.open("lab:kc705:crosslane") as session:
        card = session.card()
        data, back = os.urandom(4096), bytearray(4096)
        card.to_card(data, 0).wait()
        if card.description["card_copy"]:
            assert card.copy(0, 1 << 16, 4096).wait().bytes == 4096
            card.from_card(back, 1 << 16).wait()
            assert back == data
            with pytest.raises(crosslane.DriverError, match="overlap"):
                card.copy(0, 64, 4096)
        else:
            with pytest.raises(crosslane.DriverError, match="does not copy"):
                card.copy(0, 1 << 16, 4096)


def test_channels_have_options(cards: list[Card]) -> None:
    card = cards[0]
    card.check_h2c(5)
    card.set_channel("h2c", ring_entries=64, payload_bytes=128, notify="interrupt")
    card.to_card(crosslane.pattern(4096, 5)).wait()
    counted = card.counters("h2c")
    assert counted["engine_bytes"] == counted["bytes"] == 4096
    assert counted["engine_tlps"] == 4096 // 128
    transfer = card.to_card(crosslane.pattern(1 << 20, 5, 1024))
    with pytest.raises(crosslane.DriverError, match="1 transfer is in flight") as caught:
        card.set_channel("h2c")
    assert caught.value.kind == "busy"
    transfer.wait()
    card.set_channel("h2c", table=True, relaxed_ordering=True)
    card.reset_counters()
    card.to_card(crosslane.pattern(4096, 5, (1 << 18) + 1024)).wait()
    assert card.counters("h2c")["engine_tlps"] < 4096 // 128
    assert card.h2c_check_result().errors == 0
    refused: list[tuple[dict[str, Any], str]] = [
        ({"ring_entries": 64, "table": True}, "a table has no ring_entries"),
        ({"notify": "never"}, 'notify "never"'),
    ]
    for options, words in refused:
        with pytest.raises(crosslane.ArgumentError, match=words):
            card.set_channel("c2h", **options)
    with pytest.raises(crosslane.ArgumentError, match='channel "dma"'):
        card.set_channel("dma")  # type: ignore[arg-type]
    card.set_channel("c2h", ring_entries=3)
    with pytest.raises(crosslane.DriverError):
        card.from_card(bytearray(64))
    with pytest.raises(crosslane.DriverError, match="no C2H channel 9"):
        card.from_card(bytearray(64), channel=9)


def test_objects_end_with_their_session(numpy: Any) -> None:
    names = [f"lab:rosta:memory/{name}" for name in ("fpga1", "fpga2")]
    session = crosslane.open(names)
    first, second = session.cards
    peer, memory = first.peer(second), first.peer_memory(second)
    window = first.window(0)
    session.close()
    calls: list[Callable[[], object]] = [
        lambda: peer.write(64),
        lambda: peer.counters(),
        lambda: first.peer(second),
        lambda: first.to_card(memory, stop=64),
        lambda: window.read(0, 4),
        lambda: session.plan(first, second),
    ]
    for call in calls:
        with pytest.raises(crosslane.ClosedError, match="the session is closed"):
            call()
    for kept in (peer, memory, window):
        kept.close()
    assert peer.plan.path


def test_threads_share_peers_and_windows(cards: list[Card]) -> None:
    first, second, _ = cards
    peer, window = first.peer(second), second.window(0)
    first_word = window.read(0, 4)

    def work(number: int) -> bool:
        if number % 2:
            return all(window.read(0, 4) == first_word for _ in range(50))
        return all(peer.write(4096).wait().bytes == 4096 for _ in range(50))

    with ThreadPoolExecutor(4) as threads:
        running = [threads.submit(work, number) for number in range(4)]
        while not all(one.done() for one in running):
            # Looks at what others use just now.
            assert "closed" not in repr(peer) + repr(window)
        assert all(one.result() for one in running)


def test_peers_are_refused_after_a_fork(cards: list[Card]) -> None:
    first, second, _ = cards
    kept: list[Any] = [first.peer(second), first.window(0)]
    peer, window = kept

    def misuse() -> None:
        for call in (lambda: peer.write(64), lambda: window.read(0, 4), peer.close):
            with pytest.raises(crosslane.ClosedError, match="forked"):
                call()
        kept.clear()

    assert in_child(misuse) == 0
    assert peer.write(4096).wait().bytes == 4096
    assert window.read(0, 4) != b"\xff" * 4
