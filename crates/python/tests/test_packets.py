# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Packets through a card's stream and back, with their ends and user bits."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from typing import Any

import crosslane
import pytest
from conftest import blocks, in_child
from crosslane import Card, Packet, Session


@pytest.fixture
def session() -> Iterator[Session]:
    """A session with a card whose engine has packets, and whose stream comes back."""
    with crosslane.open("lab:minimal/card0") as session:
        session.card().route("h2c")
        yield session


@pytest.fixture
def card(session: Session) -> Card:
    """Its card, with both channels in packet mode."""
    card = session.card()
    assert card.description["packets"]
    card.set_channel("h2c", packets=True)
    card.set_channel("c2h", packets=True)
    return card


def received(receiver: crosslane.PacketReceiver, count: int) -> list[Packet]:
    """So many packets."""
    packets: list[Packet] = []
    while len(packets) < count:
        packets += receiver.receive(count - len(packets)).wait(deadline=1e-3)
    return packets


def test_packets_keep_their_ends(card: Card) -> None:
    sent = [os.urandom(length) for length in (1, 3, 64, 2048, 2049, 9000, 5)]
    with card.packet_receiver(16, 2048) as receiver:
        assert (receiver.places, receiver.place_bytes) == (16, 2048)
        done = card.send_packets(sent, users=range(10, 17)).wait()
        assert done.bytes == sum(len(packet) for packet in sent)
        assert done.completed_ps > done.posted_ps
        packets = received(receiver, len(sent))
        assert [packet.data for packet in packets] == sent
        assert [packet.user for packet in packets] == list(range(10, 17))
        assert all(packet.whole for packet in packets)
        assert len(packets[2]) == packets[2].nbytes == 64
        assert repr(packets[2]) == "<crosslane.Packet of 64 B, user 0xc>"
        # A plain transfer is a packet, too.
        card.to_card(b"plain").wait()
        assert received(receiver, 1)[0].data == b"plain"
        counters = card.counters("c2h")
        assert (counters["packets"], counters["packets_dropped"]) == (8, 0)
        assert card.counters("h2c")["packets"] == 8


def test_places_are_used_again(card: Card) -> None:
    with card.packet_receiver(4, 100) as receiver:
        for turn in range(50):
            sent = [bytes([turn, number]) * 75 for number in range(3)]
            moved = card.send_packets(sent, users=turn)
            packets = received(receiver, 3)
            assert [packet.data for packet in packets] == sent
            assert {packet.user for packet in packets} == {turn}
            moved.wait()


def test_rows_of_arrays_are_packets(card: Card, numpy: Any) -> None:
    sent = numpy.arange(8 * 300, dtype="u2").reshape(8, 300)
    into = numpy.zeros((6, 400), dtype="u2")
    with card.packet_receiver(32, 1024) as receiver:
        card.send_packets(sent).wait()
        first = receiver.receive(into=into).wait()
        while len(first) < 6:
            first += receiver.receive(6 - len(first), into=into[len(first) :]).wait()
        assert (into[:, :300] == sent[:6]).all()
        assert not into[:, 300:].any()
        assert {packet.nbytes for packet in first} == {600}
        # It is the array's own memory.
        into[2, 0] = 7
        assert bytes(first[2].data)[:2] == b"\x07\x00"
        rest = received(receiver, 2)
        assert numpy.frombuffer(rest[1].data, dtype="u2").tolist() == sent[7].tolist()


def test_parts_of_one_object_are_packets(card: Card, numpy: Any) -> None:
    buffer = card.buffer(4096)
    memoryview(buffer)[:] = os.urandom(4096)
    with card.packet_receiver() as receiver:
        moved = card.send_packets(buffer, lengths=[4, 1, 1000], users=[1, 2, 65535])
        packets = received(receiver, 3)
        assert b"".join(packet.data for packet in packets) == bytes(memoryview(buffer)[:1005])
        assert [packet.nbytes for packet in packets] == [4, 1, 1000]
        assert packets[2].user == 65535
        moved.wait()
        moved = card.send_packets(numpy.arange(4, dtype="u1"), lengths=[2, 2])
        assert [packet.data for packet in received(receiver, 2)] == [b"\0\1", b"\2\3"]
        assert moved.wait().bytes == 4


