// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Distributes one stream of TLPs to RQ and CC of the hard block. Read first: README.md beside this
// file.
//
// Each request has a sequence number, which the hard block returns once no completion can pass the
// request any more. A completion is held at CC until the numbers of all writes before it have
// returned; the stream continues meanwhile, up to the next completion.

module crosslane_shim_us_tx
  import crosslane_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256,
    parameter bit RQ_STRADDLE = 1'b0,
    parameter bit CC_STRADDLE = 1'b0,
    parameter bit GEN3 = 1'b0,  // sequence numbers of 4 bits, tags of 6
    localparam int unsigned LANES = DATA_BITS / 32,
    localparam int unsigned RQ_USER_BITS = (DATA_BITS == 512) ? 137 : GEN3 ? 60 : 62,
    localparam int unsigned CC_USER_BITS = (DATA_BITS == 512) ? 81 : 33
) (
    input logic clk,
    input logic rst,

    input  logic                        s_valid,
    output logic                        s_ready,
    // verilator lint_off UNUSEDSIGNAL
    input  tlp_header_t                 s_header,  // also has fields of received TLPs
    // verilator lint_on UNUSEDSIGNAL
    input  logic                        s_first,
    input  logic                        s_last,
    input  logic        [DATA_BITS-1:0] s_data,

    input logic discard,  // the engine is being reset: a TLP that has begun is abandoned
    output logic between,  // no TLP is partly taken
    output logic heading,  // from the next clock on, only part of a descriptor has left
    input logic bus_master,
    input logic settle,  // outstanding numbers are given up

    output logic                    rq_valid,
    input  logic                    rq_ready,
    output logic [   DATA_BITS-1:0] rq_data,
    output logic [       LANES-1:0] rq_keep,
    output logic                    rq_last,
    output logic [RQ_USER_BITS-1:0] rq_user,
    output logic                    cc_valid,
    input  logic                    cc_ready,
    output logic [   DATA_BITS-1:0] cc_data,
    output logic [       LANES-1:0] cc_keep,
    output logic                    cc_last,
    output logic [CC_USER_BITS-1:0] cc_user,

    input logic [1:0]      number_valid,
    // verilator lint_off UNUSEDSIGNAL
    input logic [1:0][5:0] number,        // with GEN3 4 bits of each are used
    // verilator lint_on UNUSEDSIGNAL

    output logic [4:0] posted_under_way,     // outstanding numbers
    output logic [4:0] nonposted_under_way,
    output logic       completion_held
);

  localparam int unsigned LANE_BITS = $clog2(LANES);

  // The TLP in progress: its destination, and its remaining beats.
  logic partway, to_cc, is_completion, is_write;
  logic valid, first, last, ready, abandon;
  logic [9:0] beats_left, beats_now;

  assign is_completion = s_header.kind inside {COMPLETION, COMPLETION_DATA};
  assign is_write = s_header.kind == MEMORY_WRITE;
  // With discard the rest of a TLP is filled in; no other begins.
  assign abandon = discard && partway;
  assign valid = discard ? partway : s_valid;
  assign first = s_first && !discard;
  assign last = discard ? beats_left == 10'd1 : s_last;
  assign between = !partway;
  logic rq_heading, cc_heading;
  assign heading = rq_heading || cc_heading;

  logic has_payload, number_free, rq_s_ready, cc_s_ready, rq_now, cc_now, rq_fits;
  assign has_payload = is_write || s_header.kind == COMPLETION_DATA;
  assign beats_now = 10'((s_header.length_dw - 11'd1) >> LANE_BITS);  // after this one
  assign cc_now = partway ? to_cc : is_completion;
  assign rq_now = !cc_now;
  assign rq_fits = partway || number_free;
  assign ready = cc_now ? cc_s_ready : (rq_s_ready && rq_fits);
  assign s_ready = ready && !discard;

  always_ff @(posedge clk) begin
    if (valid && ready) begin
      if (!partway) to_cc <= is_completion;
      beats_left <= partway ? beats_left - 1'b1 : beats_now;
    end
    if (rst) partway <= 1'b0;
    else if (valid && ready) partway <= !last;
  end

  // Sequence numbers: the highest bit tells writes from reads, each kind is counted by itself.
  localparam int unsigned COUNT_BITS = GEN3 ? 3 : 5;
  typedef logic [COUNT_BITS-1:0] count_t;
  count_t posted_sent, posted_back, nonposted_sent, nonposted_back;
  count_t posted_next, nonposted_next, posted_out, nonposted_out;
  logic begin_request, begin_completion;
  count_t ahead;  // writes that a completion at CC has to wait for

  assign posted_out = posted_sent - posted_back;
  assign nonposted_out = nonposted_sent - nonposted_back;
  assign posted_under_way = 5'(posted_out);
  assign nonposted_under_way = 5'(nonposted_out);
  assign number_free = (is_write ? posted_out : nonposted_out) != '1;
  assign begin_request = valid && ready && first && rq_now;
  assign begin_completion = valid && ready && first && cc_now;

  // Of two numbers that return at once the later counts. What would follow from each is worked out
  // beside that choice. `at` is a number's distance from the oldest outstanding one.
  count_t [1:0] posted_at, nonposted_at, ahead_left;
  logic [1:0] posted_known, nonposted_known, posted_taken, nonposted_taken;
  count_t ahead_now, ahead_then;
  function automatic logic [1:0] later(input logic [1:0] known, input count_t [1:0] at);
    logic second;
    second = known[1] && (!known[0] || at[1] > at[0]);
    return {second, known[0] && !second};
  endfunction
  always_comb begin
    for (int i = 0; i < 2; i++) begin
      posted_at[i] = count_t'(number[i]) - posted_back;
      nonposted_at[i] = count_t'(number[i]) - nonposted_back;
      // A number that is not outstanding (given up before) is ignored.
      posted_known[i] = number_valid[i] && number[i][COUNT_BITS] && posted_at[i] < posted_out;
      nonposted_known[i] = number_valid[i] && !number[i][COUNT_BITS] &&
          nonposted_at[i] < nonposted_out;
      ahead_left[i] = (posted_at[i] < ahead) ? ahead + ~posted_at[i] : '0;
    end
    posted_taken = later(posted_known, posted_at);
    nonposted_taken = later(nonposted_known, nonposted_at);
    posted_next = posted_back;
    nonposted_next = nonposted_back;
    ahead_now = ahead;
    ahead_then = posted_out;
    for (int i = 0; i < 2; i++) begin
      if (posted_taken[i]) begin
        posted_next = count_t'(number[i]) + 1'b1;
        ahead_now   = ahead_left[i];
        ahead_then  = posted_sent + ~count_t'(number[i]);
      end
      if (nonposted_taken[i]) nonposted_next = count_t'(number[i]) + 1'b1;
    end
  end

  // Without Bus Master Enable, and in a reset, requests and maybe their numbers are lost.
  logic give_up;
  assign give_up = settle || !bus_master;
  assign completion_held = ahead != '0;
  always_ff @(posedge clk) begin
    if (begin_request && is_write) posted_sent <= posted_sent + 1'b1;
    if (begin_request && !is_write) nonposted_sent <= nonposted_sent + 1'b1;
    posted_back <= give_up ? posted_sent : posted_next;
    nonposted_back <= give_up ? nonposted_sent : nonposted_next;
    // With relaxed ordering it waits only for one before it, which may share its beat.
    if (give_up) ahead <= '0;
    else if (begin_completion && !s_header.attributes[RELAXED_ORDERING]) ahead <= ahead_then;
    else ahead <= ahead_now;
    if (rst) begin
      posted_sent <= '0;
      posted_back <= '0;
      nonposted_sent <= '0;
      nonposted_back <= '0;
      ahead <= '0;
    end
  end

  logic [127:0] rq_descriptor;
  logic [ 95:0] cc_descriptor;
  logic [ 13:0] rq_side;
  assign rq_descriptor = {
    1'b0,
    s_header.attributes,
    s_header.traffic_class,
    1'b0,
    16'd0,
    GEN3 ? {2'b00, s_header.tag[5:0]} : s_header.tag[7:0],
    s_header.requester,
    s_header.poisoned,
    3'd0,
    is_write,
    s_header.length_dw,
    s_header.address[63:2],
    2'b00
  };
  assign rq_side = {
    6'({is_write, is_write ? posted_sent : nonposted_sent}), s_header.last_be, s_header.first_be
  };
  assign cc_descriptor = {
    1'b0,
    s_header.attributes,
    s_header.traffic_class,
    1'b0,
    s_header.completer,
    s_header.tag[7:0],
    s_header.requester,
    1'b0,
    s_header.poisoned,
    s_header.status,
    s_header.length_dw,
    3'd0,
    s_header.byte_count,
    9'd0,
    s_header.address[6:0]
  };

  // verilator lint_off UNUSEDSIGNAL
  // Straddling: used at 512 bits only.
  logic [1:0] rq_starts, rq_ends;
  logic rq_upper, rq_abandoned;
  logic [1:0][13:0] rq_sides;
  logic [1:0][LANE_BITS-1:0] rq_end_lanes;
  // verilator lint_on UNUSEDSIGNAL
  crosslane_shim_us_send #(
      .DATA_BITS(DATA_BITS),
      .DESCRIPTOR_DW(4),
      .STRADDLE(RQ_STRADDLE),
      .SIDE_BITS(14)
  ) requests_out (
      .clk,
      .rst,
      .s_valid(valid && rq_now && rq_fits),
      .s_ready(rq_s_ready),
      .s_first(first),
      .s_last(last),
      .s_descriptor(rq_descriptor),
      .s_side(rq_side),
      .s_length_dw(has_payload ? s_header.length_dw : '0),
      .s_abandoned(abandon),
      .s_data,
      .heading(rq_heading),
      .m_valid(rq_valid),
      .m_ready(rq_ready),
      .m_data(rq_data),
      .m_keep(rq_keep),
      .m_last(rq_last),
      .m_abandoned(rq_abandoned),
      .m_starts(rq_starts),
      .m_start_upper(rq_upper),
      .m_sides(rq_sides),
      .m_ends(rq_ends),
      .m_end_lanes(rq_end_lanes)
  );

  // verilator lint_off UNUSEDSIGNAL
  logic [1:0] cc_starts, cc_ends;
  logic cc_upper;
  logic [1:0][LANE_BITS-1:0] cc_end_lanes;
  // verilator lint_on UNUSEDSIGNAL
  logic cc_abandoned, cc_waits;
  crosslane_shim_us_send #(
      .DATA_BITS(DATA_BITS),
      .DESCRIPTOR_DW(3),
      .STRADDLE(CC_STRADDLE)
  ) completions_out (
      .clk,
      .rst,
      .s_valid(valid && cc_now),
      .s_ready(cc_s_ready),
      .s_first(first),
      .s_last(last),
      .s_descriptor(cc_descriptor),
      .s_side('0),
      .s_length_dw(has_payload ? s_header.length_dw : '0),
      .s_abandoned(abandon),
      .s_data,
      .heading(cc_heading),
      .m_valid(cc_waits),
      .m_ready(cc_ready && !completion_held),
      .m_data(cc_data),
      .m_keep(cc_keep),
      .m_last(cc_last),
      .m_abandoned(cc_abandoned),
      .m_starts(cc_starts),
      .m_start_upper(cc_upper),
      .m_sides(),
      .m_ends(cc_ends),
      .m_end_lanes(cc_end_lanes)
  );
  assign cc_valid = cc_waits && !completion_held;

  // Side bands. Parity is left to the hard block (its check is off); no hints, no ECRC.
  if (DATA_BITS == 512) begin : g_user
    always_comb begin
      rq_user = '0;
      rq_user[3:0] = rq_sides[0][3:0];
      rq_user[11:8] = rq_sides[0][7:4];
      rq_user[66:61] = rq_sides[0][13:8];
      rq_user[36] = rq_abandoned;
      rq_user[20] = rq_starts[0];
      cc_user = '0;
      cc_user[16] = cc_abandoned;
      cc_user[0] = cc_starts[0];
      if (RQ_STRADDLE) begin
        rq_user[7:4] = rq_sides[1][3:0];
        rq_user[15:12] = rq_sides[1][7:4];
        rq_user[72:67] = rq_sides[1][13:8];
        rq_user[21] = rq_starts[1];
        rq_user[25:22] = {2'b10, rq_upper, 1'b0};
        rq_user[27:26] = rq_ends;
        rq_user[35:28] = rq_end_lanes;
      end else begin
        rq_user[26] = rq_last;
        rq_user[31:28] = rq_end_lanes[0];
      end
      if (CC_STRADDLE) begin
        cc_user[1] = cc_starts[1];
        cc_user[5:2] = {2'b10, cc_upper, 1'b0};
        cc_user[7:6] = cc_ends;
        cc_user[15:8] = cc_end_lanes;
      end else begin
        cc_user[6] = cc_last;
        cc_user[11:8] = cc_end_lanes[0];
      end
    end
  end else begin : g_user
    always_comb begin
      rq_user = '0;
      rq_user[3:0] = rq_sides[0][3:0];
      rq_user[7:4] = rq_sides[0][7:4];
      rq_user[11] = rq_abandoned;
      rq_user[27:24] = rq_sides[0][11:8];
      // Numbers of 4 bits: these are 0, as the parity in their place.
      rq_user[RQ_USER_BITS-1-:2] = rq_sides[0][13:12];
      cc_user = '0;
      cc_user[0] = cc_abandoned;
    end
  end

endmodule
