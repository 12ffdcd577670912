// SPDX-License-Identifier: Apache-2.0
#include "sim/run/step_timelines.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "sim/run/memory_views.h"

namespace moesim {
namespace {

/// What the fullest GPU holds from the start of each turn of its stage on; turns of only weight
/// gradients count to the turn before them.
std::vector<MemoryMoment> moments_of(const PlannedStep& planned, const Pipeline& pipeline,
                                     GpuId gpu, const Timeline& timeline) {
  std::map<std::tuple<int, int, bool>, Seconds> starts;  // by microbatch, chunk, backward
  for (std::size_t i = 0; i < timeline.ops.size(); ++i) {
    const Op& op = planned.plan.ops[i];
    const std::size_t member = op.group.member(gpu);
    if (member == op.group.size() || op.stream != Stream::compute) continue;
    const Seconds start = timeline.ops[i][member].start;
    const bool backward = op.key.pass == Pass::backward;
    const auto [at, fresh] = starts.try_emplace({op.key.microbatch, op.key.chunk, backward}, start);
    if (!fresh) at->second = std::min(at->second, start);
  }
  const Timetable& turns = pipeline.of(planned.memory.peaks[gpu.index()].stage);
  std::vector<MemoryMoment> moments;
  for (std::size_t t = 0; t < std::min(turns.size(), planned.memory.curve.size()); ++t) {
    const StageWork& work = turns[t].work;
    const bool backward = work.kind != WorkKind::forward;
    const auto start = starts.find({work.microbatch, work.chunk, backward});
    if (work.kind == WorkKind::weight_gradient || start == starts.end()) continue;
    MemoryMoment& moment = moments.emplace_back(MemoryMoment{start->second, {}});
    for (int p = 0; p < memory_part_count; ++p) {
      const auto part = static_cast<MemoryPart>(p);
      const Bytes bytes = planned.memory.curve[t].of(part);
      moment.parts.emplace_back(name_of(part), static_cast<double>(bytes.value));
    }
  }
  std::ranges::stable_sort(moments, {}, [](const MemoryMoment& m) { return m.from.value; });
  return moments;
}

}  // namespace

StepTimelines::StepTimelines(const TimelineFile* file, int worker, std::vector<std::string> names,
                             const Topology& topology, const Planner& planner)
    : file_(file),
      worker_(worker),
      names_(std::move(names)),
      topology_(topology),
      planner_(planner) {
  if (file_ != nullptr) events_.emplace(file_->events(worker_));
}

void StepTimelines::open_case(const PlannedStep& planned) {
  const std::vector<int> stages = stages_of(planned.memory);
  const auto index = worker_ * static_cast<int>(names_.size()) + static_cast<int>(cases_.size());
  cases_.emplace_back(*events_,
                      file_->named_case(index, names_[cases_.size()],
                                        chosen_ranks(file_->choice(), planned.plan.gpus, stages)),
                      topology_);
}

/// Turn by turn of the fullest GPU; of MoE layers by themselves that of every rank, which is there
/// all the time.
void StepTimelines::add_memory(std::size_t fidelity, const PlannedStep& planned,
                               const Timeline& timeline) {
  const MemoryPeaks& peaks = planned.memory.peaks;
  if (!planner_.spec().only_layers) {
    const GpuId gpu = fullest(peaks);
    const Pipeline& pipeline = planner_.shape().pipeline;
    cases_[fidelity].add_memory(gpu, moments_of(planned, pipeline, gpu, timeline));
    return;
  }
  for (const GpuId gpu : chosen_ranks(file_->choice(), planned.plan.gpus)) {
    const Bytes held = peaks[gpu.index()].use.total();
    cases_[fidelity].add_memory(gpu, {{Seconds(0), {{"all", static_cast<double>(held.value)}}}});
  }
}

void StepTimelines::add(std::size_t fidelity, const PlannedStep& planned, const PricedPlan& priced,
                        const Timeline& timeline, int index, const std::string& title) {
  if (file_ == nullptr || index >= file_->choice().steps) return;
  if (fidelity == cases_.size()) open_case(planned);
  add_memory(fidelity, planned, timeline);
  cases_[fidelity].add(priced, timeline, title);
}

void StepTimelines::finish() {
  if (events_) events_->flush();
}

}  // namespace moesim
