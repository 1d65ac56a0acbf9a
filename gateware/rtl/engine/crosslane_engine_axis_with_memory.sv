// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The engine for a user circuit with AXI-Streams in a separate clock domain: one from each H2C
// channel and from one receive queue, one to each C2H and peer channel. A beat carries the bytes
// that tkeep marks, from lane 0 on, and may be partial. With PACKETS the first H2C and the first
// C2H channel have tlast, and tuser beside it: docs/engine.md, "Packets".
// With MEMORY these two reach the memory of their board too, as software sets each of them
// (docs/engine.md, "The card's memory"); its ports are in the clock of the engine.
//
//   h2c, lane feed --> stream_out --> async_fifo --> m_axis_*        ring and feed <-- stream_in
//                      clk            | user_clk                     clk, async_fifo <-- s_axis_*
//
// A reset of either side resets the streams of both; `user_rst_o` signals it to the user circuit.
// Stream data in flight at that moment are lost. `rst` alone resets the engine itself, its rings
// included. Data that have left an H2C channel's ring when that channel is restarted still come
// out.

module crosslane_engine_axis_with_memory
  import crosslane_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256,
    parameter int unsigned H2C = 1,
    parameter int unsigned C2H = 1,
    parameter int unsigned PEER = 0,
    parameter int unsigned LANES = 1,  // 0 to 16
    parameter int unsigned LANE = 0,  // the lane with a stream; others are checked and drained
    parameter int unsigned TAGS = 64,
    parameter int unsigned MAX_WRITE = 512,
    parameter int unsigned MAX_READ = 1024,
    parameter int unsigned STAGING_BYTES = 65536,
    parameter int unsigned RING_BYTES = 16384,  // before each writer: a power of two, to 65536
    parameter int unsigned LANE_FIFO = 16384,
    parameter int unsigned LANE_WINDOW = 524288,
    parameter int unsigned TABLE_ENTRIES = 1024,
    parameter int unsigned BATCH = 16,
    parameter int unsigned COMPLETION_HEADER_CREDITS = 0,
    parameter int unsigned COMPLETION_DATA_CREDITS = 0,
    parameter int unsigned VECTORS = 8,
    parameter int unsigned CLOCK_PS = 4000,
    parameter int unsigned TIMEOUT_CLOCKS = 12500000,
    parameter bit PACKETS = 0,  // the first H2C and C2H channels have a packet mode
    parameter bit PUSH = 0,  // BAR 4 has a line for each channel
    parameter bit MEMORY = 1,  // these five as in crosslane_engine
    parameter int unsigned MEMORY_BITS = 40,
    parameter bit COPY = 1,
    parameter bit WINDOW = 0,
    parameter int unsigned WINDOW_BITS = 20,
    parameter int unsigned FIFO_DEPTH = 16,  // beats between the clocks, from 16 for the full rate
    localparam int unsigned BYTES = DATA_BITS / 8,
    localparam int unsigned WRITERS = C2H + PEER,
    localparam int unsigned LANE_PLACES = (LANES > 0) ? LANES : 1
) (
    input logic clk,
    input logic rst,
    input function_t function_i,
    input room_t room_i,
    output logic [63:0] time_o,
    input logic s_rx_valid,
    output logic s_rx_ready,
    input tlp_header_t s_rx_header,
    input logic s_rx_first,
    input logic s_rx_last,
    input logic [DATA_BITS-1:0] s_rx_data,
    input logic s_rx_aborted,
    output logic m_tx_valid,
    input logic m_tx_ready,
    output tlp_header_t m_tx_header,
    output logic m_tx_first,
    output logic m_tx_last,
    output logic [DATA_BITS-1:0] m_tx_data,
    output logic poisoned_write,
    output logic unexpected_completion,
    output logic completion_timeout,
    // The board's memory, as in crosslane_engine.
    // verilator lint_off UNUSEDSIGNAL
    output logic m_memory_awvalid,
    input logic m_memory_awready,
    output logic [MEMORY_BITS-1:0] m_memory_awaddr,
    output logic [7:0] m_memory_awlen,
    output logic [2:0] m_memory_awsize,
    output logic [1:0] m_memory_awburst,
    output logic m_memory_wvalid,
    input logic m_memory_wready,
    output logic [DATA_BITS-1:0] m_memory_wdata,
    output logic [BYTES-1:0] m_memory_wstrb,
    output logic m_memory_wlast,
    input logic m_memory_bvalid,
    output logic m_memory_bready,
    input logic [1:0] m_memory_bresp,
    output logic m_memory_arvalid,
    input logic m_memory_arready,
    output logic [MEMORY_BITS-1:0] m_memory_araddr,
    output logic [7:0] m_memory_arlen,
    output logic [2:0] m_memory_arsize,
    output logic [1:0] m_memory_arburst,
    input logic m_memory_rvalid,
    output logic m_memory_rready,
    input logic [DATA_BITS-1:0] m_memory_rdata,
    input logic [1:0] m_memory_rresp,
    input logic m_memory_rlast,
    output logic m_window_awvalid,
    input logic m_window_awready,
    output logic [WINDOW_BITS-1:0] m_window_awaddr,
    output logic [7:0] m_window_awlen,
    output logic [2:0] m_window_awsize,
    output logic [1:0] m_window_awburst,
    output logic m_window_wvalid,
    input logic m_window_wready,
    output logic [DATA_BITS-1:0] m_window_wdata,
    output logic [BYTES-1:0] m_window_wstrb,
    output logic m_window_wlast,
    input logic m_window_bvalid,
    output logic m_window_bready,
    input logic [1:0] m_window_bresp,
    output logic m_window_arvalid,
    input logic m_window_arready,
    output logic [WINDOW_BITS-1:0] m_window_araddr,
    output logic [7:0] m_window_arlen,
    output logic [2:0] m_window_arsize,
    output logic [1:0] m_window_arburst,
    input logic m_window_rvalid,
    output logic m_window_rready,
    input logic [DATA_BITS-1:0] m_window_rdata,
    input logic [1:0] m_window_rresp,
    input logic m_window_rlast,
    output logic window_failed,  // pulse: the memory has refused what came through the window
    // verilator lint_on UNUSEDSIGNAL
    // All ports below: user_clk.
    input logic user_clk,
    input logic user_rst,
    output logic user_rst_o,  // the streams are reset
    output logic [H2C-1:0][DATA_BITS-1:0] m_axis_h2c_tdata,
    output logic [H2C-1:0][BYTES-1:0] m_axis_h2c_tkeep,
    output logic [H2C-1:0] m_axis_h2c_tlast,
    output logic [H2C-1:0][15:0] m_axis_h2c_tuser,
    output logic [H2C-1:0] m_axis_h2c_tvalid,
    input logic [H2C-1:0] m_axis_h2c_tready,
    output logic [DATA_BITS-1:0] m_axis_lane_tdata,
    output logic [BYTES-1:0] m_axis_lane_tkeep,
    output logic m_axis_lane_tvalid,
    input logic m_axis_lane_tready,
    // C2H first, then peer.
    input logic [WRITERS-1:0][DATA_BITS-1:0] s_axis_write_tdata,
    input logic [WRITERS-1:0][BYTES-1:0] s_axis_write_tkeep,
    input logic [WRITERS-1:0] s_axis_write_tlast,
    input logic [WRITERS-1:0][15:0] s_axis_write_tuser,
    input logic [WRITERS-1:0] s_axis_write_tvalid,
    output logic [WRITERS-1:0] s_axis_write_tready
);
  // The first channel of each direction has tlast and tuser as well.
  localparam int unsigned WIDTH = DATA_BITS + BYTES;
  localparam int unsigned PACKET_WIDTH = WIDTH + 17;

  always_ff @(posedge clk) begin
    time_o <= time_o + 1'b1;
    if (rst) time_o <= '0;
  end

  logic stream_rst, stream_clear, user_clear;
  crosslane_fifo_resets resets (
      .a_clk    (clk),
      .a_rst    (rst),
      .a_rst_o  (stream_rst),
      .a_clear_o(stream_clear),
      .b_clk    (user_clk),
      .b_rst    (user_rst),
      .b_rst_o  (user_rst_o),
      .b_clear_o(user_clear)
  );

  // --- Engine ------------------------------------------------------------------------------------
  // Feeds of the H2C channels; the last one is the receive queue's.
  logic [H2C:0][15:0] feed_available;
  logic [H2C:0] feed_move, feed_take;
  logic [H2C:0][5:0] feed_take_back;
  logic [H2C:0][6:0] feed_take_bytes;
  logic [H2C:0][DATA_BITS-1:0] feed_data;
  logic [WRITERS-1:0][15:0] write_available;
  logic [WRITERS-1:0] write_move, write_take;
  logic [WRITERS-1:0][5:0] write_take_back;
  logic [WRITERS-1:0][6:0] write_take_bytes;
  logic [WRITERS-1:0][DATA_BITS-1:0] write_data;
  packet_end_t [H2C:0] feed_end;
  packet_end_t [WRITERS-1:0] write_end;
  assign feed_end[H2C] = '0;

  crosslane_engine #(
      .DATA_BITS(DATA_BITS),
      .H2C(H2C),
      .C2H(C2H),
      .PEER(PEER),
      .LANES(LANES),
      .TAGS(TAGS),
      .MAX_WRITE(MAX_WRITE),
      .MAX_READ(MAX_READ),
      .STAGING_BYTES(STAGING_BYTES),
      .LANE_FIFO(LANE_FIFO),
      .LANE_WINDOW(LANE_WINDOW),
      .TABLE_ENTRIES(TABLE_ENTRIES),
      .BATCH(BATCH),
      .COMPLETION_HEADER_CREDITS(COMPLETION_HEADER_CREDITS),
      .COMPLETION_DATA_CREDITS(COMPLETION_DATA_CREDITS),
      .VECTORS(VECTORS),
      .CLOCK_PS(CLOCK_PS),
      .TIMEOUT_CLOCKS(TIMEOUT_CLOCKS),
      .PACKETS(PACKETS),
      .PUSH(PUSH),
      .MEMORY(MEMORY),
      .MEMORY_BITS(MEMORY_BITS),
      .COPY(COPY),
      .WINDOW(WINDOW),
      .WINDOW_BITS(WINDOW_BITS)
  ) engine (
      .*,
      .time_i(time_o),
      // The reference user circuit's registers are absent: they read as 0.
      .user_settings(),
      .user_readings('0),
      .h2c_drained('0),
      .h2c_available(feed_available[H2C-1:0]),
      .h2c_move(feed_move[H2C-1:0]),
      .h2c_take(feed_take[H2C-1:0]),
      .h2c_take_back(feed_take_back[H2C-1:0]),
      .h2c_take_bytes(feed_take_bytes[H2C-1:0]),
      .h2c_goes_on('0),
      .h2c_data(feed_data[H2C-1:0]),
      .h2c_end(feed_end[H2C-1:0]),
      .write_goes_on(),
      .write_generated(),
      .lane_kept(LANE_PLACES'(1) << LANE),
      .lane_select(4'(LANE)),
      .lane_available(feed_available[H2C]),
      .lane_move(feed_move[H2C]),
      .lane_take(feed_take[H2C]),
      .lane_take_back(feed_take_back[H2C]),
      .lane_take_bytes(feed_take_bytes[H2C]),
      .lane_goes_on(1'b0),
      .lane_data(feed_data[H2C]),
      .received_valid(),
      .received_lane(),
      .received_bytes(),
      .command_valid(1'b0),
      .command_ready(),
      .command_descriptor('0),
      .command_done(),
      .message_begun(),
      .peer_stopped(),
      .busy()
  );

  // --- From the user circuit ---------------------------------------------------------------------
  for (genvar n = 0; n < WRITERS; n++) begin : g_in
    localparam bit OWN_PACKETS = PACKETS && n == 0;
    localparam int unsigned OWN_WIDTH = OWN_PACKETS ? PACKET_WIDTH : WIDTH;
    logic [DATA_BITS-1:0] tdata;
    logic [BYTES-1:0] tkeep;
    logic [15:0] tuser;
    logic tlast, tvalid, tready;
    logic [OWN_WIDTH-1:0] crossed;
    logic is_ready, is_there;
    assign {tuser, tlast, tkeep, tdata} = PACKET_WIDTH'(crossed);
    assign s_axis_write_tready[n] = is_ready && !user_rst_o;
    assign tvalid = is_there && !stream_rst;

    crosslane_async_fifo #(
        .WIDTH(OWN_WIDTH),
        .DEPTH(FIFO_DEPTH)
    ) fifo (
        .s_clk(user_clk),
        .s_rst(user_clear),
        .s_valid(s_axis_write_tvalid[n] && !user_rst_o),
        .s_ready(is_ready),
        .s_data(OWN_WIDTH'({
          s_axis_write_tuser[n], s_axis_write_tlast[n], s_axis_write_tkeep[n], s_axis_write_tdata[n]
        })),
        .m_clk(clk),
        .m_rst(stream_clear),
        .m_valid(is_there),
        .m_ready(tready),
        .m_data(crossed)
    );

    // Data in here already belong to a writer and may be part of a TLP that has begun.
    crosslane_stream_in #(
        .DATA_BITS (DATA_BITS),
        .SIZE_BYTES(RING_BYTES),
        .PACKETS   (OWN_PACKETS)
    ) stream (
        .clk,
        .rst,
        .s_tdata(tdata),
        .s_tkeep(tkeep),
        .s_tlast(tlast),
        .s_tuser(tuser),
        .s_tvalid(tvalid),
        .s_tready(tready),
        .feed_available(write_available[n]),
        .feed_move(write_move[n]),
        .feed_take(write_take[n]),
        .feed_take_back(write_take_back[n]),
        .feed_take_bytes(write_take_bytes[n]),
        .feed_data(write_data[n]),
        .feed_end(write_end[n])
    );
  end

  // --- To the user circuit -----------------------------------------------------------------------
  logic [H2C:0][DATA_BITS-1:0] out_data;
  logic [H2C:0][BYTES-1:0] out_keep;
  logic [H2C:0] out_valid, out_ready;
  assign {m_axis_lane_tdata, m_axis_h2c_tdata} = out_data;
  assign {m_axis_lane_tkeep, m_axis_h2c_tkeep} = out_keep;
  assign {m_axis_lane_tvalid, m_axis_h2c_tvalid} = out_valid;
  assign out_ready = {m_axis_lane_tready, m_axis_h2c_tready};

  // The receive queue has no packets.
  // verilator lint_off UNUSEDSIGNAL
  logic [H2C:0] out_last;
  logic [H2C:0][15:0] out_user;
  // verilator lint_on UNUSEDSIGNAL
  assign m_axis_h2c_tlast = out_last[H2C-1:0];
  assign m_axis_h2c_tuser = out_user[H2C-1:0];

  for (genvar n = 0; n <= H2C; n++) begin : g_out
    localparam bit OWN_PACKETS = PACKETS && n == 0;
    localparam int unsigned OWN_WIDTH = OWN_PACKETS ? PACKET_WIDTH : WIDTH;
    logic [DATA_BITS-1:0] tdata;
    logic [BYTES-1:0] tkeep;
    logic [15:0] tuser;
    logic tlast, tvalid, tready;
    logic [OWN_WIDTH-1:0] crossed;
    logic is_ready, is_there;
    assign tready = is_ready && !stream_rst;
    assign out_valid[n] = is_there && !user_rst_o;

    crosslane_stream_out #(
        .DATA_BITS(DATA_BITS),
        .PACKETS  (OWN_PACKETS)
    ) stream (
        .clk,
        .rst(stream_rst),
        // The end of a stream is unknown: partial beats leave at once.
        .flush(1'b1),
        .feed_available(feed_available[n]),
        .feed_move(feed_move[n]),
        .feed_take(feed_take[n]),
        .feed_take_back(feed_take_back[n]),
        .feed_take_bytes(feed_take_bytes[n]),
        .feed_data(feed_data[n]),
        .feed_end(feed_end[n]),
        .m_tdata(tdata),
        .m_tkeep(tkeep),
        .m_tlast(tlast),
        .m_tuser(tuser),
        .m_tvalid(tvalid),
        .m_tready(tready)
    );

    crosslane_async_fifo #(
        .WIDTH(OWN_WIDTH),
        .DEPTH(FIFO_DEPTH)
    ) fifo (
        .s_clk  (clk),
        .s_rst  (stream_clear),
        .s_valid(tvalid && !stream_rst),
        .s_ready(is_ready),
        .s_data (OWN_WIDTH'({tuser, tlast, tkeep, tdata})),
        .m_clk  (user_clk),
        .m_rst  (user_clear),
        .m_valid(is_there),
        .m_ready(out_ready[n]),
        .m_data (crossed)
    );
    assign {out_user[n], out_last[n], out_keep[n], out_data[n]} = PACKET_WIDTH'(crossed);
  end

`ifndef SYNTHESIS
  if (RING_BYTES < 2 * MAX_WRITE || LANE >= LANE_PLACES) begin : g_sizes
    $error("a ring holds two TLPs; the stream's lane is one that is there");
  end
`endif
endmodule
