# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What yosys makes of small modules."""

import json

from synthesis import CELLS, GATEWARE, NETLIST, ULTRASCALE, XILINX, yosys

MEMORY = """
module memory (input clk, input write, input [8:0] address, input data, output read);
  reg kept[0:511];
  always @(posedge clk) if (write) kept[address] <= data;
  assign read = kept[address];
endmodule
"""


def test_a_memory_of_512_words_is_one_cell_of_ultrascale(tmp_path):
    """The library of yosys has no map for it."""
    source = tmp_path / "memory.v"
    source.write_text(MEMORY)
    then = XILINX.format(
        family=ULTRASCALE, module="memory", cells=tmp_path / CELLS, netlist=tmp_path / NETLIST
    )
    yosys.run(f"read_verilog {source}; {then}", GATEWARE)
    cells = json.loads((tmp_path / CELLS).read_text())["design"]["num_cells_by_type"]
    assert cells["RAM512X1S"] == 1
