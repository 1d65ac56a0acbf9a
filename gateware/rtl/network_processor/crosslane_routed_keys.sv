// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Numbers of routed keys (node, tag), found by a hash table: keys with the same hash are a list.
// There are as many numbers as there can be keys at once, so one is always free.

module crosslane_routed_keys #(
    parameter  int unsigned KEYS     = 128,          // 2 to 65536
    localparam int unsigned KEY_BITS = $clog2(KEYS)
) (
    input  logic                clk,
    input  logic                rst,
    output logic                ready,       // a key may be sought
    output logic [  KEY_BITS:0] used,        // keys
    // Seeks a key, and takes a number for it if it has none. `found` pulses with the number.
    input  logic                find,
    input  logic [        15:0] node,
    input  logic [         5:0] tag,
    output logic                found,
    output logic [KEY_BITS-1:0] number,
    // Pulse, while `ready`: the key that was found last goes.
    input  logic                remove,
    // The key of a number, a clock later; while `ready`.
    input  logic [KEY_BITS-1:0] which,
    output logic [        15:0] which_node,
    output logic [         5:0] which_tag
);
  localparam int unsigned HASH_BITS = (KEY_BITS > 2) ? KEY_BITS - 1 : 1;

  // An entry, or none.
  typedef struct packed {
    logic                is_there;
    logic [KEY_BITS-1:0] number;
  } link_t;
  typedef struct packed {
    logic [15:0] node;
    logic [5:0]  tag;
    link_t       next;  // in its list
  } entry_t;
  typedef enum logic [1:0] {
    CLEARS,
    IDLE,
    BEGINS,   // the head of the list is read
    COMPARES
  } step_e;

  step_e step;
  entry_t entries[KEYS];
  (* ram_style = "distributed" *) link_t lists[1<<HASH_BITS];
  (* ram_style = "distributed" *) link_t free_behind[KEYS];
  entry_t entry, entry_before, written;
  link_t head, free, found_next, head_written;
  logic [KEY_BITS:0] fresh;  // numbers from here on have never been used
  logic [KEY_BITS-1:0] at, read_at, written_at, free_number, found_number, number_before;
  logic [HASH_BITS-1:0] hash;
  logic [15:0] sought_node;
  logic [5:0] sought_tag;
  logic is_it, adds, has_before, writes, writes_head;

  function automatic logic [HASH_BITS-1:0] hash_of(logic [15:0] of_node, logic [5:0] of_tag);
    return HASH_BITS'(of_node) ^ HASH_BITS'({of_tag, 3'd0}) ^ HASH_BITS'(of_tag) ^
        HASH_BITS'(of_node >> 6);
  endfunction

  assign head = lists[hash];
  assign ready = step == IDLE;
  assign which_node = entry.node;
  assign which_tag = entry.tag;
  assign is_it = entry.node == sought_node && entry.tag == sought_tag;
  assign free_number = free.is_there ? free.number : KEY_BITS'(fresh);
  assign adds = (step == BEGINS && !head.is_there) ||
      (step == COMPARES && !is_it && !entry.next.is_there);
  assign found = adds || (step == COMPARES && is_it);
  assign number = adds ? free_number : at;

  always_comb begin
    unique case (step)
      BEGINS:   read_at = head.number;
      COMPARES: read_at = entry.next.number;
      default:  read_at = which;
    endcase
    writes = adds;
    written = '{node: sought_node, tag: sought_tag, next: head};
    written_at = free_number;
    writes_head = adds || step == CLEARS;
    head_written = (step == CLEARS) ? '0 : '{is_there: 1'b1, number: free_number};
    if (remove) begin
      writes = has_before;
      written = entry_before;
      written.next = found_next;
      written_at = number_before;
      writes_head = !has_before;
      head_written = found_next;
    end
  end

  always_ff @(posedge clk) begin
    entry <= entries[read_at];
    if (writes) entries[written_at] <= written;
    if (writes_head) lists[hash] <= head_written;
    unique case (step)
      CLEARS: begin
        hash <= hash + 1'b1;
        if (hash == '1) step <= IDLE;
      end
      IDLE: begin
        if (find) begin
          step <= BEGINS;
          hash <= hash_of(node, tag);
          sought_node <= node;
          sought_tag <= tag;
        end
        if (remove) begin
          free_behind[found_number] <= free;
          free <= '{is_there: 1'b1, number: found_number};
          used <= used - 1'b1;
        end
      end
      BEGINS: begin
        at <= head.number;
        has_before <= 1'b0;
        step <= found ? IDLE : COMPARES;
      end
      default: begin  // COMPARES
        if (found) step <= IDLE;
        if (adds) has_before <= 1'b0;
        if (!found) begin
          at <= entry.next.number;
          entry_before <= entry;
          number_before <= at;
          has_before <= 1'b1;
        end
      end
    endcase
    if (found) begin
      found_number <= number;
      found_next   <= adds ? head : entry.next;
    end
    if (adds) begin
      used <= used + 1'b1;
      if (free.is_there) free <= free_behind[free.number];
      else fresh <= fresh + 1'b1;
    end
    if (rst) begin
      step  <= CLEARS;
      hash  <= '0;
      used  <= '0;
      fresh <= '0;
      free  <= '0;
    end
  end
endmodule
