# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A host in Migen around the ports of a 7-series block: block, link and root complex in one.

It makes the register accesses of a script, answers the engine's reads from a memory with
completions of at most 64 B, takes its writes and its interrupts, and in the end compares memory.
"""

from litex.gen import LiteXModule
from litex.soc.interconnect import stream
from migen import FSM, Array, Case, Cat, Display, Finish, If, Memory, NextState, NextValue, Signal
from migen.fhdl.structure import _Value

# Operations of a script: a register is written, read and compared; a number of interrupts has come;
# the end.
WRITE, READ, INTERRUPTS, END = range(4)
HOST_ID, CARD_BUS = 0, 1
BAR0 = 0xA000_0000
MEMORY_BASE, MEMORY_BYTES = 0x8000_0000, 4096
MESSAGE_ADDRESS, MESSAGE = 0xFEE0_0000, 0xCAFE
PIECE_DW = 16  # longest payload of a completion, and its alignment
MOST_CLOCKS = 20_000
# First bytes of headers with addresses of 32 bits.
MEMORY_READ, MEMORY_WRITE, COMPLETION_DATA = 0x00, 0x40, 0x4A
# Outputs of the block that stay as they are: bus master, payload 256 B, reads of 512 B, credits.
SETTINGS = {
    "user_lnk_up": 1,
    "cfg_bus_number": CARD_BUS,
    "cfg_command": 1 << 1 | 1 << 2,
    "cfg_dcommand": 1 << 5 | 1 << 8 | 2 << 12,
    "cfg_interrupt_msixenable": 1,
    "tx_buf_av": 30,
    "fc_ph": 32,
    "fc_pd": 512,
    "fc_nph": 32,
    "fc_cplh": 32,
    "fc_cpld": 512,
}


def swapped(word: _Value) -> _Value:
    """A double word of payload with its bytes turned round: the block has the first one on top."""
    return Cat(word[24:32], word[16:24], word[8:16], word[0:8])


class SimulatedHost(LiteXModule):
    """Drives the block's outputs among a PHY's `params` and reads its inputs, in their clock.

    `script` has (operation, register, value); `memory` is the host's in the beginning, and
    `expected` has the double words, by their number, that are to be in it in the end.
    """

    def __init__(
        self,
        params: dict[str, Signal],
        bits: int,
        script: list[tuple[int, int, int]],
        memory: bytes,
        expected: dict[int, int],
    ) -> None:
        self.params = params
        words = [int.from_bytes(memory[at : at + 4], "little") for at in range(0, len(memory), 4)]
        self.memory = Memory(32, MEMORY_BYTES // 4, init=words)
        self.writing = self.memory.get_port(write_capable=True, we_granularity=8)
        self.reading, self.checking = (self.memory.get_port(async_read=True) for _ in range(2))
        self.specials += self.memory, self.writing, self.reading, self.checking
        # Headers of the engine's reads.
        self.reads = stream.SyncFIFO([("id", 32), ("address", 32), ("length", 11)], 64)
        self.messages = Signal(32)
        self.answer, self.answered = Signal(32), Signal()  # of a register read, in this clock
        self.malformed, self.differs, self.passed = Signal(), Signal(), Signal()
        self.comb += [params[f"o_{name}"].eq(value) for name, value in SETTINGS.items()]
        self.receive(bits)
        self.send(bits, script, expected)
        clocks = Signal(max=MOST_CLOCKS + 1)
        self.sync += [
            clocks.eq(clocks + 1),
            If(self.passed, Display("PASSED in %d clocks", clocks), Finish()),
            If(self.malformed, Display("FAILED: a TLP is not as it should be"), Finish()),
            If(self.differs, Display("FAILED: a register or memory differs"), Finish()),
            If(clocks == MOST_CLOCKS, Display("FAILED: no end"), Finish()),
        ]

    def receive(self, bits: int) -> None:
        """Takes the engine's TLPs, a double word at a time."""
        params = self.params
        self.narrow = stream.Converter(bits, 32)
        sink, word = self.narrow.sink, self.narrow.source
        head, ids, address = (Signal(32, name=name) for name in ("head", "ids", "address"))
        left, is_first, enables = Signal(11), Signal(), Signal(4)
        length = Cat(head[:10], head[:10] == 0)
        self.comb += [
            sink.valid.eq(params["i_s_axis_tx_tvalid"]),
            sink.data.eq(params["i_s_axis_tx_tdata"]),
            sink.last.eq(params["i_s_axis_tx_tlast"]),
            params["o_s_axis_tx_tready"].eq(sink.ready),
            self.writing.adr.eq(address[2:]),
            self.writing.dat_w.eq(swapped(word.data)),
            self.reads.sink.id.eq(ids),
            self.reads.sink.address.eq(word.data),
            self.reads.sink.length.eq(length),
            self.answer.eq(swapped(word.data)),
            If(is_first, enables.eq(ids[:4]))
            .Elif(left == 1, enables.eq(ids[4:8]))
            .Else(enables.eq(0xF)),
        ]
        is_completion, is_message = head[24:] == COMPLETION_DATA, address == MESSAGE_ADDRESS
        fsm = self.receiver = FSM(reset_state="HEAD")
        for state, place, following in (("HEAD", head, "IDS"), ("IDS", ids, "ADDRESS")):
            taken = [NextValue(place, word.data), NextState(following)]
            fsm.act(state, word.ready.eq(1), If(word.valid, *taken))
        is_read = head[24:] == MEMORY_READ
        fsm.act(
            "ADDRESS",
            word.ready.eq(self.reads.sink.ready),
            If(
                word.valid & word.ready,
                NextValue(address, word.data),
                NextValue(left, length),
                NextValue(is_first, 1),
                self.reads.sink.valid.eq(is_read),
                NextState("PAYLOAD"),
                If(is_read, NextState("REST"), If(word.last, NextState("HEAD"))),
                If(
                    (is_read & (word.data[12:] != MEMORY_BASE >> 12))
                    | (~is_completion & (ids[16:] != CARD_BUS << 8))
                    | ~(is_read | is_completion | (head[24:] == MEMORY_WRITE)),
                    NextValue(self.malformed, 1),
                ),
            ),
        )
        outside = ~is_completion & ~is_message & (address[12:] != MEMORY_BASE >> 12)
        refused = is_completion & ((left != 1) | (ids[13:16] != 0))
        fsm.act(
            "PAYLOAD",
            word.ready.eq(1),
            If(
                word.valid,
                NextValue(is_first, 0),
                NextValue(left, left - 1),
                NextValue(address, address + 4),
                self.answered.eq(is_completion),
                If(~is_completion & ~is_message, self.writing.we.eq(enables)),
                If(~is_completion & is_message, NextValue(self.messages, self.messages + 1)),
                If(is_message & (self.answer != MESSAGE), NextValue(self.malformed, 1)),
                If(outside | refused, NextValue(self.malformed, 1)),
                If(word.last & (left != 1), NextValue(self.malformed, 1)),
                If(left == 1, NextState("REST")),
                If(word.last, NextState("HEAD")),
            ),
        )
        fsm.act("REST", word.ready.eq(1), If(word.valid & word.last, NextState("HEAD")))

    def send(self, bits: int, script: list[tuple[int, int, int]], expected: dict[int, int]) -> None:
        """Sends the script's requests and, before them, completions of the engine's reads."""
        params = self.params
        self.wide = stream.Converter(32, bits)
        word, source = self.wide.sink, self.wide.source
        # is_sof and the BAR hit, at 128 bits and at both; without straddling.
        first = Signal(reset=1)
        self.sync += If(source.valid & source.ready, first.eq(source.last))
        self.comb += [
            params["o_m_axis_rx_tvalid"].eq(source.valid),
            params["o_m_axis_rx_tdata"].eq(source.data),
            params["o_m_axis_rx_tkeep"].eq(~0),
            params["o_m_axis_rx_tlast"].eq(source.last),
            params["o_m_axis_rx_tuser"].eq(Cat(0b100, *[0] * 11, first)),
            source.ready.eq(params["i_m_axis_rx_tready"]),
        ]
        step, number, in_flight = Signal(16), Signal(2), Signal()
        operation, register, value = entry = Signal(2), Signal(16), Signal(32)
        self.comb += [
            place.eq(Array(line[part] for line in script)[step]) for part, place in enumerate(entry)
        ]
        read = self.reads.source
        # The rest of the answer, from the address on, and the double words of the next piece.
        address, bytes_left, left, piece = Signal(32), Signal(13), Signal(11), Signal(11)
        most = PIECE_DW - address[2:6]
        begin, end = Signal(2), Signal(2)  # bytes that the first and last double word have in vain
        last_enables = Signal(4)
        self.comb += [
            last_enables.eq(read.id[4:8]),
            If(read.length == 1, last_enables.eq(read.id[:4])),
            Case(read.id[:4], {n: begin.eq((n & -n).bit_length() - 1) for n in range(1, 16)}),
            Case(last_enables, {n: end.eq(4 - n.bit_length()) for n in range(1, 16)}),
            piece.eq(left),
            If(left > most, piece.eq(most)),
            self.reading.adr.eq(address[2:]),
        ]
        fsm = self.sender = FSM(reset_state="STEP")
        begins_answer = [
            NextValue(address, read.address + begin),
            NextValue(bytes_left, (read.length << 2) - begin - end),
            NextValue(left, read.length),
            NextState("ANSWER"),
        ]
        fsm.act(
            "STEP",
            NextValue(number, 0),
            If(read.valid, *begins_answer).Elif(
                ~in_flight,
                Case(
                    operation,
                    {
                        INTERRUPTS: If(self.messages == value, NextValue(step, step + 1)),
                        END: NextState("COMPARE"),
                        "default": NextState("REQUEST"),
                    },
                ),
            ),
        )
        # Register accesses.
        heads = Array([MEMORY_WRITE << 24 | 1, MEMORY_READ << 24 | 1])
        request = Array([heads[operation == READ], 0xF, BAR0 + register, swapped(value)])
        fsm.act(
            "REQUEST",
            word.valid.eq(1),
            word.data.eq(request[number]),
            word.last.eq(number == 3 - (operation == READ)),
            If(
                word.ready,
                NextValue(number, number + 1),
                If(
                    word.last,
                    NextState("STEP"),
                    If(operation == READ, NextValue(in_flight, 1)).Else(NextValue(step, step + 1)),
                ),
            ),
        )
        self.sync += If(
            self.answered,
            in_flight.eq(0),
            step.eq(step + 1),
            If(
                ~in_flight | (self.answer != value),
                self.differs.eq(1),
                Display("step %d: %x, not %x", step, self.answer, value),
            ),
        )
        # Completions, in pieces.
        completion = Array(
            [
                COMPLETION_DATA << 24 | piece,
                HOST_ID << 16 | bytes_left,
                Cat(address[:7], 0, read.id[8:32]),
            ]
        )
        fsm.act(
            "ANSWER",
            word.valid.eq(1),
            word.data.eq(completion[number]),
            If(word.ready, NextValue(number, number + 1)),
            If(word.ready & (number == 2), NextValue(number, 0), NextState("DATA")),
        )
        at, full = Signal(11), (piece << 2) - address[:2]
        fsm.act(
            "DATA",
            word.valid.eq(1),
            word.data.eq(swapped(self.reading.dat_r)),
            self.reading.adr.eq(address[2:] + at),
            word.last.eq(at == piece - 1),
            If(
                word.ready,
                NextValue(at, at + 1),
                If(
                    word.last,
                    NextValue(at, 0),
                    NextValue(left, left - piece),
                    NextValue(bytes_left, bytes_left - full),
                    NextValue(address, Cat(0, 0, (address[2:] + piece)[:30])),
                    NextState("ANSWER"),
                    If(left == piece, read.ready.eq(1), NextState("STEP")),
                ),
            ),
        )
        # The end.
        places = sorted(expected)
        line = Signal(max=len(places) + 1)
        self.comb += self.checking.adr.eq(Array(places)[line])
        fsm.act(
            "COMPARE",
            NextValue(line, line + 1),
            If(
                self.checking.dat_r != Array(expected[at] for at in places)[line],
                NextValue(self.differs, 1),
            ),
            If(line == len(places) - 1, NextState("ENDED")),
        )
        fsm.act("ENDED", If(~self.differs, self.passed.eq(1)))
