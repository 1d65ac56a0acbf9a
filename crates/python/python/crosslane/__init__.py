# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Labs of PCI Express topologies, and transfers with cards, simulated and real.

>>> import crosslane
>>> lab = crosslane.Lab.load("minimal")
>>> result = lab.run("card0:host:write:4K")
>>> print(result.why().kinds)
['link']
"""

from crosslane._errors import (
    ArgumentError,
    BusError,
    ClosedError,
    DeadlineError,
    DriverError,
    Error,
    ExperimentError,
    ExplainError,
    LabError,
    OpenError,
    PanicError,
    PortError,
    RunError,
    Stuck,
    SweepError,
    TransferError,
)
from crosslane._native import (
    Buffer,
    Card,
    Completed,
    Flow,
    Host,
    HostMemory,
    Lab,
    Operation,
    Port,
    RunningLab,
    Session,
    Tlp,
    Transfer,
    __version__,
    open,
)
from crosslane._results import Result, Rows, Why
from crosslane._sweep import sweep

__all__ = [
    "ArgumentError",
    "Buffer",
    "BusError",
    "Card",
    "ClosedError",
    "Completed",
    "DeadlineError",
    "DriverError",
    "Error",
    "ExperimentError",
    "ExplainError",
    "Flow",
    "Host",
    "HostMemory",
    "Lab",
    "LabError",
    "OpenError",
    "Operation",
    "PanicError",
    "Port",
    "PortError",
    "Result",
    "Rows",
    "RunError",
    "RunningLab",
    "Session",
    "Stuck",
    "SweepError",
    "Tlp",
    "Transfer",
    "TransferError",
    "Why",
    "__version__",
    "open",
    "sweep",
]
