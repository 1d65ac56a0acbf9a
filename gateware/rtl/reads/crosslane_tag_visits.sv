// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Generates the tag events other than completions: after reset each tag is initialised; then tags
// that their requester gives up are reported, and all are visited in turn to check their time-out.
// They use the clocks in which no completion begins. If there are none, completions are held back
// for one clock now and then.

module crosslane_tag_visits
  import crosslane_reads_pkg::*;
#(
    parameter int unsigned TAG_BITS = 7
) (
    input  logic                      clk,
    input  logic                      rst,
    output logic                      initialising,
    // A tag that is given up.
    input  logic                      give_up_valid,
    output logic                      give_up_ready,
    input  logic       [TAG_BITS-1:0] give_up_tag,
    // To the intake.
    output logic                      hold,
    input  logic                      inject_ready,
    output logic                      inject_valid,
    output tag_event_e                inject_event,
    output logic       [TAG_BITS-1:0] inject_tag,
    // Beside the tag of the present event: whether it is the same.
    // verilator lint_off UNUSEDSIGNAL
    input  logic       [TAG_BITS-1:0] event_tag,
    // verilator lint_on UNUSEDSIGNAL
    output logic                      inject_is_same
);
  // Clocks that an event waits for a clock without a completion.
  localparam int unsigned VISIT_PATIENCE_BITS = 8;
  localparam int unsigned GIVE_UP_PATIENCE_BITS = 4;

  logic [TAG_BITS-1:0] next;
  logic [VISIT_PATIENCE_BITS-1:0] waited;

  assign inject_valid = 1'b1;
  assign give_up_ready = inject_ready && !initialising;
  assign inject_tag = (give_up_valid && !initialising) ? give_up_tag : next;
  // Both are compared beside that choice. (As written here: yosys merges comparisons with `==`.)
  logic given_up_differs, next_differs;
  assign given_up_differs = |(give_up_tag ^ event_tag);
  assign next_differs = |(next ^ event_tag);
  assign inject_is_same = !((give_up_valid && !initialising) ? given_up_differs : next_differs);

  always_comb begin
    if (initialising) inject_event = EVENT_INITIALISE;
    else if (give_up_valid) inject_event = EVENT_GIVE_UP;
    else inject_event = EVENT_VISIT;
  end

  always_ff @(posedge clk) begin
    if (inject_ready && (initialising || !give_up_valid)) begin
      next <= next + 1'b1;
      if (next == '1) initialising <= 1'b0;
    end
    waited <= inject_ready ? '0 : waited + 1'b1;
    if (inject_ready) hold <= initialising && next != '1;
    else if (waited == '1) hold <= 1'b1;
    else if (give_up_valid && waited[GIVE_UP_PATIENCE_BITS-1:0] == '1) hold <= 1'b1;
    if (rst) begin
      initialising <= 1'b1;
      next <= '0;
      waited <= '0;
      hold <= 1'b1;
    end
  end

endmodule
