// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Reports where a read failed. Keeps the addresses of all reads, in block memory since they are
// rarely needed, and computes the address of the first missing byte, for one requester at a time.
// The fault of an H2C channel is shown until it has forgotten its reads, that of a fetcher for one
// clock.

module crosslane_read_faults
  import crosslane_pkg::*;
#(
    parameter  int unsigned H2C        = 1,
    parameter  int unsigned FETCHERS   = 3,
    parameter  int unsigned TAG_BITS   = 7,
    localparam int unsigned REQUESTERS = H2C + FETCHERS
) (
    input  logic                    clk,
    input  logic                    rst,
    // A read begins.
    input  logic                    begin_valid,
    input  logic   [  TAG_BITS-1:0] begin_tag,
    input  logic   [          63:0] begin_address,
    // Requesters whose oldest read has failed: H2C channels, then fetchers.
    input  logic   [REQUESTERS-1:0] failed,
    output logic   [REQUESTERS-1:0] failed_ready,   // taken; the fields below belong to it
    input  logic   [  TAG_BITS-1:0] failed_tag,
    input  logic   [           2:0] failed_error,
    input  logic   [          12:0] failed_good,    // bytes of it that have arrived
    input  logic   [REQUESTERS-1:0] forget,
    // The fault.
    output logic   [REQUESTERS-1:0] fault_valid,
    output error_e                  fault_error,
    output logic   [          63:0] fault_address
);
  typedef enum logic [1:0] {
    IDLE,
    LOOK_UP,
    FOUND,
    SHOW
  } step_e;

  (* ram_style = "block" *) logic [63:0] addresses[1 << TAG_BITS];
  logic [63:0] address, found;
  logic [TAG_BITS-1:0] tag;
  logic [12:0] good;
  logic [REQUESTERS-1:0] requester, was_forgotten;
  step_e step;

  always_ff @(posedge clk) begin
    if (begin_valid) addresses[begin_tag] <= begin_address;
    address <= addresses[tag];
  end

  // The lowest first. Beside fetchers, a channel's failure is taken a clock later: the fetchers' comes
  // late, and does not wait for it.
  logic [REQUESTERS-1:0] comes;
  if (FETCHERS > 0) begin : g_fetchers
    logic [H2C-1:0] was_failed;
    always_ff @(posedge clk) was_failed <= failed[H2C-1:0];
    assign comes = {failed[REQUESTERS-1:H2C], was_failed};
  end else begin : g_no_fetchers
    assign comes = failed;
  end
  always_comb begin
    for (int unsigned n = 0; n < REQUESTERS; n++) begin
      failed_ready[n] = step == IDLE && failed[n] && comes[n] &&
                        (comes & REQUESTERS'((1 << n) - 1)) == '0;
    end
  end
  assign fault_valid   = (step == SHOW) ? requester : '0;
  // Block memory has its output late in the clock: added to behind a register.
  assign fault_address = found + 64'(good);

  always_ff @(posedge clk) begin
    unique case (step)
      IDLE: begin
        tag <= failed_tag;
        good <= failed_good;
        fault_error <= error_e'({1'b0, failed_error});
        requester <= failed_ready;
        if (failed_ready != '0) step <= LOOK_UP;
      end
      LOOK_UP: step <= FOUND;
      FOUND: begin
        found <= address;
        step  <= SHOW;
      end
      SHOW: if (requester >> H2C != '0) step <= IDLE;
    endcase
    // One that was taken as its requester forgot it is let go a clock later.
    was_forgotten <= forget;
    if (rst || (step != IDLE && (requester & (forget | was_forgotten)) != '0)) step <= IDLE;
  end

endmodule
