// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Starts reads: picks the requester and the tag and builds the request, one a clock. A data read or
// descriptor fetch begins when its requester has room for the data, the link's receive buffer has
// room for its completions, a tag is free and a register before the arbiter can take its request.
// `begin_*` reports it in that clock.

module crosslane_read_requests
  import crosslane_pkg::*;
#(
    parameter int unsigned H2C = 1,
    parameter int unsigned FETCHERS = 3,
    parameter int unsigned TAG_BITS = 7,
    parameter int unsigned USE_BITS = 1,
    localparam int unsigned FETCH_PLACES = (FETCHERS > 0) ? FETCHERS : 1,
    localparam int unsigned H2C_BITS = (H2C > 1) ? $clog2(H2C) : 1,
    localparam int unsigned FETCHER_BITS = (FETCHERS > 1) ? $clog2(FETCHERS) : 1
) (
    input  logic                                 clk,
    input  logic                                 rst,
    // Only some fields of function_i are used here.
    // verilator lint_off UNUSEDSIGNAL
    input  function_t                            function_i,
    // verilator lint_on UNUSEDSIGNAL
    input  logic                                 initialising,
    input  logic                                 completions_fit,  // of any read
    // H2C channels.
    input  logic        [         H2C-1:0]       read_valid,
    output logic        [         H2C-1:0]       read_ready,
    input  logic        [         H2C-1:0][63:0] read_address,
    input  logic        [         H2C-1:0][12:0] read_bytes,
    input  logic        [         H2C-1:0]       read_relaxed,
    output logic        [         H2C-1:0]       read_blocked,
    input  logic        [         H2C-1:0]       has_room,
    // Fetchers. Without any, these ports have a width of one and stay idle.
    // verilator lint_off UNUSEDSIGNAL
    input  logic        [FETCH_PLACES-1:0]       fetch_asks,
    input  logic        [FETCH_PLACES-1:0]       fetch_valid,
    output logic        [FETCH_PLACES-1:0]       fetch_ready,
    input  logic        [FETCH_PLACES-1:0][63:0] fetch_address,
    input  logic        [FETCH_PLACES-1:0][12:0] fetch_bytes,
    input  logic        [FETCH_PLACES-1:0]       fetch_room,
    input  logic        [FETCH_PLACES-1:0]       fetch_tag_valid,
    // verilator lint_on UNUSEDSIGNAL
    // Tags: the next of each kind.
    input  logic                                 data_tag_valid,
    input  logic        [    TAG_BITS-1:0]       data_tag,
    input  logic        [    USE_BITS-1:0]       data_use,
    input  logic        [    TAG_BITS-1:0]       fetch_tag,
    input  logic        [    USE_BITS-1:0]       fetch_use,
    // The read that begins: a fetch, or data.
    output logic                                 fetch_begins,
    output logic                                 data_begins,
    output logic                                 fetch_has_turn,   // no read of data begins
    output logic        [FETCHER_BITS-1:0]       fetcher,
    output logic        [    H2C_BITS-1:0]       channel,
    output logic        [    TAG_BITS-1:0]       begin_tag,
    output logic        [    USE_BITS-1:0]       begin_use,
    output logic        [            63:0]       begin_address,
    output logic        [            12:0]       begin_bytes,
    // Requests.
    output logic        [         H2C-1:0]       m_h2c_valid,
    input  logic        [         H2C-1:0]       m_h2c_ready,
    output tlp_header_t [         H2C-1:0]       m_h2c_header,
    output logic                                 m_fetch_valid,
    input  logic                                 m_fetch_ready,
    output tlp_header_t                          m_fetch_header
);
  // Short paths: the choice of a requester does not wait for whether its register is free, which
  // comes from the arbiter, and each kind of read makes its header from its own requester.
  logic [FETCH_PLACES-1:0] fetch_can, fetch_next, fetch_could, fetch_may, fetch_chosen;
  logic [H2C-1:0] can, chosen, request_ready;
  logic fits;

  assign fits = completions_fit && !initialising;

  // Fetches are few and go first. A fetcher that asks and could fetch a clock ago has the turn, by
  // registers: reads of data do not wait for whether it can still. It has the turn too while the
  // receive buffer is full, or reads of data would take each place as it comes free.
  always_comb begin
    for (int unsigned f = 0; f < FETCH_PLACES; f++) begin
      fetch_next[f] = FETCHERS > 0 && fetch_room[f] && fetch_tag_valid[f] && !m_fetch_valid;
      fetch_can[f]  = fetch_next[f] && fits;
    end
  end
  always_ff @(posedge clk) fetch_could <= rst ? '0 : fetch_next;
  assign fetch_may = fetch_asks & fetch_could;
  assign fetch_has_turn = fetch_may != '0;
  assign fetch_ready = fetch_chosen & fetch_valid & fetch_can;
  assign fetch_begins = fetch_ready != '0;

  crosslane_turn #(
      .COUNT(FETCH_PLACES)
  ) fetch_turn (
      .clk,
      .rst,
      .valid (fetch_may),
      .taken (fetch_ready),
      .chosen(fetch_chosen),
      .index (fetcher)
  );

  always_comb begin
    for (int unsigned h = 0; h < H2C; h++) begin
      can[h] = read_valid[h] && has_room[h] && request_ready[h];
    end
  end
  assign data_begins = can != '0 && data_tag_valid && fits && !fetch_has_turn;

  crosslane_turn #(
      .COUNT(H2C)
  ) data_turn (
      .clk,
      .rst,
      .valid (can),
      .taken (read_ready),
      .chosen(chosen),
      .index (channel)
  );

  assign read_ready = data_begins ? chosen : '0;
  assign read_blocked = (data_tag_valid && fits) ? ~has_room : '1;

  assign begin_tag = fetch_has_turn ? fetch_tag : data_tag;
  assign begin_use = fetch_has_turn ? fetch_use : data_use;
  assign begin_address = fetch_has_turn ? fetch_address[fetcher] : read_address[channel];
  assign begin_bytes = fetch_has_turn ? fetch_bytes[fetcher] : read_bytes[channel];

  typedef struct packed {
    logic [63:0] address;
    logic [12:0] bytes;
    logic [TAG_BITS-1:0] tag;
    logic [USE_BITS-1:0] number;
    logic relaxed;
  } read_t;

  function automatic tlp_header_t request(input read_t read);
    tlp_header_t header;
    logic [1:0] low;
    low = read.address[1:0];
    header = '0;
    header.kind = MEMORY_READ;
    header.address = {read.address[63:2], 2'b00};
    header.length_dw = length_dw(low, read.bytes);
    header.first_be = first_enables(low, read.bytes);
    header.last_be = (header.length_dw == 11'd1) ? 4'd0 : last_enables(low, read.bytes);
    header.requester = function_i.routing_id;
    // Without extended tags the use number is not sent: only the tag.
    header.tag = (TAG_BITS < 8 && function_i.extended_tags) ? 10'({read.number, read.tag}) :
                                                              10'(read.tag);
    header.attributes[RELAXED_ORDERING] = read.relaxed && function_i.relaxed_ordering;
    header.bar = NO_BAR;
    return header;
  endfunction

  read_t data_read, fetch_read, m_fetch_read;
  always_comb begin
    data_read = '{
        address: read_address[channel],
        bytes: read_bytes[channel],
        tag: data_tag,
        number: data_use,
        relaxed: read_relaxed[channel]
    };
    fetch_read = '{
        address: fetch_address[fetcher],
        bytes: fetch_bytes[fetcher],
        tag: fetch_tag,
        number: fetch_use,
        relaxed: 1'b0
    };
  end
  always_comb m_fetch_header = request(m_fetch_read);

  // Beside fetchers there are many sources at the arbiter. Then a read has two registers: that one of
  // them is empty is known without the arbiter, and a read can begin in each clock. Its length comes
  // late: the header is made behind them.
  if (FETCHERS > 0) begin : g_two
    for (genvar h = 0; h < H2C; h++) begin : g_request
      read_t m_read;
      always_comb m_h2c_header[h] = request(m_read);
      crosslane_skid #(
          .WIDTH($bits(read_t))
      ) waiting (
          .clk,
          .rst,
          .s_valid(read_ready[h]),
          .s_ready(request_ready[h]),
          .s_data (data_read),
          .m_valid(m_h2c_valid[h]),
          .m_ready(m_h2c_ready[h]),
          .m_data (m_read)
      );
    end
  end else begin : g_one
    assign request_ready = ~m_h2c_valid | m_h2c_ready;
    always_ff @(posedge clk) begin
      for (int unsigned h = 0; h < H2C; h++) begin
        if (m_h2c_ready[h]) m_h2c_valid[h] <= 1'b0;
        if (read_ready[h]) begin
          m_h2c_valid[h]  <= 1'b1;
          m_h2c_header[h] <= request(data_read);
        end
      end
      if (rst) m_h2c_valid <= '0;
    end
  end

  // Fetches do not follow each other at once: one register, empty for a clock. While it is empty it
  // shows the one that could begin.
  always_ff @(posedge clk) begin
    if (m_fetch_ready) m_fetch_valid <= 1'b0;
    if (!m_fetch_valid) m_fetch_read <= fetch_read;
    if (fetch_begins) m_fetch_valid <= 1'b1;
    if (rst) m_fetch_valid <= 1'b0;
  end
endmodule
