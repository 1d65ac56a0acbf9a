// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Cuts the descriptors of a write channel into TLPs, one a clock: at multiples of the payload size,
// at most at 4 KiB. The next descriptor is taken up in the clock in which the last TLP of the
// previous one leaves.

module crosslane_write_chunks
  import crosslane_pkg::*;
#(
    parameter kind_e       KIND      = KIND_C2H,
    parameter int unsigned MAX_WRITE = 1024,      // longest payload, bytes: a power of two, to 4096
    parameter bit          PACKETS   = 0
) (
    input  logic              clk,
    input  logic              rst,
    input  logic              flush,             // forgets its descriptor
    input  logic              take_up,           // descriptors may be taken up
    input  logic              packets,           // packet mode
    input  logic              cut,               // with m_ready: the descriptor ends here
    // verilator lint_off UNUSEDSIGNAL
    input  channel_settings_t settings,
    input  function_t         function_i,
    input  descriptor_t       descriptor,
    // verilator lint_on UNUSEDSIGNAL
    input  logic              descriptor_valid,
    output logic              descriptor_ready,
    output logic              m_valid,
    input  logic              m_ready,
    output write_chunk_t      m_chunk
);
  localparam bit IS_PEER = KIND == KIND_PEER;
  localparam logic [11:0] OWN_MASK = 12'(MAX_WRITE - 1);

  // --- Longest payload, and aperture ---------------------------------------------------------
  // As masks: the largest power of two not above the setting, less 1; at least 3.
  logic [11:0] payload_mask, window_mask, most_mask;
  logic [31:0] aperture_mask;
  logic has_payload, has_window, has_aperture;
  // Addresses wrap within a peer's lane: the bits that change.
  logic wraps;
  logic [31:0] turning;

  always_comb begin
    for (int unsigned place = 0; place < 12; place++) begin
      payload_mask[place] = |(settings.payload >> (place + 1));
      window_mask[place]  = |(settings.credit_window >> (place + 1));
    end
    for (int unsigned place = 0; place < 32; place++) begin
      aperture_mask[place] = |(settings.aperture >> (place + 1));
    end
  end

  assign has_payload  = settings.payload != '0;
  assign has_window   = IS_PEER && settings.credit_window[31:2] != '0;
  assign has_aperture = IS_PEER && settings.aperture[31:2] != '0;

  always_ff @(posedge clk) begin
    most_mask <= OWN_MASK
        & (has_payload ? payload_mask : 12'hfff)
        & (settings.oversize ? 12'hfff : 12'(size_bytes(
        function_i.max_payload
    ) - 13'd1)) & (has_window ? window_mask : 12'hfff) &
        (has_aperture ? aperture_mask[11:0] : 12'hfff) | 12'h003;
    turning <= has_aperture ? aperture_mask | 32'h3 : 32'hffff_ffff;
    wraps <= has_aperture;
  end

  // --- The descriptor in progress ------------------------------------------------------------
  logic valid, last, first, fault, faulted;
  logic [63:0] address;
  logic [31:0] left;  // bytes less 1
  logic [11:0] mask;  // of the payload size; fixed for a descriptor
  logic write_status, send_interrupt, await_credit, command, generated;
  error_e error;
  logic [31:0] sent;

  logic load, next, renew, over;
  assign over             = last || (PACKETS && cut);
  assign renew            = !valid || over;  // the next chunk is of a new descriptor
  assign next             = valid && m_ready;
  assign descriptor_ready = take_up && !faulted && (!valid || (over && m_ready));
  assign load             = descriptor_valid && descriptor_ready;

  // Bytes to the boundary, less 1; the address after it, and the bytes left then. A new descriptor
  // uses the same adders: its length less 1, its address unchanged.
  logic [11:0] room, new_room, new_mask;
  logic [31:0] new_left;
  logic [63:0] base, new_address;
  logic [32:0] low_sum;
  logic new_fault, is_bad, fits;

  assign room = ~address[11:0] & mask;
  assign new_left = (renew ? descriptor.bytes : left) + {20'hf_ffff, renew ? 12'hfff : ~room};
  assign base = renew ? descriptor.address : {address[63:12], address[11:0] | mask};
  assign low_sum = 33'(base[31:0]) + 33'(!renew);
  assign new_address[31:0] = (IS_PEER && !renew) ?
      (low_sum[31:0] & turning) | (address[31:0] & ~turning) : low_sum[31:0];
  assign new_address[63:32] = base[63:32] + 32'(low_sum[32] && !(IS_PEER && wraps));

  assign new_mask = renew ? most_mask : mask;
  assign new_room = renew ? ~descriptor.address[11:0] & most_mask : mask;
  assign fits = new_left[31:12] == '0 && new_left[11:0] <= new_room;
  assign is_bad = PACKETS && packets &&
                  (descriptor.end_of_packet || settings.source != SOURCE_RING);
  assign new_fault = descriptor.error != ERROR_NONE || is_bad || !function_i.bus_master;

  always_ff @(posedge clk) begin
    if (load || next) begin
      left <= new_left;
      address <= new_address;
      mask <= new_mask;
      last <= fits || (renew && new_fault);
      first <= renew;
    end
    if (load) begin
      fault   <= new_fault;
      faulted <= new_fault;
      if (descriptor.error != ERROR_NONE) begin
        error <= descriptor.error;
      end else begin
        error <= is_bad ? ERROR_BAD_DESCRIPTOR : ERROR_NOT_BUS_MASTER;
      end
      write_status <= descriptor.write_status;
      send_interrupt <= descriptor.send_interrupt;
      await_credit <= descriptor.await_credit;
      command <= descriptor.command;
      generated <= descriptor.generated;
    end
    if (load) begin
      valid <= 1'b1;
    end else if (next && over) begin
      valid <= 1'b0;
    end
    if (next && IS_PEER) sent <= m_chunk.sent;
    if (rst || flush) begin
      valid   <= 1'b0;
      faulted <= 1'b0;
    end
    if (rst || settings.restart) sent <= '0;
  end

  assign m_valid = valid;
  always_comb begin
    m_chunk = '0;
    m_chunk.begins = first;
    m_chunk.ends = last;
    m_chunk.write_status = write_status;
    m_chunk.send_interrupt = send_interrupt;
    m_chunk.await_credit = await_credit;
    m_chunk.command = command;
    m_chunk.generated = generated;
    m_chunk.fault = fault;
    m_chunk.error = error;
    m_chunk.address = address;
    m_chunk.rest = last ? left[11:0] : room;
    m_chunk.extent = m_chunk.rest + 12'(address[1:0]);
    m_chunk.sent = IS_PEER ? sent + 32'(m_chunk.rest) + 32'd1 : '0;
  end

`ifndef SYNTHESIS
  if (MAX_WRITE < 64 || MAX_WRITE > 4096 || (MAX_WRITE & (MAX_WRITE - 1)) != 0) begin : g_most
    $error("MAX_WRITE is a power of two, 64 to 4096");
  end
`endif
endmodule
