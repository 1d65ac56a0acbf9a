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
    logic                  starts;         // a frame, where one may begin
    logic                  is_alone;       // and is all of it
    logic                  any_error;
    logic                  other_control;  // in a lane behind lane 0
    logic                  all_idle;
    logic                  all_commas;
    logic [31:0]           crc;            // its part in the CRC
    logic                  fits_alone;     // it is a whole frame that is right
  } column_t;
  column_t here, next;
  logic here_valid;
  logic [31:0] of_symbols, of_ones, of_here, of_begun, of_crc;

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

  function automatic logic is_right(logic [2:0] operation);
    return operation inside {[OPERATION_ACK : OPERATION_CONFIRM]};
  endfunction
  command_t alone, command;
  assign alone = 32'(symbols);

  always_comb begin
    logic is_control, is_data, is_command;
    is_control = control[0] && !error[0];
    is_data = !control[0] && !error[0];
    is_command = is_control && symbols[0] == K_COMMAND;
    next = '{
        symbols: symbols,
        control: control,
        error: error,
        is_data: is_data,
        is_control: is_control,
        is_command: is_command,
        is_idle: is_control && symbols[0] == K_IDLE,
        is_comma: is_control && symbols[0] == K_COMMA,
        is_skip: is_control && symbols[0] == K_SKIP,
        starts: is_data || is_command,
        is_alone: COMMAND_COLUMNS == 1 && is_command,
        any_error: error != '0,
        other_control: (control >> 1) != '0,
        all_idle: control == '1 && error == '0 && symbols == {LANES{K_IDLE}},
        all_commas: control == '1 && error == '0 && symbols == {LANES{K_COMMA}},
        crc: of_symbols,
        fits_alone: (of_symbols ^ of_ones) == CRC_RESIDUE && is_right(alone.operation)
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
  logic is_command, is_command_here, begins, begins_kept, in_frame, is_first, is_last, is_broken;
  logic is_damaged;
  assign is_first = begins && here.starts;

  // A column that begins something, or ought to.
  always_comb begin
    unique case (kept)
      BEGIN:   begins_kept = 1'b1;
      COMMA:   begins_kept = !here.is_data && !here.is_skip;
      SKIP:    begins_kept = !here.is_skip;
      default: begins_kept = here.is_control;  // FRAME, SET, HUNT
    endcase
    begins = restart ? here.is_control : begins_kept;
    in_frame = begins ? here.starts : state == FRAME;
    is_command_here = is_first ? here.is_command : is_command;
    at_here = is_first ? '0 : at;
    is_broken = begins && (state == FRAME || state == SET);
  end

  // --- CRC, of a frame that begins with this column and of one that goes on ------------------
  // `crc` is that of the columns before as it counts behind this one, so that it is only added.
  logic [31:0] crc, crc_next;
  crosslane_link_crc #(
      .BYTES(LANES)
  ) here_alone (
      .crc(here.crc),
      .data('0),
      .behind(of_here)
  );
  crosslane_link_crc #(
      .BYTES(LANES)
  ) begun_alone (
      .crc(of_ones),
      .data('0),
      .behind(of_begun)
  );
  crosslane_link_crc #(
      .BYTES(LANES)
  ) crc_alone (
      .crc(crc),
      .data('0),
      .behind(of_crc)
  );
  assign crc_next = of_here ^ (is_first ? of_begun : of_crc);

  // --- The word at the beginning of a frame --------------------------------------------------
  logic [31:0] word, word_next;
  if (LANES >= 4) begin : g_word
    assign word_next = (at_here == '0) ? here.symbols[3:0] : word;
  end else begin : g_word_bytes
    assign word_next = (at_here < AT_BITS'(WORD_COLUMNS)) ? {here.symbols, word[31:8*LANES]} : word;
  end

  assign command = word;
  logic unused;
  assign unused = &{1'b0, alone, command};

  // --- State ---------------------------------------------------------------------------------
  // Worked out for both: that this column begins something, by itself, and that it does not.
  state_e begun, going;
  logic is_last_of_frame, ends_well, is_bad, begun_damaged, going_damaged;
  assign is_last_of_frame = at == (is_command ? AT_BITS'(COMMAND_COLUMNS - 1)
                                              : AT_BITS'(DATAGRAM_COLUMNS - 1));
  assign ends_well = (crc ^ here.crc) == CRC_RESIDUE && (!is_command || is_right(
      command.operation
  ));
  assign is_bad = here.any_error || here.other_control;

  always_comb begin
    begun = HUNT;
    begun_damaged = 1'b0;
    if (here.starts && !is_bad && (here.fits_alone || !here.is_alone)) begin
      begun = here.is_alone ? BEGIN : FRAME;
    end else if (!here.starts && here.is_idle) begun = BEGIN;
    else if (!here.starts && here.is_comma) begun = COMMA;
    else begun_damaged = 1'b1;

    going = kept;
    going_damaged = 1'b0;
    unique case (kept)
      FRAME: begin
        // Control symbols are bad where there must be data.
        going_damaged = is_bad || here.is_control || (is_last_of_frame && !ends_well);
        going = going_damaged ? HUNT : is_last_of_frame ? BEGIN : FRAME;
      end
      COMMA:   going = here.is_data ? SET : SKIP;
      SET:     if (at == AT_BITS'(SET_COLUMNS - 1)) going = BEGIN;
      default: ;
    endcase
    if (restart) begin
      going = HUNT;
      going_damaged = 1'b0;
    end
    state_next = begins ? begun : going;
    is_damaged = begins ? begun_damaged : going_damaged;
    is_last = begins ? here.is_alone : state == FRAME && is_last_of_frame;
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
