// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Types and constants of the torus link. Read first: docs/torus-link.md.

package crosslane_link_pkg;

  localparam int unsigned CHANNELS = 8;
  localparam int unsigned PAYLOAD_BYTES = 128;
  localparam int unsigned DATAGRAM_BYTES = 136;
  localparam int unsigned LONG_PAYLOAD_BYTES = 256;
  // Bytes of a datagram beside its payload: header word and CRC.
  localparam int unsigned OVERHEAD_BYTES = DATAGRAM_BYTES - PAYLOAD_BYTES;
  localparam int unsigned COMMAND_BYTES = 8;

  // Control symbols.
  localparam logic [7:0] K_SKIP = 8'h1c;
  localparam logic [7:0] K_COMMAND = 8'h5c;
  localparam logic [7:0] K_IDLE = 8'h7c;
  localparam logic [7:0] K_COMMA = 8'hbc;

  // Columns of a training set.
  localparam int unsigned SET_COLUMNS = 16;

  typedef enum logic [2:0] {
    OPERATION_NONE    = 3'd0,
    OPERATION_ACK     = 3'd1,
    OPERATION_NACK    = 3'd2,
    OPERATION_RESTART = 3'd3,
    OPERATION_COUNT   = 3'd4,
    OPERATION_CONFIRM = 3'd5
  } operation_e;

  // Fields of a header that the link carries unchanged.
  typedef struct packed {
    logic [12:0] index;
    logic [5:0]  tag;
    logic [1:0]  kind;
  } label_t;

  // The header word of a datagram.
  typedef struct packed {
    label_t     label;
    logic [2:0] channel;
    logic [7:0] number;   // the sequence number
  } header_t;

  // The word of a command.
  typedef struct packed {
    logic [9:0] count;
    logic [2:0] channel;
    logic [7:0] number;     // the sequence number
    logic [2:0] operation;
    logic [7:0] symbol;     // K_COMMAND
  } command_t;

  // A symbol of a lane as it has come; `control` of an error: the code is one of the other disparity.
  typedef struct packed {
    logic       error;
    logic       control;
    logic [7:0] value;
  } lane_symbol_t;

  // Ends that columns brought, for training; a frame broken off comes before the others within a clock.
  typedef struct packed {
    logic broken;       // a frame or set was broken off
    logic damaged;      // a frame was damaged, or a hunt began
    logic frame;        // a good frame
    logic idle;         // an idle column without error
    logic comma;        // a skip set or training set begins
    logic comma_whole;  // with commas in all lanes
    logic set_good;     // a training set
    logic set_bad;
  } link_events_t;

  // A training set, as it has come or is to be sent.
  typedef struct packed {
    logic [7:0]  version;
    logic [7:0]  lanes;
    logic [15:0] channel_datagrams;
    logic [15:0] session;
    logic [15:0] seen;
    logic [7:0]  stage;
    logic        is_long;            // datagrams carry LONG_PAYLOAD_BYTES
    logic        is_in_order;        // each lane has its own number
  } training_set_t;

  typedef enum logic [2:0] {
    PORT_DISABLED = 3'd0,
    PORT_ALIGN    = 3'd1,
    PORT_CONFIRM  = 3'd2,
    PORT_UP       = 3'd3,
    PORT_FAILED   = 3'd4
  } port_state_e;

  // Counts since a training state was entered; each stops at the most that matters.
  typedef struct packed {
    logic [3:0]  good_sets;
    logic [3:0]  knowing_sets;        // of stage 2, that know this end's session
    logic [4:0]  sent_sets;           // of stage 2
    logic [2:0]  idle_in_a_row;
    logic [1:0]  misfits;
    logic [10:0] columns_in_state;
    logic [6:0]  columns_since_good;
    logic [6:0]  errors;
    logic [1:0]  skewed;
    logic [4:0]  damaged_in_a_row;
  } progress_t;

  // Counters of the lanes since the reset; they wrap.
  typedef struct packed {
    logic [31:0] losses;     // of the link
    logic [31:0] realigned;  // alignment begun anew
    logic [31:0] slipped;    // the elastic buffer was empty or full
    logic [31:0] dropped;    // columns of skip sets
    logic [31:0] doubled;
    logic [31:0] skip_sets;  // received
    logic [31:0] bad_sets;   // training sets
  } lane_counters_t;

  // The pattern of tests: its channel, and the difference between successive words.
  localparam logic [2:0] PATTERN_CHANNEL = 3'd7;
  localparam logic [31:0] PATTERN_STEP = 32'h9e37_79b1;

  // Version of docs/torus-link.md.
  localparam logic [7:0] LINK_VERSION = 8'd1;

  // Findings of the receiving side, in this order within a clock.
  typedef struct packed {
    logic        broken;    // a frame was broken off
    logic        damaged;   // a frame was damaged
    logic        command;   // a command has come
    logic        datagram;  // a datagram has come
    logic [31:0] word;      // of the command, or the datagram's header
  } arrival_t;

  // Counters since the reset; they wrap.
  typedef struct packed {
    logic [31:0] overruns;
    logic [31:0] stale;
    logic [31:0] discarded;
    logic [31:0] doubles;
    logic [31:0] commands;
    logic [31:0] trainings;
    logic [31:0] timeouts;
    logic [31:0] restarts;
    logic [31:0] nacks;
    logic [31:0] damaged;
    logic [31:0] repeated;
    logic [31:0] delivered;
    logic [31:0] sent;
  } link_counters_t;

  // Payload of a datagram, by the parameter LONG of the modules.
  function automatic int unsigned payload_bytes(bit is_long);
    return is_long ? LONG_PAYLOAD_BYTES : PAYLOAD_BYTES;
  endfunction

  // Bits of a transceiver's word: a block of 64b/66b, or symbols of 8b/10b.
  function automatic int unsigned word_bits(bit is_blocks, int unsigned symbols);
    return is_blocks ? 66 : 10 * symbols;
  endfunction

  // The register of a CRC behind a frame and its CRC.
  localparam logic [31:0] CRC_RESIDUE = 32'hdebb_20e3;

  // The register of the CRC of Ethernet, reflected, behind one more byte.
  function automatic logic [31:0] crc_step(logic [31:0] register, logic [7:0] value);
    logic [31:0] r;
    r = register ^ 32'(value);
    for (int unsigned n = 0; n < 8; n++) r = (r >> 1) ^ (r[0] ? 32'hedb8_8320 : '0);
    return r;
  endfunction

endpackage
