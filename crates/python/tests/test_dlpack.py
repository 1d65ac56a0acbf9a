# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Memory of other packages, by DLPack: the processor's, and that of GPUs."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import crosslane
import pytest
from crosslane import Card

#: Devices as DLPack numbers them.
CPU, CUDA, CUDA_HOST, ROCM = 1, 2, 3, 10


class Array:
    """Memory that has DLPack and no buffer protocol, as arrays of devices have."""

    def __init__(self, values: Any, device: int = CPU) -> None:
        self.values = values
        self.device = device

    def __dlpack__(self, **options: Any) -> Any:
        """The capsule, which says where the memory is; of pinned memory in the first version of
        DLPack, which cannot say that it may be written."""
        if self.device == CPU:
            return self.values.__dlpack__(**options)
        assert self.device == CUDA_HOST, "memory that is not the processor's was asked for"
        capsule = self.values.__dlpack__()
        address = ctypes.pythonapi.PyCapsule_GetPointer
        address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        tensor = address(capsule, b"dltensor")
        # The device stands behind the address of the data.
        ctypes.c_int32.from_address(tensor + ctypes.sizeof(ctypes.c_void_p)).value = self.device
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        """Its device."""
        return self.device, 0


class Tensor(Array):
    """The same with `numpy`, as tensors of the processor have."""

    def numpy(self) -> Any:
        """The same memory."""
        return self.values


@pytest.fixture
def card() -> Iterator[Card]:
    """A card that has memory."""
    with crosslane.open("lab:kc705:crosslane") as session:
        yield session.card()


def test_dlpack_is_moved_without_a_copy(card: Card, numpy: Any) -> None:
    data, back = numpy.arange(256, dtype="i4"), numpy.zeros(256, dtype="i4")
    card.to_card(Array(data), 0).wait()
    card.from_card(Array(back), 0).wait()
    assert (back == data).all()
    buffer = card.buffer(1024)
    assert buffer.__dlpack_device__() == (CPU, 0)
    seen = numpy.from_dlpack(buffer)
    seen[:] = 7
    assert bytes(buffer) == bytes([7]) * 1024


def test_memory_pinned_for_a_gpu_is_moved(card: Card, numpy: Any) -> None:
    data, back = numpy.arange(256, dtype="i4"), numpy.zeros(256, dtype="i4")
    card.to_card(Array(data, CUDA_HOST), 0).wait()
    card.from_card(Tensor(back, CUDA_HOST), 0).wait()
    assert (back == data).all()


@pytest.mark.parametrize(("device", "name"), [(CUDA, "CUDA"), (ROCM, "ROCm"), (99, "device 99")])
def test_memory_of_a_gpu_is_refused(card: Card, numpy: Any, device: int, name: str) -> None:
    values = numpy.zeros(256, dtype="i4")
    for call in (card.to_card, card.from_card):
        with pytest.raises(crosslane.ArgumentError, match=name) as caught:
            call(Array(values, device), 0)
        assert caught.value.kind == "unsupported"
        assert "tensor.cpu() of torch, cupy.asnumpy(array)" in str(caught.value)
    back = bytearray(64)
    card.to_card(b"\x55" * 64, 0).wait()
    card.from_card(back, 0).wait()
    assert back == b"\x55" * 64


def test_memory_that_is_kept_back_is_refused(card: Card) -> None:
    class Kept:
        """A tensor that cannot be exported."""

        def __dlpack__(self, **_options: Any) -> Any:
            """No capsule."""
            raise BufferError("it requires a gradient")

        def __dlpack_device__(self) -> tuple[int, int]:
            """The processor."""
            return CPU, 0

    with pytest.raises(crosslane.ArgumentError, match="Kept: its memory cannot be taken: it requ"):
        card.to_card(Kept(), 0)
