// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The port of a board's memory as two bundles: AXI4 with one ID each way, incrementing bursts of
// whole beats. They have the widest datapath and the longest address; narrower ones are in the lower
// bits.

package crosslane_memory_pkg;
  localparam int unsigned MEMORY_DATA_BITS = 512;
  localparam int unsigned MEMORY_ADDRESS_BITS = 40;

  typedef struct packed {
    logic                           awvalid;
    logic [MEMORY_ADDRESS_BITS-1:0] awaddr;
    logic [7:0]                     awlen;
    logic                           wvalid;
    logic [MEMORY_DATA_BITS-1:0]    wdata;
    logic [MEMORY_DATA_BITS/8-1:0]  wstrb;
    logic                           wlast;
    logic                           bready;
    logic                           arvalid;
    logic [MEMORY_ADDRESS_BITS-1:0] araddr;
    logic [7:0]                     arlen;
    logic                           rready;
  } memory_request_t;

  typedef struct packed {
    logic                        awready;
    logic                        wready;
    logic                        bvalid;
    logic [1:0]                  bresp;
    logic                        arready;
    logic                        rvalid;
    logic [MEMORY_DATA_BITS-1:0] rdata;
    logic [1:0]                  rresp;
    logic                        rlast;
  } memory_answer_t;
endpackage
