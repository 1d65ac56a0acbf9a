# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Code outside in the place of a lab's endpoint: TLPs both ways, times, its host, and errors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import crosslane
import pytest
from crosslane import Host, Port, RunningLab, Tlp

LAB = crosslane.Lab.load(Path(__file__).parents[3] / "examples/own_core/lab.toml")
FAR_PS = 1_000_000_000


@pytest.fixture
def running() -> Iterator[RunningLab]:
    """A lab whose card0 is outside."""
    with LAB.attach("card0") as running:
        yield running


@pytest.fixture
def port(running: RunningLab) -> Port:
    """The port of card0."""
    return running.port()


@pytest.fixture
def host(running: RunningLab) -> Host:
    """The host of card0."""
    return running.host()


def arrived(port: Port, until_ps: int = FAR_PS) -> Tlp:
    """The next TLP."""
    assert port.wait(until_ps)
    tlp = port.receive()
    assert tlp is not None
    return tlp


def test_registers_are_those_of_the_code_outside(
    running: RunningLab, port: Port, host: Host
) -> None:
    stored = host.write_register("card0", 0, 0x10, 0x12345678)
    write = arrived(port)
    assert (write.kind, write.bar, write.offset, write.data) == (
        "memory_write",
        0,
        0x10,
        bytes.fromhex("78563412"),
    )
    assert (write.fmt, write.type, write.length_dw, write.first_be) == (2, 0, 1, 0xF)
    assert stored.done and write.time_ps == running.now_ps > stored.begun_ps
    loaded = host.read_register("card0", 0, 0x18)
    read = arrived(port)
    assert (read.kind, read.nbytes, read.offset) == ("memory_read", 4, 0x18)
    assert read.time_ps is not None
    # The code outside takes 80 ns.
    running.advance(read.time_ps + 80_000)
    port.send(read.completion(b"\x01\x02\x03\x04", completer=port.id))
    assert loaded.wait() == 0x04030201
    ended = loaded.ended_ps
    # The way there and back are links, switch, and latencies of the ports: exact, and the same in
    # every run.
    assert ended is not None
    assert ended - loaded.begun_ps == 853_299
    refused = host.load("card0", 0, 0, 8)
    port.send(arrived(port).refusal(completer=port.id, abort=True))
    with pytest.raises(crosslane.BusError, match="Completer Abort"):
        refused.wait()


def test_bytes_are_those_of_the_specification() -> None:
    write = Tlp.memory_write(0x12_3456_7003, b"\xaa\xbb", requester=0x0100)
    assert bytes(write).hex(" ", 4) == "60000002 01000018 00000012 34567000 000000aa bb000000"
    assert Tlp(bytes(write)).data == b"\xaa\xbb"
    read = Tlp.memory_read(0x1004, 8, tag=0x1A5, requester=0x0100)
    assert bytes(read).hex(" ", 4) == "00080002 0100a5ff 00001004"
    answer = read.completion(b"1234", completer=0x0200, skip=4)
    assert bytes(answer).hex(" ", 4) == "4a080001 02000004 0100a508 31323334"
    assert (answer.byte_count, answer.address, answer.data) == (4, 8, b"1234")


def test_another_reader_understands_the_bytes() -> None:
    core = pytest.importorskip("cocotbext.pcie.core.tlp")
    for tlp in (
        Tlp.memory_write(0x12_3456_7003, bytes(range(250)), requester=0x1234),
        Tlp.memory_write(0xFFC, b"abcd", requester=0x1234),
        Tlp.memory_read(0x1000, 4096, tag=0x2A5, requester=0x1234),
        Tlp.memory_read(0x1001, 2, tag=1, requester=0x1234).completion(b"ab", completer=0x21),
        Tlp.memory_read(0x1001, 2, tag=1, requester=0x1234).refusal(completer=0x21),
    ):
        other = core.Tlp.unpack(bytes(tlp))
        assert other.check()
        assert bytes(other.pack()) == bytes(tlp)
        assert (other.tag, int(other.requester_id)) == (tlp.tag, tlp.requester)
        assert other.get_size() == len(bytes(tlp))
        assert bytes(Tlp(bytes(other.pack()))) == bytes(tlp)


