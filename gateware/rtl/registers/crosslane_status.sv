// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Status blocks in host memory, and MSI-X messages behind them. docs/engine.md, "When a descriptor
// is complete" and "Interrupts".
//
//   first              messages that are pending and may be sent, the lowest vector first
//   then               the channels in turn: a status block, if one is due; behind it the
//                      channel's interrupt becomes pending
//
// A block shows the channel as in the clock in which the block is built, which is when the output
// register is free; `status_taken` is in that clock. The choice takes a separate clock, so the
// chosen channel is examined again when its block is built. What the arbiter takes is known too
// late in a clock to build another block behind it: the last beat of several steps aside into
// another register, and the output register is free.

module crosslane_status
  import crosslane_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256,
    parameter int unsigned CHANNELS  = 2,
    parameter int unsigned VECTORS   = 8     // of MSI-X, 0 to 32
) (
    input logic clk,
    input logic rst,
    input logic [63:0] time_i,
    // Only some fields are used here.
    // verilator lint_off UNUSEDSIGNAL
    input function_t function_i,
    input channel_settings_t [CHANNELS-1:0] settings,
    input channel_readings_t [CHANNELS-1:0] readings,
    input logic [31:0] msix_masked,  // of each vector
    // verilator lint_on UNUSEDSIGNAL
    input due_t [CHANNELS-1:0] due,
    output logic [CHANNELS-1:0] status_taken,
    output logic [CHANNELS-1:0] interrupt_taken,
    // MSI-X table: address and data belong to this clock's vector when msix_ready is set.
    output logic [4:0] msix_vector,
    input logic msix_ready,
    input logic [63:0] msix_address,
    input logic [31:0] msix_data,
    output logic [31:0] msix_pending,
    output logic m_status_valid,
    input logic m_status_ready,
    output tlp_header_t m_status_header,
    output logic m_status_first,
    output logic m_status_last,
    output logic [DATA_BITS-1:0] m_status_data
);
  localparam int unsigned BLOCK_BITS = 256;
  localparam int unsigned BLOCK_DW = BLOCK_BITS / 32;
  localparam int unsigned ALIGNMENT_BITS = 6;  // of a status block: 64 bytes
  localparam int unsigned BEATS = (BLOCK_BITS + DATA_BITS - 1) / DATA_BITS;
  localparam int unsigned CHANNEL_BITS = (CHANNELS > 1) ? $clog2(CHANNELS) : 1;
  localparam logic [31:0] VECTOR_MASK = 32'((33'd1 << VECTORS) - 33'd1);

  typedef enum logic [1:0] {
    CHOOSE,
    BUILD_BLOCK,
    BUILD_MESSAGE
  } step_e;

  // --- Due blocks and interrupts ---------------------------------------------------------------
  // A restart cancels both in the clock in which it arrives.
  logic [CHANNELS-1:0] status_due, interrupt_due, any_due;
  for (genvar n = 0; n < CHANNELS; n++) begin : g_due
    assign status_due[n] = due[n].status_due && !settings[n].restart;
    assign interrupt_due[n] = due[n].interrupt_due && !settings[n].restart;
  end
  assign any_due = status_due | interrupt_due;

  // A channel has had its turn when its block is built.
  logic [CHANNELS-1:0] has_turn;
  logic [CHANNEL_BITS-1:0] chosen, channel;
  crosslane_turn #(
      .COUNT(CHANNELS)
  ) turn (
      .clk,
      .rst,
      .valid (any_due),
      .taken (has_turn),
      .chosen(),
      .index (chosen)
  );

  // Vectors that may be sent.
  logic [31:0] pending, sendable;
  logic [4:0] lowest;
  assign sendable = function_i.msix_enabled ? pending & ~msix_masked & VECTOR_MASK : '0;
  always_comb begin
    lowest = '0;
    for (int n = 31; n >= 0; n--) if (sendable[n]) lowest = 5'(n);
  end

  // --- Steps -----------------------------------------------------------------------------------
  step_e step;
  logic is_free, sends_block, notes_interrupt;
  logic has_block, has_message, has_interrupt;
  logic [15:0] vector;
  logic [31:0] sent, noted;  // vectors: no longer pending, pending from now on

  assign has_block = step == BUILD_BLOCK && function_i.bus_master && status_due[channel];
  assign has_interrupt = step == BUILD_BLOCK && function_i.bus_master && interrupt_due[channel];
  assign has_message = step == BUILD_MESSAGE && function_i.bus_master && msix_ready &&
                       sendable[msix_vector];
  assign sends_block = has_block && is_free;
  assign notes_interrupt = has_interrupt && is_free;
  assign vector = settings[channel].vector;
  assign sent = has_message ? 32'd1 << msix_vector : '0;
  assign noted = (has_interrupt && vector < 16'(VECTORS)) ? 32'd1 << vector[4:0] : '0;
  assign msix_pending = pending;

  always_comb begin
    // Without Bus Master Enable neither can be sent: software reads the registers instead.
    status_taken = function_i.bus_master ? '0 : status_due;
    interrupt_taken = function_i.bus_master ? '0 : interrupt_due;
    if (sends_block) status_taken[channel] = 1'b1;
    has_turn = '0;
    has_turn[channel] = sends_block;
    if (notes_interrupt) interrupt_taken[channel] = 1'b1;
  end

  always_ff @(posedge clk) begin
    unique case (step)
      CHOOSE: begin
        msix_vector <= lowest;
        channel <= chosen;
        if (sendable != '0) step <= BUILD_MESSAGE;
        else if (any_due != '0) step <= BUILD_BLOCK;
      end
      BUILD_BLOCK: if (is_free || sendable != '0) step <= CHOOSE;
      default: if (is_free && msix_ready) step <= CHOOSE;
    endcase
    for (int unsigned n = 0; n < VECTORS; n++) begin
      if (is_free && (sent[n] || noted[n])) pending[n] <= noted[n];
    end
    if (!function_i.bus_master) step <= CHOOSE;
    if (rst) begin
      step <= CHOOSE;
      pending <= '0;
    end
  end

  // --- Sequence numbers ------------------------------------------------------------------------
  (* ram_style = "distributed" *) logic [31:0] sequences[1<<CHANNEL_BITS];
  logic [CHANNELS-1:0] is_counted;  // a block was sent since the restart
  logic [31:0] number;
  assign number = (is_counted[channel] ? sequences[channel] : '0) + 1'b1;

  always_ff @(posedge clk) begin
    if (sends_block) begin
      sequences[channel]  <= number;
      is_counted[channel] <= 1'b1;
    end
    for (int n = 0; n < CHANNELS; n++) if (settings[n].restart) is_counted[n] <= 1'b0;
    if (rst) is_counted <= '0;
  end

  // --- The output ------------------------------------------------------------------------------
  // verilator lint_off UNUSEDSIGNAL
  channel_readings_t shown;  // a block contains some of them
  // verilator lint_on UNUSEDSIGNAL
  logic [BLOCK_BITS-1:0] block, data;
  logic [63:0] block_address, address;
  logic [1:0] beat;
  logic is_valid, is_message, ends, steps_aside, has_tail;
  logic [DATA_BITS-1:0] word, tail;  // the last beat that stepped aside

  assign shown = readings[channel];
  assign block = {
    time_i,
    shown.error_address,
    shown.stopped_at,
    {shown.in_flight, 8'd0, shown.error, 2'd0, shown.state},
    shown.completed,
    number
  };
  assign block_address = settings[channel].status_address;
  assign word = DATA_BITS'(data >> (BEATS > 1 ? 32'(beat) * DATA_BITS : 0));
  assign ends = is_message || beat == 2'(BEATS - 1);
  assign steps_aside = BEATS > 1 && is_valid && !is_message && ends && !has_tail;
  assign is_free = !is_valid || steps_aside;

  always_ff @(posedge clk) begin
    if (m_status_ready && !has_tail) begin
      beat <= beat + 1'b1;
      if (ends) is_valid <= 1'b0;
    end
    has_tail <= !m_status_ready && (has_tail || steps_aside);
    if (!has_tail) tail <= word;
    // While it is free the register follows what could be sent: few gates decide whether it is.
    if (is_free) begin
      is_valid <= has_block || has_message;
      beat <= '0;
      is_message <= step == BUILD_MESSAGE;
      data <= (step == BUILD_MESSAGE) ? BLOCK_BITS'(msix_data) : block;
      address <= (step == BUILD_MESSAGE) ? msix_address : block_address;
      // Both are aligned: the lowest bits are 0.
      if (step == BUILD_MESSAGE) address[1:0] <= '0;
      else address[ALIGNMENT_BITS-1:0] <= '0;
    end
    if (rst) begin
      is_valid <= 1'b0;
      has_tail <= 1'b0;
    end
  end

  always_comb begin
    m_status_header = '0;
    m_status_header.kind = MEMORY_WRITE;
    m_status_header.address = address;
    m_status_header.length_dw = is_message ? 11'd1 : 11'(BLOCK_DW);
    m_status_header.first_be = 4'hf;
    m_status_header.last_be = is_message ? 4'h0 : 4'hf;
    m_status_header.requester = function_i.routing_id;
  end
  assign m_status_valid = is_valid || has_tail;
  assign m_status_first = beat == '0 && !has_tail;
  assign m_status_last  = ends || has_tail;
  assign m_status_data  = has_tail ? tail : word;

`ifndef SYNTHESIS
  if (VECTORS > 32 || CHANNELS < 1) begin : g_parameters
    $error("from 1 channel, to 32 vectors");
  end
`endif
endmodule
