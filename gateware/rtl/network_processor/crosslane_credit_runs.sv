// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Runs of host memory of all credits: a place for each request. The runs of a message are a list,
// from its last run to its first; free places are a list, too.

module crosslane_credit_runs
  import crosslane_network_pkg::*;
#(
    parameter int unsigned CREDIT_SLOTS = 64  // power of two, 2 to 256
) (
    input  logic       clk,
    input  logic       rst,
    output logic       has_free,
    output logic [7:0] free_place,
    // Takes the free place.
    input  logic       take,
    input  run_t       take_run,
    // The run of a place.
    input  logic [7:0] place,
    output run_t       run,
    // Frees it.
    input  logic       free
);
  localparam int unsigned PLACE_BITS = $clog2(CREDIT_SLOTS);
  (* ram_style = "distributed" *) run_t memory[CREDIT_SLOTS];
  // Places from `fresh` on have never been used; those freed begin at `list`.
  logic [PLACE_BITS:0] fresh, listed;
  logic [7:0] list;
  run_t listed_run, written;
  logic [PLACE_BITS-1:0] written_at;

  assign run = memory[PLACE_BITS'(place)];
  assign listed_run = memory[PLACE_BITS'(list)];
  assign has_free = listed != '0 || !fresh[PLACE_BITS];
  assign free_place = (listed != '0) ? list : 8'(fresh);

  always_comb begin
    written_at = PLACE_BITS'(take ? free_place : place);
    written = take_run;
    if (free) begin
      written = '0;
      written.previous = list;
    end
  end

  always_ff @(posedge clk) begin
    if (take || free) memory[written_at] <= written;
    if (take) begin
      if (listed != '0) begin
        listed <= listed - 1'b1;
        list   <= listed_run.previous;
      end else begin
        fresh <= fresh + 1'b1;
      end
    end
    if (free) begin
      listed <= listed + 1'b1;
      list   <= place;
    end
    if (rst) begin
      fresh  <= '0;
      listed <= '0;
    end
  end

  logic unused;
  assign unused = &{1'b0, listed_run};

`ifndef SYNTHESIS
  if (CREDIT_SLOTS != 1 << PLACE_BITS || CREDIT_SLOTS < 2 || CREDIT_SLOTS > MAX_CREDIT_SLOTS)
  begin : g_slots
    $error("CREDIT_SLOTS is a power of two, 2 to 256");
  end
  always_ff @(posedge clk) begin
    if (!rst) begin
      assert (!(take && free))
      else $error("a place is taken and another freed in one clock");
    end
  end
`endif
endmodule
