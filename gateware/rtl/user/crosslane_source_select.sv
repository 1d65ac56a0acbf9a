// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Selects the source of a write channel: the pattern, of which each channel has a separate stream,
// or a feed from elsewhere. All of them answer RING_READ_CLOCKS moves later, so the selection is
// delayed with them.

module crosslane_source_select
  import crosslane_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256
) (
    input  logic                    clk,
    input  logic                    rst,
    input  stream_e                 source,
    input  logic                    generator_restart,
    input  logic    [         31:0] generator_seed,
    // The channel.
    output logic    [         15:0] write_available,
    input  logic                    write_move,
    input  logic                    write_take,
    input  logic    [          5:0] write_take_back,
    input  logic    [          6:0] write_take_bytes,
    output logic    [DATA_BITS-1:0] write_data,
    // The feeds; the channel that has one moves it and takes from it.
    input  logic    [         15:0] h2c_available,
    input  logic    [DATA_BITS-1:0] h2c_data,
    input  logic    [         15:0] lane_available,
    input  logic    [DATA_BITS-1:0] lane_data
);
  logic [DATA_BITS-1:0] generator_data;
  stream_e [RING_READ_CLOCKS-1:0] asked;

  crosslane_generator #(
      .DATA_BITS(DATA_BITS)
  ) generator (
      .clk,
      .rst,
      .restart(generator_restart),
      .seed(generator_seed),
      .feed_move(write_move),
      .feed_take(write_take && source == STREAM_GENERATOR),
      .feed_take_back(write_take_back),
      .feed_take_bytes(write_take_bytes),
      .feed_data(generator_data)
  );

  always_comb begin
    case (source)
      STREAM_GENERATOR: write_available = '1;
      STREAM_H2C:       write_available = h2c_available;
      STREAM_LANE:      write_available = lane_available;
      default:          write_available = '0;
    endcase
    case (asked[RING_READ_CLOCKS-1])
      STREAM_H2C:  write_data = h2c_data;
      STREAM_LANE: write_data = lane_data;
      default:     write_data = generator_data;
    endcase
  end

  always_ff @(posedge clk) begin
    if (write_move) asked <= {asked[RING_READ_CLOCKS-2:0], source};
  end
endmodule
