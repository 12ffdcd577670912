// SPDX-License-Identifier: Apache-2.0
// Recorded logs of requests.
#pragma once

#include <cstdint>
#include <string>

#include "sim/serving/requests/request_log.h"

namespace moesim {

/// Reads a log, plain or gzip, line by line:
/// - JSON lines as Mooncake records them: `timestamp` (ms), `input_length`, `output_length`
///   (tokens) and optionally `hash_ids`, one per 512 tokens (kvcache-ai/Mooncake,
///   FAST25-release/traces);
/// - a table whose first line names its columns: `arrived_at` (s), `num_prefill_tokens`,
///   `num_decode_tokens` as Vidur processes logs, or `arrival`, `input`, `output`.
/// Other members and columns are skipped: what a request says is neither kept nor printed. Times
/// start at the first request's. At most `most` requests; 0: all. Throws Error with the line for
/// what is not JSON, a member that is absent, times that go back and lengths below 1.
RequestLog read_request_log(const std::string& path, std::int64_t most = 0);

}  // namespace moesim
