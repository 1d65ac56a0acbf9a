// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A verilated card behind four functions in C. Compiled once for each model, with what pins.h says.

#include "pins.h"

extern "C" {

void *NAMED(_new)() { return new Card; }

void NAMED(_delete)(void *card) { delete static_cast<Card *>(card); }

void NAMED(_clock)(void *handle, const Inputs *in, Outputs *out) {
  Card &card = *static_cast<Card *>(handle);
  MODEL &model = *card.model;
  const auto clock = [&] { return uint64_t{model.time_o}; };
  model.clk = 0;
  set_tlps(model, *in);
  model.time_set_valid = in->time_is_set;
  model.time_set_value = in->time;
  card.settle(clock);
  get_tlps(model, *out);
  out->busy = model.busy_o;
  out->poisoned_write = model.poisoned_write;
  out->unexpected_completion = model.unexpected_completion;
  out->completion_timeout = model.completion_timeout;
  out->time = model.time_o;
  model.clk = 1;
  card.settle(clock);
}

bool NAMED(_trace)(void *handle, const char *file) {
  return static_cast<Card *>(handle)->trace_to(file);
}

}  // extern "C"
