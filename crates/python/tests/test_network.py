# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Network processors: messages between two nodes of a lab, by one program."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import crosslane
import pytest
from conftest import in_child
from crosslane import NetworkProcessor, Session


@pytest.fixture
def session() -> Iterator[Session]:
    """A session with one node of the lab nget."""
    with crosslane.open("lab:nget/fpga1") as session:
        yield session


def joined(session: Session, **modes: Any) -> tuple[NetworkProcessor, NetworkProcessor]:
    """Both nodes, whose cable leads from link 0 of the first to link 1 of the second."""
    near = session.network_processor(session.card(), **modes)
    far = session.network_processor("fpga2", **modes)
    near.enable_link(0)
    far.enable_link(1)
    near.wait_link_up(0, deadline=1e-1)
    far.wait_link_up(1)
    return near, far


@pytest.mark.parametrize("buffers", ["user", "copied", "mapped"])
def test_a_message_arrives(session: Session, buffers: str) -> None:
    near, far = joined(session, buffers=buffers)
    assert (near.name, far.name) == ("fpga1", "fpga2")
    assert near.links > 0
    data, back = os.urandom(5000), bytearray(b"\x11" * 8000)
    room = far.credit(back, link=1, tag=3)
    sent = near.nget(data, link=0, tag=3)
    assert sent.wait().bytes == 5000
    # A message may be shorter than the room for it.
    assert room.wait(deadline=1e-3).bytes == 5000
    assert back == data + b"\x11" * 3000
    assert near.counters()["gets"] == 1


def test_messages_are_awaited(session: Session) -> None:
    near, far = joined(session)
    with near.buffer(4 * 4096) as out, far.buffer(4 * 4096) as into:
        with memoryview(out) as seen:
            seen[:] = crosslane.pattern(4 * 4096, 9)

        async def moved(tag: int) -> crosslane.Completed:
            start, stop = tag * 4096, (tag + 1) * 4096
            room = far.credit(into, link=1, tag=tag, start=start, stop=stop)
            await near.nget(out, link=0, tag=tag, start=start, stop=stop)
            done = await room
            assert done.completed_ps == session.now_ps
            return done

        async def all_of_them() -> list[crosslane.Completed]:
            return list(await asyncio.gather(*(moved(tag) for tag in range(4))))

        done = asyncio.run(all_of_them())
        assert [one.bytes for one in done] == [4096] * 4
        times = [one.completed_ps for one in done]
        assert times == sorted(times)
        assert bytes(into) == crosslane.pattern(4 * 4096, 9)


def test_room_that_stays_empty_is_taken_back(session: Session) -> None:
    near, far = joined(session)
    back = bytearray(64)
    room = far.credit(back, link=1)
    with pytest.raises(crosslane.DeadlineError, match="has not ended"):
        room.wait(deadline=1e-5)
    with pytest.raises(crosslane.NetworkError, match="another message has it") as caught:
        far.credit(bytearray(64), link=1)
    assert caught.value.kind == "busy"
    room.cancel()
    with pytest.raises(crosslane.NetworkError, match="cancelled") as caught:
        room.wait()
    assert caught.value.moved_bytes == 0
    # One that is dropped is taken back, too.
    far.credit(bytearray(64), link=1)
    room = far.credit(back, link=1)
    near.nget(b"\x22" * 64, link=0).wait()
    room.wait()
    assert back == b"\x22" * 64


def test_wrong_messages_are_refused(session: Session) -> None:
    near, far = joined(session)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "either link= or node="),
        ({"link": 0, "node": 1}, "either link= or node="),
        ({"link": 99}, "links, from 0 on"),
        ({"link": 0, "tag": 64}, "tags are 0 to 63"),
        ({"link": 0, "channel": 8}, "channels are 0 to 7"),
        ({"node": 1}, "no place in a torus"),
        ({"link": 0, "stop": 65}, "bytes 0 to 65 of 64 B"),
        ({"link": 0, "deadline": -1.0}, "a time in seconds"),
    ]
    for options, words in wrong:
        with pytest.raises(crosslane.Error, match=words):
            near.nget(bytes(64), **options)
    with pytest.raises(crosslane.ArgumentError, match="read only"):
        near.credit(bytes(64), link=0)
    with pytest.raises(crosslane.ArgumentError, match="another card"):
        near.nget(far.buffer(64), link=0)
    with pytest.raises(crosslane.ArgumentError, match="0 B"):
        near.buffer(0)
    for modes, words in [
        ({"buffers": "mine"}, 'buffers "mine"'),
        ({"requests": "any"}, 'requests "any"'),
        ({"waiting": "long"}, 'waiting "long"'),
    ]:
        with pytest.raises(crosslane.ArgumentError, match=words):
            session.network_processor("fpga1", **modes)  # type: ignore[arg-type]
    with pytest.raises(crosslane.DriverError, match="no such endpoint"):
        session.network_processor("fpga99")


def test_a_closed_one_is_refused(session: Session) -> None:
    near, far = joined(session)
    room = far.credit(bytearray(64), link=1)
    far.close()
    far.close()
    with pytest.raises(crosslane.NetworkError, match="was reset"):
        room.wait()
    with pytest.raises(crosslane.ClosedError, match="the network processor is closed"):
        far.counters()

    def misuse() -> None:
        for call in (near.counters, near.close, lambda: near.nget(b"1234", link=0)):
            with pytest.raises(crosslane.ClosedError, match="forked"):
                call()

    assert in_child(misuse) == 0
    assert near.counters()["gets"] == 0
