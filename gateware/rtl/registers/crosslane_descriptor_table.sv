// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A descriptor table: the host stores entries of four double words, the channel takes up each once.
// An entry is whole if all four were stored since it was last taken and since the last restart.
//
// Four flags per entry record which words were stored. A restart cannot clear them all at once, so
// each entry also holds the parity of the restart that its flags belong to: flags of the other
// parity count as clear. A background sweep brings every entry to the present parity; the next
// restart waits for its end (`is_forgetting`). After a reset the content of the memory is unknown:
// it is swept first, and stores wait.
//
// Flags are read, changed and written in one clock, for one of three: an entry taken a clock ago, a
// store, the sweep. The first has priority, and a store waits for it: an entry is never stored to
// in the clock in which it is taken and read.

module crosslane_descriptor_table #(
    parameter int unsigned ENTRIES = 1024,  // a power of two, from 2 to 1024
    localparam int unsigned INDEX_BITS = $clog2(ENTRIES)
) (
    input logic clk,
    input logic rst,
    input logic restart,  // pulse: all entries are forgotten
    output logic is_forgetting,  // no restart may come
    // Accesses of the host.
    input logic access_valid,
    input logic access_write,
    input logic [9:0] access_index,
    input logic [1:0] access_word,
    input logic [31:0] access_data,
    output logic access_wait,
    output logic [31:0] read_data,  // a clock later
    // The channel.
    input logic take,
    // verilator lint_off UNUSEDSIGNAL
    input logic [9:0] take_index,
    // verilator lint_on UNUSEDSIGNAL
    output logic [127:0] entry,  // two clocks later
    output logic whole
);
  logic [INDEX_BITS-1:0] stored_index, taken_index, swept_index, index;
  logic is_taken, is_stored, is_swept, is_inside;
  logic is_sweeping, is_cleaning;  // is_cleaning: after a reset

  // --- Flags -----------------------------------------------------------------------------------
  assign is_inside = 32'(access_index) < ENTRIES;
  assign stored_index = access_index[INDEX_BITS-1:0];
  assign access_wait = access_valid && access_write && is_inside && (is_taken || is_cleaning);
  assign is_stored = access_valid && access_write && is_inside && !access_wait;
  assign is_swept = is_sweeping && !is_taken && !is_stored;
  assign is_forgetting = is_sweeping || restart;

  (* ram_style = "distributed" *) logic [4:0] flags[ENTRIES];  // parity, and a flag for each word
  logic parity, last_parity;
  logic [3:0] set, present, next;
  logic [4:0] held;

  // A store in the clock of the restart counts as after it.
  assign parity = last_parity ^ restart;

  always_comb begin
    if (is_taken) index = taken_index;
    else if (is_stored) index = stored_index;
    else index = swept_index;
    held = flags[index];
    present = (held[4] == parity && !is_cleaning) ? held[3:0] : '0;
    set = '0;
    set[access_word] = 1'b1;
    if (is_taken) next = '0;
    else if (is_stored) next = present | set;
    else next = present;
  end

  always_ff @(posedge clk) begin
    if (is_taken || is_stored || is_swept) flags[index] <= {parity, next};
    is_taken <= take && !rst;
    taken_index <= take_index[INDEX_BITS-1:0];
    whole <= &present;
    if (is_swept) begin
      swept_index <= swept_index + 1'b1;
      if (&swept_index) begin
        is_sweeping <= 1'b0;
        is_cleaning <= 1'b0;
      end
    end
    last_parity <= parity;
    if (restart) begin
      is_sweeping <= 1'b1;
      swept_index <= '0;
    end
    if (rst) begin
      last_parity <= 1'b0;
      is_sweeping <= 1'b1;
      is_cleaning <= 1'b1;
      swept_index <= '0;
    end
  end

  // --- The words -------------------------------------------------------------------------------
  logic [3:0][31:0] words;
  for (genvar n = 0; n < 4; n++) begin : g_word
    (* ram_style = "block" *) logic [31:0] memory[ENTRIES];
    always_ff @(posedge clk) begin
      if (is_stored && access_word == 2'(n)) memory[stored_index] <= access_data;
      words[n] <= memory[stored_index];
      entry[32*n+:32] <= memory[taken_index];
    end
`ifndef SYNTHESIS
    initial for (int k = 0; k < ENTRIES; k++) memory[k] = '0;
`endif
  end

  logic [1:0] read_word;
  logic is_read;
  always_ff @(posedge clk) begin
    read_word <= access_word;
    is_read   <= access_valid && !access_write && is_inside;
  end
  assign read_data = is_read ? words[read_word] : '0;

`ifndef SYNTHESIS
  initial for (int k = 0; k < ENTRIES; k++) flags[k] = '0;
  always_ff @(posedge clk) begin
    if (!rst) assert (!(restart && is_sweeping));
  end
  if (ENTRIES != 1 << INDEX_BITS || ENTRIES < 2 || ENTRIES > 1024) begin : g_entries
    $error("ENTRIES is a power of two, from 2 to 1024");
  end
`endif
endmodule
