# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A sweep on the ranks of an MPI job: `mpirun -n 2 python -m mpi4py.futures mpi_sweep.py GRID`."""

from __future__ import annotations

import json
import sys

from crosslane import Lab, sweep
from mpi4py import MPI
from mpi4py.futures import MPIPoolExecutor


def rank() -> int:
    """The number of the process that a worker is."""
    return MPI.COMM_WORLD.Get_rank()


if __name__ == "__main__":
    with MPIPoolExecutor() as executor:
        ranks = [executor.submit(rank).result() for _ in range(4)]
        rows = sweep(Lab.load("minimal"), json.loads(sys.argv[1]), executor)
    print(json.dumps({"rows": rows, "ranks": ranks}))
