// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Supplies a channel's descriptors in order, from a table in the engine, from a ring in host memory
// that is fetched in batches ahead of need, from the channel's line of the push aperture where that
// has the ring's next one, or from the user circuit's command port. An error of
// the supply is passed on as a descriptor with an error, so that it takes effect in its turn.
// docs/engine.md, "Descriptors".

module crosslane_descriptors
  import crosslane_pkg::*;
#(
    parameter bit          HAS_TABLE     = 1,
    parameter bit          HAS_RING      = 1,
    parameter bit          HAS_COMMAND   = 0,
    parameter int unsigned TABLE_ENTRIES = 1024,  // a power of two, to 1024
    parameter int unsigned BATCH         = 16,    // descriptors of a fetch, a power of two, to 128
    parameter bit          HAS_PACKETS   = 0,     // descriptors may end packets
    parameter bit          HAS_COPY      = 0,     // descriptors may copy within the card's memory
    parameter int unsigned MAX_READ      = 1024,  // longest read that the engine asks for, bytes
    parameter bit          HAS_PUSH      = 0,
    parameter bit          HAS_INLINE    = 0      // lines may have data
) (
    input logic clk,
    input logic rst,
    // Only some fields are used here.
    // verilator lint_off UNUSEDSIGNAL
    input channel_settings_t settings,
    input function_t function_i,
    input logic [31:0] completed,  // of the channel, absolute
    input logic stopped,  // the channel is stopped by an error
    input logic reset_counters,
    // Table: the entry is valid TABLE_READ_CLOCKS after it is taken.
    output logic table_take,
    output logic [9:0] table_index,
    input logic [127:0] table_entry,
    input logic table_whole,
    // Ring.
    output logic fetch_asks,  // a register: fetch_valid, unless it has just stopped
    output logic fetch_valid,
    input logic fetch_ready,
    output logic [63:0] fetch_address,
    output logic [12:0] fetch_bytes,
    output logic fetch_forget,
    input logic fetched_valid,
    output logic fetched_ready,
    input logic [255:0] fetched_data,
    // Line: a write to it, in the clock of line_valid.
    input logic line_valid,
    input line_write_t line_write,
    // verilator lint_on UNUSEDSIGNAL
    output logic line_taken,  // its doorbell
    output logic [31:0] pushed,  // counters: descriptors that were not fetched; other writes
    output logic [31:0] pushes_dropped,
    input logic fetch_failed,
    input error_e fetch_error,
    input logic [63:0] fetch_error_address,
    // Command port.
    input logic command_valid,
    output logic command_ready,
    input descriptor_t command_descriptor,
    // To the channel.
    output logic descriptor_valid,
    input logic descriptor_ready,
    output descriptor_t descriptor,
    output logic descriptor_to_card,  // HAS_COPY: `address` is one of the card's memory
    output logic descriptor_inline,  // its data are inline_data
    output logic [8*INLINE_BYTES-1:0] inline_data,
    output logic posted,  // descriptors are posted that it has not taken up
    output logic [31:0] fetched  // descriptors fetched from the ring, a counter
);
  localparam int unsigned DEPTH = 8;
  localparam int unsigned RING_DESCRIPTOR_BYTES = 32;
  localparam int unsigned MIN_RING_ENTRIES = 16;
  localparam int unsigned MAX_RING_ENTRIES = 65536;
  localparam int unsigned LEFT_BITS = $clog2(MAX_RING_ENTRIES) + 1;
  localparam int unsigned BATCH_BITS = $clog2(BATCH) + 1;
  localparam int unsigned LAST_BITS = (BATCH > 1) ? $clog2(BATCH) : 1;
  // Counts of descriptors ahead of the channel: at most two batches, or the queue's depth.
  localparam int unsigned AHEAD_BITS = (BATCH_BITS + 1 > 4) ? BATCH_BITS + 1 : 4;

  logic running, from_table, from_ring, from_command;
  assign running = settings.run && !stopped;
  assign from_table = HAS_TABLE && settings.source == SOURCE_TABLE;
  assign from_ring = HAS_RING && settings.source == SOURCE_RING;
  assign from_command = HAS_COMMAND && settings.source == SOURCE_COMMAND_PORT;

  // --- Counts --------------------------------------------------------------------------------
  logic [          31:0] requested;  // asked for, absolute
  logic [AHEAD_BITS-1:0] ahead;  // requested and not taken up
  // Posted and not requested, as of the doorbell a clock earlier: right while `is_checked`. More than
  // the largest ring has cannot be posted.
  logic [LEFT_BITS-1:0] left, left_unasked, left_asked;
  logic take_up, is_taken, was_taken, none_ahead, ask, ask_table, ask_ring, line_is_next;
  logic [31:0] next_doorbell;
  logic queue_valid, queue_ready, push_line, push_table, push_ring, push_command, push_fault;
  logic [LAST_BITS-1:0] asked, fetch_last;  // less one: with ask; of the fetch that is worked out

  assign ask = ask_table || ask_ring;
  assign asked = from_table ? '0 : fetch_last;
  // Whether a fetch is taken is known late in the clock: both results are ready by then.
  assign left_unasked = LEFT_BITS'(settings.doorbell) - LEFT_BITS'(requested);
  assign left_asked = LEFT_BITS'(settings.doorbell) + ~LEFT_BITS'(requested) - LEFT_BITS'(asked);
  assign take_up = descriptor_valid && descriptor_ready && !descriptor.command;
  // Whether one is taken up is known late in the clock: it is taken off `ahead` a clock later.
  assign is_taken = take_up && descriptor.error == ERROR_NONE;
  assign none_ahead = ahead == AHEAD_BITS'(was_taken);

  always_ff @(posedge clk) begin
    if (ask) requested <= requested + 32'(asked) + 1'b1;
    if (line_is_next) requested <= next_doorbell;
    left <= ask ? left_asked : left_unasked;
    was_taken <= is_taken;
    if (ask) ahead <= ahead + AHEAD_BITS'(asked) + AHEAD_BITS'(!was_taken);
    else if (was_taken) ahead <= ahead - 1'b1;
    if (line_is_next) ahead <= AHEAD_BITS'(1);
    if (rst || settings.restart) begin
      requested <= '0;
      left <= LEFT_BITS'(settings.doorbell);
      ahead <= '0;
      was_taken <= 1'b0;
    end
  end

  // --- Supply errors -------------------------------------------------------------------------
  logic ring_fits, overposted, halted, fault_waits;
  logic [31:0] open;
  error_e fault_error;
  logic [63:0] fault_address;
  assign ring_fits = settings.ring_entries >= MIN_RING_ENTRIES &&
                     settings.ring_entries <= MAX_RING_ENTRIES &&
                     (settings.ring_entries & (settings.ring_entries - 1'b1)) == '0;
  assign open = settings.doorbell - completed;

  // Checked one clock after the doorbell is written, at no cost: nothing is requested in the
  // meantime.
  logic [31:0] checked_doorbell;
  logic is_checked;
  always_ff @(posedge clk) begin
    checked_doorbell <= settings.doorbell;
    if (from_table) overposted <= open > 32'(TABLE_ENTRIES);
    else if (from_ring) overposted <= !ring_fits || open > settings.ring_entries;
    else overposted <= !from_command;
    if (open == '0) overposted <= 1'b0;
  end
  assign is_checked = checked_doorbell == settings.doorbell;

  logic fault_pushed, no_master;
  always_ff @(posedge clk) begin
    if ((running && is_checked && overposted) || no_master || fetch_failed) fault_waits <= 1'b1;
    // A fault's fields stand here before it is known whether there is one.
    if (!fault_waits) begin
      fault_error   <= ERROR_BAD_DESCRIPTOR;
      fault_address <= settings.ring;
      if (no_master) begin
        fault_error   <= ERROR_NOT_BUS_MASTER;
        fault_address <= fetch_address;
      end
      if (fetch_failed) begin
        fault_error   <= fetch_error;
        fault_address <= fetch_error_address;
      end
    end
    if (rst || settings.restart || stopped) fault_waits <= 1'b0;
    fault_pushed <= !(rst || settings.restart) && (fault_pushed || (push_fault && queue_ready));
  end
  assign halted = !running || fault_waits || fault_pushed || !is_checked || overposted;

  // --- Table ---------------------------------------------------------------------------------
  localparam int unsigned TABLE_READ_CLOCKS = 2;
  logic [TABLE_READ_CLOCKS-1:0] table_coming;
  descriptor_t table_descriptor;

  assign ask_table   = from_table && !halted && left != '0 &&
                       ahead < AHEAD_BITS'(DEPTH) + AHEAD_BITS'(was_taken);
  assign table_take = ask_table;
  assign table_index = 10'(requested & (TABLE_ENTRIES - 1));
  always_ff @(posedge clk) begin
    table_coming <= {table_coming[TABLE_READ_CLOCKS-2:0], ask_table};
    if (rst || settings.restart || stopped || !HAS_TABLE) table_coming <= '0;
  end

  always_comb begin
    table_descriptor = '0;
    table_descriptor.address = table_entry[63:0];
    table_descriptor.bytes = table_whole ? table_entry[95:64] : '0;
    {table_descriptor.await_credit, table_descriptor.write_status,
     table_descriptor.send_interrupt} = table_entry[98:96];
  end

  // --- Ring ----------------------------------------------------------------------------------
  // A fetch ends where the ring ends, and at a multiple of the longest read. Counts `until_*`
  // are less one: those up to a power of two are the bits of a position below it, inverted. A stop
  // behind the longest fetch is as good as one at its end.
  localparam int unsigned ENTRY_BITS = $clog2(MAX_RING_ENTRIES);
  localparam int unsigned READ_BITS = 12 - $clog2(RING_DESCRIPTOR_BYTES);  // descriptors, a read
  localparam int unsigned SIZE_BITS = $clog2(RING_DESCRIPTOR_BYTES);
  localparam logic [12:0] OWN_MOST = 13'(MAX_READ);
  typedef logic [LAST_BITS-1:0] last_t;
  logic [12:0] most;
  logic [ENTRY_BITS-1:0] last_entry, first;
  logic [READ_BITS-1:0] longest;
  // The nearer of both stops, worked out a clock before: of `requested`, and of what it becomes when
  // the fetch is taken, which is known late in that clock.
  last_t until_stop_unasked, until_stop_asked;
  logic was_asked;
  last_t until_stop, until_left, until_fetch;
  logic [AHEAD_BITS:0] last_ahead;  // less one: of those ahead with a fetch of all that is wanted
  logic has_place;
  logic [63:0] ring, next_address;
  logic fetch_waits;

  assign most = size_bytes(function_i.max_read_request);
  always_ff @(posedge clk) begin
    last_entry <= ENTRY_BITS'(settings.ring_entries - 1'b1);
    longest <= READ_BITS'((((most < OWN_MOST) ? most : OWN_MOST) >> SIZE_BITS) - 13'd1);
  end
  assign first = ENTRY_BITS'(requested) & last_entry;
  assign ring = {settings.ring[63:6], 6'd0};
  assign next_address = ring + 64'({first, SIZE_BITS'(0)});

  function automatic last_t stop_after(input logic [ENTRY_BITS-1:0] position);
    logic [ENTRY_BITS-1:0] until_end;
    logic [READ_BITS-1:0] place, until_boundary;
    last_t end_last, boundary_last;
    until_end = ~position & last_entry;
    place = ring[SIZE_BITS+:READ_BITS] + READ_BITS'(position & last_entry);
    until_boundary = ~place & longest;
    end_last = (until_end > ENTRY_BITS'(last_t'('1))) ? '1 : last_t'(until_end);
    boundary_last = (until_boundary > READ_BITS'(last_t'('1))) ? '1 : last_t'(until_boundary);
    return (end_last < boundary_last) ? end_last : boundary_last;
  endfunction

  always_ff @(posedge clk) begin
    until_stop_unasked <= stop_after(ENTRY_BITS'(requested));
    until_stop_asked <= stop_after(ENTRY_BITS'(requested) + ENTRY_BITS'(fetch_last) + 1'b1);
    was_asked <= ask_ring;
  end

  always_comb begin
    until_left = (left >> $clog2(BATCH)) != '0 ? last_t'(BATCH - 1) : last_t'(left - 1'b1);
    until_stop = was_asked ? until_stop_asked : until_stop_unasked;
    until_fetch = (until_stop < until_left) ? until_stop : until_left;
    // At most two batches are ahead, of which one can have been taken up.
    last_ahead = (AHEAD_BITS + 1)'(ahead) + (AHEAD_BITS + 1)'(until_left);
    has_place = (last_ahead >> $clog2(2 * BATCH)) == '0 ||
        (was_taken && last_ahead == (AHEAD_BITS + 1)'(2 * BATCH));
  end

  // A fetch is worked out in one clock and offered in the next ones.
  assign fetch_asks = fetch_waits;
  assign fetch_valid = fetch_waits && function_i.bus_master && !fault_waits && running;
  assign ask_ring = fetch_valid && fetch_ready;
  assign no_master = fetch_waits && running && !function_i.bus_master;
  assign fetch_bytes = (13'(fetch_last) + 13'd1) * 13'(RING_DESCRIPTOR_BYTES);

  always_ff @(posedge clk) begin
    if (!fetch_waits) begin
      fetch_address <= next_address;
      fetch_last <= until_fetch;
      fetch_waits <= from_ring && !halted && left != '0 && has_place;
    end else if (fetch_ready || halted) begin
      fetch_waits <= 1'b0;
    end
    if (rst || settings.restart || !HAS_RING) fetch_waits <= 1'b0;
  end

  // Outstanding fetches are given up when the channel stops, when a fault takes its turn, and at a
  // restart. Descriptors that arrived before a fault are worked off.
  logic was_lost;
  always_ff @(posedge clk) was_lost <= stopped || fault_pushed;
  assign fetch_forget = HAS_RING && (settings.restart || ((stopped || fault_pushed) && !was_lost));

  descriptor_t ring_descriptor;
  always_comb begin
    ring_descriptor = '0;
    ring_descriptor.address = fetched_data[63:0];
    ring_descriptor.card = fetched_data[127:64];
    ring_descriptor.bytes = fetched_data[159:128];
    {ring_descriptor.await_credit, ring_descriptor.write_status,
     ring_descriptor.send_interrupt} = fetched_data[162:160];
    ring_descriptor.end_of_packet = HAS_PACKETS && fetched_data[164];
    ring_descriptor.user = HAS_PACKETS ? fetched_data[191:176] : '0;
    if (!HAS_COPY && fetched_data[163]) ring_descriptor.error = ERROR_BAD_DESCRIPTOR;
  end

  // --- Line ----------------------------------------------------------------------------------
  // One that is taken is a doorbell. Where nothing is ahead of its descriptor the queue is empty:
  // that enters it when the doorbell has been checked, and is not fetched.
  logic line_waits, line_checked;
  descriptor_t line_descriptor;
  assign next_doorbell = settings.doorbell + 1'b1;

  if (HAS_PUSH) begin : g_line
    // registers/descriptors.rdl, push_line.
    typedef struct packed {
      logic [8*INLINE_BYTES-1:0] data;
      logic [63:0] address;
      logic [23:0] bytes;
      logic [3:0] ignored;
      logic is_inline;
      logic await_credit;
      logic write_status;
      logic send_interrupt;
      logic [31:0] posted;
    } line_t;
    // verilator lint_off UNUSEDSIGNAL
    line_t line;
    // verilator lint_on UNUSEDSIGNAL
    logic  has_data;
    assign line = line_write.data;

    assign line_taken = line_valid && line_write.whole && running && from_ring &&
                        !settings.packets && !settings.card_memory && line.posted == next_doorbell;
    assign line_is_next = line_taken && settings.doorbell == requested && none_ahead &&
                          !fault_waits && !fault_pushed;
    assign push_line = line_checked && !overposted;

    always_ff @(posedge clk) begin
      line_waits   <= line_is_next;
      line_checked <= line_waits;
      if (line_is_next) begin
        line_descriptor <= '0;
        line_descriptor.address <= line.address;
        line_descriptor.bytes <= 32'(line.bytes);
        {line_descriptor.await_credit, line_descriptor.write_status,
         line_descriptor.send_interrupt} <= {
          line.await_credit, line.write_status, line.send_interrupt
        };
        if (line.is_inline && (!HAS_INLINE || line.bytes > 24'(INLINE_BYTES))) begin
          line_descriptor.error <= ERROR_BAD_DESCRIPTOR;
        end
        has_data <= HAS_INLINE && line.is_inline;
      end
      if (push_line) descriptor_inline <= has_data;
      else if (take_up) descriptor_inline <= 1'b0;
      if (push_line && queue_ready) pushed <= pushed + 1'b1;
      if (line_valid && !line_taken) pushes_dropped <= pushes_dropped + 1'b1;
      if (rst || settings.restart || stopped) begin
        line_waits <= 1'b0;
        line_checked <= 1'b0;
        descriptor_inline <= 1'b0;
      end
      if (rst || reset_counters) begin
        pushed <= '0;
        pushes_dropped <= '0;
      end
    end
    if (HAS_INLINE) begin : g_data
      always_ff @(posedge clk) if (line_is_next) inline_data <= line.data;
    end else begin : g_no_data
      assign inline_data = '0;
    end
  end else begin : g_no_line
    assign {line_taken, line_is_next, push_line, line_waits, line_checked} = '0;
    assign {line_descriptor, descriptor_inline, inline_data} = '0;
    assign {pushed, pushes_dropped} = '0;
  end

  // --- Queue ---------------------------------------------------------------------------------
  localparam int unsigned QUEUE_BITS = $bits(
      descriptor_t
  ) - (HAS_PACKETS ? 0 : DESCRIPTOR_PACKET_BITS);
  // verilator lint_off UNUSEDSIGNAL
  descriptor_t queue_descriptor;  // with bits that the queue leaves out
  // verilator lint_on UNUSEDSIGNAL
  descriptor_t fault_descriptor;
  logic [QUEUE_BITS-1:0] queue_bits;
  assign descriptor = descriptor_t'(queue_bits);

  always_comb begin
    fault_descriptor = '0;
    fault_descriptor.error = fault_error;
    fault_descriptor.address = fault_address;
  end

  assign push_table = HAS_TABLE && table_coming[TABLE_READ_CLOCKS-1];
  assign push_ring = HAS_RING && fetched_valid && !push_table;
  assign push_command = from_command && command_valid && running && !push_table && !push_ring;
  // Behind all descriptors that have arrived; those still in flight are given up.
  assign push_fault = fault_waits && table_coming == '0 && !push_ring && !line_waits &&
                      !line_checked;
  assign queue_valid = push_table || push_ring || push_command || push_line ||
                       (push_fault && !fault_pushed);
  assign fetched_ready = queue_ready && !push_table;
  assign command_ready = queue_ready && push_command;

  always_comb begin
    if (push_table) queue_descriptor = table_descriptor;
    else if (push_ring) queue_descriptor = ring_descriptor;
    else if (push_command) queue_descriptor = command_descriptor;
    else if (push_line) queue_descriptor = line_descriptor;
    else queue_descriptor = fault_descriptor;
    if (queue_descriptor.error == ERROR_NONE && queue_descriptor.bytes == '0) begin
      queue_descriptor.error = ERROR_BAD_DESCRIPTOR;
    end
  end

  if (HAS_COPY) begin : g_copy
    crosslane_fifo #(
        .WIDTH(1),
        .DEPTH(DEPTH),
        .REGISTERED(1)
    ) copies (
        .clk,
        .rst(rst || settings.restart || stopped),
        .s_valid(queue_valid),
        .s_ready(),
        .s_data(push_ring && fetched_data[163]),
        .m_valid(),
        .m_ready(descriptor_ready),
        .m_data(descriptor_to_card),
        .count()
    );
  end else begin : g_no_copy
    assign descriptor_to_card = 1'b0;
  end

  crosslane_fifo #(
      .WIDTH(QUEUE_BITS),
      .DEPTH(DEPTH),
      .REGISTERED(1)
  ) queue (
      .clk,
      .rst(rst || settings.restart || stopped),
      .s_valid(queue_valid),
      .s_ready(queue_ready),
      .s_data(queue_descriptor[QUEUE_BITS-1:0]),
      .m_valid(descriptor_valid),
      .m_ready(descriptor_ready),
      .m_data(queue_bits),
      .count()
  );

  assign posted = from_command ? (command_valid || descriptor_valid) :
                                 (settings.doorbell != requested || !none_ahead);

  always_ff @(posedge clk) begin
    if (push_ring && queue_ready) fetched <= fetched + 1'b1;
    if (rst || reset_counters) fetched <= '0;
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk) begin
    if (!rst) begin
      assert (!push_table || queue_ready)
      else $error("a table's entry came and there was no room for it");
      assert (!push_line || (!descriptor_valid && !push_table && !push_ring))
      else $error("a line's descriptor was taken, and it is not the next one");
    end
  end
`endif
endmodule