def test_the_core_reaches_the_hosts_memory(running: RunningLab, port: Port, host: Host) -> None:
    memory = host.memory("card0", 8192).wait()
    memory.write(0, bytes(range(256)) * 4)
    port.send(Tlp.memory_read(memory.address, 256, tag=5, requester=port.id))
    data = b""
    while len(data) < 256:
        part = arrived(port)
        assert (part.kind, part.tag) == ("completion_data", 5)
        data += part.data
    assert data == memory.read(0, 256)
    seen = host.wait_memory(memory, 4096)
    running.advance(running.now_ps + 1000)
    port.send(Tlp.memory_write(memory.address + 4096, b"\x2a\0\0\0", requester=port.id))
    assert seen.wait() == 42


def test_interrupts_are_the_messages_of_the_core(port: Port, host: Host) -> None:
    enabled = host.enable_interrupts("card0")
    table = bytearray(16)
    while not enabled.done:
        tlp = arrived(port)
        assert tlp.offset is not None and tlp.offset >= 0x800
        at = tlp.offset - 0x800
        if tlp.kind == "memory_write":
            table[at : at + 4] = tlp.data
        else:
            port.send(tlp.completion(bytes(table[at : at + 4]), completer=port.id))
            enabled.wait()
    assert port.function["msix_enabled"]
    address, data = int.from_bytes(table[:8], "little"), bytes(table[8:12])
    waiting = host.wait_interrupt("card0")
    assert not waiting.done
    port.send(Tlp.memory_write(address, data, requester=port.id))
    assert waiting.wait() == 1
    with pytest.raises(crosslane.BusError, match="interrupt 0"):
        host.wait_interrupt("card0", within_ps=1000).wait()


def test_a_neighbour_is_in_the_way(running: RunningLab, port: Port, host: Host) -> None:
    def took() -> int:
        """Time of 20 writes of the core, from the first to the last in memory."""
        begun = running.now_ps
        for number in range(20):
            while not port.room():
                running.advance(running.now_ps + 4000)
            tlp = Tlp.memory_write(memory.address, bytes([number]) * 256, requester=port.id)
            port.send(tlp)
        last = host.wait_memory(memory, 252, 0x12121212)
        running.advance(running.now_ps + 1)
        while memory.read(252, 4) != b"\x13" * 4:
            running.advance(running.now_ps + 1000)
        del last
        return running.now_ps - begun

    memory = host.memory("card0", 4096).wait()
    alone = took()
    memory.write(0, bytes(256))
    (flow,) = running.traffic("card1:host:write:4K", operations=50)
    beside = took()
    assert 1.5 < beside / alone < 3, (alone, beside)
    running.advance(FAR_PS)
    report = flow.report()
    assert (report["operations"], report["bytes"], report["failed"]) == (50, 50 * 4096, 0)


def test_credits_refuse_what_has_no_room(running: RunningLab, port: Port, host: Host) -> None:
    memory = host.memory("card0", 4096).wait()
    write = Tlp.memory_write(memory.address, bytes(256), requester=port.id)
    count = 0
    while port.room("posted"):
        port.send(write)
        count += 1
    assert 0 < count < 20
    with pytest.raises(crosslane.PortError, match="queue to the link is full") as refused:
        port.send(write)
    assert refused.value.kind == "busy"
    running.advance(running.now_ps + 10_000_000)
    port.send(write)


