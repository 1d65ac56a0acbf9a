// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A reset, then the wait for a lock that it leads to. Each lasts CLOCKS at least: the wait since
// the lock was last missing.

module crosslane_lock_reset #(
    parameter int unsigned CLOCKS = 1024,  // a power of two
    parameter bit          AGAIN  = 1'b1   // a lost lock brings back the reset, else the wait
) (
    input  logic clk,
    input  logic rst,
    input  logic is_locked,
    output logic is_held,    // in reset
    output logic is_ending,  // in the second half of the reset
    output logic is_ready
);
  localparam int unsigned TIME_BITS = $clog2(CLOCKS);
  typedef enum logic [1:0] {
    HELD,
    LOCKING,
    READY
  } state_e;
  state_e state;
  logic [TIME_BITS-1:0] waited;
  assign is_held   = state == HELD;
  assign is_ending = is_held && waited[TIME_BITS-1];
  assign is_ready  = state == READY;

  always_ff @(posedge clk) begin
    waited <= waited + 1'b1;
    unique case (state)
      HELD: if (&waited) state <= LOCKING;
      LOCKING: begin
        if (!is_locked) waited <= '0;
        else if (&waited) state <= READY;
      end
      default: begin
        waited <= '0;
        if (!is_locked) state <= AGAIN ? HELD : LOCKING;
      end
    endcase
    if (rst) begin
      state  <= HELD;
      waited <= '0;
    end
  end
endmodule
