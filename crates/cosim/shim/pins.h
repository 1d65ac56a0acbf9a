// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Pins of TLPs, as in src/pins.rs, and a verilated circuit with its trace. Included once in the
// file of a model: MODEL is the class that Verilator has made, HEADER its file, PREFIX what the
// names of the functions begin with, CLOCK_PS the length of its clock.

#pragma once

#include HEADER
#include "verilated.h"
#ifdef TRACE
#include "verilated_fst_c.h"
#endif

#include <cstdint>
#include <cstring>
#include <memory>

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define NAMED(name) JOIN(PREFIX, name)

namespace {

constexpr int HEADER_WORDS = 5;
constexpr int DATA_WORDS = 16;

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

void set_tlps(MODEL &model, const Inputs &in) {
  model.rst = in.reset;
  model.function_i = in.function;
  model.room_i = in.room;
  model.s_rx_valid = in.rx_valid;
  model.s_rx_first = in.rx_first;
  model.s_rx_last = in.rx_last;
  // No bearer takes a completion back here.
  model.s_rx_aborted = 0;
  model.m_tx_ready = in.tx_ready;
  if (in.rx_valid) {
    set(model.s_rx_header, in.rx_header);
    set(model.s_rx_data, in.rx_data);
  }
}

void get_tlps(const MODEL &model, Outputs &out) {
  out.rx_ready = model.s_rx_ready;
  out.tx_valid = model.m_tx_valid;
  out.tx_first = model.m_tx_first;
  out.tx_last = model.m_tx_last;
  if (model.m_tx_valid) {
    get(model.m_tx_header, out.tx_header);
    get(model.m_tx_data, out.tx_data);
  }
}

// The circuit.
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

  // `clock` gives the number of the clock for a trace once all is settled: clock n begins with its
  // rising edge, at n times its length.
  template <typename Clock>
  void settle(Clock clock) {
    model->eval();
#ifdef TRACE
    const uint64_t since_edge_ps = model->clk ? 0 : CLOCK_PS / 2;
    if (trace) trace->dump(clock() * CLOCK_PS + since_edge_ps);
#else
    (void)clock;
#endif
  }

  // Whether a trace is written.
  bool trace_to(const char *file) {
#ifdef TRACE
    trace = std::make_unique<VerilatedFstC>();
    model->trace(trace.get(), 99);
    trace->open(file);
    return trace->isOpen();
#else
    (void)file;
    return false;
#endif
  }
};

// Runs a clock of a card with a counter of time. `sample` is called before the edge.
template <typename Circuit, typename Sample>
void clock_card(Circuit &card, const Inputs &in, Outputs &out, Sample sample) {
  auto &model = *card.model;
  const auto clock = [&] { return uint64_t{model.time_o}; };
  model.clk = 0;
  set_tlps(model, in);
  model.time_set_valid = in.time_is_set;
  model.time_set_value = in.time;
  card.settle(clock);
  get_tlps(model, out);
  out.busy = model.busy_o;
  out.poisoned_write = model.poisoned_write;
  out.unexpected_completion = model.unexpected_completion;
  out.completion_timeout = model.completion_timeout;
  out.time = model.time_o;
  sample();
  model.clk = 1;
  card.settle(clock);
}

}  // namespace
