// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A verilated card with ports for its memory, behind four functions in C. Compiled once for each
// model, with what pins.h says.

#include "pins.h"

namespace {

struct AxiInputs {
  uint8_t aw_ready, w_ready, b_valid, b_response, ar_ready, r_valid, r_last, r_response;
  uint32_t r_data[DATA_WORDS];
};

struct AxiOutputs {
  uint8_t aw_valid, w_valid, w_last, b_ready, ar_valid, r_ready, aw_length, ar_length;
  uint64_t aw_address, ar_address, w_strobe;
  uint32_t w_data[DATA_WORDS];
};

struct MemoryInputs {
  Inputs tlps;
  AxiInputs ports[2];
};

struct MemoryOutputs {
  Outputs tlps;
  AxiOutputs ports[2];
};

}  // namespace

#define SET_PORT(NAME, in)                    \
  model.NAME##_awready = (in).aw_ready;       \
  model.NAME##_wready = (in).w_ready;         \
  model.NAME##_bvalid = (in).b_valid;         \
  model.NAME##_bresp = (in).b_response;       \
  model.NAME##_arready = (in).ar_ready;       \
  model.NAME##_rvalid = (in).r_valid;         \
  model.NAME##_rlast = (in).r_last;           \
  model.NAME##_rresp = (in).r_response;       \
  if ((in).r_valid) set(model.NAME##_rdata, (in).r_data)

#define GET_PORT(NAME, out)                   \
  (out).aw_valid = model.NAME##_awvalid;      \
  (out).aw_length = model.NAME##_awlen;       \
  (out).aw_address = model.NAME##_awaddr;     \
  (out).w_valid = model.NAME##_wvalid;        \
  (out).w_last = model.NAME##_wlast;          \
  (out).w_strobe = model.NAME##_wstrb;        \
  (out).b_ready = model.NAME##_bready;        \
  (out).ar_valid = model.NAME##_arvalid;      \
  (out).ar_length = model.NAME##_arlen;       \
  (out).ar_address = model.NAME##_araddr;     \
  (out).r_ready = model.NAME##_rready;        \
  if (model.NAME##_wvalid) get(model.NAME##_wdata, (out).w_data)

extern "C" {

void *NAMED(_new)() { return new Card; }

void NAMED(_delete)(void *card) { delete static_cast<Card *>(card); }

void NAMED(_clock)(void *handle, const MemoryInputs *in, MemoryOutputs *out) {
  Card &card = *static_cast<Card *>(handle);
  MODEL &model = *card.model;
  SET_PORT(m_memory, in->ports[0]);
  SET_PORT(m_window, in->ports[1]);
  clock_card(card, in->tlps, out->tlps, [&] {
    GET_PORT(m_memory, out->ports[0]);
    GET_PORT(m_window, out->ports[1]);
  });
}

bool NAMED(_trace)(void *handle, const char *file) {
  return static_cast<Card *>(handle)->trace_to(file);
}

}  // extern "C"