def test_packets_are_awaited() -> None:
    async def echo(session: Session, card: Card, receiver: crosslane.PacketReceiver) -> list[int]:
        times = []
        for turn in range(4):
            sent = [bytes([turn]) * length for length in (10, 700)]
            await card.send_packets(sent, users=turn)
            packets: list[Packet] = []
            while len(packets) < 2:
                packets += await receiver.receive()
                times.append(session.now_ps)
            assert [packet.data for packet in packets] == sent
        return times

    async def late(card: Card, receiver: crosslane.PacketReceiver) -> int:
        # The wait begins before there is a packet.
        waiting = asyncio.ensure_future(_of(receiver))
        await asyncio.sleep(0)
        card.send_packets([b"late"])
        return len(await waiting)

    async def _of(receiver: crosslane.PacketReceiver) -> list[Packet]:
        return await receiver.receive()

    def times() -> list[int]:
        with crosslane.open("lab:minimal/card0") as session:
            card = session.card()
            card.route("h2c")
            card.set_channel("h2c", packets=True)
            card.set_channel("c2h", packets=True)
            with card.packet_receiver(8, 512) as receiver:
                found = asyncio.run(echo(session, card, receiver))
                assert asyncio.run(late(card, receiver)) == 1
            return found

    first = times()
    assert first == times()
    assert first == sorted(set(first))


def test_packets_without_a_place_are_dropped(session: Session, card: Card) -> None:
    card.set_channel("c2h", packets=True, drop_packets=True)
    with card.packet_receiver(2, 256) as receiver:
        card.send_packets([bytes(100), bytes(256 + 100), bytes(9)]).wait()
        session.sleep(20e-6)
        packets = receiver.receive().wait()
        assert [(packet.nbytes, packet.whole) for packet in packets] == [(100, True)]
        counters = card.counters("c2h")
        assert (counters["packets_dropped"], counters["packets_truncated"]) == (1, 1)
        # That one is cut is known when the next one begins.
        card.send_packets([b"next"], users=5).wait()
        packets = received(receiver, 2)
        assert [(packet.nbytes, packet.whole) for packet in packets] == [(256, False), (4, True)]
        assert (packets[0].user, packets[1].user, packets[1].data) == (0, 5, b"next")


def test_too_little_room_loses_no_packet(card: Card, numpy: Any) -> None:
    with card.packet_receiver(3, 64) as receiver:
        small = numpy.zeros((4, 32), dtype="u1")
        card.send_packets([bytes(8), b"x" * 40]).wait()
        packets = receiver.receive(into=small).wait(deadline=1e-3)
        assert [packet.nbytes for packet in packets] == [8]
        with pytest.raises(crosslane.ArgumentError, match="next packet has 40 B, and a row") as no:
            receiver.receive(into=small).wait(deadline=1e-3)
        assert no.value.kind == "invalid_argument"
        assert received(receiver, 1)[0].data == b"x" * 40
        # A packet that is longer than all places can never come.
        moved = card.send_packets([bytes(3 * 64 + 1)], deadline=1e-3)
        with pytest.raises(crosslane.TransferError, match="longer than what was posted: 192 B"):
            receiver.receive().wait(deadline=1e-3)
        moved.cancel()


def test_a_wait_for_packets_ends_at_its_deadline(card: Card, session: Session) -> None:
    with card.packet_receiver() as receiver:
        reception = receiver.receive()
        before = session.now
        with pytest.raises(crosslane.DeadlineError, match=r"no packet has come in 0\.00002 s"):
            reception.wait(deadline=20e-6)
        assert session.now - before == pytest.approx(20e-6)
        assert not reception.done
        with pytest.raises(crosslane.DeadlineError):
            reception.wait(deadline=0)
        card.send_packets([b"x"])
        assert reception.wait() is reception.wait()
        assert reception.done


def test_a_wait_that_nothing_can_end_says_so() -> None:
    session = crosslane.open("lab:minimal/card0")
    session.card().route("h2c")
    session.card().set_channel("c2h", packets=True)
    with pytest.raises(crosslane.Stuck, match="to change from 0"):
        session.card().packet_receiver().receive().wait()


def test_channels_in_another_mode_are_refused(session: Session, numpy: Any) -> None:
    card = session.card()
    with pytest.raises(crosslane.DriverError, match="H2C channels that were opened for packets"):
        card.send_packets([b"x"])
    with pytest.raises(crosslane.ArgumentError, match=r"set_channel\('c2h', packets=True\)"):
        card.packet_receiver()
    with pytest.raises(crosslane.DriverError, match="in packet mode drop packets"):
        card.set_channel("c2h", drop_packets=True)
        card.counters("c2h")
    card.set_channel("c2h", packets=True, table=True)
    with pytest.raises(crosslane.DriverError, match="packets need a ring"):
        card.packet_receiver()
    card.set_channel("c2h", packets=True, ring_entries=16)
    with pytest.raises(crosslane.DriverError, match="16"):
        card.packet_receiver(places=17)
    with pytest.raises(crosslane.ArgumentError, match=r"receive packets: use packet_receiver"):
        card.from_card(bytearray(4))
    with crosslane.open("lab:rosta:crosslane/fpga1") as other:
        assert not other.card().description["packets"]
        other.card().set_channel("h2c", packets=True)
        with pytest.raises(crosslane.DriverError, match="no packet mode") as caught:
            other.card().send_packets([b"x"])
        assert caught.value.kind == "unsupported"


