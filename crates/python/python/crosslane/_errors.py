# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Exceptions, with the names of the Rust errors; `Error` is the base of all."""

from __future__ import annotations

from typing import Any


class Error(Exception):
    """Base of all exceptions of this package."""

    #: What a caller can do about it: `not_found`, `busy`, `unsupported`, `invalid_argument`,
    #: `timeout`, `link_down`, `denied`, `data`, `cancelled` or `failed`.
    kind: str

    def __init__(self, message: str, kind: str = "failed", **details: Any) -> None:
        super().__init__(message)
        self.kind = kind
        self._details = details

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), str(self), self.kind, self._details)


def _again(cls: type[Error], message: str, kind: str, details: dict[str, Any]) -> Error:
    """Makes an exception of another process."""
    return cls(message, kind, **details)


class ArgumentError(Error, ValueError):
    """An argument that cannot be used: a wrong value, memory that is read only or has gaps."""

    def __init__(self, message: str, kind: str = "invalid_argument") -> None:
        super().__init__(message, kind)


class ClosedError(Error, ValueError):
    """Something that was closed, given back, or opened by the process that forked this one."""


class DeadlineError(Error, TimeoutError):
    """A wait has ended; what it waited for goes on."""


class PanicError(Error, RuntimeError):
    """An assertion of the Rust code has failed. Please report it."""


class OpenError(Error):
    """Cards that cannot be opened."""


class LabError(Error):
    """A lab that does not exist or has a problem."""


class DriverError(Error):
    """A refused request, or a card that does not answer. No data were moved."""


class PlanError(DriverError):
    """No path between two places, and why."""


class _MovedError(Error):
    """Data that did not arrive in whole."""

    #: Bytes that were moved, from the start.
    moved_bytes: int
    #: Bytes of the whole.
    total_bytes: int

    def __init__(
        self, message: str, kind: str = "failed", moved_bytes: int = 0, total_bytes: int = 0
    ) -> None:
        super().__init__(message, kind, moved_bytes=moved_bytes, total_bytes=total_bytes)
        self.moved_bytes = moved_bytes
        self.total_bytes = total_bytes


class TransferError(_MovedError):
    """A failed transfer."""

    #: Ports of its path that have detected errors, with these, as far as they are known.
    ports: dict[str, str]

    def __init__(
        self,
        message: str,
        kind: str = "failed",
        moved_bytes: int = 0,
        total_bytes: int = 0,
        ports: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message, kind, moved_bytes, total_bytes)
        self.ports = ports or {}
        self._details["ports"] = self.ports


class NetworkError(_MovedError):
    """A failed message of a network processor, or a link that does not come up."""


class PortError(Error):
    """A TLP that cannot be sent: malformed, against the function's settings, or without credits."""


class BridgeError(Error):
    """A server that cannot be reached or refuses, or a transfer with a card of another node that
    has failed. The connection is unusable afterwards, unless the server has merely refused."""

    #: Part of the transfer that failed: `connection`, `request`, `RDMA read`, `DMA`, ….
    stage: str
    #: Bytes that have arrived, from the start.
    arrived_bytes: int
    #: Bytes of the transfer; 0 if none had begun.
    total_bytes: int

    def __init__(
        self,
        message: str,
        kind: str = "failed",
        stage: str = "request",
        arrived_bytes: int = 0,
        total_bytes: int = 0,
    ) -> None:
        self.stage, self.arrived_bytes, self.total_bytes = stage, arrived_bytes, total_bytes
        super().__init__(
            message, kind, stage=stage, arrived_bytes=arrived_bytes, total_bytes=total_bytes
        )


class RdmaError(Error):
    """A network that cannot be used, or its memory."""


class BusError(Error):
    """The host's bus or its memory refused."""


class ExperimentError(Error):
    """A run that cannot be made, or whose figure says nothing."""


class SweepError(Error):
    """A sweep with an impossible value, or whose executor has failed."""

    #: Rows of the points that have ended, in the order of the grid; `sweep(…, done=error.rows)`
    #: makes the others.
    rows: list[dict[str, Any]]
    #: Points without a row, because the executor has failed.
    missing: list[dict[str, Any]]

    def __init__(
        self,
        message: str,
        kind: str = "failed",
        rows: list[dict[str, Any]] | None = None,
        missing: list[dict[str, Any]] | None = None,
    ) -> None:
        self.rows, self.missing = rows or [], missing or []
        super().__init__(message, kind, rows=self.rows, missing=self.missing)


class ExplainError(Error):
    """A run that cannot be explained."""


class RunError(Error):
    """Ports have detected errors, or work was left that can never end."""


class Stuck(Error):  # noqa: N818
    """A call that can never return, in a lab."""
