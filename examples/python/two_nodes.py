#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
r"""Moves arrays between the cards of two nodes, with an MPI rank on each.

Every node has a bridge's server with a card (`crosslane bridge serve`). Rank 0 puts an array into
the card of rank 1; rank 1 takes it out, changes it, and has its server copy it into the card of
rank 0, from which rank 0 takes it. Data go by the bridge, words such as addresses by MPI.

    mpirun -n 2 python -m mpi4py two_nodes.py                          # servers with cards of a lab
    mpirun --host node0,node1 python -m mpi4py two_nodes.py node0:7471 node1:7471 \
        --as rnode --key rnode.key

`python -m mpi4py` ends both ranks when one of them fails.
"""

import argparse
import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import crosslane
import numpy
from mpi4py import MPI

ADDRESS = 0x1000


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("servers", nargs="*", help="server of each rank; none: one is started")
    parser.add_argument("--network", help="verbs, efa, shm, tls or tcp; the fastest that fits")
    parser.add_argument(
        "--as", dest="name", default="anybody", help="name in the servers' policies"
    )
    parser.add_argument("--key", type=Path, help="file with the key that the servers have, too")
    parser.add_argument("--mib", type=int, default=4, help="size of the array")
    return parser.parse_args()


@contextlib.contextmanager
def server(network: str | None) -> Iterator[str]:
    """Starts a server of this node whose card is a lab's; its address."""
    program = os.environ.get("CROSSLANE_PROGRAM", "crosslane")
    command = [program, "bridge", "serve", "--device", "lab:sbdt:crosslane"]
    command += ["--listen", "127.0.0.1:0", "--network", network or "auto"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            # "serving fpga0 (lab:sbdt:crosslane) at 127.0.0.1:40123"
            said = process.stdout.readline() if process.stdout else ""
            if " at " not in said:
                raise SystemExit(f"the server of this node has not begun: {' '.join(command)}")
            yield said.split()[-1]
        finally:
            process.terminate()


def main() -> None:
    """The work of a rank."""
    world = MPI.COMM_WORLD
    rank = world.Get_rank()
    given = arguments()
    if world.Get_size() != 2 or len(given.servers) not in (0, 2):
        raise SystemExit("two ranks are needed (mpirun -n 2), and two servers or none")

    def moved(what: str, done: crosslane.BridgeCompleted) -> None:
        rate = done.bytes_per_second / 1e6
        print(f"rank {rank}: {what}: {done.bytes} B, {rate:.1f} MB/s", flush=True)

    with contextlib.ExitStack() as stack:
        own = given.servers[rank] if given.servers else stack.enter_context(server(given.network))
        cards = [
            stack.enter_context(
                crosslane.bridge(at, network=given.network, name=given.name, key=given.key)
            ).card()
            for at in world.allgather(own)
        ]
        near, far = cards[rank], cards[1 - rank]
        data = numpy.random.default_rng(7).random((given.mib, 1 << 17))
        back = numpy.empty_like(data)
        if rank == 0:
            moved("array to the card of node 1", far.to_card(data, ADDRESS, checksum=True).wait())
            world.Barrier()
            world.Barrier()
            moved("array from the own card", near.from_card(back, ADDRESS, checksum=True).wait())
            same = bool((back == -data).all())
        else:
            world.Barrier()
            moved("array from the own card", near.from_card(back, ADDRESS, checksum=True).wait())
            same = bool((back == data).all())
            near.to_card(-back, ADDRESS).wait()
            moved("from card to card", near.copy_to(far, ADDRESS, ADDRESS, data.nbytes).wait())
            world.Barrier()
        if not same:
            raise SystemExit(f"rank {rank}: the array has changed on its way")
        print(f"rank {rank}: every number is as it should be", flush=True)
        # Nobody ends a server that the other still uses.
        world.Barrier()


if __name__ == "__main__":
    main()
