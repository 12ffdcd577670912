// SPDX-License-Identifier: Apache-2.0
#include "realhw/measure/measure.h"

#include <fmt/format.h>

#include <algorithm>

#include "realhw/job/timeline_gatherer.h"

namespace moesim {
namespace {

/// Adds up the comparisons of all ranks.
Comparison over_ranks(Job& job, const Comparison& c) {
  const auto sums =
      sums_over_ranks(job, {c.outputs, c.wrong_outputs, c.input_gradients, c.wrong_input_gradients,
                            c.weight_gradients, c.wrong_weight_gradients, c.wrong_bytes, c.weights,
                            c.wrong_weights});
  return {sums[0], sums[1], sums[2], sums[3], sums[4], sums[5], sums[6], sums[7], sums[8]};
}

/// Adds the metrics of a step that do not depend on measured times.
void add_facts(RunMetrics& metrics, const ExecutableStep& step) {
  metrics.planning += step.planning;
  metrics.loss.dropped += step.dropped_choices;
  metrics.loss.replaced += step.replaced_choices;
  metrics.peak_memory = std::max(metrics.peak_memory, step.peak_memory);
}

}  // namespace

MeasuredTimeline::MeasuredTimeline(const std::string& path, const Topology& cluster, bool named)
    : cluster_(cluster),
      named_(named),
      file_(path),
      events_([this](std::string_view text) { file_.write(text); }) {
  file_.write(start_of_events(MOESIM_RELEASE, "measured: all ranks, repeats of median length"));
}

void MeasuredTimeline::begin(const std::string& policy) {
  std::vector<GpuId> ranks;
  for (int g = 0; g < cluster_.gpu_count(); ++g) ranks.emplace_back(g);
  const int first_process = policies_++ * (cluster_.gpu_count() + 1);
  policy_.emplace(events_, TimelineCase{named_ ? policy : "", first_process, std::move(ranks)},
                  cluster_);
}

void MeasuredTimeline::add(const Plan& plan, const Timeline& timeline, int number) {
  policy_->add(PricedPlan(plan, cluster_), timeline, fmt::format("step {}", number));
}

void MeasuredTimeline::finish() {
  events_.flush();
  file_.write(end_of_events);
  file_.finish();
}

RealStep real_step(const ExecutableStep& step, const StepsOrigin& origin) {
  const ExpertShape shape(origin.hidden, origin.expert_ffn, origin.gated);
  RealStep real{step.plan, shape, {step.layers.begin(), step.layers.end()}};
  real.iteration = step.iteration;
  return real;
}

MeasuredStep measure_step(Job& job, HardwareBackend& backend, const RealStep& step,
                          const MeasureOptions& options) {
  const auto runner = backend.runner(step);
  MeasuredStep result;
  const auto compare_all = [&] {
    result.compared += over_ranks(job, runner->compare({options.compared}));
  };
  runner->run(true);
  compare_all();
  for (int i = 0; i < options.warmup; ++i) runner->run(false);
  const TimelineGatherer clocks(job);
  for (int i = 0; i < options.repeats; ++i) {
    result.repeats.push_back(clocks.gather(step.plan, runner->run(false)));
  }
  // Checks that timed runs compute, too: poison() fills memory with NaN, which a replay that does
  // nothing would leave there.
  runner->poison();
  runner->run(false);
  compare_all();
  return result;
}

Measured measure(Job& job, HardwareBackend& backend, StepSource& source, std::size_t policy,
                 const MeasureOptions& options) {
  Measured result;
  result.policy = source.policies()[policy];
  source.begin(policy);
  if (options.timeline != nullptr) options.timeline->begin(result.policy);
  while (const auto step = source.next()) {
    add_facts(result.metrics, *step);
    const RealStep real = real_step(*step, source.origin());
    const MeasuredStep measured = measure_step(job, backend, real, options);
    result.compared += measured.compared;
    if (job.rank() == 0) add_measured(result, step->plan, measured, source.cluster());
    if (options.timeline != nullptr) {
      options.timeline->add(step->plan, measured.median(), step->number);
    }
  }
  return result;
}

}  // namespace moesim
