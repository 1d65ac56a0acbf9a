// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Counts the bytes taken out of each receive queue, and builds the credit writes to its sender: one
// when a quarter of the FIFO has been taken out since the last, and one when the queue is empty and
// nothing has been taken out for CREDIT_DELAY clocks. Counts are absolute. Lanes take turns.

module crosslane_lane_credits
  import crosslane_pkg::*;
#(
    parameter  int unsigned DATA_BITS = 256,
    parameter  int unsigned LANES     = 8,
    parameter  int unsigned LANE_FIFO = 16384,
    localparam int unsigned LANE_BITS = (LANES == 1) ? 1 : $clog2(LANES)
) (
    input  logic                                 clk,
    input  logic                                 rst,
    // Of these structs: return_credits, restart, credit_address; bus_master, routing_id.
    // verilator lint_off UNUSEDSIGNAL
    input  lane_settings_t [    LANES-1:0]       lane_settings,
    input  function_t                            function_i,
    // verilator lint_on UNUSEDSIGNAL
    input  logic           [    LANES-1:0]       empty,            // the FIFO holds nothing
    // Bytes taken out of a FIFO; bytes of another lane that were dropped on arrival.
    input  logic                                 taken_valid,
    input  logic           [LANE_BITS-1:0]       taken_lane,
    input  logic           [          6:0]       taken_bytes,
    input  logic                                 passed_valid,
    input  logic           [LANE_BITS-1:0]       passed_lane,
    input  logic           [          6:0]       passed_bytes,
    output logic           [    LANES-1:0][31:0] drained,
    // A write is due, or will be after CREDIT_DELAY quiet clocks.
    output logic                                 pending,
    output logic                                 m_credit_valid,
    input  logic                                 m_credit_ready,
    output tlp_header_t                          m_credit_header,
    output logic                                 m_credit_first,
    output logic                                 m_credit_last,
    output logic           [DATA_BITS-1:0]       m_credit_data
);
  // Longer than the pauses of a stream that is drained as fast as it arrives; otherwise each of its
  // TLPs would cause a credit write.
  localparam int unsigned CREDIT_DELAY = 256;
  localparam int unsigned QUARTER_BITS = $clog2(LANE_FIFO / 4);

  // --- Bytes taken out since the last credit write -------------------------------------------
  logic [LANES-1:0] due, told, coming;

  for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
    logic takes, passes;
    logic [6:0] bytes;
    logic [QUARTER_BITS-1:0] untold;
    logic quarter;  // more than `untold` can count
    logic [$clog2(CREDIT_DELAY):0] quiet;
    logic [QUARTER_BITS:0] untold_next;

    assign takes = taken_valid && taken_lane == LANE_BITS'(lane);
    assign passes = passed_valid && passed_lane == LANE_BITS'(lane);
    assign bytes = (takes ? taken_bytes : '0) | (passes ? passed_bytes : '0);
    assign untold_next =
        {1'b0, told[lane] ? QUARTER_BITS'(0) : untold} + (QUARTER_BITS + 1)'(bytes);
    assign coming[lane] = lane_settings[lane].return_credits &&
        (quarter || (untold != '0 && empty[lane]));
    assign due[lane] = coming[lane] && (quarter || quiet[$clog2(CREDIT_DELAY)]);

    always_ff @(posedge clk) begin
      drained[lane] <= drained[lane] + 32'(bytes);
      untold <= untold_next[QUARTER_BITS-1:0];
      if (told[lane]) quarter <= 1'b0;
      if (untold_next[QUARTER_BITS]) quarter <= 1'b1;
      if (!quiet[$clog2(CREDIT_DELAY)]) quiet <= quiet + 1'b1;
      if (takes || passes) quiet <= '0;
      if (rst || lane_settings[lane].restart) begin
        drained[lane] <= '0;
        untold <= '0;
        quarter <= 1'b0;
        quiet <= '0;
      end
    end
  end

  // --- Arbitration ---------------------------------------------------------------------------
  logic [LANES-1:0] next;
  logic [LANE_BITS-1:0] chosen;
  logic build;

  assign pending = (|coming) && function_i.bus_master;
  assign build = (|due) && function_i.bus_master && (!m_credit_valid || m_credit_ready);
  assign told = build ? next : '0;

  crosslane_turn #(
      .COUNT(LANES)
  ) turn (
      .clk,
      .rst,
      .valid (due),
      .taken (told),
      .chosen(next),
      .index (chosen)
  );

  // --- The write -----------------------------------------------------------------------------
  logic [LANE_BITS-1:0] lane_sent;
  logic [63:2] address;
  logic [15:0] requester;
  logic [31:0] count;

  always_ff @(posedge clk) begin
    if (m_credit_ready) m_credit_valid <= 1'b0;
    if (build) begin
      m_credit_valid <= 1'b1;
      lane_sent <= chosen;
      address <= lane_settings[chosen].credit_address[63:2];
      requester <= function_i.routing_id;
      count <= drained[chosen];
    end
    // A count from before the restart would be credit that nobody has given. 0 gives none.
    if (lane_settings[build?chosen : lane_sent].restart) count <= '0;
    if (rst) m_credit_valid <= 1'b0;
  end

  assign m_credit_first = 1'b1;
  assign m_credit_last  = 1'b1;
  assign m_credit_data  = DATA_BITS'(count);

  always_comb begin
    m_credit_header = '0;
    m_credit_header.kind = MEMORY_WRITE;
    m_credit_header.address = {address, 2'b00};
    m_credit_header.length_dw = 11'd1;
    m_credit_header.first_be = 4'hf;
    m_credit_header.requester = requester;
    m_credit_header.bar = NO_BAR;
  end

`ifndef SYNTHESIS
  if (LANE_FIFO < DATA_BITS) begin : g_quarter
    $error("a quarter of LANE_FIFO holds two beats");
  end
`endif
endmodule
