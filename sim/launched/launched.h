// SPDX-License-Identifier: Apache-2.0
// What a launch of a training or serving software says, in the keys of a scenario. trtllm-serve
// disaggregated has two servers, of prompts and of answers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/launched/launch_file.h"
#include "sim/launched/named_arguments.h"

namespace moesim {

/// A dotted key of a scenario, its YAML, and what a reader should know of it.
struct LaunchedKey {
  std::string path, value, comment = {};
};

/// A size of the model that the launch states, by the key of our model files.
struct LaunchedSize {
  std::string key;  // "attention.kv_heads"
  double value = 0;
  int line = 0;
  bool tells_apart = true;  // models; else ours is changed to it
  int multiple = 0;         // that it is rounded up to; 0: it is not
};

/// What a launch says of requests; 0: nothing.
struct RequestLimits {
  std::int64_t ranks = 1;          // of attention
  std::int64_t tokens = 0;         // of a request at most
  std::int64_t whole_prompts = 0;  // of a pass that takes prompts whole
};

/// Instances that only decode; 0 GPUs: there are none, or as many.
struct LaunchedDecode {
  int gpus = 0;
  std::string policy_in_domain;
};

struct Launched {
  std::string file, software;  // how messages name the software
  bool serving = false;
  std::vector<LaunchedKey> keys;     // in the order of the scenario
  std::vector<LaunchedKey> changes;  // of inputs: "policy.placement.interval"
  std::string model;                 // as the launch names it; empty: only sizes
  int model_line = 0;
  std::vector<LaunchedSize> sizes;
  std::vector<int> moe_layers;   // empty: the launch does not say which layers have experts
  int gpus = 0;                  // 0: the launch does not say
  int gpus_divisor = 1;          // what must divide the GPUs
  std::string policy_in_domain;  // if all GPUs are one NVLink domain; empty: the same
  RequestLimits limits;
  LaunchedDecode decode;
  std::string balancer;        // of experts online: keys of a placement; empty: none
  std::int64_t redundant = 0;  // slots that it has more than experts
  std::int64_t slots = 0;      // or all of them; 0: not said
  std::vector<std::string> assumed, not_simulated;

  void set(const std::string& path, std::string value, std::string comment = "");
  void change(const std::string& path, std::string value, std::string comment = "");
  const LaunchedKey* find(const std::string& path) const;
  void assume(std::string what) { assumed.push_back(std::move(what)); }
  void leave_out(const NamedArgument& argument);
};

/// Reads a script, a log or YAML. Throws Error with the line of what it cannot read or what
/// contradicts itself.
Launched read_launch(const std::string& path);
/// The same of a text; files that it names are looked for next to `file`.
Launched launch_of_text(const std::string& text, const std::string& file);

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
