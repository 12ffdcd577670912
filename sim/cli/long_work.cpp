// SPDX-License-Identifier: Apache-2.0
#include "sim/cli/long_work.h"

#include <utility>

namespace moesim {

LongWork::LongWork(std::string what, std::string interrupted)
    : what_(std::move(what)), interrupted_(std::move(interrupted)) {}

bool LongWork::stopped() { return StopSignals().caught() != 0; }  // nested: what was noted stays

void LongWork::show(double done) {
  if (const int signal = signals_.caught()) throw Interrupted(signal, interrupted_);
  line_.show(what_, done);
}

}  // namespace moesim
