// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Registers by the shell's AXI4-Lite (OCL): one access at a time becomes a TLP of a double word to
// BAR 0. After each reset of the engine it fills the MSI-X table first, with addresses that
// crosslane_shim_f2_tx knows. Read first: README.md beside this file.

module crosslane_shim_f2_ocl
  import crosslane_pkg::*;
#(
    parameter int unsigned VECTORS = 8
) (
    input  logic clk,
    input  logic rst,
    input  logic engine_rst,
    input  logic hold,        // no access begins
    output logic idle,

    // The engine's BAR 0 has 64 KiB of the shell's 64 MiB.
    // verilator lint_off UNUSEDSIGNAL
    input logic [31:0] awaddr,
    input logic [31:0] araddr,
    // verilator lint_on UNUSEDSIGNAL
    input logic awvalid,
    output logic awready,
    input logic [31:0] wdata,
    input logic [3:0] wstrb,
    input logic wvalid,
    output logic wready,
    output logic [1:0] bresp,
    output logic bvalid,
    input logic bready,
    input logic arvalid,
    output logic arready,
    output logic [31:0] rdata,
    output logic [1:0] rresp,
    output logic rvalid,
    input logic rready,

    output logic m_valid,
    input logic m_ready,
    output tlp_header_t m_header,
    output logic [31:0] m_data,
    input logic answer_valid,
    output logic answer_ready,
    input logic [31:0] answer_data,
    input logic answer_failed
);
  localparam logic [15:0] MSIX_TABLE = 16'h1000;
  localparam logic [1:0] OKAY = 2'b00, SLVERR = 2'b10;

  typedef enum logic [2:0] {
    FILLS,  // a word of the MSI-X table
    IDLE,
    WRITES,
    READS,
    WAITS,  // for the answer
    CONFIRMS,
    ANSWERS
  } step_e;
  step_e step;
  logic [15:2] address;
  logic [3:0] enables;
  logic [6:0] word;  // of the table
  logic takes_write, takes_read, is_there, is_kept;

  // A word of the table: address, its upper half, data, control.
  function automatic logic [31:0] of_table(logic [6:0] at);
    unique case (at[1:0])
      2'd0: return 32'({at[6:2], 4'd0});
      2'd1: return 32'h8000_0000;
      2'd2: return 32'(at[6:2]);
      default: return '0;
    endcase
  endfunction

  assign takes_write = step == IDLE && !hold && awvalid && wvalid;
  assign takes_read = step == IDLE && !hold && arvalid && !takes_write;
  assign {awready, wready} = {2{takes_write}};
  assign arready = takes_read;
  // Writes of software into the table are dropped: the one that it means is the shell's.
  assign is_kept = awaddr[25:16] == '0 && awaddr[15:11] != MSIX_TABLE[15:11] && wstrb != '0;
  assign is_there = araddr[25:16] == '0;
  assign idle = step == IDLE;

  assign bvalid = step == CONFIRMS;
  assign bresp = OKAY;
  assign rvalid = step == ANSWERS;
  assign answer_ready = step == WAITS;

  assign m_valid = step inside {FILLS, WRITES, READS} && !engine_rst;
  always_comb begin
    m_header = '0;
    m_header.kind = (step == READS) ? MEMORY_READ : MEMORY_WRITE;
    m_header.address = 64'({address, 2'b00});
    m_header.length_dw = 11'd1;
    m_header.first_be = enables;
    if (step == FILLS) begin
      m_header.address  = 64'(MSIX_TABLE + {7'd0, word, 2'b00});
      m_header.first_be = '1;
    end
  end

  always_ff @(posedge clk) begin
    unique case (step)
      FILLS: begin
        if (m_ready) begin
          word   <= word + 1'b1;
          m_data <= of_table(word + 1'b1);
          if (word == 7'(4 * VECTORS - 1)) step <= IDLE;
        end
      end
      IDLE: begin
        word <= '0;
        if (takes_write) begin
          address <= awaddr[15:2];
          enables <= wstrb;
          m_data <= wdata;
          step <= is_kept ? WRITES : CONFIRMS;
        end else if (takes_read) begin
          address <= araddr[15:2];
          enables <= '1;
          rdata <= '0;
          rresp <= OKAY;
          step <= is_there ? READS : ANSWERS;
        end
      end
      WRITES:   if (m_ready) step <= CONFIRMS;
      READS:    if (m_ready) step <= WAITS;
      WAITS: begin
        if (answer_valid) begin
          rdata <= answer_failed ? '1 : answer_data;
          rresp <= answer_failed ? SLVERR : OKAY;
          step  <= ANSWERS;
        end
      end
      CONFIRMS: if (bready) step <= IDLE;
      default:  if (rready) step <= IDLE;
    endcase
    if (rst || engine_rst) begin
      step   <= FILLS;
      word   <= '0;
      m_data <= '0;
    end
  end
endmodule
