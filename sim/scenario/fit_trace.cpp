// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/fit_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "sim/base/counted.h"
#include "sim/base/wire.h"
#include "sim/scenario/input_cache.h"

namespace moesim {
namespace {

/// What all policies have by default; if they differ, the default of plain placements.
int unstated_ep(const Inputs& inputs, int gpus) {
  const int experts = inputs.trace.info().experts;
  const int first = default_ep(inputs.systems.front(), gpus, experts);
  const auto same = [&](const SystemSpec& s) { return default_ep(s, gpus, experts) == first; };
  return std::ranges::all_of(inputs.systems, same) ? first : default_ep(gpus, experts);
}

int choose_ep(const Scenario& scenario, const Inputs& inputs, int gpus) {
  if (!scenario.ep) return unstated_ep(inputs, gpus);
  const int ep = *scenario.ep;
  if (gpus % ep != 0) {
    throw Error(fmt::format("'ep' is {}: it must divide {}", ep, counted(gpus, "GPU")),
                fmt::format("ep {} fits", default_ep(gpus, inputs.trace.info().experts)));
  }
  return ep;
}

/// The first counted step, `total` steps being there. A range of `steps` begins where it says, with
/// the warm-up before it; otherwise the warm-up is taken from all steps.
int first_step(const Scenario& scenario, std::int64_t total) {
  if (scenario.steps.last >= 0) return scenario.steps.first;
  if (scenario.warmup < total) return scenario.warmup;
  throw Error(fmt::format("'warmup' is {}, and the trace makes {}: none is left to count",
                          scenario.warmup, counted(total, "step")),
              "a smaller tokens_per_rank, or repeat, makes more steps");
}

/// Cuts the trace into batches, once for scenarios that do so alike.
SomeBatches batches_of(const Scenario& scenario, const Inputs& inputs, int gpus,
                       InputCache& cache) {
  const BatchOptions options{gpus, scenario.tokens_per_rank, scenario.repeat};
  BatchWindow window;
  if (scenario.steps.last >= 0) {
    window = {std::max(0, scenario.steps.first - scenario.warmup), scenario.steps.last};
  }
  return cache.batches.get(inputs.trace_key + to_bytes(options) + to_bytes(window),
                           [&] { return make_some_batches(inputs.trace, options, window); });
}

/// Takes the warm-up and the counted steps from what was made of the trace.
void keep_steps(const Scenario& scenario, std::int64_t total, ClusterInput& cluster) {
  auto& batches = cluster.batches.batches;
  const StepRange& range = scenario.steps;
  const std::int64_t last = range.last < 0 ? total : range.last;
  if (range.first >= total || last > total) {
    throw Error(
        fmt::format("'steps' asks for step {}, but the trace makes {} on the {} of '{}' (0 to {})",
                    std::max<std::int64_t>(range.first, last - 1), total,
                    counted(cluster.topology.gpu_count(), "GPU"), cluster.file.name, total - 1),
        "a smaller tokens_per_rank, or repeat, makes more steps");
  }
  cluster.first_step = first_step(scenario, total);
  const auto first = batches.begin() + std::min(scenario.warmup, cluster.first_step);
  cluster.warmup.assign(batches.begin(), first);
  batches.erase(batches.begin(), first);
}

void fit(const Scenario& scenario, const Inputs& inputs, ClusterInput& cluster, InputCache& cache) {
  const int gpus = cluster.topology.gpu_count();
  cluster.ep = choose_ep(scenario, inputs, gpus);
  SomeBatches some = batches_of(scenario, inputs, gpus, cache);
  cluster.batches = std::move(some.batches);
  keep_steps(scenario, some.count, cluster);
}

}  // namespace

void fit_trace(const Scenario& scenario, Inputs& inputs, InputCache& cache) {
  std::vector<Diagnostic> refusals;
  std::set<std::string> told;
  bool any = false;
  for (ClusterInput& cluster : inputs.clusters) {
    try {
      fit(scenario, inputs, cluster, cache);
      any = true;
    } catch (const Error& e) {
      cluster.unsuitable = e.diagnostics().front().message;
      for (const Diagnostic& d : e.diagnostics()) {
        if (told.insert(d.str()).second) refusals.push_back(d);
      }
    }
  }
  if (!any) throw Error(refusals);
}

void fit_trace(const Scenario& scenario, Inputs& inputs) {
  InputCache cache;
  fit_trace(scenario, inputs, cache);
}

}  // namespace moesim
