// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Determines for which classes of TLP the link has credits: room_t. The hard block tells the
// credits that are free, and when it consumes those of a TLP. Read first: README.md beside this
// file.

module crosslane_shim_s10_credits
  import crosslane_pkg::*;
#(
    parameter int unsigned SEGMENTS = 1
) (
    input logic clk,
    input logic rst,

    input logic                  link_up,
    input logic [           2:0] max_payload,
    input logic [           7:0] tx_ph_cdts,
    input logic [          11:0] tx_pd_cdts,
    input logic [           7:0] tx_nph_cdts,
    input logic [           7:0] tx_cplh_cdts,
    input logic [          11:0] tx_cpld_cdts,
    input logic [  SEGMENTS-1:0] tx_hdr_cdts_consumed,
    input logic [  SEGMENTS-1:0] tx_data_cdts_consumed,
    input logic [SEGMENTS*2-1:0] tx_cdts_type,
    input logic [  SEGMENTS-1:0] tx_cdts_data_value,

    // The TLPs that leave: the first beat waits, and is taken.
    input  logic        s_waits,
    input  logic        s_taken,
    input  tlp_header_t s_header,
    input  logic        gives_up,  // the last TLP that was taken does not arrive
    output room_t       room
);

  localparam int unsigned CLASSES = 3;  // posted, non-posted, completion: as tx_cdts_type
  localparam logic [4:0] SETTLED = 5'd31;  // clocks until the credits are told
  // Clocks by which what is consumed may show later in the credits that are free.
  localparam int unsigned SHOWS = 8;
  // Clocks after which no more data of a TLP, whose header is consumed, are: of 1024 bytes.
  localparam logic [5:0] QUIET = 6'd63;

  typedef struct packed {
    logic [SEGMENTS-1:0]   header;
    logic [SEGMENTS-1:0]   data;
    logic [SEGMENTS*2-1:0] kind;
    logic [SEGMENTS-1:0]   two;
  } consumed_t;

  consumed_t [SHOWS-1:0] late;
  consumed_t shown;
  logic [4:0] settling;
  logic settled;
  logic [CLASSES-1:0] is_class, was_class, headers_infinite, data_infinite;
  logic [CLASSES-1:0][11:0] headers_free;
  logic [CLASSES-1:0][15:0] data_free;
  logic [8:0] used, was_used;  // data credits of a TLP, of 16 bytes
  logic [CLASSES-1:0][7:0] header_credits;

  assign header_credits = {tx_cplh_cdts, tx_nph_cdts, tx_ph_cdts};
  assign shown = late[SHOWS-1];
  assign settled = settling == SETTLED;

  always_ff @(posedge clk) begin
    late <= {
      late[SHOWS-2:0], tx_hdr_cdts_consumed, tx_data_cdts_consumed, tx_cdts_type, tx_cdts_data_value
    };
    if (s_taken) begin
      was_class <= is_class;
      was_used  <= used;
    end
    if (!settled) settling <= settling + 5'd1;
    if (rst || !link_up) begin
      settling <= '0;
      late <= '0;
    end
  end

  for (genvar n = 0; n < CLASSES; n++) begin : g_class
    logic takes, returns;
    // verilator lint_off UNUSEDSIGNAL
    logic no_headers;  // both for classes with data
    logic [2:0] data_consumed;
    // verilator lint_on UNUSEDSIGNAL
    logic [2:0] headers_consumed;
    logic [7:0] few;

    assign takes   = s_taken && is_class[n];
    assign returns = gives_up && was_class[n];
    always_comb begin
      headers_consumed = '0;
      data_consumed = '0;
      for (int unsigned i = 0; i < SEGMENTS; i++) begin
        if (shown.kind[2*i+:2] == 2'(n)) begin
          headers_consumed += 3'(shown.header[i]);
          if (shown.data[i]) data_consumed += shown.two[i] ? 3'd2 : 3'd1;
        end
      end
    end

    crosslane_shim_s10_credit #(
        .BITS(8)
    ) headers (
        .clk,
        .rst(rst || !link_up),
        .told(header_credits[n]),
        .used(9'(takes)),
        .returned(9'(returns)),
        .consumed(headers_consumed),
        .forget(1'b0),
        .none(no_headers),
        .free(few),
        .infinite(headers_infinite[n])
    );
    assign headers_free[n] = 12'(few);

    if (n == 1) begin : g_data
      // Reads have none.
      assign data_free[n] = '0;
      assign data_infinite[n] = 1'b1;
    end else begin : g_data
      logic [ 5:0] quiet;
      logic [11:0] free;
      always_ff @(posedge clk) begin
        if (quiet != QUIET) quiet <= quiet + 6'd1;
        if (rst || !no_headers || takes) quiet <= '0;
      end
      crosslane_shim_s10_credit #(
          .BITS(12)
      ) data (
          .clk,
          .rst(rst || !link_up),
          .told(n == 0 ? tx_pd_cdts : tx_cpld_cdts),
          .used(takes ? used : '0),
          .returned(returns ? was_used : '0),
          .consumed(data_consumed),
          .forget(quiet == QUIET && !takes),
          .none(),
          .free,
          .infinite(data_infinite[n])
      );
      assign data_free[n] = 16'(free);
    end
  end

  crosslane_intel_room opener (
      .*,
      .tick()
  );

endmodule