def test_held_tlps_hold_their_credits(running: RunningLab, port: Port, host: Host) -> None:
    for number in range(200):
        host.write_register("card0", 0, 4 * number % 1024, number)
    running.advance(FAR_PS)
    # The port has 64 headers for posted requests.
    assert port.waiting == 64
    held = [port.receive(hold=True) for _ in range(64)]
    assert port.receive() is None
    running.advance(FAR_PS + 1_000_000)
    assert port.waiting == 0
    for tlp in held:
        assert tlp is not None
        port.release(tlp)
    running.advance(FAR_PS + 10_000_000)
    assert port.waiting == 64
    assert isinstance(held[0], Tlp)
    with pytest.raises(crosslane.ArgumentError, match="holds no receive buffer"):
        port.release(held[0])


def test_a_tlp_belongs_to_its_port() -> None:
    with LAB.attach("card0", "card1") as running:
        first, second = running.port("card0"), running.port("card1")
        for name in ("card0", "card1"):
            running.host().write_register(name, 0, 0, 1)
        running.advance(FAR_PS)
        tlp = first.receive(hold=True)
        assert tlp is not None and second.receive(hold=True) is not None
        with pytest.raises(crosslane.ArgumentError, match="no receive buffer of this port"):
            second.release(tlp)
        first.release(tlp)


def test_bad_tlps_are_refused_by_their_reason(port: Port, host: Host) -> None:
    write = bytes(Tlp.memory_write(0x1000, bytes(8), requester=port.id))
    other = Tlp.memory_write(0x1000, bytes(8), requester=port.id ^ 0x100)
    long = Tlp.memory_write(0x1000, bytes(512), requester=port.id)
    read = Tlp.memory_read(0x1000, 4, tag=999, requester=port.id)
    answer = Tlp.memory_read(0x1000, 4, tag=1, requester=0).completion(b"1234", completer=port.id)
    refused: list[tuple[object, str, str]] = [
        (b"", "of 12 B by its header has 0 B", "data"),
        (write[:-1], "a TLP of 20 B by its header has 19 B", "data"),
        (write + b"\0", "a TLP of 20 B by its header has 21 B", "data"),
        (b"\x04" + write[1:], "Type 0b00100", "unsupported"),
        (write[:7] + b"\x5f" + write[8:], "byte enables", "data"),
        (other, "the endpoint is", "invalid_argument"),
        (long, "Max_Payload_Size, 256 B", "invalid_argument"),
        (read, "the host has enabled 256 tags", "invalid_argument"),
        (answer, "no read of 00:00.0 with tag 1", "invalid_argument"),
    ]
    for tlp, words, kind in refused:
        with pytest.raises(crosslane.PortError, match=words) as raised:
            port.send(tlp)  # type: ignore[arg-type]
        assert raised.value.kind == kind, words
    for bad in ("text", None, 5, bytearray(5000)):
        with pytest.raises(crosslane.ArgumentError):
            port.send(bad)  # type: ignore[arg-type]
    for nbytes, address in ((0, 0), (4097, 0), (8, 0xFFC)):
        with pytest.raises(crosslane.ArgumentError, match="boundary of 4 KiB"):
            Tlp.memory_read(address, nbytes, tag=0, requester=0)
    host.config_write("card0", 4, 0, 0b0011)
    with pytest.raises(crosslane.PortError, match="Bus Master Enable is off") as raised:
        port.send(write)
    assert raised.value.kind == "denied"


def test_time_does_not_go_back(running: RunningLab, port: Port) -> None:
    running.advance(5000)
    assert running.now_ps == 5000
    running.advance(5000)
    for call in (running.advance, port.wait):
        with pytest.raises(crosslane.ArgumentError, match="cannot go back to 4999 ps: it is 5000"):
            call(4999)
        with pytest.raises(crosslane.ArgumentError, match="a run ends at 1000 s"):
            call(2**62)
    with pytest.raises(crosslane.PortError, match="it begins at 6 ns, and it is 5 ns"):
        port.send(Tlp.memory_write(0x1000, b"1234", requester=port.id), begun_ps=6000)
    assert not port.wait(6000) and running.now_ps == 6000


