// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Receive queues (`lanes`): take writes into BAR 1 as they arrive, at the full rate.
//
//             +-> ring of the lane (one memory) --+--> feed, of feed_lane
//   s_lane ---+                                   |
//             +-> checker, shared <---------------+  bytes left in a lane that is not kept
//             bytes taken out ---> crosslane_lane_credits ---> m_credit
//
// The data of a lane that is kept go into its ring, where the feed takes them. The data of any
// other lane are compared with the pattern, if its check is on, and dropped; bytes that its ring
// still holds from earlier go the same way first, in clocks in which the feed takes nothing.
//
// If a lane is restarted while the feed's consumer is in the middle of a TLP, the consumer still
// gets the rest. Later data go into another part of the ring, and wait where they would reach the
// rest.

module crosslane_lanes
  import crosslane_pkg::*;
#(
    parameter  int unsigned DATA_BITS    = 256,
    parameter  int unsigned LANES        = 8,             // 1 to 16
    parameter  int unsigned LANE_FIFO    = 16384,         // bytes; a power of two
    parameter  int unsigned WINDOW_BYTES = 65536,         // of BAR 1, each lane; a power of two
    localparam int unsigned BYTES        = DATA_BITS / 8
) (
    input  logic                           clk,
    input  logic                           rst,
    // Writes into BAR 1.
    input  logic                           s_lane_valid,
    output logic                           s_lane_ready,
    input  tlp_header_t                    s_lane_header,
    input  logic                           s_lane_first,
    input  logic                           s_lane_last,
    input  logic           [DATA_BITS-1:0] s_lane_data,
    // Registers.
    input  lane_settings_t [    LANES-1:0] lane_settings,
    output lane_readings_t [    LANES-1:0] lane_readings,
    input  function_t                      function_i,
    input  logic           [         63:0] time_i,           // clocks
    input  logic                           reset_counters,   // pulse
    // User circuit: lanes whose data are kept in their ring, and the lane that the feed reads.
    input  logic           [    LANES-1:0] kept,
    input  logic           [          3:0] feed_lane,
    output logic           [         15:0] feed_available,
    input  logic                           feed_move,
    input  logic                           feed_take,
    input  logic           [          5:0] feed_take_back,
    input  logic           [          6:0] feed_take_bytes,
    input  logic                           feed_goes_on,
    output logic           [DATA_BITS-1:0] feed_data,
    // A TLP has been taken in: pulse.
    output logic                           received_valid,
    output logic           [          3:0] received_lane,
    output logic           [         12:0] received_bytes,
    // Work is in progress that does not wait for the input, the feed or the output.
    output logic                           busy,
    // Credit writes.
    output logic                           m_credit_valid,
    input  logic                           m_credit_ready,
    output tlp_header_t                    m_credit_header,
    output logic                           m_credit_first,
    output logic                           m_credit_last,
    output logic           [DATA_BITS-1:0] m_credit_data
);
  localparam int unsigned WORDS = DATA_BITS / 32;
  localparam int unsigned COUNT_BITS = $clog2(WORDS + 1);
  localparam int unsigned LANE_BITS = (LANES == 1) ? 1 : $clog2(LANES);
  localparam int unsigned RINGS = 1 << $clog2(LANES);
  localparam int unsigned FIFO_BITS = $clog2(LANE_FIFO);
  localparam int unsigned POSITION_BITS = $clog2(RINGS * LANE_FIFO);

  typedef logic [LANE_BITS-1:0] lane_t;
  typedef logic [FIFO_BITS:0] fill_t;  // positions have one bit more than the ring needs

  // --- Input ---------------------------------------------------------------------------------
  logic beat_valid, beat_ready, beat_first, beat_last;
  logic [DATA_BITS-1:0] beat_data;
  lane_t beat_lane;
  logic beat_absent, beat_bad;
  logic [12:0] beat_tlp_bytes;  // of the TLP
  logic [COUNT_BITS-1:0] beat_words;

  crosslane_lane_input #(
      .DATA_BITS   (DATA_BITS),
      .LANES       (LANES),
      .WINDOW_BYTES(WINDOW_BYTES)
  ) input_stage (
      .*
  );

  // --- Fate of a TLP -------------------------------------------------------------------------
  // Positions count bytes: written; written and readable; taken out.
  fill_t [LANES-1:0] written, readable, taken;

  typedef enum logic [1:0] {
    STORE,  // into the ring
    PASS,   // to the checker
    DROP
  } fate_e;

  fate_e fate, first_fate, fate_before;
  fill_t beat_written, beat_held;
  logic beat_kept, loses, waits;
  // The consumer is still to get the rest of a TLP that it had begun before its lane's restart.
  // Position behind the feed's last beat; bytes of the ring up to there.
  logic rest, beat_at_rest;
  lane_t feed_index;
  logic [FIFO_BITS-1:0] rest_at, rest_room;
  logic beat_taken, stored, passed;
  logic [6:0] beat_bytes;
  // A drained beat is in the ring's read pipeline; it has reached the checker.
  logic drain_under_way, drain_checked;
  lane_t drain_lane;

  assign beat_written = written[beat_lane];
  assign beat_held = beat_written - taken[beat_lane];
  assign beat_kept = kept[beat_lane];
  assign beat_bytes = 7'({beat_words, 2'b00});
  assign beat_at_rest = rest && beat_lane == feed_index;
  assign rest_room = rest_at - FIFO_BITS'(beat_written);

  always_comb begin
    logic fits, is_long;
    fits = 32'(beat_held) + 32'(beat_tlp_bytes) <= LANE_FIFO;
    is_long = 32'(beat_tlp_bytes) > LANE_FIFO;
    first_fate = STORE;
    loses = 1'b0;
    waits = 1'b0;
    if (beat_absent) begin
      first_fate = DROP;
    end else if (beat_bad || !lane_settings[beat_lane].enable) begin
      first_fate = DROP;
      loses = 1'b1;
    end else if (beat_kept || beat_held != '0) begin
      // A TLP longer than the ring would wait for ever.
      if (!fits && beat_kept && (lane_settings[beat_lane].drop_when_full || is_long)) begin
        first_fate = DROP;
        loses = 1'b1;
      end else begin
        waits = !fits || (beat_at_rest && 32'(rest_room) < 32'(beat_tlp_bytes));
      end
    end else begin
      first_fate = PASS;
      waits = drain_under_way && drain_lane == beat_lane;
    end
  end

  assign fate = beat_first ? first_fate : fate_before;
  assign beat_ready = !(beat_first && waits) && !(fate == PASS && drain_checked);
  assign beat_taken = beat_valid && beat_ready;
  assign stored = beat_taken && fate == STORE;
  assign passed = beat_taken && fate == PASS;

  always_ff @(posedge clk) begin
    if (beat_taken) fate_before <= fate;
    // A TLP that the restart interrupts loses its rest with its beginning.
    if (lane_settings[beat_lane].restart && !beat_absent && (beat_taken || !beat_first)) begin
      fate_before <= DROP;
    end
  end

  // --- Reads of the ring ---------------------------------------------------------------------
  // A beat of the feed, or else of a lane that is drained. The ring's read pipeline advances when
  // the feed's consumer says so, or when it holds nothing of the consumer's.
  fill_t [LANES-1:0] fill;
  logic feed_exists, feed_covered, read_move, out_valid;
  lane_t out_lane;
  logic [6:0] out_bytes, drain_bytes;
  logic [RING_READ_CLOCKS-1:0] in_pipe_feed, in_pipe_drain;
  logic [RING_READ_CLOCKS-1:0][COUNT_BITS-1:0] in_pipe_words;
  logic draining, drain_take, moved;
  fill_t drain_fill, feed_fill, read_at, read_end;
  logic [FIFO_BITS-1:0] read_offset;

  for (genvar lane = 0; lane < LANES; lane++) begin : g_fill
    assign fill[lane] = readable[lane] - taken[lane];
  end

  assign feed_index = lane_t'(feed_lane);
  assign feed_exists = 5'(feed_lane) < 5'(LANES);
  assign feed_fill = fill[feed_index];
  // More than the available bytes cannot be taken: a consumer may try when the feed has meanwhile
  // been switched to another lane. Bytes of a rest are not counted: the restart has set the counts
  // to 0.
  assign feed_covered = feed_take && feed_exists && !rest && feed_fill >= fill_t'(feed_take_bytes);
  assign read_move = feed_move || in_pipe_feed == '0;

  always_comb begin
    feed_available = 16'(feed_fill);
    if (32'(feed_fill) > 32'hffff) feed_available = 16'hffff;
    if (!feed_exists || !kept[feed_index]) feed_available = '0;
    if (rest) feed_available = '1;
  end

  // Whole words; a partial word at the end is dropped unchecked.
  assign drain_fill = fill[drain_lane];
  assign drain_take = draining && read_move && !feed_take && !kept[drain_lane] &&
      (drain_fill >= fill_t'(4) ||
       (drain_fill != '0 && readable[drain_lane] == written[drain_lane]));
  always_comb begin
    if (drain_fill >= fill_t'(BYTES)) drain_bytes = 7'(BYTES);
    else if (drain_fill >= fill_t'(4)) drain_bytes = {5'(drain_fill >> 2), 2'b00};
    else drain_bytes = 7'(drain_fill);
  end

  assign out_valid = feed_covered || drain_take;
  assign out_lane = feed_take ? feed_index : drain_lane;
  assign out_bytes = feed_take ? feed_take_bytes : drain_bytes;
  assign read_at = (rest && feed_take) ? fill_t'(rest_at) : taken[out_lane];
  assign read_end = read_at + fill_t'(out_bytes);
  assign read_offset = FIFO_BITS'(read_at) - FIFO_BITS'(feed_take ? feed_take_back : 6'd0);
  assign drain_under_way = in_pipe_drain != '0;
  assign drain_checked = in_pipe_drain[RING_READ_CLOCKS-1] && moved;

  always_ff @(posedge clk) begin
    moved <= read_move;
    if (read_move) begin
      in_pipe_feed  <= {in_pipe_feed[RING_READ_CLOCKS-2:0], feed_take};
      in_pipe_drain <= {in_pipe_drain[RING_READ_CLOCKS-2:0], drain_take};
      in_pipe_words <= {in_pipe_words[RING_READ_CLOCKS-2:0], COUNT_BITS'(drain_bytes >> 2)};
    end
    if (!draining || ((taken[drain_lane] == written[drain_lane] || kept[drain_lane]) &&
                      !drain_under_way)) begin
      draining <= 1'b0;
      for (int unsigned n = 0; n < LANES; n++) begin
        if (!kept[n] && taken[n] != written[n]) begin
          draining   <= 1'b1;
          drain_lane <= lane_t'(n);
        end
      end
    end
    rest <= (rest || (feed_exists && lane_settings[feed_index].restart)) && feed_goes_on;
    if (feed_take) rest_at <= FIFO_BITS'(read_end);
    if (rst) begin
      rest <= 1'b0;
      rest_at <= '0;
      draining <= 1'b0;
      in_pipe_feed <= '0;
      in_pipe_drain <= '0;
    end
  end

  // --- Positions -----------------------------------------------------------------------------
  // A lane restarts two quarters of the ring behind the feed's last position: a consumer takes at
  // most a quarter for one TLP.
  fill_t begin_at;
  logic [1:0] quarter;
  assign quarter  = feed_take ? read_at[FIFO_BITS-1-:2] : rest_at[FIFO_BITS-1-:2];
  assign begin_at = {1'b0, ~quarter[1], quarter[0], (FIFO_BITS - 2)'(0)};

  // A beat becomes readable RING_WRITE_CLOCKS after it is written.
  logic  [RING_WRITE_CLOCKS-2:0] landing;
  lane_t [RING_WRITE_CLOCKS-2:0] landing_lane;
  fill_t [RING_WRITE_CLOCKS-2:0] landing_written;

  always_ff @(posedge clk) begin
    if (stored) written[beat_lane] <= beat_written + fill_t'(beat_bytes);
    landing <= {landing[RING_WRITE_CLOCKS-3:0], stored};
    landing_lane <= {landing_lane[RING_WRITE_CLOCKS-3:0], beat_lane};
    landing_written <= {landing_written[RING_WRITE_CLOCKS-3:0], beat_written + fill_t'(beat_bytes)};
    if (landing[RING_WRITE_CLOCKS-2]) begin
      readable[landing_lane[RING_WRITE_CLOCKS-2]] <= landing_written[RING_WRITE_CLOCKS-2];
    end
    if (out_valid) taken[out_lane] <= read_end;
    for (int unsigned n = 0; n < LANES; n++) begin
      if (rst || lane_settings[n].restart) begin
        written[n]  <= rst ? '0 : begin_at;
        readable[n] <= rst ? '0 : begin_at;
        taken[n]    <= rst ? '0 : begin_at;
        // Beats still in the ring's write pipeline are forgotten.
        for (int unsigned stage = 1; stage < RING_WRITE_CLOCKS - 1; stage++) begin
          if (landing_lane[stage-1] == lane_t'(n)) landing[stage] <= 1'b0;
        end
        if (beat_lane == lane_t'(n)) landing[0] <= 1'b0;
      end
    end
    if (rst) landing <= '0;
  end

  // --- Ring ----------------------------------------------------------------------------------
  logic [POSITION_BITS-1:0] write_position, read_position;
  logic [BYTES-1:0] write_enable;

  // Only whole double words are written: lowest bits tied to 0 save the ring a good deal of logic.
  if (RINGS == 1) begin : g_ring_position
    assign write_position = {beat_written[FIFO_BITS-1:2], 2'b00};
    assign read_position  = read_offset;
  end else begin : g_ring_position
    assign write_position = {beat_lane, beat_written[FIFO_BITS-1:2], 2'b00};
    assign read_position  = {out_lane, read_offset};
  end

  for (genvar byte_lane = 0; byte_lane < BYTES; byte_lane++) begin : g_write_enable
    assign write_enable[byte_lane] = COUNT_BITS'(byte_lane / 4) < beat_words;
  end

  crosslane_byte_ring #(
      .DATA_BITS (DATA_BITS),
      .SIZE_BYTES(RINGS * LANE_FIFO),
      .RINGS     (RINGS)
  ) ring (
      .*,
      .write_valid(stored),
      .write_data (beat_data),
      .read_enable(read_move),
      .read_back  ('0),
      .read_data  (feed_data)
  );

  // --- Checker -------------------------------------------------------------------------------
  logic [LANES-1:0] check, restart;
  logic [LANES-1:0][31:0] seed, errors, first_error;

  for (genvar lane = 0; lane < LANES; lane++) begin : g_check
    assign check[lane] = lane_settings[lane].check;
    assign restart[lane] = lane_settings[lane].restart;
    assign seed[lane] = lane_settings[lane].check_seed;
  end

  crosslane_checker #(
      .DATA_BITS(DATA_BITS),
      .STREAMS  (LANES)
  ) checker_of_lanes (
      .*,
      .enable(check),
      .valid (drain_checked || passed),
      .stream(drain_checked ? drain_lane : beat_lane),
      .words (drain_checked ? in_pipe_words[RING_READ_CLOCKS-1] : beat_words),
      .data  (drain_checked ? feed_data : beat_data),
      .first (first_error)
  );

  // --- Credits -------------------------------------------------------------------------------
  logic [LANES-1:0][31:0] drained;
  logic [LANES-1:0] empty;
  logic credit_pending;

  assign busy = beat_valid || landing != '0 || draining || credit_pending;

  for (genvar lane = 0; lane < LANES; lane++) begin : g_empty
    assign empty[lane] = taken[lane] == written[lane];
  end

  crosslane_lane_credits #(
      .DATA_BITS(DATA_BITS),
      .LANES    (LANES),
      .LANE_FIFO(LANE_FIFO)
  ) credits (
      .*,
      .taken_valid (out_valid),
      .taken_lane  (out_lane),
      .taken_bytes (out_bytes),
      .passed_valid(passed),
      .passed_lane (beat_lane),
      .passed_bytes(beat_bytes),
      .pending     (credit_pending)
  );

  // --- Readings ------------------------------------------------------------------------------
  crosslane_lane_counters #(
      .LANES    (LANES),
      .FILL_BITS(FIFO_BITS + 1)
  ) counters (
      .*,
      .lane(beat_lane),
      .beat_valid(stored || passed),
      .lost(beat_taken && beat_first && loses)
  );

  always_ff @(posedge clk) begin
    received_valid <= (stored || passed) && beat_last && !rst;
    received_lane  <= 4'(beat_lane);
    received_bytes <= beat_tlp_bytes;
  end

`ifndef SYNTHESIS
  if (LANES < 1 || LANES > 16 || LANE_FIFO != 1 << FIFO_BITS) begin : g_parameters
    $error("1 to 16 LANES; LANE_FIFO is a power of two");
  end
`endif
endmodule
