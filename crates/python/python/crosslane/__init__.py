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
    NetworkError,
    OpenError,
    PanicError,
    PlanError,
    RunError,
    Stuck,
    SweepError,
    TransferError,
)
from crosslane._native import (
    Buffer,
    Card,
    Check,
    Completed,
    Lab,
    MemoryCard,
    NetworkProcessor,
    Peer,
    PeerMemory,
    Plan,
    Session,
    SlotReceiver,
    SlotSender,
    Transfer,
    Window,
    __version__,
    open,
    pattern,
)
from crosslane._results import Result, Rows, Why
from crosslane._sweep import sweep

__all__ = [
    "ArgumentError",
    "Buffer",
    "BusError",
    "Card",
    "Check",
    "ClosedError",
    "Completed",
    "DeadlineError",
    "DriverError",
    "Error",
    "ExperimentError",
    "ExplainError",
    "Lab",
    "LabError",
    "MemoryCard",
    "NetworkError",
    "NetworkProcessor",
    "OpenError",
    "PanicError",
    "Peer",
    "PeerMemory",
    "Plan",
    "PlanError",
    "Result",
    "Rows",
    "RunError",
    "Session",
    "SlotReceiver",
    "SlotSender",
    "Stuck",
    "SweepError",
    "Transfer",
    "TransferError",
    "Why",
    "Window",
    "__version__",
    "open",
    "pattern",
    "sweep",
]
