// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/serving_candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace moesim {
namespace {

constexpr const char* gathering_policy = "megatron-allgather";

Override key(const std::string& path, const std::string& value) {
  return {path, value, fmt::format("{}: {}", path, value)};
}

Override change(const std::string& text) { return {"set", text, "--set " + text}; }

std::vector<Override> flags_of(const ServingInstanceKind& kind, int gpus_per_node) {
  const int of_node = std::min(kind.gpus, gpus_per_node);
  std::vector<Override> flags = {
      key("policy", kind.policy), key("parallel.tp", std::to_string(kind.tp)),
      key("parallel.ep", std::to_string(kind.ep)), key("parallel.etp", std::to_string(kind.etp)),
      change(fmt::format("topology.nodes={}", kind.gpus / of_node))};
  if (of_node < gpus_per_node) {
    flags.push_back(change(fmt::format("topology.node.gpus={}", of_node)));
    flags.push_back(change(fmt::format("topology.node.nics.count={}", of_node)));
  }
  return flags;
}

/// Seconds of an instance for one request: its prompt, and its share of the passes that decode.
double time_of_request(std::size_t kind, double sequences, const ServingDemand& demand,
                       KindRates& rates) {
  return demand.input / rates.prompt_tokens_per_second(kind) +
         demand.output * rates.decode_time(kind, sequences) / sequences;
}

RoughPlan one_pool(std::size_t kind, int instances, const ServingDemand& demand, KindRates& rates) {
  const double sequences = std::max(1.0, demand.in_flight / instances);
  const double request = time_of_request(kind, sequences, demand, rates);
  RoughPlan plan{{kind, kind, instances, 0}};
  plan.tpot = request * sequences / demand.output;
  plan.rate = instances / request * demand.output / demand.gpus;
  return plan;
}

RoughPlan pools_apart(std::size_t prompts, int prompt_instances, std::size_t decode,
                      int decode_instances, const ServingDemand& demand, KindRates& rates) {
  const double sequences = std::max(1.0, demand.in_flight / decode_instances);
  RoughPlan plan{{prompts, decode, prompt_instances, decode_instances}};
  plan.tpot = rates.decode_time(decode, sequences);
  const double decoded = decode_instances * sequences / (plan.tpot * demand.output);
  const double computed = prompt_instances * rates.prompt_tokens_per_second(prompts) / demand.input;
  plan.rate = std::min(decoded, computed) * demand.output / demand.gpus;
  return plan;
}

/// For each number of decoding instances as many that compute prompts as the rest has room for.
void add_apart(const std::vector<ServingInstanceKind>& kinds, std::size_t prompts,
               std::size_t decode, const ServingDemand& demand, KindRates& rates,
               std::vector<RoughPlan>& plans) {
  for (int d = 1; d * kinds[decode].gpus < demand.gpus; ++d) {
    const int p = (demand.gpus - d * kinds[decode].gpus) / kinds[prompts].gpus;
    if (p > 0) plans.push_back(pools_apart(prompts, p, decode, d, demand, rates));
  }
}

/// Those that carry tokens between ranks, or within tensor groups.
std::vector<std::string> policies_for(const std::vector<ServingPolicy>& policies, bool spread) {
  std::vector<std::string> names;
  for (const ServingPolicy& policy : policies) {
    if (spread || policy.gathers) names.push_back(policy.name);
  }
  if (names.empty()) names = {gathering_policy};
  return names;
}

}  // namespace

std::string ServingInstanceKind::words() const {
  std::string text = fmt::format("tp{} ep{}", tp, ep);
  if (etp > 1) text += fmt::format(" etp{}", etp);
  return text + " " + policy.substr(policy.find_last_of('/') + 1) + besides;
}

std::vector<ServingInstanceKind> instance_kinds(const std::vector<ServingPolicy>& policies,
                                                int nodes, int gpus_per_node) {
  std::vector<ServingInstanceKind> kinds;
  const auto add = [&](ServingInstanceKind kind) {
    kind.flags = flags_of(kind, gpus_per_node);
    kinds.push_back(std::move(kind));
  };
  for (int gpus = nodes * gpus_per_node; gpus >= 1; gpus /= 2) {
    const bool whole = gpus % gpus_per_node == 0 || gpus_per_node % gpus == 0;
    for (int tp = 1; whole && tp <= std::min(gpus, gpus_per_node); tp *= 2) {
      if (gpus % tp != 0) continue;
      for (const std::string& policy : policies_for(policies, tp == 1 && gpus > 1)) {
        add({gpus, tp, gpus, 1, policy, {}, ""});
        if (tp == gpus && tp > 1) add({gpus, tp, 1, tp, policy, {}, ""});
      }
    }
    if (gpus % 2 != 0) break;
  }
  return kinds;
}

std::vector<RoughPlan> rough_plans(const std::vector<ServingInstanceKind>& kinds,
                                   const ServingDemand& demand, double most_tpot,
                                   KindRates& rates) {
  std::vector<RoughPlan> plans;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    plans.push_back(one_pool(k, demand.gpus / kinds[k].gpus, demand, rates));
    for (std::size_t d = 0; d < kinds.size(); ++d) add_apart(kinds, k, d, demand, rates, plans);
  }
  const auto good = [&](const RoughPlan& plan) { return most_tpot == 0 || plan.tpot <= most_tpot; };
  std::ranges::stable_sort(plans, [&](const RoughPlan& a, const RoughPlan& b) {
    return std::tuple(good(a), good(a) ? a.rate : -a.tpot) >
           std::tuple(good(b), good(b) ? b.rate : -b.tpot);
  });
  return plans;
}

}  // namespace moesim
