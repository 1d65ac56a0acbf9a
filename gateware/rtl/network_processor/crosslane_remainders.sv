// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Keys with the rest of a message to be dropped, oldest first: as many as there are credits, and
// one more until the oldest of them is removed.

module crosslane_remainders #(
    parameter int unsigned SLOTS    = 64,
    parameter int unsigned KEY_BITS = 8
) (
    input  logic                clk,
    input  logic                rst,
    output logic                ready,
    // Pulses, while `ready`.
    input  logic                add,
    input  logic                remove,   // wherever it is
    input  logic [KEY_BITS-1:0] key,
    input  logic                clear,
    output logic                is_over,
    output logic [KEY_BITS-1:0] oldest
);
  localparam int unsigned COUNT_BITS = $clog2(SLOTS + 2);
  localparam int unsigned PLACE_BITS = $clog2(SLOTS + 1);
  (* ram_style = "distributed" *) logic [KEY_BITS-1:0] keys[1<<PLACE_BITS];
  logic [COUNT_BITS-1:0] count, at;
  logic [KEY_BITS-1:0] sought, here;
  logic removes, has_passed, writes;
  logic [PLACE_BITS-1:0] written_at;

  assign ready = !removes;
  assign is_over = count > COUNT_BITS'(SLOTS);
  assign here = keys[PLACE_BITS'(at)];
  assign writes = add || (removes && has_passed);
  assign written_at = PLACE_BITS'(removes ? at - 1'b1 : count);

  always_ff @(posedge clk) begin
    if (writes) keys[written_at] <= removes ? here : key;
    if (count == '0 && add) oldest <= key;
    if (removes && at == '0) oldest <= here;
    if (removes && has_passed && at == COUNT_BITS'(1)) oldest <= here;
    if (add) count <= count + 1'b1;
    if (remove) begin
      removes <= count != '0;
      sought <= key;
      at <= '0;
      has_passed <= 1'b0;
    end
    // Those behind it move up.
    if (removes) begin
      at <= at + 1'b1;
      if (here == sought && !has_passed) has_passed <= 1'b1;
      if (at == count - 1'b1) begin
        removes <= 1'b0;
        count   <= count - 1'b1;
      end
    end
    if (rst || clear) begin
      count   <= '0;
      removes <= 1'b0;
    end
  end
endmodule
