// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// What the parts of crosslane_reads say to each other. Read first: crosslane_reads.sv.

package crosslane_reads_pkg;
  import crosslane_pkg::*;

  // Tags of each fetcher of descriptors.
  localparam int unsigned FETCH_TAGS = 4;

  // What happens to a tag, one thing a clock.
  typedef enum logic [1:0] {
    EVENT_COMPLETION = 2'd0,  // a completion names it
    EVENT_VISIT      = 2'd1,  // it is looked at, whether its time is up
    EVENT_GIVE_UP    = 2'd2,  // its requester wants no more of it
    EVENT_INITIALISE = 2'd3   // after reset
  } tag_event_e;

  // A completion, as far as its header alone tells. Positions are in bytes.
  typedef struct packed {
    logic        ours;         // its Requester ID is the function's
    error_e      refusal;      // what its status says: ERROR_NONE if it is successful
    logic        well_formed;  // length, byte count and Lower Address go together
    logic        poisoned;
    logic        ends;         // its data are all that the byte count tells
    logic [12:0] count;        // bytes that were missing before it
    logic [12:0] rest;         // bytes that are missing after it
    logic [12:0] back;         // from the read's end to the double word of its first byte
    logic [6:0]  low;          // Lower Address
    logic [6:0]  next_low;     // of the completion behind it
  } completion_t;

  // What has come of a read: bytes that are good from its beginning on, and what is wrong with
  // the byte behind them.
  typedef struct packed {
    logic [2:0]  error;  // an error_e below ERROR_LINK_DOWN
    logic        whole;  // all has come, and is good
    logic [12:0] good;
  } answer_t;

endpackage
