// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A verilated card behind four functions in C. Compiled once for each model, with what pins.h says.

#include "pins.h"

extern "C" {

void *NAMED(_new)() { return new Card; }

void NAMED(_delete)(void *card) { delete static_cast<Card *>(card); }

void NAMED(_clock)(void *handle, const Inputs *in, Outputs *out) {
  clock_card(*static_cast<Card *>(handle), *in, *out, [] {});
}

bool NAMED(_trace)(void *handle, const char *file) {
  return static_cast<Card *>(handle)->trace_to(file);
}

}  // extern "C"
