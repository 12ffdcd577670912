// SPDX-License-Identifier: Apache-2.0
#include "sim/cli/long_work.h"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
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
  if (shown_ >= 0) fmt::print(stderr, "\r\x1b[K");
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, SIG_DFL);
}

void LongWork::show(double done) {
  if (stop_signal != 0) throw std::runtime_error(interrupted_);
  const int percent = static_cast<int>(done * 100);
  if (percent == shown_ || ::isatty(STDERR_FILENO) == 0) return;
  shown_ = percent;
  fmt::print(stderr, "\r{} {} %\x1b[K", what_, percent);
}

}  // namespace moesim
