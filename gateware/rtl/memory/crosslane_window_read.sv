// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Reads of the card's memory: a request becomes one AXI4 burst for each of its completions, which
// end at multiples of the payload size. Room for a burst's data is reserved before they are
// requested. A completion is begun when all of its data have arrived, so an error of the memory can
// still be reported: Completer Abort, and nothing more for that request.

module crosslane_window_read
  import crosslane_pkg::*;
#(
    parameter  int unsigned DATA_BITS    = 256,
    parameter  int unsigned ADDRESS_BITS = 40,
    parameter  int unsigned RING_BYTES   = 8192,          // a power of two
    localparam int unsigned BYTES        = DATA_BITS / 8
) (
    input  logic                           clk,
    input  logic                           rst,
    // verilator lint_off UNUSEDSIGNAL
    input  function_t                      function_i,       // of it: max_payload, routing_id
    // verilator lint_on UNUSEDSIGNAL
    // Read requests.
    input  logic                           s_valid,
    output logic                           s_ready,
    // verilator lint_off UNUSEDSIGNAL
    input  tlp_header_t                    s_header,         // only some fields are used
    // verilator lint_on UNUSEDSIGNAL
    output logic                           m_axi_arvalid,
    input  logic                           m_axi_arready,
    output logic        [ADDRESS_BITS-1:0] m_axi_araddr,
    output logic        [             7:0] m_axi_arlen,
    input  logic                           m_axi_rvalid,
    output logic                           m_axi_rready,
    input  logic        [   DATA_BITS-1:0] m_axi_rdata,
    // verilator lint_off UNUSEDSIGNAL
    input  logic        [             1:0] m_axi_rresp,      // bit 0 tells two kinds of error apart
    // verilator lint_on UNUSEDSIGNAL
    input  logic                           m_axi_rlast,
    output logic                           m_answer_valid,
    input  logic                           m_answer_ready,
    output tlp_header_t                    m_answer_header,
    output logic                           m_answer_first,
    output logic                           m_answer_last,
    output logic        [   DATA_BITS-1:0] m_answer_data
);
  localparam int unsigned WORDS = BYTES / 4;
  localparam int unsigned LANE_BITS = $clog2(BYTES);
  localparam int unsigned SHIFT_BITS = LANE_BITS - 2;
  localparam int unsigned POSITION_BITS = $clog2(RING_BYTES);
  // Longest completion: its burst has 256 beats at most, and the ring holds several of them.
  localparam int unsigned MOST = 1024;
  localparam int unsigned OUTSTANDING = 32;

  typedef logic [POSITION_BITS:0] fill_t;

  // A completion in progress.
  typedef struct packed {
    logic [6:0]  lower_address;
    logic [10:0] words;
    logic [12:0] byte_count;
    logic        last;           // of its request
    logic [15:0] requester;
    logic [9:0]  tag;
    logic [2:0]  traffic_class;
    logic [2:0]  attributes;
  } part_t;

  // --- Requests, cut into completions --------------------------------------------------------
  logic valid;
  logic [ADDRESS_BITS-1:2] address;
  logic [1:0] offset;  // bytes before the first requested one
  logic [10:0] left;
  logic [12:0] byte_count;
  part_t part;
  logic [10:0] most, to_boundary;
  logic issue, parts_ready, bursts_ready, ends_ready, has_room, part_taken;
  fill_t reserved, part_bytes, freed_bytes;
  logic [11:0] burst_words;

  function automatic logic [1:0] lowest(input logic [3:0] enables);
    if (enables[0] || enables == '0) return 2'd0;
    return enables[1] ? 2'd1 : enables[2] ? 2'd2 : 2'd3;
  endfunction

  function automatic logic [1:0] highest(input logic [3:1] enables);
    return enables == '0 ? 2'd0 : enables[3] ? 2'd3 : enables[2] ? 2'd2 : 2'd1;
  endfunction

  always_comb begin
    logic [12:0] payload;
    payload = size_bytes(function_i.max_payload);
    most = (payload > 13'(MOST)) ? 11'(MOST / 4) : payload[12:2];
    to_boundary = most - (11'(address) & (most - 1'b1));
    part.lower_address = {address[6:2], offset};
    part.words = (left < to_boundary) ? left : to_boundary;
    part.byte_count = byte_count;
    part.last = part.words == left;
  end

  assign part_bytes = fill_t'({part.words, 2'b00});
  assign has_room = reserved + part_bytes <= fill_t'(RING_BYTES);
  assign burst_words = 12'(address[LANE_BITS-1:2]) + 12'(part.words) - 12'd1;
  assign issue = valid && has_room && parts_ready && bursts_ready && ends_ready;
  assign s_ready = !valid || (issue && part.last);

  always_ff @(posedge clk) begin
    if (s_ready) begin
      valid <= s_valid;
      address <= s_header.address[ADDRESS_BITS-1:2];
      offset <= lowest(s_header.first_be);
      left <= s_header.length_dw;
      // A zero-length read is answered like one of one byte.
      byte_count <= {s_header.length_dw, 2'b00} - 13'(lowest(
          s_header.first_be
      )) - 13'd3 + 13'(highest(
          (s_header.length_dw == 11'd1) ? s_header.first_be[3:1] : s_header.last_be[3:1]
      ));
      part.requester <= s_header.requester;
      part.tag <= s_header.tag;
      part.traffic_class <= s_header.traffic_class;
      part.attributes <= s_header.attributes;
    end else if (issue) begin
      address <= address + (ADDRESS_BITS - 2)'(part.words);
      offset <= '0;
      left <= left - part.words;
      byte_count <= byte_count - {part.words, 2'b00} + 13'(offset);
    end
    reserved <= reserved + (issue ? part_bytes : '0) - (part_taken ? freed_bytes : '0);
    if (rst) begin
      valid <= 1'b0;
      reserved <= '0;
    end
  end

  crosslane_fifo #(
      .WIDTH(ADDRESS_BITS + 8),
      .DEPTH(4)
  ) bursts (
      .clk,
      .rst,
      .s_valid(issue),
      .s_ready(bursts_ready),
      .s_data ({address[ADDRESS_BITS-1:LANE_BITS], LANE_BITS'(0), 8'(burst_words >> SHIFT_BITS)}),
      .m_valid(m_axi_arvalid),
      .m_ready(m_axi_arready),
      .m_data ({m_axi_araddr, m_axi_arlen}),
      .count  ()
  );

  // --- Data into the ring ----------------------------------------------------------------------
  // For each burst: words before the first requested one, and requested words.
  logic [SHIFT_BITS-1:0] skip;
  logic [10:0] burst_wanted;
  logic [POSITION_BITS-1:0] part_begin, beat_begin, beat_position;
  logic beat_first, failed_before, fails;
  logic [BYTES-1:0] wanted;
  logic arrives;

  crosslane_fifo #(
      .WIDTH(SHIFT_BITS + 11),
      .DEPTH(OUTSTANDING)
  ) ends (
      .clk,
      .rst,
      .s_valid(issue),
      .s_ready(ends_ready),
      .s_data ({address[LANE_BITS-1:2], part.words}),
      .m_valid(arrives),
      .m_ready(m_axi_rvalid && m_axi_rlast),
      .m_data ({skip, burst_wanted}),
      .count  ()
  );

  assign m_axi_rready = 1'b1;
  assign fails = m_axi_rresp[1] || (!beat_first && failed_before);

  for (genvar n = 0; n < WORDS; n++) begin : g_wanted
    // The last word is always requested.
    // verilator lint_off CMPCONST
    assign wanted[4*n+:4] = {4{!beat_first || SHIFT_BITS'(n) >= skip}};
    // verilator lint_on CMPCONST
  end

  // Stages from a part's last beat to the clock in which it may be read.
  logic [RING_WRITE_CLOCKS-2:0] whole, whole_failed;
  logic whole_valid, whole_ready, aborts;

  always_ff @(posedge clk) begin
    if (m_axi_rvalid) begin
      beat_first <= m_axi_rlast;
      beat_begin <= beat_position + POSITION_BITS'(BYTES);
      failed_before <= fails;
      if (m_axi_rlast) part_begin <= part_begin + POSITION_BITS'({burst_wanted, 2'b00});
    end
    whole <= {whole[RING_WRITE_CLOCKS-3:0], m_axi_rvalid && m_axi_rlast};
    whole_failed <= {whole_failed[RING_WRITE_CLOCKS-3:0], fails};
    if (rst) begin
      beat_first <= 1'b1;
      part_begin <= '0;
      whole <= '0;
    end
  end

  logic [POSITION_BITS-1:0] read_position;
  logic move;
  assign beat_position = beat_first ? part_begin - POSITION_BITS'({skip, 2'b00}) : beat_begin;

  crosslane_byte_ring #(
      .DATA_BITS (DATA_BITS),
      .SIZE_BYTES(RING_BYTES)
  ) ring (
      .clk,
      .rst,
      .write_valid(m_axi_rvalid),
      .write_position(beat_position),
      .write_data(m_axi_rdata),
      .write_enable(wanted),
      .read_enable(move),
      .read_position,
      .read_back('0),
      .read_data(m_answer_data)
  );

  // --- Completions ---------------------------------------------------------------------------
  part_t out;
  logic  out_valid;

  crosslane_fifo #(
      .WIDTH($bits(part_t)),
      .DEPTH(OUTSTANDING)
  ) parts (
      .clk,
      .rst,
      .s_valid(issue),
      .s_ready(parts_ready),
      .s_data (part),
      .m_valid(out_valid),
      .m_ready(part_taken),
      .m_data (out),
      .count  ()
  );

  crosslane_fifo #(
      .WIDTH(1),
      .DEPTH(OUTSTANDING)
  ) wholes (
      .clk,
      .rst,
      .s_valid(whole[RING_WRITE_CLOCKS-2]),
      .s_ready(),  // the table has an entry for each part
      .s_data(whole_failed[RING_WRITE_CLOCKS-2]),
      .m_valid(whole_valid),
      .m_ready(whole_ready),
      .m_data(aborts),
      .count()
  );

  logic begun, silent, answers, beat_ends;
  logic [10:0] words_out, words_left;  // of the part, from this beat on
  tlp_header_t header;
  logic [RING_READ_CLOCKS-1:0] stage_valid, stage_first, stage_last;
  tlp_header_t [RING_READ_CLOCKS-1:0] stage_header;

  assign words_out = begun ? words_left : out.words;
  assign beat_ends = words_out <= 11'(WORDS) || aborts || silent;
  assign answers = whole_valid && out_valid;
  assign move = !m_answer_valid || m_answer_ready;
  assign part_taken = answers && move && beat_ends;
  assign whole_ready = part_taken;
  assign freed_bytes = fill_t'({out.words, 2'b00});

  always_comb begin
    header = '0;
    header.kind = aborts ? COMPLETION : COMPLETION_DATA;
    header.address = 64'(out.lower_address);
    header.length_dw = aborts ? '0 : out.words;
    header.status = aborts ? STATUS_COMPLETER_ABORT : STATUS_SUCCESSFUL;
    header.byte_count = out.byte_count;
    header.requester = out.requester;
    header.completer = function_i.routing_id;
    header.tag = out.tag;
    header.traffic_class = out.traffic_class;
    header.attributes = out.attributes;
    header.bar = NO_BAR;
  end

  logic [POSITION_BITS-1:0] out_begin;
  assign read_position = out_begin +
      POSITION_BITS'(begun ? {out.words - words_left, 2'b00} : 13'd0);

  always_ff @(posedge clk) begin
    if (move) begin
      stage_valid  <= {stage_valid[RING_READ_CLOCKS-2:0], answers && !silent};
      stage_first  <= {stage_first[RING_READ_CLOCKS-2:0], !begun};
      stage_last   <= {stage_last[RING_READ_CLOCKS-2:0], beat_ends};
      stage_header <= {stage_header[RING_READ_CLOCKS-2:0], header};
      if (answers) begin
        begun <= !beat_ends;
        words_left <= words_out - 11'(WORDS);
        if (beat_ends) begin
          out_begin <= out_begin + POSITION_BITS'({out.words, 2'b00});
          // After an abort the rest of the request is not answered.
          silent <= !out.last && (silent || aborts);
        end
      end
    end
    if (rst) begin
      stage_valid <= '0;
      begun <= 1'b0;
      silent <= 1'b0;
      out_begin <= '0;
    end
  end

  assign m_answer_valid  = stage_valid[RING_READ_CLOCKS-1];
  assign m_answer_first  = stage_first[RING_READ_CLOCKS-1];
  assign m_answer_last   = stage_last[RING_READ_CLOCKS-1];
  assign m_answer_header = stage_header[RING_READ_CLOCKS-1];

`ifndef SYNTHESIS
  always_ff @(posedge clk) begin
    if (!rst && m_axi_rvalid) begin
      assert (arrives)
      else $error("data that nobody has asked for");
    end
  end
`endif
endmodule
