// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A port of a vendor's memory controller in simulation, with the memory behind it: bursts one after
// the other, with pauses, and the rules that such cores have for their users (PG150, PG276).

module memory_port_model #(
    parameter int unsigned ADDRESS_BITS = 33,
    parameter int unsigned DATA_BITS = 256,
    parameter int unsigned LENGTH_BITS = 4,
    localparam int unsigned BYTES = DATA_BITS / 8
) (
    input  logic                    clk,
    input  logic                    reset_n,
    input  logic                    is_complete,
    input  logic [ADDRESS_BITS-1:0] awaddr,
    input  logic [             1:0] awburst,
    input  logic [ LENGTH_BITS-1:0] awlen,
    input  logic [             2:0] awsize,
    input  logic                    awvalid,
    output logic                    awready,
    input  logic [   DATA_BITS-1:0] wdata,
    input  logic [       BYTES-1:0] wstrb,
    input  logic                    wlast,
    input  logic                    wvalid,
    output logic                    wready,
    output logic [             1:0] bresp,
    output logic                    bvalid,
    input  logic                    bready,
    input  logic [ADDRESS_BITS-1:0] araddr,
    input  logic [             1:0] arburst,
    input  logic [ LENGTH_BITS-1:0] arlen,
    input  logic [             2:0] arsize,
    input  logic                    arvalid,
    output logic                    arready,
    output logic [   DATA_BITS-1:0] rdata,
    output logic [             1:0] rresp,
    output logic                    rlast,
    output logic                    rvalid,
    input  logic                    rready
);
  localparam logic [5:0] LATENCY = 6'd25;
  localparam int unsigned LANE_BITS = $clog2(BYTES);
  typedef logic [ADDRESS_BITS-1:LANE_BITS] place_t;
  logic [DATA_BITS-1:0] memory[place_t];

  // A pseudo-random bit: the port is ready in three of four clocks.
  logic [15:0] noise;
  logic is_open;
  assign is_open = noise[1:0] != 2'b00;

  logic writes, reads, has_begun;
  place_t write_place, read_place;
  logic [LENGTH_BITS-1:0] writes_left, reads_left;
  logic [5:0] write_wait, read_wait;

  assign awready = !writes && write_wait == '0 && !bvalid && is_open;
  assign wready  = writes && is_open;
  assign arready = !reads && is_open;
  assign bresp   = 2'b00;
  assign rresp   = 2'b00;
  assign rvalid  = reads && read_wait == '0;
  assign rlast   = reads_left == '0;
  // Noise where nothing was written.
  assign rdata   = memory.exists(read_place) ? memory[read_place] : {DATA_BITS / 8{noise[7:0]}};

  always_ff @(posedge clk) begin
    noise <= {noise[14:0], noise[15] ^ noise[13] ^ noise[12] ^ noise[10]};
    if (write_wait != '0) write_wait <= write_wait - 1'b1;
    if (read_wait != '0) read_wait <= read_wait - 1'b1;
    if (write_wait == 6'd1) bvalid <= 1'b1;
    if (bvalid && bready) bvalid <= 1'b0;

    if (awvalid && awready) begin
      writes <= 1'b1;
      write_place <= awaddr[ADDRESS_BITS-1:LANE_BITS];
      writes_left <= awlen;
    end
    if (wvalid && wready) begin
      for (int unsigned n = 0; n < BYTES; n++) begin
        if (wstrb[n]) memory[write_place][8*n+:8] <= wdata[8*n+:8];
      end
      write_place <= write_place + 1'b1;
      writes_left <= writes_left - 1'b1;
      if (wlast) begin
        writes <= 1'b0;
        write_wait <= LATENCY;
      end
    end
    if (arvalid && arready) begin
      reads <= 1'b1;
      read_place <= araddr[ADDRESS_BITS-1:LANE_BITS];
      reads_left <= arlen;
      read_wait <= LATENCY;
    end
    if (rvalid && rready) begin
      read_place <= read_place + 1'b1;
      reads_left <= reads_left - 1'b1;
      reads <= !rlast;
    end
    if (awvalid || arvalid) has_begun <= 1'b1;
    if (!reset_n) begin
      noise <= 16'h0001;
      {writes, reads, bvalid, has_begun} <= '0;
      {write_wait, read_wait} <= '0;
    end

    assert (!has_begun || reset_n)
    else $error("the port is reset after its first burst");
    assert (reset_n || !(awvalid || wvalid || arvalid))
    else $error("a burst while the port is reset");
    assert (is_complete || !(awvalid || arvalid))
    else $error("a burst before the memory is there");
    assert (!awvalid || (awaddr[LANE_BITS-1:0] == '0 && awburst == 1 && awsize == 3'(LANE_BITS)))
    else $error("address of a write");
    assert (!arvalid || (araddr[LANE_BITS-1:0] == '0 && arburst == 1 && arsize == 3'(LANE_BITS)))
    else $error("address of a read");
    assert (!(wvalid && wready) || wlast == (writes_left == '0))
    else $error("the last beat of a burst");
  end
endmodule
