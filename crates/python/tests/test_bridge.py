# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The client of a bridge, with servers that are processes of this machine and cards of labs."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import crosslane
import pytest
from conftest import PROGRAM, Server, served, still_works
from crosslane import BridgeClient, RemoteCard

MIB = 1 << 20


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server with a card of a lab, for everybody of this machine."""
    with served() as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[BridgeClient]:
    """A connection to it."""
    with crosslane.bridge(server.address, network="tls") as client:
        yield client


@pytest.fixture
def card(client: BridgeClient) -> RemoteCard:
    """Its card."""
    return client.card()


def test_a_client_knows_its_server(server: Server, client: BridgeClient) -> None:
    assert [card.name for card in client.cards] == ["fpga0"]
    assert client.card("fpga0") is client.card(0) is client.card()
    assert client.server == server.address
    assert client.network.startswith("tls")
    assert server.address in repr(client)
    assert not client.closed
    with pytest.raises(crosslane.ArgumentError, match="has no card pac; there are fpga0"):
        client.card("pac")


def test_arrays_go_to_another_node_and_back(card: RemoteCard, numpy: Any) -> None:
    data = numpy.arange(3 * MIB, dtype=numpy.uint8).reshape(3, MIB)
    done = card.to_card(data, 4096, checksum=True).wait()
    assert done.bytes == 3 * MIB
    assert done.bytes_per_second == pytest.approx(done.bytes / done.seconds)
    assert done.report["path"] == "ToFpga"
    assert [stage["bytes"] for stage in done.report["stages"]] == [3 * MIB] * 2
    assert done.why
    back = numpy.zeros_like(data)
    transfer = card.from_card(back, 4096, checksum=True)
    assert transfer.wait(deadline=30).report["checksum"] == done.report["checksum"]
    assert transfer.done
    assert transfer.arrived_bytes == transfer.nbytes == 3 * MIB
    assert (back == data).all()
    card.from_card(back[1], 4097).wait()
    assert (back[1] == (data[0] + 1)).all()


def test_buffers_are_moved_without_a_copy(
    server: Server, client: BridgeClient, card: RemoteCard, numpy: Any
) -> None:
    buffer, other = client.buffer(3 * MIB + 5), client.buffer(MIB)
    assert len(buffer) == buffer.nbytes == 3 * MIB + 5
    values = numpy.frombuffer(buffer, dtype="u1")
    assert not values.any()
    values[:] = numpy.arange(values.size) % 251
    card.to_card(buffer, 0, checksum=True).wait()
    seen = numpy.from_dlpack(other)
    transfer = card.from_card(other, 1000)
    until = time.monotonic() + 20
    # The network writes what Python sees, before anybody waits for the transfer.
    while not transfer.done and time.monotonic() < until:
        time.sleep(0.001)
    assert (seen == values[1000 : 1000 + MIB]).all()
    card.from_card(other, 0, start=4, stop=8).wait()
    assert seen[:10].tolist() == [*values[1000:1004], 0, 1, 2, 3, *values[1008:1010]]
    card.to_card(buffer, 0, start=7, stop=9).wait()
    back = bytearray(4)
    card.from_card(back, 0).wait()
    assert bytes(back) == bytes([7, 8, 2, 3])
    part = client.buffer(MIB)
    card.through_card(other, part).wait()
    assert bytes(memoryview(part)) == seen.tobytes()
    refused: list[tuple[Callable[[], object], str]] = [
        (lambda: card.to_card(buffer, 0, start=5, stop=5), "at least one"),
        (lambda: card.from_card(bytearray(8), 0, start=4), "BridgeBuffer"),
        (lambda: card.through_card(other, buffer), "1048576 B go through the card, into 3145733"),
        (lambda: client.buffer(0), "0 B is not possible"),
    ]
    for call, words in refused:
        with pytest.raises(crosslane.ArgumentError, match=words):
            call()
    with (
        crosslane.bridge(server.address, network="tls") as second,
        pytest.raises(crosslane.ArgumentError, match="another connection"),
    ):
        second.card().to_card(buffer, 0)


def test_buffers_in_use_are_not_given_back(client: BridgeClient, card: RemoteCard) -> None:
    with client.buffer(16 * MIB) as buffer:
        transfer = card.to_card(buffer, 0)
        with pytest.raises(crosslane.DriverError, match="is in flight") as caught:
            buffer.close()
        assert caught.value.kind == "busy"
        transfer.wait()
        view = memoryview(buffer)
        with pytest.raises(crosslane.DriverError, match="has a view"):
            buffer.close()
        view.release()
    buffer.close()
    assert "given back" in repr(buffer)
    for call in (card.to_card, card.from_card):
        with pytest.raises(crosslane.ClosedError, match="given back"):
            call(buffer, 0)
    with pytest.raises(crosslane.ClosedError, match="given back"):
        memoryview(buffer)
    kept = client.buffer(4096)
    client.close()
    memoryview(kept)[:4] = b"kept"
    with pytest.raises(crosslane.ClosedError, match="the connection is closed"):
        card.to_card(kept, 0)
    with pytest.raises(crosslane.ClosedError, match="the connection is closed"):
        client.buffer(4096)


def test_data_go_through_a_stream_of_another_node(card: RemoteCard) -> None:
    data, back = os.urandom(100_000), bytearray(100_000)
    done = card.through_card(data, back, checksum=True).wait()
    assert back == data
    assert done.report["path"] == "RoundTrip"


def test_transfers_of_several_nodes_are_awaited(server: Server, client: BridgeClient) -> None:
    near = client.card()

    async def there_and_back(card: RemoteCard, address: int) -> bool:
        data, back = os.urandom(MIB), bytearray(MIB)
        done = await card.to_card(data, address)
        assert done.bytes == MIB
        await card.from_card(back, address)
        return back == data

    async def simulated() -> bool:
        with crosslane.open("lab:kc705:crosslane") as session:
            back = bytearray(4096)
            await session.card().to_card(b"\x11" * 4096, 0)
            await session.card().from_card(back, 0)
        return back == b"\x11" * 4096

    async def all_of_them() -> list[bool]:
        with crosslane.bridge(server.address, network="tls") as other:
            far = other.card()
            moved = [there_and_back(near, 0), there_and_back(far, 2 * MIB), simulated()]
            return list(await asyncio.gather(*moved))

    assert asyncio.run(all_of_them()) == [True, True, True]


def test_transfers_are_made_in_their_order(card: RemoteCard) -> None:
    back = bytearray(MIB)
    transfers = [card.to_card(bytes([n]) * MIB, 0) for n in range(1, 4)]
    transfers.append(card.from_card(back, 0))
    transfers[-1].wait()
    assert all(transfer.done for transfer in transfers)
    assert back == b"\x03" * MIB


def test_cards_of_two_servers_move_data(client: BridgeClient, card: RemoteCard) -> None:
    with served() as second, crosslane.bridge(second.address, network="tls") as other:
        data, back = os.urandom(MIB), bytearray(MIB)
        card.to_card(data, 0).wait()
        done = card.copy_to(other.card(), 0, 8192, MIB).wait()
        assert (done.bytes, done.report["path"]) == (MIB, "ToPeer")
        other.card().from_card(back, 8192).wait()
        assert back == data
        with pytest.raises(crosslane.BridgeError, match="0 B is not possible") as caught:
            card.copy_to(other.card(), 0, 0, 0).wait()
        assert caught.value.stage == "request"
    still_works(card)


def test_threads_share_a_client(card: RemoteCard) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(4):
                data, back = bytes([number, turn]) * 512, bytearray(1024)
                card.to_card(data, number * 4096).wait()
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


def test_wrong_input_is_refused(card: RemoteCard, numpy: Any) -> None:
    words = numpy.zeros((16, 16), dtype="u4")
    refused: list[tuple[Callable[[], object], str]] = [
        (lambda: card.to_card(words[:, ::2], 0), "not contiguous"),
        (lambda: card.to_card(numpy.array([None, 1]), 0), "references"),
        (lambda: card.from_card(b"bytes never change", 0), "read only"),
        (lambda: card.through_card(words, b"read only"), "read only"),
        (lambda: card.through_card(bytes(8), bytearray(4)), "8 B go through the card, into 4 B"),
        (lambda: card.to_card(b"", 0), "at least one"),
        (lambda: card.to_card(words, 0, deadline=-1.0), "a time in seconds"),
        (lambda: card.to_card(words, 0).wait(deadline=float("nan")), "a time in seconds"),
    ]
    for call, words_of_error in refused:
        with pytest.raises(crosslane.ArgumentError, match=words_of_error):
            call()
    with pytest.raises(OverflowError):
        card.to_card(words, -1)
    for transfer in (
        card.to_card(bytes(64), (1 << 64) - 8),
        card.copy_to(card, (1 << 64) - 8, 0, 64),
    ):
        with pytest.raises(crosslane.BridgeError, match="request: ") as caught:
            transfer.wait()
        assert (caught.value.stage, caught.value.arrived_bytes) == ("request", 0)
    still_works(card)


def test_a_card_that_refuses_ends_the_connection(server: Server) -> None:
    with crosslane.bridge(server.address, network="tls") as client:
        card = client.card()
        with pytest.raises(crosslane.BridgeError, match="the card's memory refused it") as caught:
            card.to_card(bytes(64), 1 << 60).wait()
        assert (caught.value.stage, caught.value.total_bytes) == ("DMA", 64)
        with pytest.raises(crosslane.BridgeError) as after:
            card.to_card(bytes(64), 0).wait()
        assert (after.value.kind, after.value.stage) == ("link_down", "connection")
    with crosslane.bridge(server.address, network="tls") as client:
        still_works(client.card())


def test_bad_addresses_and_networks_are_errors(server: Server) -> None:
    with pytest.raises(crosslane.RdmaError, match=r"carrier pigeons.*there are verbs") as caught:
        crosslane.bridge(server.address, network="carrier pigeons")  # type: ignore[arg-type]
    assert caught.value.kind == "not_found"
    with pytest.raises(crosslane.BridgeError, match="no port") as no_port:
        crosslane.bridge("127.0.0.1", network="tls")
    assert (no_port.value.kind, no_port.value.stage) == ("invalid_argument", "connection")
    with pytest.raises(crosslane.BridgeError):
        crosslane.bridge("127.0.0.1:1", network="tls", deadline=20)
    with pytest.raises(crosslane.ArgumentError, match="64 hexadecimal digits"):
        crosslane.bridge(server.address, network="tls", key="short")
    with pytest.raises(crosslane.ArgumentError, match=r"/no/such cannot be read: No such file"):
        crosslane.bridge(server.address, network="tls", key=Path("/no/such"))
    with pytest.raises(crosslane.ArgumentError, match="is a text"):
        crosslane.bridge(server.address, network="tls", key=7)  # type: ignore[arg-type]
    again = pickle.loads(pickle.dumps(no_port.value))
    assert (str(again), again.kind, again.stage) == (str(no_port.value), again.kind, "connection")


def test_a_wait_ends_at_its_deadline(card: RemoteCard) -> None:
    data = os.urandom(16 * MIB)
    transfer = card.to_card(data, 0)
    with pytest.raises(crosslane.DeadlineError, match=r"16777216 B has not ended in 0\.001 s"):
        transfer.wait(deadline=0.001)
    assert not transfer.done
    assert transfer.wait(deadline=60).bytes == transfer.wait().bytes == len(data)


def test_a_transfer_fails_at_its_deadline(server: Server) -> None:
    # A server with little time ends a transfer before it has begun, and the connection stays.
    for deadline in (0.02 * 2**tries for tries in range(8)):
        with crosslane.bridge(server.address, network="tls") as client:
            card = client.card()
            late = card.to_card(bytes(64 * MIB), 0, deadline=deadline)
            behind = card.to_card(b"x", 0)
            with pytest.raises(crosslane.BridgeError, match="deadline") as caught:
                late.wait()
            assert caught.value.arrived_bytes < caught.value.total_bytes == 64 * MIB
            if caught.value.arrived_bytes == 0:
                continue
            # Data in flight might still arrive: the connection is not used again.
            with pytest.raises(crosslane.BridgeError) as after:
                behind.wait()
            assert (after.value.kind, after.value.stage) == ("link_down", "connection")
            break
    else:
        pytest.fail("no transfer had begun at its deadline")
    with crosslane.bridge(server.address, network="tls") as client:
        still_works(client.card())


def test_a_cancelled_transfer_says_so(server: Server) -> None:
    with crosslane.bridge(server.address, network="tls") as client:
        card = client.card()
        transfer, behind = card.to_card(bytes(64 * MIB), 0), card.to_card(b"x", 0)
        behind.cancel()
        transfer.cancel()
        for cancelled in (transfer, behind):
            with pytest.raises(crosslane.BridgeError, match="cancelled") as caught:
                cancelled.wait()
            assert caught.value.kind == "cancelled"
            assert caught.value.arrived_bytes < caught.value.total_bytes


def interrupted(server: Server) -> tuple[bytes, int]:
    """Data of which only the first bytes have arrived when their transfer was cancelled."""
    # The server says every tenth of a second how far it is.
    for size in (12, 48, 192):
        data = os.urandom(size * MIB)
        with crosslane.bridge(server.address, network="tls") as client:
            transfer = client.card().to_card(data, 0)
            while not transfer.arrived_bytes:
                time.sleep(0.001)
            transfer.cancel()
            try:
                transfer.wait()
            except crosslane.BridgeError as error:
                assert error.kind == "cancelled"
                assert 0 < error.arrived_bytes < len(data)
                return data, error.arrived_bytes
    pytest.fail("every transfer was faster than its cancellation")


def test_a_transfer_goes_on_where_one_has_failed(server: Server) -> None:
    data, first = interrupted(server)
    with crosslane.bridge(server.address, network="tls") as client:
        card = client.card()
        transfer = card.to_card(data, 0, first=first, checksum=True)
        assert transfer.wait().bytes == len(data) - first
        assert transfer.arrived_bytes == len(data)
        # Bytes that are there already stay as they are.
        back = bytearray(b"\x5a" * first + bytes(len(data) - first))
        card.from_card(back, 0, first=first).wait()
        assert back == b"\x5a" * first + data[first:]
        with pytest.raises(crosslane.ArgumentError, match="cannot go on from byte 64"):
            card.to_card(bytes(64), 0, first=64)
        with pytest.raises(OverflowError):
            card.to_card(bytes(64), 0, first=-1)
        still_works(card)


def test_stages_are_made_one_after_the_other(card: RemoteCard) -> None:
    data, back = os.urandom(MIB), bytearray(MIB)
    done = card.to_card(data, 0, naive=True).wait()
    assert (done.bytes, done.report["mode"]) == (MIB, "Naive")
    assert card.from_card(back, 0, naive=True, checksum=True).wait().report["mode"] == "Naive"
    assert back == data
    assert card.through_card(data, back, naive=True).wait().bytes == MIB
    with pytest.raises(crosslane.ArgumentError, match="moves all data"):
        card.to_card(data, 0, naive=True, first=1)


def test_a_server_describes_itself(client: BridgeClient, card: RemoteCard) -> None:
    card.to_card(bytes(4096), 0)
    found = client.survey()
    assert 0 < found["free_memory_bytes"] <= found["memory_bytes"]
    (own,) = found["cards"]
    assert (own["name"], own["kind"], own["outage"]) == ("fpga0", "engine", None)
    assert own["moved_bytes"] >= 4096
    assert own["transfers"] == 0
    assert all(0 <= free <= own["slots"] for free in own["free_slots"])
    with pytest.raises(crosslane.ArgumentError, match="a time in seconds"):
        client.survey(deadline=-1)
    busy = card.to_card(bytes(16 * MIB), 0)
    with pytest.raises(crosslane.DeadlineError, match="not described itself"):
        client.survey(deadline=0)
    busy.wait()
    client.close()
    with pytest.raises(crosslane.ClosedError, match="the connection is closed"):
        client.survey()


#: Arguments: the folder, the program, and the image; the "board" is a lab behind a socket.
PROGRAMMER = """#!/bin/sh
grep -q good "$3" || { echo "it is no bitstream" >&2; exit 3; }
[ -e "$1/pid" ] && kill -9 "$(cat "$1/pid")"
rm -f "$1/card"
"$2" lab serve kc705:crosslane --device kc705 --socket "$1/card" >"$1/log" 2>&1 &
echo $! >"$1/pid"
echo "$(wc -c <"$3") bytes, .${3##*.}"
"""
RELOAD_POLICY = """
[[client]]
name = "owner"
key_file = "owner.key"
[[client.allow]]
card = "board"
bytes = 0x4000_0000
access = "read-write"
[[client.allow]]
card = "board"
access = "reload"
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose name is short enough for a socket's, and for a line of the server's."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def test_a_card_is_reloaded_by_a_client(folder: Path) -> None:
    key, policy, image = (folder / name for name in ("owner.key", "policy.toml", "design.bit"))
    programmer = folder / "programmer"
    key.write_text("1" * 64)
    key.chmod(0o600)
    policy.write_text(RELOAD_POLICY)
    programmer.write_text(PROGRAMMER)
    programmer.chmod(0o700)
    image.write_bytes(b"a good design")
    command = [str(programmer), str(folder), str(PROGRAM)]
    subprocess.run([*command, str(image)], check=True, stdout=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 60
        while not (folder / "card").exists() and time.monotonic() < until:
            time.sleep(0.01)
        arguments = ["--policy", str(policy), "--reload-deadline", "20"]
        arguments += ["--programmer", "board=" + " ".join(command)]
        device = f"board=vfio-user:{folder / 'card'}"
        with (
            served(*arguments, device=device) as server,
            crosslane.bridge(server.address, network="tls", name="owner", key=key) as client,
        ):
            card = client.card("board")
            still_works(card)
            done = card.reload(image).wait()
            assert (done.bytes, done.said) == (13, "13 bytes, .bit")
            assert done.sha256 == hashlib.sha256(b"a good design").digest()
            assert "bytes=13" in repr(done)
            assert done.seconds > 0
            still_works(card)

            async def reload() -> crosslane.BridgeReloaded:
                return await card.reload(bytearray(b"good, too"), ending="rbf")

            assert asyncio.run(reload()).said == "9 bytes, .rbf"
            wrong: list[tuple[Callable[[], object], str]] = [
                (lambda: card.reload(Path("/no/such")), "/no/such: No such file"),
                (lambda: card.reload(b""), "at least one"),
                (lambda: card.reload(image, deadline=-1), "a time in seconds"),
                (lambda: card.reload("design.bit"), "no bytes"),  # type: ignore[arg-type]
            ]
            for call, words in wrong:
                with pytest.raises(crosslane.ArgumentError, match=words):
                    call()
            with pytest.raises(crosslane.BridgeError, match="ending"):
                card.reload(image, ending="../sh").wait()
            still_works(card)
            with pytest.raises(crosslane.BridgeError, match="it is no bitstream"):
                card.reload(b"a bad one").wait()
    finally:
        os.kill(int((folder / "pid").read_text()), signal.SIGKILL)


def test_a_signal_ends_a_wait(card: RemoteCard) -> None:
    transfer = card.to_card(bytes(64 * MIB), 0)
    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        transfer.wait()
        # It was faster than the signal.
        time.sleep(20)


def test_a_dead_server_is_an_error() -> None:
    with served() as server, crosslane.bridge(server.address, network="tls") as client:
        transfer = client.card().to_card(bytes(64 * MIB), 0)
        os.kill(server.process.pid, signal.SIGKILL)
        begun = time.monotonic()
        with pytest.raises(crosslane.BridgeError) as caught:
            transfer.wait()
        assert (caught.value.kind, caught.value.stage) == ("link_down", "connection")
        assert time.monotonic() - begun < 30


def test_a_closed_client_is_refused(server: Server) -> None:
    client = crosslane.bridge(server.address, network="tls")
    card = client.card()
    ended, data = card.to_card(b"x", 0), bytes(64 * MIB)
    # One behind the other: the last cannot have ended.
    *_, transfer = [card.to_card(data, 0) for _ in range(8)]
    assert ended.wait().bytes == 1
    client.close()
    client.close()
    assert client.closed
    assert "closed" in repr(client)
    assert ended.wait().bytes == 1
    calls: list[Callable[[], object]] = [
        transfer.wait,
        lambda: card.reload(b"x"),
        lambda: next(transfer.__await__()),
        lambda: card.to_card(b"x", 0),
        lambda: card.from_card(bytearray(4), 0),
        lambda: card.copy_to(card, 0, 0, 4),
    ]
    for call in calls:
        with pytest.raises(crosslane.ClosedError, match="the connection is closed"):
            call()


def test_a_client_is_refused_after_a_fork(card: RemoteCard, client: BridgeClient) -> None:
    transfer, buffer = card.to_card(bytes(4 * MIB), 0), client.buffer(4096)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            calls: list[Callable[[], object]] = [
                transfer.wait,
                buffer.close,
                lambda: card.to_card(b"x", 0),
                lambda: card.to_card(buffer, 0),
                lambda: client.network,
            ]
            for call in calls:
                with pytest.raises(crosslane.ClosedError, match="forked"):
                    call()
            client.close()
            del transfer, buffer, card, client, call, calls
            gc.collect()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    transfer.wait()
    still_works(card)


def test_objects_outlive_what_nobody_waits_for(server: Server, card: RemoteCard) -> None:
    for _ in range(20):
        card.to_card(bytes(4096), 0)
        card.from_card(bytearray(4096), 0)
    gc.collect()
    still_works(card)
    dropped = crosslane.bridge(server.address, network="tls").card().to_card(bytes(MIB), 0)
    gc.collect()
    assert dropped.wait().bytes == MIB


def test_a_program_may_end_without_closing(server: Server) -> None:
    program = f"""
import crosslane
client = crosslane.bridge({server.address!r}, network="tls")
client.card().to_card(bytes(4096), 0).wait()
left = client.card().to_card(bytes({64 * MIB}), 0)
"""
    done = subprocess.run([sys.executable, "-c", program], timeout=60, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


POLICY = """
[[client]]
name = "rnode"
key_file = "rnode.key"

[[client.allow]]
card = "fpga0"
from = 0x0
bytes = 0x1000
access = "read-write"
"""


@pytest.mark.parametrize("network", ["tls", "tcp"])
def test_keys_and_rights_are_those_of_the_policy(network: Any, tmp_path: Path) -> None:
    key, policy = tmp_path / "rnode.key", tmp_path / "policy.toml"
    key.write_bytes(subprocess.check_output([str(PROGRAM), "bridge", "key"]))
    key.chmod(0o600)
    policy.write_text(POLICY)
    with served("--policy", str(policy), network=network) as server:
        for own in (key, key.read_text().strip()):
            with crosslane.bridge(server.address, network=network, name="rnode", key=own) as client:
                still_works(client.card())
                with pytest.raises(crosslane.BridgeError, match="rnode") as caught:
                    client.card().to_card(bytes(64), 0x1000).wait()
                assert caught.value.stage == "request"
                still_works(client.card())
        for name, other in (("rnode", None), ("rnode", "00" * 32), ("stranger", key)):
            with pytest.raises(crosslane.BridgeError) as denied:
                crosslane.bridge(server.address, network=network, name=name, key=other)
            assert denied.value.stage == "connection"
            # TLS has its own words for a key that does not fit.
            if network == "tcp" or name == "stranger":
                assert denied.value.kind == "denied"
                assert "this client and this key do not fit" in str(denied.value)
