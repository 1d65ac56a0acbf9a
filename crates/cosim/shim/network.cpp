// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A verilated network processor behind four functions in C. Compiled once for each model, with what
// pins.h says; LINKS is the number of links, LINE_BITS that of the line bits in a word of a link.

#include "pins.h"

namespace {

constexpr int MAX_LINKS = 8;
constexpr int LINE_WORDS = 17;
// Words that have line bits of a link.
constexpr int USED_WORDS = (LINE_BITS + 31) / 32;

struct NetworkInputs {
  Inputs tlps;
  uint32_t first_session;
  uint8_t rx_clocks, rx_resets;
  uint8_t rx_detected[MAX_LINKS];
  uint32_t rx_words[MAX_LINKS][LINE_WORDS];
};

struct NetworkOutputs {
  Outputs tlps;
  uint8_t settled, tx_enable, tx_begins_word;
  uint32_t tx_words[MAX_LINKS][LINE_WORDS];
};

struct NetworkCard : Card {
  uint64_t clocks = 0;
};

// Calls `each(link, word, at)` for each word of 32 line bits, which begins at bit `at` of a port.
template <typename Each>
void each_line_word(Each each) {
  for (int link = 0; link < LINKS; ++link) {
    for (int word = 0; word < USED_WORDS; ++word) each(link, word, link * LINE_BITS + 32 * word);
  }
}

// Line bits behind those of a link's word are 0.
template <std::size_t N>
void set_lines(VlWide<N> &port, const uint32_t (*lines)[LINE_WORDS]) {
  std::memset(port.data(), 0, N * sizeof(uint32_t));
  each_line_word([&](int link, int word, std::size_t at) {
    const uint64_t bits = uint64_t{lines[link][word]} << at % 32;
    port[at / 32] |= static_cast<uint32_t>(bits);
    if (at / 32 + 1 < N) port[at / 32 + 1] |= static_cast<uint32_t>(bits >> 32);
  });
}

template <std::size_t N>
void get_lines(const VlWide<N> &port, uint32_t (*lines)[LINE_WORDS]) {
  each_line_word([&](int link, int word, std::size_t at) {
    const uint64_t above = at / 32 + 1 < N ? port[at / 32 + 1] : 0;
    lines[link][word] = static_cast<uint32_t>((above << 32 | port[at / 32]) >> at % 32);
  });
  if constexpr (LINE_BITS % 32 != 0) {
    for (int link = 0; link < LINKS; ++link) {
      lines[link][USED_WORDS - 1] &= (1u << LINE_BITS % 32) - 1;
    }
  }
}

}  // namespace

extern "C" {

void *NAMED(_new)() { return new NetworkCard; }

void NAMED(_delete)(void *card) { delete static_cast<NetworkCard *>(card); }

void NAMED(_clock)(void *handle, const NetworkInputs *in, NetworkOutputs *out) {
  NetworkCard &card = *static_cast<NetworkCard *>(handle);
  MODEL &model = *card.model;
  const auto clock = [&] { return card.clocks; };
  model.clk = 0;
  set_tlps(model, in->tlps);
  model.first_session = in->first_session;
  model.rx_clk = in->rx_clocks;
  model.rx_rst = in->rx_resets;
  // Links with a clock have new words.
  if (in->rx_clocks) {
    uint64_t detected;
    std::memcpy(&detected, in->rx_detected, sizeof detected);
    model.rx_detected = detected;
    set_lines(model.rx_words, in->rx_words);
  }
  card.settle(clock);
  get_tlps(model, out->tlps);
  out->tlps.busy = model.busy_o;
  out->settled = model.settled_o;
  out->tx_enable = model.tx_enable;
  out->tx_begins_word = model.tx_begins_word;
  if (model.tx_begins_word && model.tx_enable) get_lines(model.tx_words, out->tx_words);
  model.clk = 1;
  ++card.clocks;
  card.settle(clock);
}

bool NAMED(_trace)(void *handle, const char *file) {
  return static_cast<NetworkCard *>(handle)->trace_to(file);
}

}  // extern "C"
