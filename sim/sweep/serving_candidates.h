// SPDX-License-Identifier: Apache-2.0
// Ways to serve on a cluster: sizes and degrees of instances, and pools of them.
#pragma once

#include <string>
#include <vector>

#include "sim/base/yaml.h"

namespace moesim {

/// A kind of instance.
struct ServingInstanceKind {
  int gpus = 1, tp = 1, ep = 1, etp = 1;
  std::string policy;           // that carries tokens
  std::vector<Override> flags;  // that make the scenario one of such an instance
  std::string besides;          // " two-batch dcp2": what it does that the scenario does not
  int dp() const { return gpus / tp; }
  /// "tp1 ep16 deepep-low-latency two-batch".
  std::string words() const;
};

/// A policy of the scenario; gathers: every rank gets every row, as tensor groups work.
struct ServingPolicy {
  std::string name;
  bool gathers = false;
  bool overlaps = false;  // engines can compute while it carries rows
};

/// Instances that fill the cluster of the scenario, or a power-of-two part of it that whole nodes
/// or a part of one make up: all tp up to a node's GPUs, with whole experts on the GPUs of an
/// instance, or parts of all of them if a tensor group is the instance. Ranks with experts of
/// their own exchange by each policy of the scenario; tensor groups by its all-gather policies, or
/// Megatron's if it has none.
std::vector<ServingInstanceKind> instance_kinds(const std::vector<ServingPolicy>& policies,
                                                int nodes, int gpus_per_node);

/// So many instances; decode: if prompts are computed apart.
struct ServingPlan {
  std::size_t prompts = 0, decode = 0;  // indices of kinds; equal if one pool does both
  int prompt_instances = 1, decode_instances = 0;
  bool operator==(const ServingPlan&) const = default;
};

/// In how many choices two plans differ: policy, tp, ep and what instances do besides, of each
/// pool. Many if they have other instances.
int choices_apart(const std::vector<ServingInstanceKind>& kinds, const ServingPlan& a,
                  const ServingPlan& b);

/// Plans with an instance less in one of the pools.
std::vector<ServingPlan> with_fewer_instances(const ServingPlan& plan);

/// What one instance of a kind does: seconds of a pass that decodes so many sequences of all its
/// ranks, and prompt tokens per second.
class KindRates {
 public:
  virtual ~KindRates() = default;
  virtual double decode_time(std::size_t kind, double sequences) = 0;
  virtual double prompt_tokens_per_second(std::size_t kind) = 0;
};

struct ServingDemand {
  double input = 1, output = 1;  // mean tokens of a request
  double in_flight = 1;          // requests at most
  int gpus = 1;                  // of the cluster
  double arrivals = 0;           // requests per second; 0: a closed loop, with in_flight always
};

/// A plan with what the rates promise: tokens per second and GPU, time per token.
struct RoughPlan {
  ServingPlan plan;
  double rate = 0, tpot = 0;
  bool keeps_up = true;  // with the requests that arrive
};

/// Plans that the cluster has room for, the best first: those that keep up and whose time per token
/// is within `most_tpot` (s; 0: any) before the others.
/// - One pool: each request takes its prompt's time and its share of `output` passes.
/// - Pools apart: the slower of both, with every request in flight decoding.
/// - A closed loop fills the cluster. Arrivals are served by any number of instances, with as many
///   requests in flight as arrive while one is served; rates are then per GPU that they use, and
///   pools of prompts as small as keep up.
std::vector<RoughPlan> rough_plans(const std::vector<ServingInstanceKind>& kinds,
                                   const ServingDemand& demand, double most_tpot, KindRates& rates);

}  // namespace moesim
