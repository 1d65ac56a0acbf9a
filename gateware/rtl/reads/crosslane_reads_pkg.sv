// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Types shared by the modules of crosslane_reads. Read first: crosslane_reads.sv.

package crosslane_reads_pkg;
  import crosslane_pkg::*;

  // Tags of each fetcher of descriptors.
  localparam int unsigned FETCH_TAGS = 4;
  localparam int unsigned FETCH_COUNT_BITS = $clog2(FETCH_TAGS + 1);

  // Event of a tag, one a clock.
  typedef enum logic [1:0] {
    EVENT_COMPLETION = 2'd0,  // a completion names it
    EVENT_VISIT      = 2'd1,  // checked for a time-out
    EVENT_GIVE_UP    = 2'd2,  // its requester no longer wants it
    EVENT_INITIALISE = 2'd3   // after reset
  } tag_event_e;

  // A completion, decoded from its header alone. Positions are in bytes.
  typedef struct packed {
    logic        ours;         // its Requester ID is the function's
    error_e      refusal;      // from its status: ERROR_NONE if successful
    logic        refused;      // its status ends the read
    logic        well_formed;  // it has data; length, byte count and Lower Address are consistent
    logic        poisoned;
    logic        ends;         // its data are all that the byte count announces
    logic [12:0] count;        // bytes that were missing before it
    logic [12:0] rest;         // bytes that are missing after it
    logic [12:0] back;         // from the read's end to the double word of its first byte
    logic [6:0]  low;          // Lower Address
    logic [6:0]  next_low;     // of the next completion
  } completion_t;

  // Progress of a read: good bytes from its beginning on, and the error of the byte behind them.
  typedef struct packed {
    logic [2:0]  error;  // an error_e below ERROR_LINK_DOWN
    logic        whole;  // all data have arrived and are good
    logic [12:0] good;
  } answer_t;

endpackage
