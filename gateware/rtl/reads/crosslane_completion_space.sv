// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Space for completions in the receive buffer of the link's block, in one of its two units: headers
// or data. An endpoint promises infinite credit for completions (PCIe 6.x 2.6.1), so it has to ask
// for no more than its buffer takes. A read needs at worst a header for each Read Completion
// Boundary of 64 B that it touches, and a unit of data for each 16 B: UNIT_BYTES 64 and 16.
//
//   a read begins --> space for the longest read is taken --> what it does not need comes back
//   a completion is taken out, or none will come --> its space comes back
//
// A longest read is taken first so that a read may begin in each clock while its need is worked
// out. `fits` says that there is space for another one.

module crosslane_completion_space #(
    parameter int unsigned UNIT_BYTES = 64,
    parameter int unsigned UNITS = 0,  // in the buffer; 0: no limit
    parameter int unsigned LONGEST_BYTES = 1024
) (
    // Unused without a limit, like the low bits of an address below a unit.
    // verilator lint_off UNUSEDSIGNAL
    input  logic        clk,
    input  logic        rst,
    // A read begins.
    input  logic        begin_valid,
    input  logic [ 5:0] begin_low,      // address
    input  logic [12:0] begin_bytes,
    // Bytes that are still to come, before and after an event, and the event's last beat.
    input  logic        less_to_come,
    input  logic [ 5:0] to_come_low,    // address
    input  logic [12:0] to_come,
    input  logic [12:0] still_to_come,  // from a multiple of 64 B on
    input  logic        event_ends,
    // verilator lint_on UNUSEDSIGNAL
    output logic        fits
);
  localparam int unsigned SHIFT = $clog2(UNIT_BYTES);
  localparam int unsigned IN_A_PAGE = 4096 / UNIT_BYTES;
  // No read crosses a boundary of 4 KiB.
  localparam int unsigned LONGEST =
      (LONGEST_BYTES / UNIT_BYTES < IN_A_PAGE) ? LONGEST_BYTES / UNIT_BYTES + 1 : IN_A_PAGE;
  localparam int unsigned SPACE_BITS = $clog2(UNITS + 1) + 1;
  localparam int unsigned PAGE_BITS = $clog2(IN_A_PAGE + 1);
  // Units that a read needs: no more than a page has, or the buffer.
  localparam int unsigned NEED_BITS = (SPACE_BITS < PAGE_BITS) ? SPACE_BITS : PAGE_BITS;

  function automatic logic [NEED_BITS-1:0] needed(input logic [SHIFT-1:0] low,
                                                  input logic [12:0] bytes);
    return NEED_BITS'((14'(low) + 14'(bytes) + 14'(UNIT_BYTES - 1)) >> SHIFT);
  endfunction

  if (UNITS > 0) begin : g_limit
    // Units left beside a longest read; below 0 there is no space for one.
    logic signed [SPACE_BITS-1:0] left;
    logic begun, is_held, has_ended;
    logic [SHIFT-1:0] begun_low, from_low;
    logic [12:0] begun_bytes, from_bytes, to_bytes;
    logic [NEED_BITS-1:0] unneeded, returned;

    assign fits = !left[SPACE_BITS-1];

    always_ff @(posedge clk) begin
      begun <= begin_valid;
      begun_low <= begin_low[SHIFT-1:0];
      begun_bytes <= begin_bytes;
      unneeded <= begun ? NEED_BITS'(LONGEST) - needed(begun_low, begun_bytes) : '0;
      // A completion leaves the buffer with its last beat.
      is_held <= (less_to_come || is_held) && !event_ends;
      has_ended <= (less_to_come || is_held) && event_ends;
      if (less_to_come) begin
        from_low   <= to_come_low[SHIFT-1:0];
        from_bytes <= to_come;
        to_bytes   <= still_to_come;
      end
      returned <= has_ended ? needed(from_low, from_bytes) - needed('0, to_bytes) : '0;
      left <= left + SPACE_BITS'(unneeded) + SPACE_BITS'(returned) -
          (begin_valid ? SPACE_BITS'(LONGEST) : '0);
      if (rst) begin
        begun <= 1'b0;
        is_held <= 1'b0;
        has_ended <= 1'b0;
        unneeded <= '0;
        returned <= '0;
        left <= SPACE_BITS'(UNITS) - SPACE_BITS'(LONGEST);
      end
    end

`ifndef SYNTHESIS
    if (UNITS < LONGEST) begin : g_units
      $error("no space for the completions of a longest read");
    end
    always_ff @(posedge clk) begin
      if (!rst) begin
        assert (!begin_valid || fits)
        else $error("a read begins without space for its completions");
        assert (left <= $signed(SPACE_BITS'(UNITS - LONGEST)))
        else $error("more space is given back than was taken");
      end
    end
`endif
  end else begin : g_no_limit
    assign fits = 1'b1;
  end
endmodule
