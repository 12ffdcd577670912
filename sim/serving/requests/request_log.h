// SPDX-License-Identifier: Apache-2.0
// Requests that a serving run answers: when each comes and how long it is, never what it says.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/base/ragged.h"
#include "sim/base/types.h"

namespace moesim {

struct ServingRequest {
  Seconds arrival{};        // after the start of the run
  std::int64_t input = 1;   // tokens of the prompt
  std::int64_t output = 1;  // tokens to generate
  bool operator==(const ServingRequest&) const = default;
};

/// What the only process of a benchmark's client takes of its own time.
struct ClientTimes {
  Seconds prepare{};  // a request, while its clock runs
  Seconds send{};     // between two requests that are ready
};

/// Of benchmark_serving.py (vLLM's, SGLang's, InferenceX's `async_request_openai_completions`),
/// which opens a session of aiohttp for each request: its code against an empty server, 64 and 512
/// requests of 4,500 and 36,000 characters, Python 3.11, aiohttp 3.8.4.
constexpr ClientTimes benchmark_client{Seconds(0.9e-3), Seconds(0.2e-3)};

struct RequestLog {
  std::vector<ServingRequest> requests;  // by arrival
  /// [request] a hash per `prefix_tokens` tokens of the prompt from its first on; equal hashes mean
  /// that all tokens up to there are equal. Empty: prefixes are unknown.
  Ragged<std::uint64_t> prefixes;
  std::int64_t prefix_tokens = 0;
  /// Closed loop: this many requests are in flight; the next starts when one finishes. Arrivals are
  /// ignored. 0: requests come when they arrive.
  std::int64_t concurrency = 0;
  ClientTimes client;  // of a closed loop

  /// The hashes of a request's whole chunks: its last one may cover less, and is not shared.
  std::span<const std::uint64_t> shared_chunks(std::size_t request) const {
    if (prefix_tokens == 0) return {};
    const auto all = prefixes[request];
    const auto whole = static_cast<std::size_t>(requests[request].input / prefix_tokens);
    return all.first(std::min(all.size(), whole));
  }
};

}  // namespace moesim
