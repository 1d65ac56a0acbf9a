// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Types shared by the engine's modules. Read first: gateware/README.md.

package crosslane_pkg;

  // Kinds of TLP that the engine sends and takes.
  typedef enum logic [1:0] {
    MEMORY_READ     = 2'd0,
    MEMORY_WRITE    = 2'd1,
    COMPLETION      = 2'd2,  // without data
    COMPLETION_DATA = 2'd3
  } tlp_kind_e;

  // A TLP's header; it stands beside the first beat of the TLP.
  typedef struct packed {
    tlp_kind_e   kind;
    logic [63:0] address;        // requests: bytes, 1:0 zero; completions: Lower Address in 6:0
    logic [10:0] length_dw;      // 1 to 1024; a completion without data: 0
    logic [3:0]  first_be;
    logic [3:0]  last_be;        // 0 where length_dw is 1
    logic [15:0] requester;
    logic [9:0]  tag;
    logic [2:0]  traffic_class;
    logic [2:0]  attributes;     // {ID-based ordering, relaxed ordering, no snoop}
    logic        poisoned;
    logic [2:0]  status;         // completions, as on the wire: COMPLETION_*
    logic [12:0] byte_count;     // completions: 1 to 4096 (a shim turns the wire's 0 into 4096)
    logic [15:0] completer;
    logic [2:0]  bar;            // received requests: the BAR that was hit; NO_BAR if none
  } tlp_header_t;

  localparam logic [2:0] NO_BAR = 3'd7;

  // Completion status (PCIe 6.x 2.2.9.1).
  localparam logic [2:0] STATUS_SUCCESSFUL = 3'd0;
  localparam logic [2:0] STATUS_UNSUPPORTED_REQUEST = 3'd1;
  localparam logic [2:0] STATUS_RETRY = 3'd2;
  localparam logic [2:0] STATUS_COMPLETER_ABORT = 3'd4;

  // Bit numbers in `attributes`.
  localparam int unsigned NO_SNOOP = 0;
  localparam int unsigned RELAXED_ORDERING = 1;

  // Settings of the function; they change only while the engine is nearly idle.
  typedef struct packed {
    logic [15:0] routing_id;
    logic [2:0]  max_payload;       // 128 << n bytes
    logic [2:0]  max_read_request;  // 128 << n bytes
    logic        bus_master;
    logic        relaxed_ordering;  // Enable Relaxed Ordering
    logic        extended_tags;     // tags of 8 bits; else of 5
    logic        msix_enabled;      // and the function not masked
    logic        link_up;
  } function_t;

  // Classes of TLP for which the link has room now: at least one TLP of the largest size. Sampled
  // when a TLP begins.
  typedef struct packed {
    logic posted;
    logic nonposted;
    logic completion;
  } room_t;

  // `error` in a channel's status register: registers/engine.rdl, channel_error_e.
  typedef enum logic [3:0] {
    ERROR_NONE                 = 4'd0,
    ERROR_UNSUPPORTED_REQUEST  = 4'd1,
    ERROR_COMPLETER_ABORT      = 4'd2,
    ERROR_POISONED             = 4'd3,
    ERROR_COMPLETION_TIMEOUT   = 4'd4,
    ERROR_BAD_DESCRIPTOR       = 4'd5,
    ERROR_NOT_BUS_MASTER       = 4'd6,
    ERROR_MALFORMED_COMPLETION = 4'd7,
    ERROR_LINK_DOWN            = 4'd8,
    ERROR_CARD_MEMORY          = 4'd9
  } error_e;

  typedef enum logic [1:0] {
    STATE_IDLE    = 2'd0,
    STATE_RUNNING = 2'd1,
    STATE_STOPPED = 2'd2
  } state_e;

  typedef enum logic [1:0] {
    SOURCE_TABLE        = 2'd0,
    SOURCE_RING         = 2'd1,
    SOURCE_COMMAND_PORT = 2'd2
  } source_e;

  // Kinds of channel.
  typedef enum logic [1:0] {
    KIND_H2C  = 2'd0,
    KIND_C2H  = 2'd1,
    KIND_PEER = 2'd2
  } kind_e;

  // A descriptor as it is passed to its channel, in order. One with an error carries a fault that
  // takes effect in its turn: the channel finishes the work it has begun and stops with this error
  // and address. A descriptor of 0 bytes is bad whatever `error` says.
  typedef struct packed {
    // Of packet mode; left out where a channel has none.
    logic        end_of_packet;   // H2C: the last byte ends a packet
    logic [15:0] user;            // its tuser
    error_e      error;
    logic [63:0] address;
    logic [63:0] card;            // address in the card's memory; 0 for streams
    logic [31:0] bytes;
    logic        await_credit;    // peer: complete when the credit counter covers it
    logic        write_status;    // write the status block
    logic        send_interrupt;  // send the interrupt
    logic        command;         // of the user circuit: counts nowhere in the channel
    logic        generated;       // of the ping-pong: its data are the generator's
  } descriptor_t;

  localparam int unsigned DESCRIPTOR_PACKET_BITS = 17;

  // Copies within the card's memory, as their channel sees them.
  typedef struct packed {
    logic        open;            // some are taken up and not complete, or their bursts are open
    logic        starved;         // the next burst waits for its data
    logic        begun;           // pulse: a burst is begun
    logic        moved;           // pulse: the memory has confirmed bytes
    logic [12:0] moved_bytes;
    logic        complete;        // pulse, with moved: these end a descriptor
    logic        write_status;    // of that one
    logic        send_interrupt;
    logic        failed;          // level: the memory has refused the burst at failed_address
    logic [63:0] failed_address;  // target of that burst
  } copies_t;

  // The oldest packet in a stream, beside the stream's feed.
  typedef struct packed {
    logic        has_ends;  // the stream is of packets
    logic        known;     // the end is known: all bytes up to it are in the feed or on their way
    logic [16:0] bytes;     // up to the end, from 1
    logic [15:0] user;      // tuser of the last beat
    logic        cut;       // pulse: the stream is emptied
  } packet_end_t;

  // Settings of a channel, from its registers. Pulses last one clock.
  typedef struct packed {
    logic        run;
    source_e     source;
    logic        interrupt_enable;
    logic        status_enable;
    logic        relaxed_ordering;
    logic        oversize;
    logic        card_memory;       // data are the card's memory's, not a stream's
    logic        packets;           // packet mode
    logic        drop_packets;      // packets without a descriptor are dropped
    logic        restart;           // pulse
    logic [15:0] payload;           // bytes; 0: the most that is allowed
    logic [15:0] vector;
    logic [63:0] ring;
    logic [31:0] ring_entries;
    logic [31:0] doorbell;
    logic [63:0] status_address;
    logic        credit_written;    // pulse: the peer's count has come
    logic [31:0] credit;            // with credit_written: the value written
    logic [31:0] credit_window;
    logic [31:0] aperture;
  } channel_settings_t;

  // Readings of a channel for its registers. Each field has one driver; the others tie it to 0 and
  // the engine ORs them.
  typedef struct packed {
    state_e      state;
    error_e      error;
    logic [15:0] in_flight;           // reads that wait for an answer
    logic [31:0] completed;
    logic [31:0] stopped_at;
    logic [63:0] error_address;
    logic [63:0] bytes;
    logic [31:0] tlps;
    logic [31:0] fetched;
    logic [63:0] first;               // clocks
    logic [63:0] last;                // clocks
    logic [31:0] idle_no_descriptor;
    logic [31:0] idle_no_data;
    logic [31:0] idle_no_tag;
    logic [31:0] idle_link;
    logic [31:0] idle_no_credit;
    logic [31:0] credit;
    logic [31:0] sent;
    logic [31:0] packets;
    logic [31:0] packets_dropped;
    logic [31:0] packets_truncated;
    logic        line_taken;          // pulse: the doorbell rises by one
    logic [31:0] pushed;
    logic [31:0] pushes_dropped;
  } channel_readings_t;

  // A write that has come to the push aperture; valid for one clock.
  typedef struct packed {
    logic         valid;
    logic [5:0]   number;  // of the line that has its first byte
    logic         whole;   // a whole line, and good
    logic [511:0] data;    // if it is whole
  } line_write_t;

  // Most bytes of data in a line.
  localparam int unsigned INLINE_BYTES = 48;

  // A channel's requests to the status writer, and the readings that go into its status block.
  typedef struct packed {
    logic status_due;     // level, until status_taken
    logic interrupt_due;  // level, until interrupt_taken
  } due_t;

  typedef struct packed {
    logic        enable;
    logic        drop_when_full;
    logic        return_credits;
    logic        check;
    logic        restart;         // pulse
    logic [63:0] credit_address;
    logic [31:0] check_seed;
  } lane_settings_t;

  typedef struct packed {
    logic        overflow;
    logic [31:0] fill;
    logic [31:0] received;
    logic [31:0] drained;
    logic [31:0] check_errors;
    logic [31:0] check_first;
    logic [63:0] first;
    logic [63:0] last;
  } lane_readings_t;

  // A write TLP to be sent, or a fault whose turn has come. The fields that only peer channels need
  // come first, so that other channels can leave them out.
  typedef struct packed {
    logic [31:0] sent;            // the channel's count of bytes at the end of this TLP
    logic        begins;          // the descriptor's first
    logic        await_credit;
    logic        command;
    logic        generated;
    logic        ends;            // the descriptor's last
    logic        write_status;
    logic        send_interrupt;
    logic        fault;           // no TLP: the channel stops here
    error_e      error;
    logic [63:0] address;         // of the first byte
    logic [11:0] rest;            // bytes less 1
    logic [11:0] extent;          // the same, from byte 0 of the first double word
  } write_chunk_t;

  localparam int unsigned WRITE_CHUNK_PEER_BITS = 36;

  // Source of a write channel's data: registers/engine.rdl, stream_source_e.
  typedef enum logic [1:0] {
    STREAM_GENERATOR = 2'd0,
    STREAM_H2C       = 2'd1,
    STREAM_LANE      = 2'd2,
    STREAM_NOTHING   = 2'd3
  } stream_e;

  // The user circuit's registers, 0x2000 of BAR 0.
  typedef struct packed {
    logic [1:0]  c2h_source;
    logic [1:0]  peer_source;
    logic [3:0]  lane;
    logic        interconnect_written;  // pulse
    logic [31:0] generator_seed;
    logic        generator_restart;     // pulse
    logic        h2c_check;
    logic        h2c_check_restart;     // pulse
    logic [31:0] h2c_check_seed;
    logic [63:0] command_address;
    logic [31:0] command_bytes;
    logic        command_start;         // pulse
    logic        ping_start;            // pulse
    logic [15:0] ping_rounds;
  } user_settings_t;

  typedef struct packed {
    logic [31:0] h2c_check_errors;
    logic [31:0] h2c_check_first;
    logic        command_busy;
    logic [31:0] command_done;
    logic [31:0] ping_done;
    logic [63:0] ping_sum;
    logic [31:0] ping_least;
    logic [31:0] ping_most;
  } user_readings_t;

  // The pattern of generator and checker: increment from one word to the next.
  localparam logic [31:0] PATTERN_STEP = 32'h9e37_79b1;

  // PATTERN_STEP times a number of words up to 16, as a table.
  function automatic logic [31:0] pattern_steps(input logic [4:0] words);
    logic [31:0] steps;
    steps = '0;
    for (int unsigned n = 1; n <= 16; n++) begin
      if (words == 5'(n)) steps |= 32'(n) * PATTERN_STEP;
    end
    return steps;
  endfunction

  // Clocks from a write into a byte ring until a read that sees it may begin; clocks from a read's
  // position to its data.
  localparam int unsigned RING_WRITE_CLOCKS = 3;
  localparam int unsigned RING_READ_CLOCKS = 3;

  // Bytes for a Max_Payload_Size or Max_Read_Request_Size field.
  function automatic logic [12:0] size_bytes(input logic [2:0] field);
    return 13'd128 << field;
  endfunction

  // These functions use only some bits of a length.
  // verilator lint_off UNUSEDSIGNAL

  // Address and length in bytes of a request, from byte 0 of its first double word.
  function automatic logic [3:0] first_enables(input logic [1:0] offset, input logic [12:0] bytes);
    logic [3:0] upper;
    upper = (13'(offset) + bytes >= 13'd4) ? 4'hf : (4'hf >> (3'd4 - 3'(offset) - bytes[2:0]));
    return upper & (4'hf << offset);
  endfunction

  // Byte enables of the last double word, for a request of more than one.
  function automatic logic [3:0] last_enables(input logic [1:0] offset, input logic [12:0] bytes);
    logic [1:0] end_offset;
    end_offset = offset + bytes[1:0];
    return (end_offset == 2'd0) ? 4'hf : (4'hf >> (3'd4 - 3'(end_offset)));
  endfunction

  // Double words that a request touches.
  function automatic logic [10:0] length_dw(input logic [1:0] offset, input logic [12:0] bytes);
    logic [12:0] span;
    span = bytes + 13'(offset) + 13'd3;
    return span[12:2];
  endfunction

  // verilator lint_on UNUSEDSIGNAL

endpackage
