// SPDX-License-Identifier: Apache-2.0
// Small whole iterations for real execution.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "realhw/host/local_run.h"
#include "sim/scenario/executable_steps.h"

namespace moesim {

/// Paths in the scenario and values.
using Changes = std::vector<std::pair<std::string, std::string>>;

/// The shipped scenario with changes, its first policy planned.
class RealIteration {
 public:
  explicit RealIteration(const Changes& changes)
      : scenario_(read_scenario(MOESIM_ROOT "/scenarios/iteration-hardware.yaml", flags(changes))),
        inputs_(open_inputs(scenario_)) {
    ExecutableSteps planned(scenario_, inputs_, inputs_.clusters[0], inputs_.systems[0]);
    step_ = planned.next();
    const MoeModel& model = inputs_.model;
    real_ = std::make_unique<RealStep>(
        step_.plan, ExpertShape(model),
        std::vector<RoutedLayer>(step_.layers.begin(), step_.layers.end()));
    real_->iteration = step_.iteration;
  }

  std::vector<std::unique_ptr<LocalRank>>& ranks() {
    if (ranks_.empty()) ranks_ = all_ranks(*real_);
    return ranks_;
  }
  Comparison compare_all() {
    Comparison sum;
    for (auto& rank : ranks()) sum += compare(*real_, rank->program, rank->device);
    return sum;
  }
  Comparison run(const Tamper& tamper = {}) {
    run_locally(ranks(), tamper);
    return compare_all();
  }
  ExecutableStep& step() { return step_; }
  const RealStep& real() const { return *real_; }

 private:
  static std::vector<Override> flags(const Changes& changes) {
    // As small as it can be with every kind of part.
    std::vector<Override> list = {{"set", "model.hidden=32", "test"},
                                  {"set", "model.expert_ffn=8", "test"},
                                  {"set", "model.dense_ffn=24", "test"},
                                  {"set", "model.shared_ffn=8", "test"},
                                  {"set", "model.attention.head_dim=8", "test"},
                                  {"set", "model.vocabulary=40", "test"},
                                  {"batch.sequence", "4", "test"}};
    for (const auto& [path, value] : changes) list.push_back({path, value, "test"});
    return list;
  }

  Scenario scenario_;
  Inputs inputs_;
  ExecutableStep step_;
  std::unique_ptr<RealStep> real_;
  std::vector<std::unique_ptr<LocalRank>> ranks_;
};

}  // namespace moesim
