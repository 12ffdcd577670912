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
///   FAST25-release/traces); with `parent_chat_id` in seconds and a hash per 16 tokens
///   (alibaba-edu/qwen-bailian-usagetraces-anon). Case and marks of names do not matter. The names
///   of tables do as well; their times are in seconds;
/// - a table whose first line names its columns: `arrival` (s, or day and time), `input`, `output`,
///   or as Vidur, Splitwise, Azure and BurstGPT name them.
/// Other members and columns are skipped: what a request says is neither kept nor printed. Times
/// start at the first request's. At most `most` requests; 0: all. Throws Error with the line for
/// what is not JSON, a member that is absent, two times of a line, times that go back and lengths
/// below 1.
RequestLog read_request_log(const std::string& path, std::int64_t most = 0);

}  // namespace moesim
