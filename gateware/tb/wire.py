# SPDX-License-Identifier: Apache-2.0 OR MIT
"""TLPs of the engine's streams as cocotbext-pcie has them, and back."""

from cocotbext.pcie.core.tlp import CplStatus, TlpAttr, TlpTc, TlpType
from cocotbext.pcie.core.tlp import Tlp as WireTlp
from cocotbext.pcie.core.utils import PcieId
from tlp_stream import COMPLETION, COMPLETION_DATA, MEMORY_READ, MEMORY_WRITE, Tlp

# Types of a kind of TLP; those of requests are for addresses of 32 and of 64 bits.
TYPES = {
    MEMORY_READ: (TlpType.MEM_READ, TlpType.MEM_READ_64),
    MEMORY_WRITE: (TlpType.MEM_WRITE, TlpType.MEM_WRITE_64),
    COMPLETION: (TlpType.CPL,),
    COMPLETION_DATA: (TlpType.CPL_DATA,),
}
KINDS = {of_wire: kind for kind, types in TYPES.items() for of_wire in types}


def on_the_wire(tlp: Tlp) -> WireTlp:
    """Converts a TLP of the engine's stream to one of cocotbext-pcie."""
    wire = WireTlp()
    wire.tag, wire.length = tlp.tag, tlp.length_dw
    wire.tc, wire.attr = TlpTc(tlp.traffic_class), TlpAttr(tlp.attributes)
    wire.ep = bool(tlp.poisoned)
    wire.requester_id = PcieId.from_int(tlp.requester)
    wire.data = bytearray(tlp.payload)
    if tlp.is_request:
        wire.fmt_type = TYPES[tlp.kind][tlp.address >= 1 << 32]
        wire.address, wire.first_be, wire.last_be = tlp.address, tlp.first_be, tlp.last_be
    else:
        (wire.fmt_type,) = TYPES[tlp.kind]
        wire.status = CplStatus(tlp.status)
        wire.completer_id = PcieId.from_int(tlp.completer)
        wire.byte_count, wire.lower_address = tlp.byte_count, tlp.address
    return wire


def fields_of(wire: WireTlp, kind: int | None = None) -> dict[str, int]:
    """The header of a TLP of cocotbext-pcie in the engine's stream, as this kind if it is given."""
    kind = KINDS[wire.fmt_type] if kind is None else kind
    header = {"kind": kind, "length_dw": wire.length, "tag": wire.tag, "poisoned": int(wire.ep)}
    header |= {"traffic_class": int(wire.tc), "attributes": int(wire.attr)}
    header |= {"requester": int(wire.requester_id)}
    if kind in (MEMORY_READ, MEMORY_WRITE):
        header |= {"first_be": wire.first_be, "last_be": wire.last_be, "address": wire.address}
    else:
        header |= {"status": int(wire.status), "completer": int(wire.completer_id)}
        header |= {"byte_count": wire.byte_count, "address": wire.lower_address}
    return header
