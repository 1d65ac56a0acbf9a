// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Takes in completions: one register stage that decodes the header as far as possible without the
// tag table. Other tag events are inserted between TLPs and keep their order with all else from
// here on; `hold` makes room for one.

module crosslane_completion_intake
  import crosslane_pkg::*;
  import crosslane_reads_pkg::*;
#(
    parameter  int unsigned DATA_BITS = 256,
    parameter  int unsigned TAG_BITS  = 6,
    localparam int unsigned LANE_BITS = $clog2(DATA_BITS / 8)
) (
    input  logic                        clk,
    input  logic                        rst,
    // Only routing_id is used.
    // verilator lint_off UNUSEDSIGNAL
    input  function_t                   function_i,
    // verilator lint_on UNUSEDSIGNAL
    input  logic                        s_valid,
    output logic                        s_ready,
    // Attributes, traffic class and completer are ignored.
    // verilator lint_off UNUSEDSIGNAL
    input  tlp_header_t                 s_header,
    // verilator lint_on UNUSEDSIGNAL
    input  logic                        s_first,
    input  logic                        s_last,
    input  logic        [DATA_BITS-1:0] s_data,
    input  logic                        s_aborted,         // beside the last beat
    // Other events.
    input  logic                        hold,
    output logic                        inject_ready,      // the event of this clock goes in
    input  logic                        inject_valid,
    input  tag_event_e                  inject_event,
    input  logic        [ TAG_BITS-1:0] inject_tag,
    input  logic                        inject_is_same,    // as event_tag
    // verilator lint_off UNUSEDSIGNAL
    output logic        [ TAG_BITS-1:0] next_tag,          // of event_tag, a clock before
    output logic                        next_is_same,      // as event_tag
    // verilator lint_on UNUSEDSIGNAL
    // A clock later: events ...
    output logic                        event_valid,
    output tag_event_e                  event_kind,
    output logic        [          9:0] event_tag,         // of a completion: as on the wire
    output completion_t                 event_completion,
    // ... and beats. An event other than a completion is a single beat without data. The fields
    // that say which lanes hold data of the completion stand beside all of its beats.
    output logic                        beat_valid,
    output logic                        beat_first,
    output logic                        beat_last,
    output logic        [DATA_BITS-1:0] beat_data,
    output logic        [          1:0] beat_skip,         // lanes before the first byte
    output logic        [LANE_BITS-1:0] beat_end,          // lanes of the last beat; 0: all
    // The last beat of several, all of which are to be discarded. Its event stands beside it too.
    output logic                        beat_aborted
);
  logic between, take;  // between TLPs

  assign s_ready = !(between && hold);
  assign take = s_valid && s_ready;
  assign inject_ready = between && !take;
  assign next_tag = (take && s_first) ? s_header.tag[TAG_BITS-1:0] :
                    inject_ready ? inject_tag : event_tag[TAG_BITS-1:0];
  // Compared beside that choice: a comparison of next_tag would end late in the clock.
  logic taken_differs;
  assign taken_differs = |(s_header.tag[TAG_BITS-1:0] ^ event_tag[TAG_BITS-1:0]);
  assign next_is_same  = (take && s_first) ? !taken_differs : !inject_ready || inject_is_same;

  completion_t completion;
  logic [12:0] span, needed;
  logic [1:0] offset;

  assign offset = s_header.address[1:0];
  assign span   = {s_header.length_dw, 2'b00} - 13'(offset);
  // Double words that the byte count needs from here on.
  assign needed = (s_header.byte_count + 13'(offset) + 13'd3) >> 2;

  always_comb begin
    completion.ours = s_header.requester == function_i.routing_id;
    case (s_header.status)
      STATUS_SUCCESSFUL: completion.refusal = ERROR_NONE;
      STATUS_COMPLETER_ABORT: completion.refusal = ERROR_COMPLETER_ABORT;
      // Only configuration requests may be answered with this status.
      STATUS_RETRY: completion.refusal = ERROR_MALFORMED_COMPLETION;
      // Reserved statuses count as Unsupported Request (PCIe 6.x 2.3.2).
      default: completion.refusal = ERROR_UNSUPPORTED_REQUEST;
    endcase
    completion.refused = completion.refusal == ERROR_UNSUPPORTED_REQUEST ||
                         completion.refusal == ERROR_COMPLETER_ABORT;
    completion.ends = 13'(s_header.length_dw) == needed;
    // A completion other than the last ends at a read completion boundary; the smallest is 64 B
    // (PCIe 6.x 2.3.1.1).
    completion.well_formed = completion.refusal == ERROR_NONE &&
        s_header.kind == COMPLETION_DATA && s_header.length_dw != '0 &&
        (completion.ends || (13'(s_header.length_dw) < needed &&
                             s_header.address[5:2] + s_header.length_dw[3:0] == 4'd0));
    completion.poisoned = s_header.poisoned || (s_last && s_aborted);
    completion.count = s_header.byte_count;
    completion.rest = completion.ends ? '0 : s_header.byte_count - span;
    completion.back = s_header.byte_count + 13'(offset);
    completion.low = s_header.address[6:0];
    completion.next_low = {s_header.address[6:2] + s_header.length_dw[4:0], 2'b00};
  end

  always_ff @(posedge clk) begin
    if (take) between <= s_last;
    event_valid <= (take && s_first) || (inject_ready && inject_valid);
    beat_valid <= take || (inject_ready && inject_valid);
    beat_first <= !take || s_first;
    beat_last <= !take || s_last;
    beat_data <= s_data;
    beat_aborted <= take && !s_first && s_last && s_aborted;
    if (take && s_first) begin
      event_kind <= EVENT_COMPLETION;
      event_tag <= s_header.tag;
      event_completion <= completion;
      beat_skip <= offset;
      beat_end <= LANE_BITS'(completion.ends ? 13'(offset) + s_header.byte_count :
                                               {s_header.length_dw, 2'b00});
    end else if (inject_ready) begin
      event_kind <= inject_event;
      event_tag  <= 10'(inject_tag);
    end
    if (rst) begin
      between <= 1'b1;
      event_valid <= 1'b0;
      beat_valid <= 1'b0;
      beat_aborted <= 1'b0;
    end
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk) begin
    if (!rst && take) begin
      assert (s_first == between)
      else $error("a completion begins within another, or goes on without a beginning");
    end
    if (!rst) begin
      assert (next_is_same == (next_tag == event_tag[TAG_BITS-1:0]))
      else $error("the comparison of tags is that of other ones");
    end
  end
`endif
endmodule
