// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Merges CQ and RC of the hard block into one stream of received TLPs. Read first: README.md beside
// this file. The two are served in turn, a TLP at a time, but a completion waits until every
// request that had begun on CQ when its first beat was taken from RC has left: so it passes no
// write.

module crosslane_shim_us_rx
  import crosslane_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256,
    parameter int unsigned CQ_STARTS = 1,
    parameter int unsigned RC_STARTS = 1,
    parameter bit WIDE_BARS = 1'b0,
    parameter bit GEN3 = 1'b0
) (
    input logic clk,
    input logic rst,

    input  logic                   cq_valid,
    output logic                   cq_ready,
    input  logic [  DATA_BITS-1:0] cq_data,
    input  logic [  CQ_STARTS-1:0] cq_starts,
    input  logic [CQ_STARTS*8-1:0] cq_enables,
    input  logic                   cq_discontinue,

    input  logic                 rc_valid,
    output logic                 rc_ready,
    input  logic [DATA_BITS-1:0] rc_data,
    input  logic [RC_STARTS-1:0] rc_starts,
    input  logic                 rc_discontinue,

    // A read that is about to be sent; used with GEN3.
    // verilator lint_off UNUSEDSIGNAL
    input logic       read_begins,
    input logic [7:0] read_tag,
    // verilator lint_on UNUSEDSIGNAL

    input  logic discard,  // the engine is being reset: input is taken and discarded
    output logic between,  // no TLP is partly passed on

    output logic                        m_valid,
    input  logic                        m_ready,
    output tlp_header_t                 m_header,
    output logic                        m_first,
    output logic                        m_last,
    output logic                        m_discontinued,
    output logic                        m_is_completion,
    output logic        [DATA_BITS-1:0] m_data
);

  logic q_valid, q_ready, q_first, q_last, q_discontinued;
  logic [7:0] q_enables;
  // verilator lint_off UNUSEDSIGNAL
  logic [127:0] q;  // address type, aperture: unused here
  logic [95:0] c;  // reserved bits
  // verilator lint_on UNUSEDSIGNAL
  logic [DATA_BITS-1:0] q_data;
  logic c_valid, c_ready, c_first, c_last, c_discontinued, c_behind;
  logic [DATA_BITS-1:0] c_data;
  logic [2:0] requests;  // that have begun on CQ and have not left
  logic request_gone;

  crosslane_shim_us_receive #(
      .DATA_BITS(DATA_BITS),
      .REQUESTS(1'b1),
      .STARTS(CQ_STARTS)
  ) requests_in (
      .clk,
      .rst,
      .s_valid(cq_valid),
      .s_ready(cq_ready),
      .s_data(cq_data),
      .s_starts(cq_starts),
      .s_enables(cq_enables),
      .s_discontinue(cq_discontinue),
      .s_behind('0),
      .behind_gone(1'b0),
      .m_valid(q_valid),
      .m_ready(q_ready),
      .m_first(q_first),
      .m_last(q_last),
      .m_descriptor(q),
      .m_enables(q_enables),
      .m_discontinued(q_discontinued),
      .m_behind(),
      .m_data(q_data)
  );

  crosslane_shim_us_receive #(
      .DATA_BITS(DATA_BITS),
      .REQUESTS(1'b0),
      .STARTS(RC_STARTS)
  ) completions_in (
      .clk,
      .rst,
      .s_valid(rc_valid),
      .s_ready(rc_ready),
      .s_data(rc_data),
      .s_starts(rc_starts),
      .s_enables('0),
      .s_discontinue(rc_discontinue),
      .s_behind(requests - 3'(request_gone)),
      .behind_gone(request_gone),
      .m_valid(c_valid),
      .m_ready(c_ready),
      .m_first(c_first),
      .m_last(c_last),
      .m_descriptor(c),
      .m_enables(),
      .m_discontinued(c_discontinued),
      .m_behind(c_behind),
      .m_data(c_data)
  );

  assign request_gone = q_valid && q_ready && q_last;
  always_ff @(posedge clk) begin
    if (rst) requests <= '0;
    else
      requests <= requests - 3'(request_gone) + ((cq_valid && cq_ready) ? 3'($countones(
          cq_starts
      )) : '0);
  end

  // Arbitration: a TLP is not interrupted; then the other stream if it has one.
  logic holding, completions_last, completions_now, free;
  logic source_valid, source_first, source_last, source_discontinued, lost;
  logic headless;  // the TLP in progress has lost its beginning: all of it is discarded
  always_comb begin
    if (holding) completions_now = completions_last;
    else completions_now = c_valid && !c_behind && !(q_valid && completions_last);
    free = !m_valid || m_ready || discard;
    q_ready = free && !completions_now;
    c_ready = free && completions_now;
    source_valid = completions_now ? c_valid : q_valid;
    source_first = completions_now ? c_first : q_first;
    source_last = completions_now ? c_last : q_last;
    source_discontinued = completions_now ? c_discontinued : q_discontinued;
    // Messages; completions that the hard block has generated itself (after a time-out or reset).
    // Neither has payload to pass on: a single beat.
    lost = source_first && (completions_now ? c[15] : q[78]);
  end
  assign between = !holding;

  // The Gen3 block has tags of 6 bits, which tell the reads in flight apart. The two bits above them,
  // by which the engine tells uses of a tag apart, stay here.
  logic [7:0] completion_tag;
  if (GEN3) begin : g_tags
    (* ram_style = "distributed" *) logic [1:0] above[64];
    always_ff @(posedge clk) if (read_begins) above[read_tag[5:0]] <= read_tag[7:6];
    assign completion_tag = {above[c[69:64]], c[69:64]};
  end else begin : g_tags
    assign completion_tag = c[71:64];
  end

  tlp_header_t request, completion;
  logic [2:0] bar;
  always_comb begin
    bar = WIDE_BARS ? {1'b0, q[114:113]} : q[114:112];
    if (q[114:112] >= 3'd6 || q[78:76] != '0) bar = NO_BAR;
    request = '0;
    // A request other than a memory read or write needs an answer: pass it on as a read that hits
    // no BAR.
    request.kind = (q[78:75] == 4'd1) ? MEMORY_WRITE : MEMORY_READ;
    request.address = {q[63:2], 2'b00};
    request.length_dw = q[74:64];
    request.first_be = q_enables[3:0];
    request.last_be = q_enables[7:4];
    request.requester = q[95:80];
    request.tag = {2'b00, q[103:96]};
    request.traffic_class = q[123:121];
    request.attributes = q[126:124];
    request.poisoned = q_discontinued;
    request.completer = {8'd0, q[111:104]};
    request.bar = bar;

    completion = '0;
    completion.kind = (c[42:32] != '0) ? COMPLETION_DATA : COMPLETION;
    completion.address = {57'd0, c[6:0]};
    completion.length_dw = c[42:32];
    // The Gen3 block does not show the function's bus, but has compared it: error code 4 is another
    // requester's completion.
    completion.requester = !GEN3 ? c[63:48] : (c[15:12] == 4'd4) ? '1 : '0;
    completion.tag = {2'b00, completion_tag};
    completion.traffic_class = c[91:89];
    completion.attributes = c[94:92];
    completion.poisoned = c[46] || c_discontinued;
    completion.status = c[45:43];
    completion.byte_count = c[28:16];
    completion.completer = c[87:72];
    completion.bar = NO_BAR;
  end

  always_ff @(posedge clk) begin
    if (free) begin
      m_header <= completions_now ? completion : request;
      m_first <= source_first;
      m_last <= source_last;
      m_discontinued <= source_discontinued;
      m_is_completion <= completions_now;
      m_data <= completions_now ? c_data : q_data;
      if (source_valid) completions_last <= completions_now;
    end
    if (rst) begin
      m_valid  <= 1'b0;
      holding  <= 1'b0;
      headless <= 1'b0;
    end else if (free) begin
      m_valid <= source_valid && !lost && !discard && !headless;
      if (source_valid) begin
        holding  <= !source_last;
        headless <= !source_last && (headless || (source_first && discard));
      end
    end
  end

endmodule
