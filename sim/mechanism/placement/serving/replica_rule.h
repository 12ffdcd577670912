// SPDX-License-Identifier: Apache-2.0
// Who uses which replica of an expert, by a rule that an engine has.
#pragma once

#include <string>
#include <vector>

#include "sim/base/yaml.h"
#include "sim/mechanism/placement/group_planner.h"

namespace moesim {

/// The rules of the engines whose placements can be read back, and those of `eplb`.
struct ReplicaRule {
  enum class Kind {
    any,             // evenly, all of the EP group (ReplicaUse)
    node_first,      // evenly, the nearest
    sglang_static,   // as sglang::static_slots
    sglang_dynamic,  // as sglang::dynamic_shares
    vllm_place,      // as vllm::shares, by token and place
    vllm_token,      // the same by a hash of the token
    trt_llm          // as trt_llm::round_robin, from another replica on every rank
  };
  Kind kind = Kind::any;

  Assignment assign(const GroupStep& at, const Placement& slots) const;
};

/// The key `replicas`, a name of replica_rule_names (default any).
ReplicaRule read_replica_rule(const YamlMap& params);

/// As they appear in YAML, in the order of ReplicaRule::Kind.
inline const std::vector<std::string> replica_rule_names = {
    "any", "node-first", "sglang-static", "sglang-dynamic", "vllm", "vllm-token-hash", "trt-llm"};

}  // namespace moesim
