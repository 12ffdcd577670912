// SPDX-License-Identifier: Apache-2.0
#include "sim/evidence/bubble_formula.h"

#include <algorithm>

#include "sim/planner/pipeline/ideal_times.h"

namespace moesim {
namespace {

/// Turns of a pipeline by kind, in all stages together.
struct TurnCounts {
  int forward = 0, backward = 0, input_gradient = 0, weight_gradient = 0, merged = 0;

  void add(const Turn& turn) {
    if (turn.beside) {
      ++merged;
      return;
    }
    const WorkKind kind = turn.work.kind;
    ++(kind == WorkKind::forward          ? forward
       : kind == WorkKind::backward       ? backward
       : kind == WorkKind::input_gradient ? input_gradient
                                          : weight_gradient);
  }
};

TurnCounts counts_of(const Pipeline& pipeline) {
  TurnCounts counts;
  for (const TurnAt at : pipeline.order()) counts.add(pipeline.at(at));
  return counts;
}

Seconds each(Seconds all, int count) { return all * (1.0 / std::max(1, count)); }

TurnCosts mean_costs(const Pipeline& pipeline, const std::vector<TurnTimes>& stages) {
  const TurnCounts counts = counts_of(pipeline);
  const auto all = [&](TurnPart part) {
    return mean_of(stages).of(part) * static_cast<double>(stages.size());
  };
  TurnCosts costs;
  costs.forward = each(all(TurnPart::forward), counts.forward);
  costs.weight_gradient = each(all(TurnPart::weights), counts.weight_gradient);
  costs.merged = each(all(TurnPart::merged), counts.merged);
  // A whole backward has the weight gradients in it, and that of inputs has not.
  costs.input_gradient =
      each(all(TurnPart::backward) - costs.weight_gradient * static_cast<double>(counts.backward),
           counts.backward + counts.input_gradient);
  return costs;
}

}  // namespace

std::optional<Seconds> formula_bubble(const Pipeline& pipeline,
                                      const std::vector<TurnTimes>& stages) {
  const TurnCosts costs = mean_costs(pipeline, stages);
  const double p = pipeline.stages();
  const Seconds f = costs.forward, w = costs.weight_gradient, b = costs.input_gradient + w;
  switch (pipeline.shape().kind) {
    case PipelineKind::gpipe:
    case PipelineKind::one_f_one_b:
    case PipelineKind::interleaved:  // of one chunk
      return (f + b) * (p - 1);
    case PipelineKind::zb1p:
      return (f + b - w * 2.0) * (p - 1);
    case PipelineKind::dualpipe:
      return (costs.merged + b - w * 3.0) * (p / 2 - 1);
    case PipelineKind::dualpipev:
      return (costs.merged + b - w * 3.0) * (p - 1);
    case PipelineKind::combined:
    case PipelineKind::combined_interleaved:
    case PipelineKind::zbv:  // of passes that all take alike
    case PipelineKind::v_half:
    case PipelineKind::v_min:
      break;
  }
  return std::nullopt;
}

}  // namespace moesim
