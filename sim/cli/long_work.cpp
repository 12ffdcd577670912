// SPDX-License-Identifier: Apache-2.0
#include "sim/cli/long_work.h"

#include <csignal>
#include <stdexcept>
#include <utility>

namespace moesim {
namespace {

volatile std::sig_atomic_t stop_signal = 0;

}  // namespace

LongWork::LongWork(std::string what, std::string interrupted)
    : what_(std::move(what)), interrupted_(std::move(interrupted)) {
  stop_signal = 0;
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, [](int s) { stop_signal = s; });
}

LongWork::~LongWork() {
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, SIG_DFL);
}

bool LongWork::stopped() { return stop_signal != 0; }

void LongWork::show(double done) {
  if (stop_signal != 0) throw std::runtime_error(interrupted_);
  line_.show(what_, done);
}

}  // namespace moesim
