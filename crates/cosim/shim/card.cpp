// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A verilated card behind four functions in C. Compiled once for each model: MODEL is the class
// that Verilator has made, HEADER its file, PREFIX what the names of the functions begin with,
// CLOCK_PS the length of its clock.

#include HEADER
#include "verilated.h"
#ifdef TRACE
#include "verilated_fst_c.h"
#endif

#include <cstdint>
#include <cstring>
#include <memory>

namespace {

constexpr int HEADER_WORDS = 5;
constexpr int DATA_WORDS = 16;

// As in src/pins.rs.
struct Inputs {
  uint8_t reset, rx_valid, rx_first, rx_last, tx_ready, room, time_is_set;
  uint32_t function;
  uint64_t time;
  uint32_t rx_header[HEADER_WORDS];
  uint32_t rx_data[DATA_WORDS];
};

struct Outputs {
  uint8_t rx_ready, tx_valid, tx_first, tx_last, busy;
  uint8_t poisoned_write, unexpected_completion, completion_timeout;
  uint64_t time;
  uint32_t tx_header[HEADER_WORDS];
  uint32_t tx_data[DATA_WORDS];
};

// A port is a word, two, or an array of words, depending on its width.
void set(QData &port, const uint32_t *words) { port = words[0] | uint64_t{words[1]} << 32; }

template <std::size_t N>
void set(VlWide<N> &port, const uint32_t *words) {
  std::memcpy(port.data(), words, N * sizeof(uint32_t));
}

void get(const QData &port, uint32_t *words) {
  words[0] = static_cast<uint32_t>(port);
  words[1] = static_cast<uint32_t>(port >> 32);
}

template <std::size_t N>
void get(const VlWide<N> &port, uint32_t *words) {
  std::memcpy(words, port.data(), N * sizeof(uint32_t));
}

struct Card {
  VerilatedContext context;
  std::unique_ptr<MODEL> model;
#ifdef TRACE
  std::unique_ptr<VerilatedFstC> trace;
#endif

  Card() {
#ifdef TRACE
    context.traceEverOn(true);
#endif
    model = std::make_unique<MODEL>(&context, "card");
    model->clk = 0;
    model->eval();
  }

  ~Card() {
#ifdef TRACE
    if (trace) trace->close();
#endif
    model->final();
  }

  void settle() {
    model->eval();
#ifdef TRACE
    // Clock n begins with its rising edge, at n times its length.
    const uint64_t since_edge_ps = model->clk ? 0 : CLOCK_PS / 2;
    if (trace) trace->dump(uint64_t{model->time_o} * CLOCK_PS + since_edge_ps);
#endif
  }
};

}  // namespace

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define NAMED(name) JOIN(PREFIX, name)

extern "C" {

void *NAMED(_new)() { return new Card; }

void NAMED(_delete)(void *card) { delete static_cast<Card *>(card); }

void NAMED(_clock)(void *handle, const Inputs *in, Outputs *out) {
  Card &card = *static_cast<Card *>(handle);
  MODEL &model = *card.model;
  model.clk = 0;
  model.rst = in->reset;
  model.function_i = in->function;
  model.room_i = in->room;
  model.time_set_valid = in->time_is_set;
  model.time_set_value = in->time;
  model.s_rx_valid = in->rx_valid;
  model.s_rx_first = in->rx_first;
  model.s_rx_last = in->rx_last;
  // No bearer takes a completion back here.
  model.s_rx_aborted = 0;
  model.m_tx_ready = in->tx_ready;
  if (in->rx_valid) {
    set(model.s_rx_header, in->rx_header);
    set(model.s_rx_data, in->rx_data);
  }
  card.settle();
  out->rx_ready = model.s_rx_ready;
  out->tx_valid = model.m_tx_valid;
  out->tx_first = model.m_tx_first;
  out->tx_last = model.m_tx_last;
  out->busy = model.busy_o;
  out->poisoned_write = model.poisoned_write;
  out->unexpected_completion = model.unexpected_completion;
  out->completion_timeout = model.completion_timeout;
  out->time = model.time_o;
  if (model.m_tx_valid) {
    get(model.m_tx_header, out->tx_header);
    get(model.m_tx_data, out->tx_data);
  }
  model.clk = 1;
  card.settle();
}

// Whether a trace is written.
bool NAMED(_trace)(void *handle, const char *file) {
#ifdef TRACE
  Card &card = *static_cast<Card *>(handle);
  card.trace = std::make_unique<VerilatedFstC>();
  card.model->trace(card.trace.get(), 99);
  card.trace->open(file);
  return card.trace->isOpen();
#else
  (void)handle;
  (void)file;
  return false;
#endif
}

}  // extern "C"
