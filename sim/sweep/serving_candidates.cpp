// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/serving_candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

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

constexpr double most_busy = 0.9;  // of its time, an instance that computes prompts as they arrive

/// The plans of a demand, by the rates of their kinds.
class PlanMaker {
 public:
  PlanMaker(const std::vector<ServingInstanceKind>& kinds, const ServingDemand& demand,
            KindRates& rates)
      : kinds_(kinds), demand_(demand), rates_(rates) {}

  std::vector<RoughPlan> all() {
    for (std::size_t k = 0; k < kinds_.size(); ++k) {
      const int most = demand_.gpus / kinds_[k].gpus;
      for (int n = is_open() ? 1 : most; n <= most; ++n) add_one_pool(k, n);
      for (std::size_t d = 0; d < kinds_.size(); ++d) add_apart(k, d);
    }
    return std::move(plans_);
  }

 private:
  bool is_open() const { return demand_.arrivals > 0; }
  /// Of an instance for one prompt, if all its ranks have one.
  double prompt_time(std::size_t kind) {
    return demand_.input / rates_.prompt_tokens_per_second(kind);
  }

  /// The same as prompts come: a pass has those that arrived during the one before, at least one,
  /// and other ranks wait for it.
  double prompt_time(std::size_t kind, int instances) {
    if (!is_open()) return prompt_time(kind);
    const double ranks = kinds_[kind].dp(), pass = prompt_time(kind) * ranks;
    return pass / std::clamp(demand_.arrivals / instances * pass, 1.0, ranks);
  }

  /// Requests of an instance: a fixed one of the loop's, or as many as arrive while one of them is
  /// served, which is `prompt` per request that shares the instance, and a pass per token.
  double in_flight(std::size_t kind, int instances, double prompt) {
    if (!is_open()) return std::max(1.0, demand_.in_flight / instances);
    const double arrivals = demand_.arrivals / instances;
    double sequences = 1;
    for (int step = 0; step < most_steps && sequences < demand_.in_flight; ++step) {
      const double served =
          prompt * sequences + demand_.output * rates_.decode_time(kind, sequences);
      const double next = std::clamp(arrivals * served, 1.0, demand_.in_flight);
      const bool settled = next < sequences * (1 + as_good / 10);
      sequences = std::max(sequences, next);
      if (settled) break;
    }
    return sequences;
  }

  void add_one_pool(std::size_t kind, int instances) {
    const double prompt = prompt_time(kind, instances);
    const double sequences = in_flight(kind, instances, prompt);
    const double request =
        prompt + demand_.output * rates_.decode_time(kind, sequences) / sequences;
    add({kind, kind, instances, 0}, request * sequences / demand_.output, instances / request);
  }

  /// For each number of decoding instances as many that compute prompts as the rest has room for,
  /// or as keep up with what arrives.
  void add_apart(std::size_t prompts, std::size_t decode) {
    const double needed = std::ceil(demand_.arrivals * prompt_time(prompts) / most_busy);
    for (int d = 1; d * kinds_[decode].gpus < demand_.gpus; ++d) {
      int p = (demand_.gpus - d * kinds_[decode].gpus) / kinds_[prompts].gpus;
      if (is_open()) p = static_cast<int>(std::min<double>(p, std::max(1.0, needed)));
      if (p > 0) add_pools(prompts, p, decode, d);
    }
  }

  void add_pools(std::size_t prompts, int prompt_instances, std::size_t decode,
                 int decode_instances) {
    const double sequences = in_flight(decode, decode_instances, 0);
    const double tpot = rates_.decode_time(decode, sequences);
    const double decoded = decode_instances * sequences / (tpot * demand_.output);
    const double computed = prompt_instances / prompt_time(prompts);
    add({prompts, decode, prompt_instances, decode_instances}, tpot, std::min(decoded, computed));
  }

  /// `requests`: per second, at most.
  void add(const ServingPlan& plan, double tpot, double requests) {
    const int used = plan.prompt_instances * kinds_[plan.prompts].gpus +
                     plan.decode_instances * kinds_[plan.decode].gpus;
    const double served = is_open() ? std::min(requests, demand_.arrivals) : requests;
    const int gpus = is_open() ? used : demand_.gpus;
    plans_.push_back(
        {plan, served * demand_.output / gpus, tpot, requests >= demand_.arrivals * (1 - as_good)});
  }

  static constexpr int most_steps = 100;
  static constexpr double as_good = 1e-3;

  const std::vector<ServingInstanceKind>& kinds_;
  const ServingDemand& demand_;
  KindRates& rates_;
  std::vector<RoughPlan> plans_;
};

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

int choices_apart(const std::vector<ServingInstanceKind>& kinds, const ServingPlan& a,
                  const ServingPlan& b) {
  constexpr int many = 9;
  const auto apart = [&](std::size_t of_a, std::size_t of_b) {
    const ServingInstanceKind &one = kinds[of_a], &other = kinds[of_b];
    if (one.gpus != other.gpus) return many;
    const bool experts = one.ep != other.ep || one.etp != other.etp;
    // Other degrees of experts may have other policies.
    const bool policy = !experts && one.policy != other.policy;
    return (one.tp != other.tp ? 1 : 0) + (experts ? 1 : 0) + (policy ? 1 : 0) +
           (one.besides != other.besides ? 1 : 0);
  };
  if (a.prompt_instances != b.prompt_instances || a.decode_instances != b.decode_instances) {
    return many;
  }
  return apart(a.prompts, b.prompts) + (a.decode_instances > 0 ? apart(a.decode, b.decode) : 0);
}

std::vector<ServingPlan> with_fewer_instances(const ServingPlan& plan) {
  std::vector<ServingPlan> plans;
  if (plan.prompt_instances > 1) --plans.emplace_back(plan).prompt_instances;
  if (plan.decode_instances > 1) --plans.emplace_back(plan).decode_instances;
  return plans;
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
  std::vector<RoughPlan> plans = PlanMaker(kinds, demand, rates).all();
  const auto good = [&](const RoughPlan& plan) {
    return plan.keeps_up && (most_tpot == 0 || plan.tpot <= most_tpot);
  };
  std::ranges::stable_sort(plans, [&](const RoughPlan& a, const RoughPlan& b) {
    return std::tuple(good(a), good(a) ? a.rate : 0, -a.tpot) >
           std::tuple(good(b), good(b) ? b.rate : 0, -b.tpot);
  });
  return plans;
}

}  // namespace moesim