def test_places_that_are_taken_or_missing_are_refused() -> None:
    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: LAB.attach("card0", "card0"), "card0 is attached twice"),
        (lambda: LAB.attach(), "an endpoint is missing; there are card0, card1"),
        (lambda: LAB.attach("card7"), "card7"),
        (lambda: LAB.attach("switch0"), "switch0"),
    ]
    for call, words in wrong:
        with pytest.raises(crosslane.Error, match=words):
            call()
    with LAB.attach("card0", "card1") as running:
        assert running.port("card1").id != running.port("card0").id
        with pytest.raises(crosslane.ArgumentError, match="attached are card0, card1"):
            running.port()
        with pytest.raises(crosslane.ArgumentError, match="card2 is not attached"):
            running.port("card2")
        with pytest.raises(crosslane.ArgumentError, match="name a host: host0"):
            running.host("host1")
        with pytest.raises(crosslane.ArgumentError, match="card1 cannot have flows"):
            running.traffic("card1:host:write:4K")
        with pytest.raises(crosslane.ArgumentError, match="no endpoint card9"):
            running.host().config_read("card9", 0)
        with pytest.raises(crosslane.BusError):
            running.host().write_register("card0", 3, 0, 1).wait()


def test_a_closed_lab_is_a_closed_lab() -> None:
    running = LAB.attach("card0")
    port, host = running.port(), running.host()
    memory = host.memory("card0", 4096).wait()
    operation = host.read_register("card0", 0, 0)
    running.close()
    running.close()
    assert running.closed
    calls: list[Callable[[], object]] = [
        lambda: running.advance(5),
        lambda: running.now_ps,
        lambda: port.receive(),
        lambda: port.send(b"\0" * 12),
        lambda: port.wait(5),
        lambda: host.sleep(5),
        lambda: memory.read(),
        lambda: memory.write(0, b"1"),
        lambda: operation.wait(),
    ]
    for number, call in enumerate(calls):
        if number == 3:
            continue  # bytes are looked at first
        with pytest.raises(crosslane.ClosedError, match="lab own-core: it is closed"):
            call()


def test_errors_of_ports_end_the_lab() -> None:
    with pytest.raises(crosslane.RunError, match="routes nowhere"):  # noqa: SIM117
        with LAB.attach("card0") as running:
            port = running.port()
            port.send(Tlp.memory_write(0xF000_0000, b"1234", requester=port.id))
            running.advance(FAR_PS)
            assert len(running.errors) == 1


def test_a_fork_has_no_lab(running: RunningLab) -> None:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            running.advance(5)
        except crosslane.ClosedError:
            status = 0
        os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    running.advance(5)


def test_an_iommu_maps_what_the_host_gives() -> None:
    running = crosslane.Lab.load("pciebench:iommu").attach("nfp")
    port, host = running.port(), running.host()
    memory = host.memory("nfp", 4096, huge=False).wait()
    seen = host.wait_memory(memory, 0)
    port.send(Tlp.memory_write(memory.address, b"\x07\0\0\0", requester=port.id))
    assert seen.wait() == 7
    assert not running.errors
    port.send(Tlp.memory_write(memory.address + 4096, b"1234", requester=port.id))
    running.advance(running.now_ps + FAR_PS)
    with pytest.raises(crosslane.RunError, match="IOMMU fault: nfp"):
        running.close()


def test_runs_are_the_same_each_time() -> None:
    def times() -> list[int | None]:
        with LAB.attach("card0") as running:
            running.traffic("card1:host:read:512", operations=20)
            host, port = running.host(), running.port()
            for number in range(5):
                host.write_register("card0", 0, 4 * number, number)
            running.advance(FAR_PS)
            found = [port.receive() for _ in range(5)]
            return [tlp.time_ps if tlp else None for tlp in found]

    first = times()
    assert None not in first and first == times()
