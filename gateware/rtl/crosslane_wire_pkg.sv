// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A TLP's header as it is on the wire (PCIe 6.x 2.2, without FLIT mode), for shims whose hard block
// takes and gives whole headers. Word 0 is the first double word; its first byte is bits 31:24.

package crosslane_wire_pkg;
  import crosslane_pkg::*;

  typedef logic [3:0][31:0] wire_header_t;

  // These functions use only some bits of a header.
  // verilator lint_off UNUSEDSIGNAL

  function automatic logic wire_is_completion(input wire_header_t words);
    return words[0][28:25] == 4'b0101;
  endfunction

  function automatic logic wire_is_memory(input wire_header_t words);
    return words[0][28:24] == 5'b00000;
  endfunction

  function automatic logic wire_is_message(input wire_header_t words);
    return words[0][28:27] == 2'b10;
  endfunction

  // Whether the engine gets a payload: of writes and completions.
  function automatic logic wire_has_data(input wire_header_t words);
    return words[0][30] && (wire_is_memory(words) || wire_is_completion(words));
  endfunction

  // A received header as the engine's. No BAR is set. A request other than a memory read or write
  // needs an answer: it becomes a read.
  function automatic tlp_header_t from_wire(input wire_header_t words);
    tlp_header_t header;
    header = '0;
    header.length_dw = {words[0][9:0] == '0, words[0][9:0]};
    header.traffic_class = words[0][22:20];
    header.attributes = {words[0][18], words[0][13:12]};
    header.poisoned = words[0][14];
    header.bar = NO_BAR;
    if (wire_is_completion(words)) begin
      header.kind = words[0][30] ? COMPLETION_DATA : COMPLETION;
      if (!words[0][30]) header.length_dw = '0;
      header.completer = words[1][31:16];
      header.status = words[1][15:13];
      header.byte_count = {words[1][11:0] == '0, words[1][11:0]};
      header.requester = words[2][31:16];
      header.tag = {words[0][23], words[0][19], words[2][15:8]};
      header.address[6:0] = words[2][6:0];
    end else begin
      header.kind = wire_has_data(words) ? MEMORY_WRITE : MEMORY_READ;
      header.requester = words[1][31:16];
      header.tag = {words[0][23], words[0][19], words[1][15:8]};
      header.last_be = words[1][7:4];
      header.first_be = words[1][3:0];
      header.address = words[0][29] ? {words[2], words[3][31:2], 2'b00} :
          {32'd0, words[2][31:2], 2'b00};
    end
    return header;
  endfunction

  // Whether the header of a TLP that is sent has four double words: an address from 4 GiB on.
  function automatic logic wire_is_wide(input tlp_header_t header);
    return header.kind inside {MEMORY_READ, MEMORY_WRITE} && header.address[63:32] != '0;
  endfunction

  // The header of a TLP that is sent; with three double words the last word is 0.
  function automatic wire_header_t to_wire(input tlp_header_t header);
    wire_header_t words;
    logic completes, wide, has_data;
    logic [4:0] kind;
    completes = header.kind inside {COMPLETION, COMPLETION_DATA};
    has_data = header.kind inside {MEMORY_WRITE, COMPLETION_DATA};
    wide = wire_is_wide(header);
    kind = completes ? 5'b01010 : 5'b00000;
    words = '0;
    words[0][31:24] = {1'b0, has_data, wide, kind};
    words[0][23:20] = {header.tag[9], header.traffic_class};
    words[0][19:16] = {header.tag[8], header.attributes[2], 2'b00};
    words[0][15:12] = {1'b0, header.poisoned, header.attributes[1:0]};
    words[0][9:0] = header.length_dw[9:0];
    if (completes) begin
      words[1] = {header.completer, header.status, 1'b0, header.byte_count[11:0]};
      words[2] = {header.requester, header.tag[7:0], 1'b0, header.address[6:0]};
    end else begin
      words[1] = {header.requester, header.tag[7:0], header.last_be, header.first_be};
      words[2] = wide ? header.address[63:32] : {header.address[31:2], 2'b00};
      if (wide) words[3] = {header.address[31:2], 2'b00};
    end
    return words;
  endfunction

  // verilator lint_on UNUSEDSIGNAL

endpackage
