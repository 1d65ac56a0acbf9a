#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The bridge's own speed on this machine, beside programs that move as many bytes: iperf3, scp, cp,
ucx_perftest and fi_rma_bw, those that are installed. Cards cost nothing: `mem:` and `file:`.

Both ends run on this machine, one way after the other, in rounds: what counts are the ratios of one
round, of which the median is printed, with processor seconds for each GiB of both ends. `--write`
also writes the tables into docs/bridge.md.
"""

import argparse
import contextlib
import getpass
import os
import re
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from checks import ROOT
from speed import part

DOCUMENT = ROOT / "docs" / "bridge.md"
TABLES = "bench-bridge"
GIB = 1 << 30
TICKS = os.sysconf("SC_CLK_TCK")
# Longest wait for a server to say where it is, and for a way to end, seconds.
PATIENCE_S = 20
WAY_S = 300

# Ratios that are aimed at: way, compared with, least ratio.
RATIOS = [
    ("put of a file, tls sealed", "scp", 3.0),
    ("put, tls sealed", "iperf3, one stream", 0.3),
    ("put, tls not sealed", "iperf3, one stream", 0.5),
    ("put of a file, shm", "cp", 0.5),
]
# Processor seconds for each GiB at the server: way, most.
COSTS = [("put, tls not sealed", 0.6), ("put, tls sealed", 1.2)]


class MissingError(Exception):
    """A program that is not installed, or cannot be used here."""


def find(program: str) -> str:
    """The path of a program; those of root are found by others too."""
    found = shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    if not found:
        raise MissingError(f"{program} is not installed")
    return found


def free_port() -> int:
    """A port of this machine that nothing listens at."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_for(port: int) -> None:
    """Waits until something listens at a port."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.02)
    raise MissingError(f"nothing listens at port {port}")


def processor_s(pid: int) -> float:
    """Processor seconds of a process and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15]) / TICKS


