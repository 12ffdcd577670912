// SPDX-License-Identifier: Apache-2.0
// Plans of a few tokens that a test writes down, step after step.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "sim/plan/delivery.h"
#include "sim/planner/iteration/planner.h"
#include "tests/mechanism/random_layers.h"
#include "tests/mechanism/routing/recorded_layer.h"

namespace moesim {

/// Steps of equal tokens, dealt evenly to all GPUs.
class HandSteps {
 public:
  HandSteps(int nodes, int gpus, int experts, const Rows& tokens, int steps, int shared_ffn = 0,
            int hash_layers = 0)
      : topology_(bare_nodes(nodes, gpus)),
        info_{"t", "toy", experts, static_cast<int>(tokens[0].size()), {0}, Phase::synthetic, ""},
        trace_(info_, recorded(tokens, steps)) {
    model_.hidden = 1024;
    model_.experts = experts;
    model_.top_k = info_.top_k;
    model_.expert_ffn = 128;
    model_.shared_experts = shared_ffn > 0 ? 1 : 0;
    model_.shared_ffn = shared_ffn;
    model_.hash_layers = hash_layers;
    const auto each = static_cast<std::int64_t>(tokens.size()) / topology_.gpu_count();
    for (int s = 0; s < steps; ++s) {
      Batch& batch = batches_.emplace_back(Batch{s, {}});
      for (int g = 0; g < topology_.gpu_count(); ++g) batch.ranks.push_back({{g * each, each}});
    }
  }

  /// The plans of all steps, each of which delivers every token and result once.
  std::vector<PlannedStep> all(const std::string& routing, const std::string& placement,
                               const std::string& dispatch, bool backward = false) const {
    const SystemSpec system = parse_system(
        fmt::format("{{name: t, source: test, routing: {}, placement: {}, dispatch: {}, "
                    "schedule: sequential}}",
                    routing, placement, dispatch),
        "test");
    Planner planner(system, topology_, model_, trace_,
                    PlannerOptions{topology_.gpu_count(), {0}, backward, true});
    std::vector<PlannedStep> plans;
    for (std::size_t s = 0; s < batches_.size(); ++s) {
      plans.push_back(planner.plan(batches_[s], static_cast<int>(s)));
      prove(plans.back());
    }
    return plans;
  }
  PlannedStep last(const std::string& routing, const std::string& placement,
                   const std::string& dispatch) const {
    return std::move(all(routing, placement, dispatch).back());
  }
  std::int64_t rows(const std::string& placement, const std::string& dispatch) const {
    return static_cast<std::int64_t>(
        last("identity", placement, dispatch).layers[0].counts.phases[0].total());
  }

 private:
  void prove(const PlannedStep& planned) const {
    LayerRouting routing{0, {}, planned.layers[0].chosen, &planned.layers[0].assignment()};
    const std::size_t each =
        routing.chosen.size() / static_cast<std::size_t>(topology_.gpu_count());
    for (int g = 0; g < topology_.gpu_count(); ++g) {
      routing.source.insert(routing.source.end(), each, GpuId(g));
    }
    check_delivery(planned.plan, {routing});
  }
  std::vector<std::shared_ptr<const TraceStep>> recorded(const Rows& tokens, int steps) const {
    std::vector<int> ids;
    for (const auto& row : tokens) ids.insert(ids.end(), row.begin(), row.end());
    std::vector<std::shared_ptr<const TraceStep>> all;
    for (int s = 0; s < steps; ++s) {
      StepArrays arrays;
      arrays.ids = IdArray(info_.experts, ids);
      arrays.sequence_lengths = {static_cast<std::int32_t>(tokens.size())};
      all.push_back(make_step(info_, std::move(arrays)));
    }
    return all;
  }

  Topology topology_;
  TraceInfo info_;
  RoutingTrace trace_;
  MoeModel model_;
  std::vector<Batch> batches_;
};

}  // namespace moesim
