// SPDX-License-Identifier: Apache-2.0
#include "sim/evidence/validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace moesim {
namespace {

double spread(const std::vector<Seconds>& repeats) {
  const auto [least, most] = std::minmax_element(repeats.begin(), repeats.end());
  return (*most - *least) / repeats[median_index(repeats)];
}

void require_same_plans(const HardwareResult& result, const HardwareCase& measured,
                        const SimulatedCase& simulated) {
  if (measured.steps.size() != simulated.plans.size()) {
    throw error_in(result.file,
                   fmt::format("{}: {} steps were measured, the scenario has {}", measured.policy,
                               measured.steps.size(), simulated.plans.size()));
  }
  for (std::size_t i = 0; i < simulated.plans.size(); ++i) {
    if (measured.steps[i].plan == simulated.plans[i]) continue;
    throw error_in(
        result.file,
        fmt::format("{}: the plan of step {} is not the one that was measured", measured.policy, i),
        "its model, trace, topology or policy has changed since, or moesim has: measure again");
  }
}

PolicyValidation compare(const HardwareCase& measured, const SimulatedCase& simulated) {
  PolicyValidation result;
  result.policy = measured.policy;
  result.wrong = measured.wrong;
  result.simulated_ops = simulated.ops;
  const double share = 1.0 / static_cast<double>(measured.steps.size());
  for (std::size_t i = 0; i < measured.steps.size(); ++i) {
    const HardwareStep& step = measured.steps[i];
    result.measured += step.repeats[median_index(step.repeats)] * share;
    result.spread += spread(step.repeats) * share;
    result.measured_ops.add(step.ops, share);
    result.simulated += simulated.steps[i] * share;
  }
  return result;
}

void find_places(std::vector<PolicyValidation>& policies) {
  std::vector<PolicyValidation*> order;
  for (PolicyValidation& p : policies) order.push_back(&p);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* a, const auto* b) { return a->simulated < b->simulated; });
  for (std::size_t i = 0; i < order.size(); ++i) {
    policies[i].measured_place = static_cast<int>(i) + 1;
    order[i]->simulated_place = static_cast<int>(i) + 1;
  }
}

void check_order(ResultValidation& result) {
  const auto& p = result.policies;
  for (std::size_t fast = 0; fast < p.size(); ++fast) {
    for (std::size_t slow = fast + 1; slow < p.size(); ++slow) {
      ++result.pairs;
      if (p[slow].measured / p[fast].measured <= 1 + order_margin) continue;
      ++result.ordered_pairs;
      if (p[slow].simulated > p[fast].simulated) continue;
      result.misordered.emplace_back(p[fast].policy, p[slow].policy);
    }
  }
}

}  // namespace

double PolicyValidation::error() const { return simulated / measured - 1; }

double Validation::mean_error() const {
  double sum = 0;
  std::size_t count = 0;
  for (const ResultValidation& result : results) {
    for (const PolicyValidation& p : result.policies) sum += std::abs(p.error());
    count += result.policies.size();
  }
  return sum / static_cast<double>(count);
}

std::int64_t Validation::wrong() const {
  std::int64_t sum = 0;
  for (const ResultValidation& result : results) {
    for (const PolicyValidation& p : result.policies) sum += p.wrong;
  }
  return sum;
}

int Validation::misordered() const {
  std::size_t count = 0;
  for (const ResultValidation& result : results) count += result.misordered.size();
  return static_cast<int>(count);
}

std::vector<std::string> Validation::objections() const {
  std::vector<std::string> list;
  if (!(mean_error() <= tolerance)) {
    list.push_back(fmt::format("a mean absolute error of {:.1f} %, beyond {:.1f} %",
                               100 * mean_error(), 100 * tolerance));
  }
  if (const int n = misordered(); n > 0) {
    list.push_back(fmt::format("{} pair{} ordered wrongly", n, n == 1 ? "" : "s"));
  }
  if (wrong() > 0) {
    list.push_back(fmt::format("{} wrong elements, whose times prove nothing", wrong()));
  }
  return list;
}

ResultValidation validate(const HardwareResult& measured,
                          const std::vector<SimulatedCase>& simulated) {
  ResultValidation result;
  result.measured = measured;
  auto of_case = simulated.begin();
  for (const HardwareCase& c : measured.cases) {
    if (!c.unsuitable.empty()) continue;
    require_same_plans(measured, c, *of_case);
    result.policies.push_back(compare(c, *of_case++));
  }
  if (result.policies.empty()) throw error_in(measured.file, "no policy was measured");
  std::stable_sort(result.policies.begin(), result.policies.end(),
                   [](const auto& a, const auto& b) { return a.measured < b.measured; });
  find_places(result.policies);
  check_order(result);
  return result;
}

}  // namespace moesim
