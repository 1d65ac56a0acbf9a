# SPDX-License-Identifier: Apache-2.0 OR MIT
"""DLPack, by way of NumPy: nothing is copied."""

from __future__ import annotations

from typing import Any

from crosslane._errors import ArgumentError


def _numpy() -> Any:
    try:
        import numpy
    except ImportError:
        raise ArgumentError("DLPack needs the package numpy", "unsupported") from None
    return numpy


def of_dlpack(source: Any) -> Any:
    """Returns an array over the memory of an object that has DLPack."""
    try:
        array = _numpy().from_dlpack(source)
    except (BufferError, RuntimeError, TypeError) as error:
        name = type(source).__name__
        raise ArgumentError(f"{name}: its memory is not the processor's: {error}") from error
    # An exporter of the first version of DLPack cannot say that its memory may be written.
    if not array.flags.writeable and callable(getattr(source, "numpy", None)):
        return source.numpy()
    return array


def to_dlpack(buffer: Any, **options: Any) -> Any:
    """Returns the DLPack capsule of an object with the buffer protocol."""
    return _numpy().frombuffer(buffer, dtype="u1").__dlpack__(**options)
