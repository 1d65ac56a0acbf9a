# SPDX-License-Identifier: Apache-2.0 OR MIT
"""DLPack, by way of NumPy: nothing is copied."""

from __future__ import annotations

from typing import Any

from crosslane._errors import ArgumentError

#: Devices of DLPack whose memory the processor reaches as its own: itself, and memory that was
#: pinned for CUDA and for ROCm.
_HOST = (1, 3, 11)
#: Devices of DLPack by their numbers, as far as they have names that people know.
_NAMES = {2: "a GPU, CUDA", 8: "a GPU, Metal", 10: "a GPU, ROCm", 13: "a GPU, CUDA managed memory"}


def _numpy() -> Any:
    try:
        import numpy
    except ImportError:
        raise ArgumentError("DLPack needs the package numpy", "unsupported") from None
    return numpy


def _check_device(source: Any) -> None:
    """Refuses memory that the processor does not reach as its own."""
    device = getattr(source, "__dlpack_device__", None)
    if device is None:
        return
    kind, number = (int(part) for part in device())
    if kind in _HOST:
        return
    owner = f"{_NAMES.get(kind, f'DLPack device {kind}')}, number {number}"
    raise ArgumentError(
        f"{type(source).__name__}: its memory is that of another device ({owner}), and transfers "
        "are made with host memory; use a copy there: tensor.cpu() of torch, cupy.asnumpy(array)",
        "unsupported",
    )


def of_dlpack(source: Any) -> Any:
    """Returns an array over the memory of an object that has DLPack."""
    _check_device(source)
    try:
        array = _numpy().from_dlpack(source)
    except (BufferError, RuntimeError, TypeError) as error:
        name = type(source).__name__
        raise ArgumentError(f"{name}: its memory cannot be taken: {error}") from error
    # An exporter of the first version of DLPack cannot say that its memory may be written.
    if not array.flags.writeable and callable(getattr(source, "numpy", None)):
        return source.numpy()
    return array


def to_dlpack(buffer: Any, **options: Any) -> Any:
    """Returns the DLPack capsule of an object with the buffer protocol."""
    return _numpy().frombuffer(buffer, dtype="u1").__dlpack__(**options)
