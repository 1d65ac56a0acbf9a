// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// BAR 0: registers/engine.rdl. Distributes accesses to the register blocks, one for each channel
// and receive queue, one for the user circuit and one for the whole engine, to the descriptor
// tables and to the MSI-X table. Read data are ORed: a block that is not addressed gives 0.

module crosslane_registers
  import crosslane_pkg::*;
#(
    parameter int unsigned DATA_BITS = 256,
    parameter int unsigned H2C = 1,
    parameter int unsigned C2H = 1,
    parameter int unsigned PEER = 1,
    parameter int unsigned LANES = 8,
    parameter int unsigned TAGS = 64,
    parameter int unsigned MAX_WRITE = 512,  // bytes
    parameter int unsigned MAX_READ = 1024,  // bytes
    parameter int unsigned LANE_FIFO = 16384,  // bytes
    parameter int unsigned LANE_WINDOW = 524288,  // bytes
    parameter int unsigned CLOCK_PS = 4000,
    parameter int unsigned TABLE_ENTRIES = 1024,  // of each table; 0: no tables
    parameter int unsigned FETCH_BATCH = 16,
    parameter bit MEMORY = 0,  // the first channels reach the card's memory
    parameter bit COPY = 0,  // with MEMORY: the first C2H channel copies within it
    parameter bit PACKETS = 0,  // the first H2C and C2H channels have a packet mode
    parameter bit PUSH = 0,  // BAR 4 has a line for each channel
    parameter int unsigned VECTORS = 8,  // of MSI-X, 0 to 31; 0: no table of them
    // The core alone: without the user circuit's registers, and with only those channel registers
    // that descriptors from a port need.
    parameter bit BARE = 0,
    localparam int unsigned CHANNELS = H2C + C2H + PEER,
    localparam int unsigned LANE_PLACES = (LANES > 0) ? LANES : 1
) (
    input logic clk,
    input logic rst,
    input function_t function_i,
    input logic [63:0] time_i,
    input logic s_request_valid,
    output logic s_request_ready,
    input tlp_header_t s_request_header,
    input logic s_request_first,
    input logic s_request_last,
    input logic [DATA_BITS-1:0] s_request_data,
    output logic m_answer_valid,
    input logic m_answer_ready,
    output tlp_header_t m_answer_header,
    output logic m_answer_first,
    output logic m_answer_last,
    output logic [DATA_BITS-1:0] m_answer_data,
    output channel_settings_t [CHANNELS-1:0] settings,
    input channel_readings_t [CHANNELS-1:0] readings,
    output lane_settings_t [LANE_PLACES-1:0] lane_settings,
    // Partly unused in builds without these units.
    // verilator lint_off UNUSEDSIGNAL
    input lane_readings_t [LANE_PLACES-1:0] lane_readings,
    input user_readings_t user_readings,
    input logic [31:0] msix_pending,
    input logic [1:0] table_take,
    input logic [1:0][9:0] table_index,
    input logic [4:0] msix_vector,
    // verilator lint_on UNUSEDSIGNAL
    output user_settings_t user_settings,
    output logic reset_counters,
    output logic access_held,  // an access waits to be made
    // Descriptor tables of H2C 0 and of C2H 0: an entry two clocks after it is taken.
    output logic [1:0][127:0] table_entry,
    output logic [1:0] table_whole,
    // MSI-X table: address and data of msix_vector, in the same clock, where msix_ready is set.
    output logic msix_ready,
    output logic [63:0] msix_address,
    output logic [31:0] msix_data,
    output logic [31:0] msix_masked  // of each vector
);
  // --- Accesses --------------------------------------------------------------------------------
  logic access_valid, access_write, access_reads, access_wait;
  logic [15:2] access_address;
  logic [31:0] access_data, read_data;

  crosslane_register_access #(
      .DATA_BITS(DATA_BITS),
      .HAS_LANES(LANES > 0),
      .HAS_PUSH (PUSH)
  ) access (
      .*
  );

  // Address map; byte addresses of registers/engine.rdl.
  localparam logic [15:0] GLOBAL = 16'h0000;  // 64 bytes
  localparam logic [15:0] MSIX_TABLE = 16'h1000;  // 512 bytes
  localparam logic [15:0] MSIX_PENDING = 16'h1800;
  localparam logic [15:0] USER = 16'h2000;  // 128 bytes
  localparam logic [15:0] CHANNEL_FILES = 16'h3000;  // 3 kinds x 4 channels x 256 bytes
  localparam logic [15:0] LANE_FILES = 16'h4000;  // 16 lanes x 64 bytes
  localparam logic [15:0] TABLES = 16'h8000;  // 2 tables x 16 KiB

  logic is_moving;  // the access takes place in this clock
  assign is_moving   = access_valid && !access_wait;
  assign access_held = access_valid && access_wait;

  // --- The engine ------------------------------------------------------------------------------
  crosslane_global_block_pkg::in_t global_in;
  crosslane_global_block_pkg::out_t global_out;
  crosslane_global_block_pkg::accessed_t global_accessed;
  logic is_global;
  logic [31:0] global_data;
  assign is_global = access_address[15:6] == GLOBAL[15:6];

  crosslane_global_block global_registers (
      .*,
      .access_valid(is_moving && is_global),
      .access_address(access_address[5:2]),
      .read_data(global_data),
      .in(global_in),
      .out(global_out),
      .accessed(global_accessed)
  );
  assign reset_counters = global_out.control.reset_counters.value;

  always_comb begin
    global_in.counts.h2c.next = 4'(H2C);
    global_in.counts.c2h.next = 4'(C2H);
    global_in.counts.peer.next = 4'(PEER);
    global_in.counts.lanes.next = 5'(LANES);
    global_in.counts.vectors.next = 5'(VECTORS);
    global_in.sizes.tags.next = 11'(TAGS);
    global_in.sizes.table_entries.next = 12'(TABLE_ENTRIES);
    global_in.sizes.card_memory.next = MEMORY;
    global_in.sizes.card_copy.next = MEMORY && COPY && C2H > 0;
    global_in.sizes.packets.next = PACKETS;
    global_in.sizes.push.next = PUSH;
    global_in.max_write.bytes.next = 16'(MAX_WRITE);
    global_in.max_read.bytes.next = 16'(MAX_READ);
    global_in.lane_fifo.bytes.next = (LANES > 0) ? LANE_FIFO : '0;
    global_in.lane_window.bytes.next = (LANES > 0) ? LANE_WINDOW : '0;
    global_in.clock.picoseconds.next = CLOCK_PS;
    global_in.time_low.clocks.next = time_i[31:0];
    global_in.time_high.clocks.next = time_i[63:32];
    global_in.time_high.clocks.we = global_accessed.time_low;
    global_in.in_force.max_payload.next = 16'(size_bytes(function_i.max_payload));
    global_in.in_force.max_read_request.next = 16'(size_bytes(function_i.max_read_request));
    global_in.fetch_batch.value.next = 16'(FETCH_BATCH);
  end

  // --- Channels --------------------------------------------------------------------------------
  logic is_channels;
  logic [CHANNELS-1:0] is_channel;
  logic [CHANNELS-1:0][31:0] channel_data;
  assign is_channels = access_address[15:12] == CHANNEL_FILES[15:12];

  for (genvar n = 0; n < CHANNELS; n++) begin : g_channel
    localparam kind_e KIND = (n < H2C) ? KIND_H2C : (n < H2C + C2H) ? KIND_C2H : KIND_PEER;
    localparam int unsigned FIRST = (n < H2C) ? 0 : (n < H2C + C2H) ? H2C : H2C + C2H;
    assign is_channel[n] = is_channels && access_address[11:8] == {KIND, 2'(n - FIRST)};

    crosslane_channel_registers #(
        .KIND(KIND),
        .HAS_PACKETS(PACKETS && KIND != KIND_PEER && n == FIRST),
        .HAS_PUSH(PUSH),
        .IS_BARE(BARE)
    ) registers (
        .*,
        .access_valid(is_moving && is_channel[n]),
        .access_address(access_address[7:2]),
        .read_data(channel_data[n]),
        .settings(settings[n]),
        .readings(readings[n])
    );
  end

  // --- Lanes -----------------------------------------------------------------------------------
  logic is_lanes;
  logic [LANE_PLACES-1:0] is_lane;
  logic [LANE_PLACES-1:0][31:0] lane_data;
  assign is_lanes = access_address[15:10] == LANE_FILES[15:10];

  for (genvar n = 0; n < LANE_PLACES; n++) begin : g_lane
    assign is_lane[n] = LANES > 0 && is_lanes && access_address[9:6] == 4'(n);
    if (LANES > 0) begin : g_registers
      crosslane_lane_registers registers (
          .*,
          .access_valid(is_moving && is_lane[n]),
          .access_address(access_address[5:2]),
          .read_data(lane_data[n]),
          .settings(lane_settings[n]),
          .readings(lane_readings[n])
      );
    end else begin : g_none
      assign lane_data[n] = '0;
      assign lane_settings[n] = '0;
    end
  end

  // --- User circuit ----------------------------------------------------------------------------
  logic is_user;
  logic [31:0] user_data;
  if (!BARE) begin : g_user
    assign is_user = access_address[15:7] == USER[15:7];
    crosslane_user_registers registers (
        .*,
        .access_valid(is_moving && is_user),
        .access_address(access_address[6:2]),
        .read_data(user_data),
        .settings(user_settings),
        .readings(user_readings)
    );
  end else begin : g_no_user
    assign is_user = 1'b0;
    assign user_data = '0;
    assign user_settings = '0;
  end

  // --- Descriptor tables -----------------------------------------------------------------------
  logic [1:0] table_wait;
  logic [1:0][31:0] table_data;

  for (genvar n = 0; n < 2; n++) begin : g_table
    localparam logic [15:8] CONTROL = CHANNEL_FILES[15:8] + 8'(4 * n);  // of that channel
    if (TABLE_ENTRIES > 0) begin : g_entries
      logic is_table, store_waits, is_forgetting, is_restart, restart;
      // In the clock of settings.restart.
      always_ff @(posedge clk) restart <= is_restart && is_moving && !rst;
      assign is_table = access_address[15:14] == {TABLES[15], 1'(n)};
      assign is_restart = access_valid && access_write && access_data[31] &&
                          access_address == {CONTROL, 6'd0};
      assign table_wait[n] = store_waits || (is_restart && is_forgetting);
      crosslane_descriptor_table #(
          .ENTRIES(TABLE_ENTRIES)
      ) entries (
          .*,
          .access_valid(access_valid && is_table),
          .access_index(access_address[13:4]),
          .access_word(access_address[3:2]),
          .access_wait(store_waits),
          .read_data(table_data[n]),
          .take(table_take[n]),
          .take_index(table_index[n]),
          .entry(table_entry[n]),
          .whole(table_whole[n])
      );
    end else begin : g_none
      assign table_wait[n]  = 1'b0;
      assign table_data[n]  = '0;
      assign table_entry[n] = '0;
      assign table_whole[n] = 1'b0;
    end
  end
  assign access_wait = table_wait != '0;

  // --- MSI-X table and pending bits --------------------------------------------------------------
  logic [31:0] msix_read;
  // One read port: reads have priority, of whatever register.
  assign msix_ready = !access_reads;
  if (VECTORS > 0) begin : g_msix
    (* ram_style = "distributed" *)logic [31:0] lows [32];
    (* ram_style = "distributed" *)logic [31:0] highs[32];
    (* ram_style = "distributed" *)logic [31:0] datas[32];
    logic is_table, is_pending;
    logic [4:0] entry, shown;
    assign is_table = access_address[15:9] == MSIX_TABLE[15:9];
    assign is_pending = access_address == MSIX_PENDING[15:2];
    assign entry = access_address[8:4];
    assign shown = msix_ready ? msix_vector : entry;
    assign msix_address = {highs[shown], lows[shown]};
    assign msix_data = datas[shown];

    always_ff @(posedge clk) begin
      if (is_moving && access_write && is_table) begin
        unique case (access_address[3:2])
          2'd0: lows[entry] <= access_data;
          2'd1: highs[entry] <= access_data;
          2'd2: datas[entry] <= access_data;
          default: msix_masked[entry] <= access_data[0];
        endcase
      end
      // An entry without a vector stays masked.
      for (int n = 0; n < 32; n++) if (rst || n >= VECTORS) msix_masked[n] <= 1'b1;
    end

    always_comb begin
      msix_read = is_pending ? msix_pending : '0;
      if (is_table) begin
        unique case (access_address[3:2])
          2'd0: msix_read = lows[shown];
          2'd1: msix_read = highs[shown];
          2'd2: msix_read = datas[shown];
          default: msix_read = 32'(msix_masked[entry]);
        endcase
      end
    end

`ifndef SYNTHESIS
    initial begin
      for (int n = 0; n < 32; n++) begin
        lows[n]  = '0;
        highs[n] = '0;
        datas[n] = '0;
      end
    end
`endif
  end else begin : g_no_msix
    assign msix_address = '0;
    assign msix_data    = '0;
    assign msix_masked  = '1;
    assign msix_read    = '0;
  end

  // --- Read data -------------------------------------------------------------------------------
  // Each block has a register: none of them is near all others. The core alone has few.
  localparam int unsigned BLOCKS = 3 + CHANNELS + LANE_PLACES;
  logic [BLOCKS-1:0][31:0] shown_data, block_data;
  // A read's address stands here for clocks before its access: by then a register has its block.
  logic [BLOCKS-1:0] is_addressed;
  always_ff @(posedge clk) is_addressed <= {is_lane, is_channel, is_user, is_global, 1'b1};

  always_comb begin
    shown_data = {lane_data, channel_data, user_data, global_data, msix_read};
    for (int n = 0; n < BLOCKS; n++) shown_data[n] &= {32{is_addressed[n]}};
    if (BARE) begin
      for (int n = 1; n < BLOCKS; n++) begin
        shown_data[0] |= shown_data[n];
        shown_data[n] = '0;
      end
    end
  end
  always_ff @(posedge clk) block_data <= shown_data;
  always_comb begin
    read_data = table_data[0] | table_data[1];
    for (int n = 0; n < BLOCKS; n++) read_data |= block_data[n];
  end

`ifndef SYNTHESIS
  if (VECTORS > 31 || LANES > 16 || H2C < 1 || H2C > 4 || C2H > 4 || PEER > 4) begin : g_parameters
    $error("to 31 vectors, 16 lanes, 4 channels of each kind, an H2C channel at least");
  end
`endif
endmodule
