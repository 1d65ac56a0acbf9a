// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A verilated network processor behind four functions in C. Compiled once for each model, with what
// pins.h says.

#include "pins.h"

namespace {

constexpr int MAX_LINKS = 8;
constexpr int LINE_WORDS = 5;

struct NetworkInputs {
  Inputs tlps;
  uint32_t first_session;
  uint8_t rx_clocks, rx_resets;
  uint8_t rx_detected[MAX_LINKS];
  uint32_t rx_words[MAX_LINKS][LINE_WORDS];
};

struct NetworkOutputs {
  Outputs tlps;
  uint8_t tx_enable, tx_begins_word;
  uint32_t tx_words[MAX_LINKS][LINE_WORDS];
};

struct NetworkCard : Card {
  uint64_t clocks = 0;
};

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
    set(model.rx_words, in->rx_words[0]);
  }
  card.settle(clock);
  get_tlps(model, out->tlps);
  out->tlps.busy = model.busy_o;
  out->tx_enable = model.tx_enable;
  out->tx_begins_word = model.tx_begins_word;
  if (model.tx_begins_word && model.tx_enable) get(model.tx_words, out->tx_words[0]);
  model.clk = 1;
  ++card.clocks;
  card.settle(clock);
}

bool NAMED(_trace)(void *handle, const char *file) {
  return static_cast<NetworkCard *>(handle)->trace_to(file);
}

}  // extern "C"
