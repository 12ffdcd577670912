// SPDX-License-Identifier: Apache-2.0
// Requests that are drawn.
#pragma once

#include <cstdint>

#include "sim/serving/requests/request_log.h"

namespace moesim {

/// How long prompts or answers are.
struct LengthLaw {
  enum class Kind { fixed, uniform, lognormal };
  Kind kind = Kind::fixed;
  double mean = 1;    // tokens
  double spread = 0;  // uniform: mean - spread to mean + spread; lognormal: standard deviation
  std::int64_t least = 1, most = 1'000'000'000;  // what is drawn outside is moved to these
};

/// When requests come.
struct ArrivalLaw {
  enum class Kind { poisson, gamma, even, at_once };
  Kind kind = Kind::at_once;
  double rate = 0;       // requests per second
  double variation = 1;  // gamma: coefficient of variation of the gaps; 1 is Poisson
};

struct RequestDraw {
  std::int64_t count = 1;
  std::uint64_t seed = 0;
  ArrivalLaw arrivals;
  LengthLaw input, output;
  std::int64_t concurrency = 0;    // as in RequestLog
  ClientTimes client;              // likewise
  std::int64_t shared_prefix = 0;  // tokens that all prompts begin with, as a system prompt
};

/// The same requests for the same draw on every machine. Arrivals, inputs and outputs are drawn
/// from streams of their own, so that a change of one law leaves the others as they were.
RequestLog draw_requests(const RequestDraw& draw);

}  // namespace moesim
