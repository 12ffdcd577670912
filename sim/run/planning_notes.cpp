// SPDX-License-Identifier: Apache-2.0
#include "sim/run/planning_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/figures.h"
#include "sim/base/units.h"

namespace moesim {

std::vector<std::string> planning_notes(const Planner& planner, const ClusterInput& cluster,
                                        const PlanningRecord& record) {
  const std::vector<FirstPlan> plans = planner.layer_planner().first_plans();
  std::vector<std::string> notes = planner.layer_planner().notes();
  std::ranges::move(planner.placement_notes(), std::back_inserter(notes));
  const std::size_t of_kernels = notes.size();
  for (const FirstPlan& plan : plans) {
    if (plan.after < record.played) continue;
    notes.push_back(fmt::format("never {}: that first happens after {} step{}, the run has {}",
                                plan.done, plan.after, plan.after == 1 ? "" : "s", record.played));
  }
  if (notes.size() == of_kernels && !plans.empty() && record.replans == 0) {
    notes.push_back(
        fmt::format("never planned: nothing called for it in {}", counted(record.played, "step")));
  }
  if (const std::string why = planner.layer_planner().forced(); !why.empty()) notes.push_back(why);
  const bool looks_back =
      std::any_of(plans.begin(), plans.end(), [](const FirstPlan& plan) { return plan.after > 0; });
  if (looks_back && cluster.first_step > 0 && cluster.warmup.empty()) {
    notes.push_back(
        fmt::format("started cold at step {}: no step before it was seen (--warmup {} shows them)",
                    cluster.first_step, cluster.first_step));
  }
  return notes;
}

std::string cannot_run(const Planner& planner, const RunMetrics& metrics, MemoryCheck memory) {
  std::string why = planner.layer_planner().cannot_run();
  const auto& serving = planner.spec().spec.serving;
  if (!serving || !metrics.iteration || memory == MemoryCheck::ignore) return why;
  const FullestGpu& gpu = metrics.iteration->fullest;
  const Bytes share(std::llround(serving->kv_fraction * static_cast<double>(gpu.memory.value)));
  if (gpu.peak <= share || !gpu.fits()) return why;
  return why + fmt::format(
                   "{}an engine does not hold this pass: GPU {} needs {}, memory_fraction {:g} of "
                   "it is {}",
                   why.empty() ? "" : "; ", gpu.gpu.value, to_string(gpu.peak),
                   serving->kv_fraction, to_string(share));
}

std::vector<std::string> iteration_notes(const Planner& planner, const ClusterInput& cluster,
                                         const IterationFigures& figures) {
  std::vector<std::string> notes = planner.layer_planner().notes();
  std::ranges::move(planner.placement_notes(), std::back_inserter(notes));
  if (const FullestGpu& gpu = figures.fullest; !gpu.fits()) {
    notes.push_back(fmt::format("does not fit (!): GPU {} has {} and needs {} {}", gpu.gpu.value,
                                to_string(gpu.memory), to_string(gpu.peak), gpu.when));
  }
  if (const int few = figures.simulated_gpus; few > 0) {
    notes.push_back(
        fmt::format("simulated by {} of {} GPUs, because the others do the same (--every-gpu: all)",
                    few, cluster.topology.gpu_count()));
  }
  if (const int few = figures.simulated_microbatches; few > 0) {
    notes.push_back(
        fmt::format("simulated {} of {} microbatches and continued their steady state: within {}, "
                    "parts within {} (--every-microbatch: all)",
                    few, planner.shape().microbatches, to_string(figures.continued_error),
                    to_string(figures.continued_drift)));
  }
  if (const std::string why = planner.layer_planner().forced(); !why.empty()) notes.push_back(why);
  if (!planner.plans_from_loads() || planner.replanned()) return notes;
  const std::vector<FirstPlan> plans = planner.layer_planner().first_plans();
  const auto first = std::ranges::min_element(plans, {}, &FirstPlan::after);
  const bool late = first != plans.end() && first->after > 1;
  notes.push_back(
      fmt::format("never planned from loads: it has seen too few {}{} (--warmup N shows it N more)",
                  planner.spec().serves() ? "steps" : "iterations",
                  late ? fmt::format(", and plans after {}", first->after) : ""));
  return notes;
}

/// Two halves of what is sent and received: a row per expert and token, without the counts
/// (published: deepseek-ai/DeepEP, csrc/config.hpp LowLatencyLayout).
std::string low_latency_note(const SystemSpec& system, const MoeModel& model, std::int64_t tokens) {
  constexpr std::int64_t most = 256;  // published: its README, of a decoding engine
  if (system.dispatch.name != "deepep-low-latency" || tokens <= most) return "";
  constexpr std::int64_t halves = 2, of_scale = 128;
  const std::int64_t row = 2 * model.hidden + 4 * (model.hidden / of_scale);
  const Bytes buffers(halves * 2 * model.experts * tokens * row);
  return fmt::format(
      "takes kernels that are for at most {} tokens per GPU: vLLM cuts a pass of {} in chunks, "
      "which is not simulated, or buffers take {} of a GPU, which are not counted; deepep-normal "
      "is for prompts",
      most, tokens, to_string(buffers));
}

std::string low_latency_note(const SystemSpec& system, const MoeModel& model,
                             const IterationSpec& spec) {
  if (!spec.serving) return "";
  std::int64_t most = 0;
  for (const auto& list : spec.serving->batch.ranks) most = std::max(most, tokens_of(list));
  return low_latency_note(system, model, most / spec.parallel.tp);
}

}  // namespace moesim
