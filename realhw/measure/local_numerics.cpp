// SPDX-License-Identifier: Apache-2.0
#include "realhw/measure/local_numerics.h"

#include "realhw/host/local_run.h"
#include "realhw/measure/measure.h"
#include "sim/base/unsuitable.h"
#include "sim/report/table.h"

namespace moesim {
namespace {

/// One execution of a step by all its ranks in this process.
Comparison run_once(const ExecutableStep& step, const StepsOrigin& origin,
                    const CompareOptions& options) {
  const RealStep real = real_step(step, origin);
  auto ranks = all_ranks(real);
  run_locally(ranks);
  Comparison sum;
  for (auto& rank : ranks) sum += compare(real, rank->program, rank->device, options);
  return sum;
}

}  // namespace

Numerics local_numerics(StepSource& source, std::size_t policy, const CompareOptions& options) {
  Numerics result;
  result.policy = source.policies()[policy];
  try {
    source.begin(policy);
    while (const auto step = source.next()) {
      result.compared += run_once(*step, source.origin(), options);
      ++result.steps;
    }
  } catch (const Unsuitable& e) {
    result.unsuitable = e.what();
  }
  return result;
}

std::string numerics_table(const std::vector<Numerics>& cases) {
  std::vector<std::vector<std::string>> rows = {
      {"policy", "steps", "outputs", "input gradients", "weight gradients", "#wrong"}};
  for (const Numerics& n : cases) {
    if (!n.unsuitable.empty()) {
      rows.push_back({n.policy, "-", "-", "-", "-", "-"});
      continue;
    }
    rows.push_back({n.policy, std::to_string(n.steps), std::to_string(n.compared.outputs),
                    std::to_string(n.compared.input_gradients),
                    std::to_string(n.compared.weight_gradients),
                    std::to_string(n.compared.wrong())});
  }
  return align(rows, 1);
}

}  // namespace moesim
