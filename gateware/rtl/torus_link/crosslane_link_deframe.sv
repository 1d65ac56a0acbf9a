// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Columns to frames and training sets: finds where frames begin, and again behind damage (docs/torus-link.md, Finding
// frames again). Payloads are passed on as they come; `arrival` tells two clocks behind the last
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
    // Hunts, before the column of the clock before.
    input  logic                                restart,
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

  // --- What a column says by itself ----------------------------------------------------------
  typedef struct packed {
    logic [LANES-1:0][7:0] symbols;
    logic [LANES-1:0]      control;
    logic [LANES-1:0]      error;
    // Of lane 0, and none if it has an error.
    logic                  is_data;
    logic                  is_control;
    logic                  is_command;
    logic                  is_idle;
    logic                  is_comma;
    logic                  is_skip;
    logic                  any_error;
    logic                  other_control;  // in a lane behind lane 0
    logic                  all_idle;
    logic                  all_commas;
    logic [31:0]           crc;            // its part in the CRC
    logic                  fits_alone;     // it is a whole frame, whose CRC fits
  } column_t;
  column_t here, next;
  logic here_valid;
  logic [31:0] of_symbols, of_crc, of_ones;

  crosslane_link_crc #(
      .BYTES(LANES)
  ) symbols_alone (
      .crc('0),
      .data(symbols),
      .behind(of_symbols)
  );
  crosslane_link_crc #(
      .BYTES(LANES)
  ) ones_alone (
      .crc('1),
      .data('0),
      .behind(of_ones)
  );

  always_comb begin
    logic is_control;
    is_control = control[0] && !error[0];
    next = '{
        symbols: symbols,
        control: control,
        error: error,
        is_data: !control[0] && !error[0],
        is_control: is_control,
        is_command: is_control && symbols[0] == K_COMMAND,
        is_idle: is_control && symbols[0] == K_IDLE,
        is_comma: is_control && symbols[0] == K_COMMA,
        is_skip: is_control && symbols[0] == K_SKIP,
        any_error: error != '0,
        other_control: (control >> 1) != '0,
        all_idle: control == '1 && error == '0 && symbols == {LANES{K_IDLE}},
        all_commas: control == '1 && error == '0 && symbols == {LANES{K_COMMA}},
        crc: of_symbols,
        fits_alone: COMMAND_COLUMNS == 1 && (of_symbols ^ of_ones) == CRC_RESIDUE
    };
  end
  always_ff @(posedge clk) begin
    here <= next;
    here_valid <= valid && !rst;
  end

  // --- In its place --------------------------------------------------------------------------
  typedef enum logic [2:0] {
    BEGIN,
    FRAME,
    COMMA,
    SKIP,
    SET,
    HUNT
  } state_e;
  // A restart comes late, so it is looked at last: `kept` where it makes no difference.
  state_e kept, state, state_next;
  assign state = restart ? HUNT : kept;

  logic [AT_BITS-1:0] at, at_here;  // columns of the frame or set that have come
  logic is_command, is_command_here, begins, in_frame, is_first, is_bad, is_last, is_good;
  logic is_last_of_frame, is_broken, is_damaged, begins_kept;
  assign is_last_of_frame = at == (is_command ? AT_BITS'(COMMAND_COLUMNS - 1)
                                              : AT_BITS'(DATAGRAM_COLUMNS - 1));

  // A column that begins something, or ought to. Control symbols are bad where there must be data.
  always_comb begin
    unique case (kept)
      BEGIN:   begins_kept = 1'b1;
      COMMA:   begins_kept = !here.is_data && !here.is_skip;
      SKIP:    begins_kept = !here.is_skip;
      default: begins_kept = here.is_control;  // FRAME, SET, HUNT
    endcase
    begins = restart ? here.is_control : begins_kept;
    is_first = begins && (here.is_data || here.is_command);
    in_frame = is_first || (state == FRAME && !begins);
    is_command_here = is_first ? here.is_command : is_command;
    at_here = is_first ? '0 : at;
    is_last = is_first ? COMMAND_COLUMNS == 1 && here.is_command : in_frame && is_last_of_frame;
    is_bad = here.any_error || here.other_control || (here.is_control && !is_first);
    is_broken = begins && (state == FRAME || state == SET);
  end

  // --- CRC, of a frame that begins with this column and of one that goes on ------------------
  logic [31:0] crc, crc_behind;
  crosslane_link_crc #(
      .BYTES(LANES)
  ) crc_alone (
      .crc(crc),
      .data('0),
      .behind(of_crc)
  );
  assign crc_behind = here.crc ^ of_crc;

  // --- The word at the beginning of a frame --------------------------------------------------
  logic [31:0] word, word_next;
  if (LANES >= 4) begin : g_word
    assign word_next = (at_here == '0) ? here.symbols[3:0] : word;
  end else begin : g_word_bytes
    assign word_next = (at_here < AT_BITS'(WORD_COLUMNS)) ? {here.symbols, word[31:8*LANES]} : word;
  end

  command_t command;
  logic is_operation;
  assign command = word_next;
  assign is_operation = command.operation inside {[OPERATION_ACK : OPERATION_CONFIRM]};
  assign is_good = (is_first ? here.fits_alone : crc_behind == CRC_RESIDUE)
                   && (!is_command_here || is_operation);
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
      if (here.is_idle) state_next = BEGIN;
      else if (here.is_comma) state_next = COMMA;
      else begin
        is_damaged = 1'b1;
        state_next = HUNT;
      end
    end else if (state == COMMA) state_next = here.is_data ? SET : SKIP;
    else if (state == SET && at == AT_BITS'(SET_COLUMNS - 1)) state_next = BEGIN;
  end

  always_ff @(posedge clk) begin
    arrival.broken   <= here_valid && is_broken;
    arrival.damaged  <= here_valid && is_damaged;
    arrival.command  <= here_valid && is_last && !is_damaged && is_command_here;
    arrival.datagram <= here_valid && is_last && !is_damaged && !is_command_here;
    if (here_valid) begin
      kept <= state_next;
      // The comma is a set's column 0, so the first of its data is column 1.
      at <= (kept == COMMA && !begins) ? AT_BITS'(2) : at_here + 1'b1;
      is_command <= is_command_here;
      crc <= is_first ? here.crc ^ of_ones : crc_behind;
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
  assign in_set = (state == COMMA && here.is_data) || (state == SET && !begins);

  crosslane_link_set #(
      .LANES(LANES)
  ) training_set (
      .clk,
      .rst,
      .valid(here_valid && in_set),
      .at   ((kept == COMMA) ? 4'd1 : 4'(at)),
      .symbols(here.symbols),
      .control(here.control),
      .error(here.error),
      .set_good,
      .set_bad,
      .set
  );

  always_ff @(posedge clk) begin
    is_idle <= here_valid && begins && here.all_idle && !rst;
    is_comma <= here_valid && begins && here.is_comma && !rst;
    is_comma_whole <= here.all_commas;
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
  assign beat = at_here - AT_BITS'(WORD_COLUMNS);
  always_ff @(posedge clk) begin
    beat_valid <= here_valid && in_frame && !is_command_here && beat < AT_BITS'(BEATS) && !rst;
    if (here_valid) beat_index <= INDEX_BITS'(beat);
  end
  if (LANES == 8) begin : g_beat_across
    // A beat's first half is in the column before.
    logic [31:0] held;
    always_ff @(posedge clk) begin
      if (here_valid) begin
        held <= here.symbols[7:4];
        beat_data <= {here.symbols[3:0], held};
      end
    end
  end else begin : g_beat
    always_ff @(posedge clk) if (here_valid) beat_data <= here.symbols;
  end

`ifndef SYNTHESIS
  if (LANES != 1 && LANES != 4 && LANES != 8) begin : g_lanes
    $error("LANES is 1, 4 or 8");
  end
`endif
endmodule