def children_s() -> float:
    """Processor seconds of the children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(command: list[str]) -> tuple[float, float]:
    """Wall and processor seconds of a program that has to succeed."""
    begun, before = time.monotonic(), children_s()
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAY_S)
    took = time.monotonic() - begun
    if done.returncode != 0:
        raise MissingError(f"{Path(command[0]).name}: {(done.stderr or done.stdout).strip()}")
    return took, children_s() - before


class Ways:
    """Everything that is measured: each way is bytes, seconds, and processor seconds of client and
    server."""

    def __init__(self, crosslane: str, folder: Path, stack: contextlib.ExitStack, mib: int):
        self.crosslane, self.folder, self.stack = crosslane, folder, stack
        self.bytes = mib << 20
        self.sent, self.got = folder / "sent", folder / "got"
        with self.sent.open("wb") as file:
            for _ in range(mib):
                file.write(os.urandom(1 << 20))
        self.got.touch()
        os.truncate(self.got, self.bytes)
        self.key = folder / "key"
        self.key.write_text(subprocess.check_output([crosslane, "bridge", "key"], text=True))
        self.key.chmod(0o600)
        self.policy = folder / "policy.toml"
        allow = '[[client.allow]]\ncard = "{}"\nbytes = {}\naccess = "read-write"\n'
        rights = "".join(allow.format(card, self.bytes) for card in ("memory", "file"))
        self.policy.write_text(f'[[client]]\nname = "bench"\nkey_file = "key"\n{rights}')

    def start(self, command: list[str], **options) -> subprocess.Popen:
        """A server, ended with the measurement."""
        options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL} | options
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, **options)
        self.stack.callback(server.wait)
        self.stack.callback(server.kill)
        return server

    def bridge(self, network: str, more: list[str]) -> tuple[subprocess.Popen, str]:
        """A server of memory and of a file; also its address."""
        cards = [f"memory=mem:{self.bytes}", f"file=file:{self.got}"]
        command = [self.crosslane, "bridge", "serve", "--network", network, *more]
        command += ["--listen", "127.0.0.1:0"]
        command += [word for card in cards for word in ("--device", card)]
        server = self.start(command, stdout=subprocess.PIPE, text=True)
        line = server.stdout.readline()
        if " at " not in line:
            raise MissingError(f"no bridge over {network} (crosslane bridge providers says why)")
        return server, line.rsplit(None, 1)[1]

    def bridged(self, network: str, is_file: bool, key: bool, trust: bool):
        """A put from memory to memory, or from file to file."""
        trusts = ["--trust-network"] if trust else []
        keys = ["--policy", str(self.policy)] if key else []
        server, address = self.bridge(network, [*keys, *trusts])
        identity = ["--as", "bench", "--key", str(self.key)] if key else []
        common = ["--network", network, *identity, *trusts]
        if is_file:
            command = ["put", str(self.sent), f"{address}/file", *common]
        else:
            # The data are made and compared outside of the time that counts.
            command = ["bench", f"{address}/memory", "--path", "put", "--size", str(self.bytes)]
            command += ["--iterations", "3", "--json", *common]

        def way():
            before = processor_s(server.pid)
            if is_file:
                took, client = run([self.crosslane, "bridge", *command])
                return self.bytes, took, client, processor_s(server.pid) - before
            done = subprocess.run(
                [self.crosslane, "bridge", *command], capture_output=True, text=True, timeout=WAY_S
            )
            if done.returncode != 0:
                raise MissingError(done.stderr.strip())
            rate = float(re.search(r'"bytes_per_second": ?([\d.e+]+)', done.stdout)[1])
            # Of the transfer of median time, by the server's own count.
            server_ps = re.search(r'"processor_ps": ?(\d+)', done.stdout)
            return self.bytes, self.bytes / rate, None, int(server_ps[1]) / 1e12

        return way

    def iperf3(self):
        """One stream of iperf3."""
        program, port = find("iperf3"), free_port()
        server = self.start([program, "-s", "-p", str(port)])
        wait_for(port)

        def way():
            before = processor_s(server.pid)
            command = [program, "-c", "127.0.0.1", "-p", str(port), "-n", str(self.bytes), "-J"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=WAY_S)
            if done.returncode != 0:
                raise MissingError(f"iperf3: {done.stdout.strip()[-200:]}")
            # The last sum is that of the receiver; set-up is left out.
            seconds = float(re.findall(r'"seconds":\s*([\d.e-]+)', done.stdout)[-1])
            return self.bytes, seconds, None, processor_s(server.pid) - before

        return way

    def scp(self):
        """A copy from file to file by scp, through a server of its own."""
        scp, sshd, keygen = find("scp"), find("sshd"), find("ssh-keygen")
        port, folder = free_port(), self.folder
        for name in ("host", "user"):
            subprocess.run(
                [keygen, "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True
            )
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        options = {
            "HostKey": folder / "host",
            "AuthorizedKeysFile": folder / "user.pub",
            "ListenAddress": "127.0.0.1",
            "PidFile": "none",
            "StrictModes": "no",
            "UsePAM": "no",
            "Subsystem": "sftp internal-sftp",
        }
        words = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
        server = self.start([sshd, "-D", "-e", "-f", "/dev/null", "-p", str(port), *words])
        wait_for(port)
        client = {"StrictHostKeyChecking": "no", "UserKnownHostsFile": "/dev/null"}
        words = [word for key, value in client.items() for word in ("-o", f"{key}={value}")]
        target = f"{getpass.getuser()}@127.0.0.1:{self.got}"
        command = [scp, "-q", "-P", str(port), "-i", str(folder / "user"), *words]

        def way():
            before = processor_s(server.pid)
            took, used = run([*command, str(self.sent), target])
            # The server's child of this session ends a moment after the client.
            time.sleep(0.1)
            return self.bytes, took, used, processor_s(server.pid) - before

        return way

    def cp(self):
        """A copy from file to file by cp, into pages that are there."""
        program = find("cp")

        def way():
            took, used = run([program, "--reflink=never", str(self.sent), str(self.got)])
            # The pages of the file that others map are the same ones.
            return self.bytes, took, used, 0.0

        return way

    def ucx(self):
        """UCX over tcp: put bandwidth."""
        program, port = find("ucx_perftest"), free_port()
        environment = os.environ | {"UCX_TLS": "tcp", "UCX_NET_DEVICES": "lo"}
        size = 1 << 20
        count = self.bytes // size

        def way():
            server = subprocess.Popen(
                [program, "-p", str(port)],
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            try:
                wait_for_listener(port)
                words = ["-t", "ucp_put_bw", "-s", str(size), "-n", str(count), "-w", "10", "-f"]
                command = [program, "127.0.0.1", "-p", str(port), *words]
                done = subprocess.run(
                    command, env=environment, capture_output=True, text=True, timeout=WAY_S
                )
                numbers = re.findall(r"[\d.]+", done.stdout.strip().splitlines()[-1])
                if done.returncode != 0 or len(numbers) < 6:
                    raise MissingError(
                        f"ucx_perftest: {(done.stderr or done.stdout).strip()[-200:]}"
                    )
                # Columns: iterations, latencies (typical, average, overall), MB/s average.
                rate = float(numbers[4]) * (1 << 20)
            finally:
                server.kill()
                server.wait()
            return self.bytes, self.bytes / rate, None, None

        return way

    def fi_rma_bw(self):
        """The benchmark of libfabric itself; Debian has no package of it."""
        program, port = find("fi_rma_bw"), free_port()
        count = self.bytes >> 20
        words = ["-p", "tcp", "-e", "msg", "-o", "write", "-S", str(1 << 20), "-I", str(count)]

        def way():
            server = subprocess.Popen([program, *words, "-B", str(port)], stdout=subprocess.DEVNULL)
            time.sleep(0.5)
            try:
                took, used = run([program, *words, "-P", str(port), "127.0.0.1"])
            finally:
                server.kill()
                server.wait()
            return self.bytes, took, used, None

        return way


def wait_for_listener(port: int) -> None:
    """Waits until a port is listened at, without a connection that a server would take."""
    end, wanted = time.monotonic() + PATIENCE_S, f":{port:04X} "
    while time.monotonic() < end:
        lines = Path("/proc/net/tcp").read_text().splitlines()
        if any(wanted in line and " 0A " in line for line in lines):
            return
        time.sleep(0.02)
    raise MissingError(f"nothing listens at port {port}")


def measured(ways: Ways, rounds: int) -> tuple[dict[str, list], list[str]]:
    """The measurements of each way, by rounds, and what is missing."""
    makers = {
        "cp": ways.cp,
        "scp": ways.scp,
        "iperf3, one stream": ways.iperf3,
        "ucx_perftest, put over tcp": ways.ucx,
        "fi_rma_bw, write over tcp": ways.fi_rma_bw,
        "put, tls not sealed": lambda: ways.bridged("tls", False, False, True),
        "put, tls sealed": lambda: ways.bridged("tls", False, True, False),
        "put, shm": lambda: ways.bridged("shm", False, False, False),
        "put of a file, tls not sealed": lambda: ways.bridged("tls", True, False, True),
        "put of a file, tls sealed": lambda: ways.bridged("tls", True, True, False),
        "put of a file, shm": lambda: ways.bridged("shm", True, False, False),
    }
    made, missing, found = {}, [], {}
    for name, make in makers.items():
        try:
            made[name] = make()
        except MissingError as error:
            missing.append(f"{name}: {error}")
    for _ in range(rounds):
        for name, way in list(made.items()):
            try:
                found.setdefault(name, []).append(way())
            except MissingError as error:
                missing.append(f"{name}: {error}")
                del made[name]
                found.pop(name, None)
    return found, missing


def tables(found: dict[str, list], missing: list[str]) -> str:
    """What is printed, as Markdown."""

    def cost(values: list) -> str:
        known = [value / size * GIB for size, value in values if value is not None]
        return f"{statistics.median(known):.2f}" if known else "-"

    lines = ["| way | MB/s | client, CPU s/GiB | server, CPU s/GiB |", "| --- | --: | --: | --: |"]
    for name, runs in found.items():
        rate = statistics.median(size / seconds / 1e6 for size, seconds, _, _ in runs)
        client = cost([(size, used) for size, _, used, _ in runs])
        server = cost([(size, used) for size, _, _, used in runs])
        lines.append(f"| {name} | {rate:.0f} | {client} | {server} |")
    lines += ["", "| ratio | measured | aim |", "| --- | --: | --: |"]
    for name, other, least in RATIOS:
        if name in found and other in found:
            pairs = zip(found[name], found[other], strict=True)
            ratio = statistics.median(b[1] / a[1] for a, b in pairs)
            lines.append(f"| {name} / {other} | {ratio:.2f} | {least} |")
    for name, most in COSTS:
        if name in found:
            runs = found[name]
            own = statistics.median(used / size * GIB for size, _, _, used in runs)
            lines.append(f"| CPU s/GiB at the server, {name} | {own:.2f} | at most {most} |")
    lines += [f"\nNot measured: {line}." for line in missing]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("crosslane", help="the program")
    parser.add_argument("--mib", type=int, default=512, help="MiB of each way [default: 512]")
    parser.add_argument("--rounds", type=int, default=5, help="rounds [default: 5]")
    parser.add_argument("--write", action="store_true", help="write the tables into docs/bridge.md")
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        # In memory: no disk takes part.
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm")))
        ways = Ways(arguments.crosslane, folder, stack, arguments.mib)
        text = tables(*measured(ways, arguments.rounds))
    print(text, end="")
    if arguments.write:
        DOCUMENT.write_text(part(DOCUMENT.read_text(), TABLES, text.rstrip("\n")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