class OnlyDlPack:
    """An array without the buffer protocol."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        """Its memory."""
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        """Its device."""
        return self.array.__dlpack_device__()


def test_bad_packets_are_refused(card: Card, numpy: Any) -> None:
    send, gaps = card.send_packets, numpy.zeros((4, 8), dtype="u4")[:, ::2]
    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: send([]), "no packets to be sent"),
        (lambda: send([b"x", b""]), "packet 1 of 2: .* at least one"),
        (lambda: send([gaps]), "not contiguous"),
        (lambda: send([b"x", None]), "no bytes to transfer"),  # type: ignore[list-item]
        (lambda: send(b"bytes"), "a sequence of objects with bytes, or one with lengths="),
        (lambda: send(numpy.zeros(4, dtype="u1")), "a sequence of objects"),
        (lambda: send(card.buffer(64)), "a sequence of objects"),
        (lambda: send([b"x"], users=[1, 2]), "2 numbers, and 1 are needed"),
        (lambda: send([b"x"], users=65536), "a number from 0 to 65535"),
        (lambda: send([b"x"], deadline=-1), "a time in seconds"),
        (lambda: send(b"abc", lengths=[2, 2]), "packet 1 of 2: bytes 2 to 4 of 3 B"),
        (lambda: send(b"abc", lengths=[0]), "packet 0 of 1"),
        (lambda: send(b"abc", lengths=[1, 2**64 - 1]), "packet 1 of 2"),
        (lambda: card.packet_receiver(0), "1 to 65536 places"),
        (lambda: card.packet_receiver(4, 0), "at least one byte"),
        (lambda: card.packet_receiver(65536, 2**60), "more bytes than memory"),
    ]
    for call, words in wrong:
        with pytest.raises(crosslane.ArgumentError, match=words):
            call()
    with pytest.raises(TypeError):
        send(7)  # type: ignore[arg-type]
    with pytest.raises(OverflowError):
        send(b"abc", lengths=[-1])
    with card.packet_receiver() as receiver:
        targets: list[tuple[Any, str]] = [
            (bytearray(8), "rows are those of an array of two dimensions"),
            (numpy.zeros((4, 0)), "two dimensions"),
            (numpy.asfortranarray(numpy.zeros((4, 8))), "in C's order"),
            (gaps, "not contiguous"),
            (numpy.broadcast_to(numpy.uint8(0), (4, 8)), "contiguous|read only"),
            (numpy.array([[None]]), "references"),
            (OnlyDlPack(numpy.zeros((4, 8))), "into= has no bytes: "),
        ]
        for into, words in targets:
            with pytest.raises(crosslane.ArgumentError, match=words):
                receiver.receive(into=into)
        with pytest.raises(crosslane.ArgumentError, match="at least one packet"):
            receiver.receive(0)


def test_closed_receivers_are_refused(session: Session, card: Card) -> None:
    receiver = card.packet_receiver()
    with pytest.raises(crosslane.DriverError, match="a packet receiver is open already") as caught:
        card.packet_receiver()
    assert caught.value.kind == "busy"
    with pytest.raises(crosslane.DriverError, match="a packet receiver is open, so it cannot"):
        card.set_channel("c2h")
    reception = receiver.receive()
    receiver.close()
    receiver.close()
    for call in (reception.wait, lambda: next(reception.__await__())):
        with pytest.raises(crosslane.ClosedError, match="the packet receiver is closed"):
            call()
    # Another one is not that of the old reception.
    with card.packet_receiver() as again:
        with pytest.raises(crosslane.ClosedError, match="the packet receiver is closed"):
            reception.wait()
        card.send_packets([b"x"])
        assert again.receive().wait()[0].data == b"x"

        def of_parent() -> None:
            with pytest.raises(crosslane.ClosedError):
                again.receive().wait()
            again.close()

        assert in_child(of_parent) == 0
        card.send_packets([b"y"])
        assert again.receive().wait()[0].data == b"y"
    last = card.packet_receiver()
    session.close()
    last.close()
    with pytest.raises(crosslane.ClosedError, match="the session is closed"):
        last.receive()


def test_the_page_is_right(capsys: pytest.CaptureFixture[str]) -> None:
    exec(blocks("docs/how-to/packets.md", "python")[0], {})
    assert capsys.readouterr().out == "b'to ' 1 True\nb'whom it may concern' 2 True\n"
