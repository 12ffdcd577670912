// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/serving/replica_rule.h"

#include "sim/mechanism/placement/replica_use.h"
#include "sim/mechanism/placement/serving/serving.h"
#include "sim/mechanism/placement/serving/sglang.h"
#include "sim/mechanism/placement/serving/trt_llm.h"
#include "sim/mechanism/placement/serving/vllm.h"

namespace moesim {
namespace {

Assignment by_vllm(const GroupStep& at, const Placement& slots, vllm::Rule rule) {
  return assign_by_choice(at, slots, [&](GpuId, ExpertId, auto choices, auto replicas) {
    return vllm::shares(rule, choices, at.ids.top_k(), replicas);
  });
}

Assignment by_sglang(const GroupStep& at, const Placement& slots) {
  return assign_by_choice(at, slots, [&](GpuId rank, ExpertId expert, auto choices, auto) {
    const GpuId gpu(at.first_gpu.value + rank.value);
    const auto near = sglang::candidates(slots, at.ranks.hosts(), expert, rank);
    return sglang::dynamic_shares(choices, near, gpu, expert);
  });
}

Assignment by_trt_llm(const GroupStep& at, const Placement& slots) {
  return assign_by_choice(at, slots, [&](GpuId rank, ExpertId, auto choices, auto replicas) {
    return trt_llm::round_robin(choices, at.ids.top_k(), replicas, rank.value);
  });
}

}  // namespace

Assignment ReplicaRule::assign(const GroupStep& at, const Placement& slots) const {
  switch (kind) {
    case Kind::node_first:
      return assign_replicas(slots, at.ranks, at.first_gpu, ReplicaUse::node_first);
    case Kind::sglang_static:
      return Assignment(slots, sglang::static_slots(slots, at.ranks.hosts(), at.layer));
    case Kind::sglang_dynamic:
      return by_sglang(at, slots);
    case Kind::vllm_place:
      return by_vllm(at, slots, vllm::Rule::place);
    case Kind::vllm_token:
      return by_vllm(at, slots, vllm::Rule::token_hash);
    case Kind::trt_llm:
      return by_trt_llm(at, slots);
    case Kind::any:
      break;
  }
  return assign_replicas(slots, at.ranks, at.first_gpu, ReplicaUse::any);
}

ReplicaRule read_replica_rule(const YamlMap& params) {
  return {static_cast<ReplicaRule::Kind>(params.choice("replicas", replica_rule_names, 0))};
}

}  // namespace moesim
