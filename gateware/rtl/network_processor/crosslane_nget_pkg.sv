// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Types of the get engine. Read first: README.md.

package crosslane_nget_pkg;
  import crosslane_network_pkg::*;

  localparam int unsigned MAX_TAGS = 256;
  localparam int unsigned SEQUENCE_BITS = 8;

  typedef enum logic [1:0] {
    GET_NONE   = 2'd0,
    GET_OPEN   = 2'd1,  // more runs follow
    GET_WHOLE  = 2'd2,
    GET_ENDING = 2'd3   // its reads under way come in and are dropped
  } get_state_e;

  // All that is kept of a message that is read.
  typedef struct packed {
    get_state_e  state;
    outcome_e    outcome;     // of an ending message
    logic [15:0] token;
    logic        is_routed;
    logic [15:0] node;        // of a routed message: where it goes, and its tag
    logic [5:0]  routed_tag;
    logic [60:0] notify;      // in units of 8 B
    logic [7:0]  sequence_;   // number of the message in its channel
    logic [7:0]  first;       // places of its runs: a list
    logic [7:0]  current;     // the one that is read, if there is one
    logic [7:0]  last;
    logic        has_run;
    logic [8:0]  places;
    logic [20:0] asked;       // bytes of the current run
    logic [13:0] next_index;
    logic [31:0] bytes;       // come
    logic [31:0] missing;     // still to come
    logic [8:0]  reads;       // under way
  } get_message_t;

  // A run of host memory.
  typedef struct packed {
    logic        is_last;
    logic [20:0] bytes;
    logic [63:0] address;
  } get_run_t;

  // A read of host memory, for the tags.
  typedef struct packed {
    logic [2:0]  channel;
    logic [5:0]  tag;       // of the message
    logic [7:0]  record_;   // its place among the channel's reads
    logic [15:0] position;  // of its first byte in the channel's staging memory
    logic [12:0] bytes;     // 1 to 4096
    logic [63:0] address;
  } get_read_t;

  // More of a read has come, not all: so many of its bytes are there.
  typedef struct packed {
    logic [2:0]  channel;
    logic [7:0]  record_;
    logic [12:0] bytes;
  } get_come_t;

  // The end of a read.
  typedef struct packed {
    logic        good;
    logic [2:0]  channel;
    logic [5:0]  tag;
    logic [7:0]  record_;
    logic [12:0] bytes;
  } get_end_t;

  // A read, for the sender: so many bytes of a message, in the order of the channel.
  typedef struct packed {
    logic        is_routed;
    logic [15:0] node;       // of a routed message
    logic [7:0]  sequence_;
    logic [5:0]  tag;        // of datagrams
    logic [12:0] bytes;
    logic        ends;       // the message
  } get_record_t;

  // A datagram's message is void: nothing more of it is sent.
  typedef struct packed {
    logic       write;
    logic       is_void;
    logic [2:0] channel;
    logic [7:0] sequence_;
  } get_void_t;
endpackage
