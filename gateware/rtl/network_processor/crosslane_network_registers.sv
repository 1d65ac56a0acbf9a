// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Registers of a network processor (registers/network_processor.rdl). Without routing its
// settings read as 0.

module crosslane_network_registers
  import crosslane_link_pkg::*;
  import crosslane_network_pkg::*;
#(
    parameter int unsigned LINKS        = 1,
    parameter int unsigned PUT_SLOTS    = 8,
    parameter int unsigned CREDIT_SLOTS = 64,
    parameter int unsigned GET_SLOTS    = 64,
    parameter int unsigned LANES        = 8,
    parameter int unsigned LANE_RATE    = 5,     // in units of 0.5 Gb/s
    parameter bit          ROUTED       = 1'b0,
    parameter bit          LONG         = 1'b0   // datagrams carry 256 B, not 128 B
) (
    input logic clk,
    input logic rst,
    input logic access_valid,
    input logic access_write,
    input logic [11:2] access_address,
    input logic [31:0] access_data,
    output logic [31:0] read_data,  // the clock after
    output logic reset_o,  // pulses
    output logic counts_written,
    output logic [63:0] counts_address,
    output extent_t [DIMENSIONS-1:0] extents,
    output logic extents_written,  // pulse: they have changed
    output logic hold_routed,
    output logic [LINKS-1:0] enable,
    output logic [LINKS-1:0][1:0] mode,
    output logic [LINKS-1:0] retrain,
    output logic [LINKS-1:0] generates,
    output logic [LINKS-1:0] checks,
    input logic quiet,
    // verilator lint_off UNUSEDSIGNAL
    input network_counters_t counters,
    input port_state_e [LINKS-1:0] state,
    input logic [LINKS-1:0][9:0] far_channel_datagrams,
    input link_counters_t [LINKS-1:0] link_counters,  // not all are readable
    input lane_counters_t [LINKS-1:0] lane_counters,
    input logic [LINKS-1:0][LANES-1:0][31:0] lane_errors,
    input logic [LINKS-1:0][31:0] checked,
    input logic [LINKS-1:0][31:0] wrong
    // verilator lint_on UNUSEDSIGNAL
);
  localparam logic [31:0] ID = 32'h4e4c_5243;
  localparam logic [31:0] VERSION = 32'h0001_0002;

  localparam logic [11:0] AT_ID = 12'h000;
  localparam logic [11:0] AT_VERSION = 12'h004;
  localparam logic [11:0] AT_SIZES = 12'h008;
  localparam logic [11:0] AT_PUT_SIZES = 12'h00c;
  localparam logic [11:0] AT_CONTROL = 12'h010;
  localparam logic [11:0] AT_STATUS = 12'h014;
  localparam logic [11:0] AT_COUNTS_LOW = 12'h018;
  localparam logic [11:0] AT_COUNTS_HIGH = 12'h01c;
  localparam logic [11:0] AT_GETS = 12'h020;
  localparam logic [11:0] AT_CREDITS = 12'h024;
  localparam logic [11:0] AT_PUTS = 12'h028;
  localparam logic [11:0] AT_REFUSED = 12'h02c;
  localparam logic [11:0] AT_FORWARDED = 12'h030;
  localparam logic [11:0] AT_MISROUTED = 12'h034;
  localparam logic [11:0] AT_WAITING = 12'h038;
  localparam logic [11:0] AT_ROUTING = 12'h03c;

  // Dimensions, 4 apart.
  localparam logic [11:0] AT_DIMENSIONS = 12'h040;

  // Registers of a link begin at 0x100, 0x40 apart.
  localparam logic [5:0] AT_LINK_CONTROL = 6'h00;
  localparam logic [5:0] AT_LINK_STATUS = 6'h04;
  localparam logic [5:0] AT_SENT = 6'h08;
  localparam logic [5:0] AT_DELIVERED = 6'h0c;
  localparam logic [5:0] AT_REPEATED = 6'h10;
  localparam logic [5:0] AT_DAMAGED = 6'h14;
  localparam logic [5:0] AT_NACKS = 6'h18;
  localparam logic [5:0] AT_RESTARTS = 6'h1c;
  localparam logic [5:0] AT_TIMEOUTS = 6'h20;
  localparam logic [5:0] AT_TRAININGS = 6'h24;
  localparam logic [5:0] AT_CHECKED = 6'h28;
  localparam logic [5:0] AT_WRONG = 6'h2c;
  localparam logic [5:0] AT_DROPPED = 6'h30;
  localparam logic [5:0] AT_DOUBLED = 6'h34;
  localparam logic [5:0] AT_SLIPPED = 6'h38;

  // Errors of lanes: eight of each link.
  localparam logic [11:0] AT_LANES = 12'h300;

  logic [11:0] address;
  logic writes, is_link;
  logic [5:0] link_register;
  logic [LINKS-1:0] link_chosen;

  assign address = {access_address, 2'b00};
  assign writes = access_valid && access_write;
  assign link_register = address[5:0];
  assign is_link = address >= 12'h100 && address < 12'h300;
  always_comb begin
    for (int unsigned at = 0; at < LINKS; at++) begin
      link_chosen[at] = is_link && address[11:6] == 6'(at + 4);
    end
  end

  always_ff @(posedge clk) begin
    reset_o <= writes && address == AT_CONTROL && access_data[0];
    counts_written <= writes && address == AT_COUNTS_HIGH;
    retrain <= '0;
    extents_written <= ROUTED && writes && address[11:4] == AT_DIMENSIONS[11:4];
    if (writes) begin
      if (address[11:4] == AT_DIMENSIONS[11:4]) extents[address[3:2]] <= access_data;
      if (address == AT_COUNTS_LOW) counts_address[31:0] <= {access_data[31:6], 6'd0};
      if (address == AT_COUNTS_HIGH) counts_address[63:32] <= access_data;
      if (address == AT_ROUTING) hold_routed <= access_data[0];
      for (int unsigned at = 0; at < LINKS; at++) begin
        if (link_chosen[at] && link_register == AT_LINK_CONTROL) begin
          enable[at]  <= access_data[0];
          mode[at]    <= (access_data[5:4] == 2'd3) ? MODE_NORMAL : access_data[5:4];
          retrain[at] <= access_data[16];
          generates[at] <= access_data[8];
          checks[at] <= access_data[9];
        end
      end
    end
    if (rst || reset_o) begin
      counts_address <= '0;
      enable <= '0;
      mode <= '0;
      generates <= '0;
      checks <= '0;
      extents <= '0;
      extents_written <= ROUTED;
      hold_routed <= 1'b0;
    end
    if (!ROUTED) begin
      extents <= '0;
      hold_routed <= 1'b0;
    end
    if (rst) begin
      reset_o <= 1'b0;
      counts_written <= 1'b0;
    end
  end

  // --- Reads ---------------------------------------------------------------------------------
  // State of a link as software sees it (link_state_e).
  function automatic logic [2:0] state_of(port_state_e of);
    unique case (of)
      PORT_UP: return 3'd2;
      PORT_FAILED: return 3'd3;
      PORT_DISABLED: return 3'd0;
      default: return 3'd1;
    endcase
  endfunction

  logic [31:0] word, link_word;

  always_comb begin
    unique case (address)
      AT_ID: word = ID;
      AT_VERSION: word = VERSION;
      AT_SIZES: word = 32'(LINKS) | 32'(GET_SLOTS) << 4 | 32'(CREDIT_SLOTS) << 16;
      AT_PUT_SIZES: word = 32'(PUT_SLOTS) | 32'(LONG) << 8;
      AT_STATUS: word = 32'(quiet && !reset_o);
      AT_COUNTS_LOW: word = counts_address[31:0];
      AT_COUNTS_HIGH: word = counts_address[63:32];
      AT_GETS: word = counters.gets;
      AT_CREDITS: word = counters.credits;
      AT_PUTS: word = counters.puts;
      AT_REFUSED: word = counters.refused;
      AT_FORWARDED: word = counters.forwarded;
      AT_MISROUTED: word = counters.misrouted;
      AT_WAITING: word = counters.waiting;
      AT_ROUTING: word = 32'(hold_routed);
      default: word = (address[11:4] == AT_DIMENSIONS[11:4]) ? extents[address[3:2]] : '0;
    endcase
  end

  // verilator lint_off UNUSEDSIGNAL
  function automatic logic [31:0] word_of(logic [5:0] at, logic [9:0] control, port_state_e of,
                                          logic [9:0] far, link_counters_t of_link,
                                          lane_counters_t of_lanes, logic [1:0][31:0] of_tests);
    unique case (at)
      AT_LINK_CONTROL: return 32'(control);
      AT_LINK_STATUS:
      return 32'(state_of(
          of
      )) | 32'(LANES) << 4 | 32'(LANE_RATE) << 8 | ((of == PORT_UP) ? 32'(far) << 16 : '0);
      AT_SENT: return of_link.sent;
      AT_DELIVERED: return of_link.delivered;
      AT_REPEATED: return of_link.repeated;
      AT_DAMAGED: return of_link.damaged;
      AT_NACKS: return of_link.nacks;
      AT_RESTARTS: return of_link.restarts;
      AT_TIMEOUTS: return of_link.timeouts;
      AT_TRAININGS: return of_link.trainings;
      AT_CHECKED: return of_tests[0];
      AT_WRONG: return of_tests[1];
      AT_DROPPED: return of_lanes.dropped;
      AT_DOUBLED: return of_lanes.doubled;
      AT_SLIPPED: return of_lanes.slipped;
      default: return '0;
    endcase
  endfunction
  // verilator lint_on UNUSEDSIGNAL

  always_comb begin
    link_word = '0;
    for (int unsigned at = 0; at < LINKS; at++) begin
      if (link_chosen[at]) begin
        link_word |= word_of(
            link_register,
            {
              checks[at], generates[at], 2'd0, mode[at], 3'd0, enable[at]
            },
            state[at],
            far_channel_datagrams[at],
            link_counters[at],
            lane_counters[at],
            {
              wrong[at], checked[at]
            }
        );
      end
      for (int unsigned lane = 0; lane < LANES; lane++) begin
        if (address == AT_LANES + 12'(32 * at + 4 * lane)) link_word |= lane_errors[at][lane];
      end
    end
  end

  always_ff @(posedge clk) read_data <= word | link_word;
endmodule
