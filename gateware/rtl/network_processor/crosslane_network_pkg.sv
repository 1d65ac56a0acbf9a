// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Types and constants of the network processor above its links. Read first:
// docs/network-processor.md; the layouts are those of registers/descriptors.rdl.

package crosslane_network_pkg;

  // Apertures of the host.
  localparam logic [2:0] REQUEST_BAR = 3'd2;
  localparam logic [2:0] PUT_BAR = 3'd4;
  // Bytes of the largest aperture: eight links of 32 slots a channel; twice that of long datagrams.
  localparam int unsigned APERTURE_BITS = 19;
  localparam int unsigned REQUESTS_APERTURE_BITS = 15;  // of that of requests
  // Position of the credit slots in the requests' aperture, and distance of slots there.
  localparam int unsigned CREDITS_BASE = 32'h4000;
  localparam int unsigned REQUEST_STRIDE = 64;
  // Bytes of a request, and of a put's control word.
  localparam int unsigned REQUEST_BYTES = 32;
  localparam int unsigned CONTROL_BYTES = 8;

  localparam int unsigned MAX_LINKS = 8;
  // Channel of routed messages; from the edge of a ring on they have the one above it.
  localparam logic [2:0] ROUTED_CHANNEL = 3'd6;
  localparam int unsigned MAX_CHANNEL_DATAGRAMS = 512;
  localparam int unsigned MAX_CREDIT_SLOTS = 256;
  // Longest run of a message, and most datagrams of a message.
  localparam logic [20:0] MAX_RUN_BYTES = 21'h10_0000;
  localparam logic [14:0] MAX_DATAGRAMS = 15'd8192;

  // Destination of a link's datagrams (link_mode_e of the register map).
  localparam logic [1:0] MODE_NORMAL = 2'd0;
  localparam logic [1:0] MODE_SINK = 2'd1;  // counted and dropped
  localparam logic [1:0] MODE_LOOPBACK = 2'd2;  // the same link's receive buffers

  typedef enum logic [1:0] {
    KIND_MIDDLE = 2'd0,
    KIND_LAST   = 2'd1,
    KIND_SHORT  = 2'd2,
    KIND_ROUTED = 2'd3
  } datagram_kind_e;

  // Last byte of a short datagram that aborts its message; of a long one the byte before, and the
  // last is 0.
  localparam logic [7:0] ABORT = 8'hff;

  // Outcome of a message (network_status_e).
  typedef enum logic [3:0] {
    OUTCOME_NONE        = 4'd0,
    OUTCOME_DONE        = 4'd1,
    OUTCOME_REFUSED     = 4'd2,
    OUTCOME_HOST_MEMORY = 4'd3,
    OUTCOME_TOO_LONG    = 4'd4,
    OUTCOME_LINK_DOWN   = 4'd5,
    OUTCOME_CANCELLED   = 4'd6,
    OUTCOME_FAR_END     = 4'd7,
    OUTCOME_TAKEN       = 4'd8,
    OUTCOME_RESET       = 4'd9,
    OUTCOME_DROPPED     = 4'd10
  } outcome_e;

  // A request as it is in its slot (network_request).
  typedef struct packed {
    logic [31:0] reserved;
    logic [15:0] node;
    logic [15:0] token;
    logic [63:0] notify;
    logic [63:0] buffer;
    logic [10:0] unused_length;
    logic [20:0] bytes;
    logic [2:0]  unused_high;
    logic [12:0] index;
    logic        unused_low;
    logic        cancel;
    logic        routed;
    logic        last;
    logic [5:0]  tag;
    logic [2:0]  channel;
    logic [2:0]  link;
  } request_t;

  // A datagram of a receive buffer: its place, and all that says what it is. `last_byte` of a routed
  // one has of its routing word whether it is the last one, and how many bytes count. Of a long one it
  // has the bytes alone; `mark` is whether a routed one is the last, or a short one an abort.
  typedef struct packed {
    logic        mark;
    logic        is_here;      // of a routed one: this node is its destination
    logic        is_beyond;    // its index has more bits
    logic [12:0] index;        // in the message
    logic [15:0] source;       // nodes
    logic [15:0] destination;
    logic [7:0]  last_byte;    // of the payload
    logic [20:0] label;        // label_t of the link
    logic [2:0]  channel;
    logic [8:0]  slot;         // of the channel
  } arrived_t;
  // Without the mark, and without what routed ones have.
  localparam int unsigned UNMARKED_BITS = $bits(arrived_t) - 1;
  localparam int unsigned NEIGHBOUR_ARRIVED_BITS = 41;

  // The word before a routed payload (docs/network-processor.md, Get engine).
  typedef struct packed {
    logic        is_last;
    logic [6:0]  bytes;
    logic [23:0] index;
    logic [15:0] source;
    logic [15:0] destination;
  } routing_word_t;
  // The same of a long datagram.
  typedef struct packed {
    logic        is_last;
    logic [7:0]  bytes;
    logic [22:0] index;
    logic [15:0] source;
    logic [15:0] destination;
  } long_routing_word_t;
  // Of the datagram that a link receives: `begins` while its routing word comes, `is_routed` when all
  // of that is there.
  typedef struct packed {
    logic        begins;
    logic        is_routed;
    logic [15:0] source;
    logic [15:0] destination;
  } coming_t;
  localparam int unsigned ROUTING_BYTES = 8;
  localparam int unsigned DIMENSIONS = 4;
  localparam int unsigned MAX_NODES = 65536;

  // A dimension of a torus as in its register, and the torus of which this is a node.
  typedef struct packed {
    logic [15:0] position;
    logic        is_open;
    logic [14:0] size;
  } extent_t;
  typedef struct packed {
    logic        is_there;  // more than one node
    logic        is_new;    // not known yet
    logic [16:0] nodes;
    logic [15:0] node;      // this one
  } torus_t;

  // The next step of a routed datagram: `is_here`, else by a link if `has_link`, else none.
  typedef struct packed {
    logic       is_here;
    logic       has_link;
    logic [2:0] link;
    logic       is_behind_edge;  // on channel 7, else 6
  } hop_t;

  // A place of a receive buffer.
  typedef struct packed {
    logic [2:0] link;
    logic [2:0] channel;
    logic [8:0] slot;
  } place_t;

  // The key of a message between neighbours.
  typedef struct packed {
    logic [2:0] link;
    logic [2:0] channel;
    logic [5:0] tag;
  } message_key_t;

  // A run of host memory of a credit.
  typedef struct packed {
    logic        is_first;  // of its message
    logic [7:0]  previous;  // place of the run before it, or of the next free one
    logic [12:0] index;
    logic [20:0] bytes;
    logic [63:0] address;
  } run_t;

  typedef enum logic [1:0] {
    CREDIT_NONE  = 2'd0,
    CREDIT_OPEN  = 2'd1,  // more runs follow; no data are taken
    CREDIT_WHOLE = 2'd2
  } credit_state_e;

  // How much of a message has come.
  typedef struct packed {
    logic [13:0] taken;      // datagrams; stops at the highest
    logic        has_end;    // the last one has come
    logic [13:0] datagrams;  // then: of the message
  } progress_of_message_t;

  // All that is kept of a key: its credit, the rest of a message that has outlasted its credit, and
  // the datagrams that wait.
  typedef struct packed {
    credit_state_e        state;
    logic [15:0]          token;
    logic [60:0]          notify;       // in units of 8 B
    logic [7:0]           place;        // of its last run
    logic [13:0]          next_index;
    progress_of_message_t progress;
    logic [31:0]          bytes;
    logic                 is_too_long;
    logic                 is_dropped;   // what comes belongs to a message without a credit
    logic [7:0]           losses;       // messages dropped whose credits have not come
    progress_of_message_t dropped;      // of the message that is dropped, or that waits last
    logic                 waits;
    place_t               head;         // places of the datagrams that wait
    place_t               tail;
  } key_state_t;

  // Work for the writer, in order.
  typedef enum logic [1:0] {
    WRITE_DATA   = 2'd0,  // of a datagram; its place is free behind it
    WRITE_DROP   = 2'd1,  // nothing: its place is free
    WRITE_NOTIFY = 2'd2,
    WRITE_COUNT  = 2'd3   // of puts
  } write_kind_e;

  typedef struct packed {
    logic       is_routed;  // the data begin behind the routing word
    logic [8:0] slot;
    logic [2:0] channel;
    logic [2:0] link;
    logic [8:0] bytes;      // 1 to a payload
  } write_of_data_t;

  typedef struct packed {
    logic [31:0] bytes;
    outcome_e    outcome;
    logic [15:0] token;
  } write_of_notification_t;

  localparam int unsigned WRITE_BITS = $bits(write_of_notification_t);

  typedef struct packed {
    write_kind_e           kind;
    logic [63:0]           address;
    logic [WRITE_BITS-1:0] what;     // by its kind: write_of_data_t, write_of_notification_t
  } write_t;

  // Counters since the reset; they wrap.
  typedef struct packed {
    logic [31:0] gets;
    logic [31:0] credits;
    logic [31:0] puts;
    logic [31:0] refused;
    logic [31:0] misrouted;
    logic [31:0] waiting;    // datagrams without a credit, now
    logic [31:0] forwarded;
  } network_counters_t;

  // Distance of the slots of the put aperture, by the parameter LONG of the modules.
  function automatic int unsigned put_stride(bit is_long);
    return is_long ? 512 : 256;
  endfunction

  // Whether a request breaks a rule that asks for no other length than its own.
  // verilator lint_off UNUSEDSIGNAL
  function automatic logic is_impossible(request_t request, logic [13:0] datagrams,
                                         logic has_full_datagrams);
    logic [21:0] behind;  // of its last 2 MiB of addresses
    // verilator lint_on UNUSEDSIGNAL
    logic breaks_length;
    behind = 22'(request.buffer[20:0]) + 22'(request.bytes);
    breaks_length = request.last ? request.bytes == '0 && (request.index != '0 || request.routed)
                                 : request.bytes == '0 || !has_full_datagrams;
    return breaks_length || request.bytes > MAX_RUN_BYTES ||
        15'(request.index) + 15'(datagrams) > MAX_DATAGRAMS ||
        (request.buffer[63:21] == '1 && behind[21] && behind[20:0] != '0) ||
        request.notify == '0 || request.notify[2:0] != '0 || request.reserved != '0;
  endfunction

  // Progress behind one more datagram.
  function automatic progress_of_message_t progress_behind(
      progress_of_message_t progress, logic [12:0] index, logic is_beyond, logic is_last);
    progress_of_message_t next;
    next = progress;
    if (progress.taken != '1) next.taken = progress.taken + 1'b1;
    if (is_last) begin
      next.has_end   = 1'b1;
      // Of a message whose last index is beyond all others not so many ever come.
      next.datagrams = is_beyond ? '0 : 14'(index) + 1'b1;
    end
    return next;
  endfunction

  // Whether all of the message has come then.
  function automatic logic is_whole_behind(progress_of_message_t progress, logic [12:0] index,
                                           logic is_beyond, logic is_last);
    return is_last ? !is_beyond && progress.taken == 14'(index)
        : progress.has_end && 15'(progress.taken) + 1'b1 == 15'(progress.datagrams);
  endfunction
endpackage
