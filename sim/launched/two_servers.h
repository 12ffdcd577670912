// SPDX-License-Identifier: Apache-2.0
// YAML of trtllm-serve disaggregated: servers of prompts and servers of answers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/launched/launch_file.h"
#include "sim/launched/launched.h"

namespace moesim {

struct TwoServers {
  LaunchFile prompts, answers;
  std::int64_t prompt_instances = 1, answer_instances = 1;
};

/// Keys below `context_servers` and `generation_servers`; those around them are of both. Nothing
/// without these two.
std::optional<TwoServers> two_servers_in(const std::string& text, const std::string& file);

/// One launch of both: what the second pool has otherwise goes under serving.decode.
Launched pools_of(Launched prompts, const Launched& answers, const TwoServers& servers);

}  // namespace moesim
