// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Columns to frames and training sets: finds where frames begin, and again behind damage (docs/torus-link.md, Finding
// frames again). Payloads are passed on as they come; `arrival` tells a clock behind the last
// column whether the frame was good.

module crosslane_link_deframe
  import crosslane_link_pkg::*;
#(
    parameter  int unsigned LANES      = 8,                            // 1, 4 or 8
    parameter  bit          LONG       = 1'b0,                         // datagrams carry 256 B
    localparam int unsigned BEATS      = payload_bytes(LONG) / LANES,
    localparam int unsigned INDEX_BITS = $clog2(BEATS)
) (
    input  logic                                clk,
    input  logic                                rst,
    input  logic                                restart,     // hunts, before the column beside it
    // A column; symbols of lanes with an error are ignored.
    input  logic                                valid,
    input  logic          [     LANES-1:0][7:0] symbols,
    input  logic          [     LANES-1:0]      control,
    input  logic          [     LANES-1:0]      error,
    output arrival_t                            arrival,
    // The same for training, and the training set that has come.
    output link_events_t                        events,
    output training_set_t                       set,
    // A beat of the payload of the datagram whose header is in `arrival.word`.
    output logic                                beat_valid,
    output logic          [INDEX_BITS-1:0]      beat_index,
    output logic          [   8*LANES-1:0]      beat_data
);
  localparam int unsigned DATAGRAM_COLUMNS = (payload_bytes(LONG) + OVERHEAD_BYTES) / LANES;
  localparam int unsigned COMMAND_COLUMNS = COMMAND_BYTES / LANES;
  localparam int unsigned AT_BITS = LONG ? 9 : 8;
  // Columns of the header word; the one behind them completes the first beat of a payload.
  localparam int unsigned WORD_COLUMNS = (LANES < 4) ? 4 / LANES : 1;

  typedef enum logic [2:0] {
    BEGIN,
    FRAME,
    COMMA,
    SKIP,
    SET,
    HUNT
  } state_e;
  state_e kept, state, state_next;
  assign state = restart ? HUNT : kept;

  logic [AT_BITS-1:0] at, here, columns;  // columns of the frame or set that have come
  logic is_command, is_command_here;
  logic [31:0] crc, crc_next;

  // --- This column ---------------------------------------------------------------------------
  logic first_is_control, first_is_data, begins, in_frame, is_first, is_bad, is_last, is_good;
  logic is_broken, is_damaged;
  logic [LANES-1:0] misplaced;  // a control symbol where there must be data

  function automatic logic is_symbol(logic [7:0] wanted);
    return first_is_control && symbols[0] == wanted;
  endfunction

  assign first_is_control = control[0] && !error[0];
  assign first_is_data = !control[0] && !error[0];

  // A column that begins something, or ought to.
  always_comb begin
    unique case (state)
      BEGIN:   begins = 1'b1;
      COMMA:   begins = !first_is_data && !is_symbol(K_SKIP);
      SKIP:    begins = !is_symbol(K_SKIP);
      default: begins = first_is_control;  // FRAME, SET, HUNT
    endcase
    is_first = begins && (first_is_data || is_symbol(K_COMMAND));
    in_frame = is_first || (state == FRAME && !begins);
    is_command_here = is_first ? control[0] : is_command;
    here = is_first ? '0 : at;
    columns = is_command_here ? AT_BITS'(COMMAND_COLUMNS) : AT_BITS'(DATAGRAM_COLUMNS);
    is_last = in_frame && here == columns - 1'b1;
    misplaced = control;
    if (is_first) misplaced[0] = 1'b0;
    is_bad = (error | misplaced) != '0;
    is_broken = begins && (state == FRAME || state == SET);
  end

  always_comb begin
    crc_next = is_first ? '1 : crc;
    for (int unsigned lane = 0; lane < LANES; lane++) begin
      crc_next = crc_step(crc_next, symbols[lane]);
    end
  end

  // --- The word at the beginning of a frame --------------------------------------------------
  logic [31:0] word, word_next;
  if (LANES >= 4) begin : g_word
    assign word_next = (here == '0) ? symbols[3:0] : word;
  end else begin : g_word_bytes
    assign word_next = (here < AT_BITS'(WORD_COLUMNS)) ? {symbols, word[31:8*LANES]} : word;
  end

  command_t command;
  logic is_operation;
  assign command = word_next;
  assign is_operation = command.operation inside {[OPERATION_ACK : OPERATION_CONFIRM]};
  assign is_good = crc_next == CRC_RESIDUE && (!is_command_here || is_operation);
  logic unused;
  assign unused = &{1'b0, command};

  // --- State ---------------------------------------------------------------------------------
  always_comb begin
    state_next = state;
    is_damaged = 1'b0;
    if (in_frame) begin
      is_damaged = is_bad || (is_last && !is_good);
      state_next = is_damaged ? HUNT : is_last ? BEGIN : FRAME;
    end else if (begins) begin
      if (is_symbol(K_IDLE)) state_next = BEGIN;
      else if (is_symbol(K_COMMA)) state_next = COMMA;
      else begin
        is_damaged = 1'b1;
        state_next = HUNT;
      end
    end else if (state == COMMA) state_next = first_is_data ? SET : SKIP;
    else if (state == SET && at == AT_BITS'(SET_COLUMNS - 1)) state_next = BEGIN;
  end

  always_ff @(posedge clk) begin
    arrival.broken   <= valid && is_broken;
    arrival.damaged  <= valid && is_damaged;
    arrival.command  <= valid && is_last && !is_damaged && is_command_here;
    arrival.datagram <= valid && is_last && !is_damaged && !is_command_here;
    if (valid) begin
      kept <= state_next;
      // The comma is a set's column 0, so the first of its data is column 1.
      at <= (state == COMMA && !begins) ? AT_BITS'(2) : here + 1'b1;
      is_command <= is_command_here;
      crc <= crc_next;
      if (in_frame) word <= word_next;
    end else if (restart) kept <= HUNT;
    if (rst) begin
      kept <= HUNT;
      arrival.broken <= 1'b0;
      arrival.damaged <= 1'b0;
      arrival.command <= 1'b0;
      arrival.datagram <= 1'b0;
    end
  end
  assign arrival.word = word;

  // --- Training ------------------------------------------------------------------------------
  logic in_set, is_idle, is_comma, is_comma_whole, set_good, set_bad;
  logic [LANES-1:0] idles, commas;
  always_comb begin
    for (int unsigned lane = 0; lane < LANES; lane++) begin
      idles[lane]  = control[lane] && !error[lane] && symbols[lane] == K_IDLE;
      commas[lane] = control[lane] && !error[lane] && symbols[lane] == K_COMMA;
    end
  end
  assign in_set = (state == COMMA && first_is_data) || (state == SET && !begins);

  crosslane_link_set #(
      .LANES(LANES)
  ) training_set (
      .clk,
      .rst,
      .valid(valid && in_set),
      .at   ((state == COMMA) ? 4'd1 : 4'(at)),
      .symbols,
      .control,
      .error,
      .set_good,
      .set_bad,
      .set
  );

  always_ff @(posedge clk) begin
    is_idle <= valid && begins && idles == '1 && !rst;
    is_comma <= valid && begins && is_symbol(K_COMMA) && !rst;
    is_comma_whole <= commas == '1;
  end
  assign events = '{
          broken: arrival.broken,
          damaged: arrival.damaged,
          frame: arrival.command || arrival.datagram,
          idle: is_idle,
          comma: is_comma,
          comma_whole: is_comma_whole,
          set_good: set_good,
          set_bad: set_bad
      };

  // --- The payload ---------------------------------------------------------------------------
  logic [AT_BITS-1:0] beat;
  assign beat = here - AT_BITS'(WORD_COLUMNS);
  always_ff @(posedge clk) begin
    beat_valid <= valid && in_frame && !is_command_here && beat < AT_BITS'(BEATS) && !rst;
    if (valid) beat_index <= INDEX_BITS'(beat);
  end
  if (LANES == 8) begin : g_beat_across
    // A beat's first half is in the column before.
    logic [31:0] held;
    always_ff @(posedge clk) begin
      if (valid) begin
        held <= symbols[7:4];
        beat_data <= {symbols[3:0], held};
      end
    end
  end else begin : g_beat
    always_ff @(posedge clk) if (valid) beat_data <= symbols;
  end

`ifndef SYNTHESIS
  if (LANES != 1 && LANES != 4 && LANES != 8) begin : g_lanes
    $error("LANES is 1, 4 or 8");
  end
`endif
endmodule
