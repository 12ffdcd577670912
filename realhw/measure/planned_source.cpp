// SPDX-License-Identifier: Apache-2.0
#include "realhw/measure/planned_source.h"

#include "sim/scenario/policy_iterations.h"
#include "sim/scenario/policy_steps.h"

namespace moesim {
namespace {

class PlannedSource : public StepSource {
 public:
  PlannedSource(Scenario scenario, Inputs inputs)
      : scenario_(std::move(scenario)),
        inputs_(std::move(inputs)),
        origin_(origin_of(scenario_, inputs_, inputs_.clusters[0], MOESIM_RELEASE)) {}

  const StepsOrigin& origin() const override { return origin_; }
  const Topology& cluster() const override { return inputs_.clusters[0].topology; }
  std::vector<Diagnostic> warnings() const override { return inputs_.warnings; }
  std::vector<std::string> policies() const override {
    std::vector<std::string> names;
    for (const SystemSpec& system : inputs_.systems) names.push_back(system.name);
    return names;
  }
  void begin(std::size_t policy) override {
    steps_.reset();
    iterations_.reset();
    const auto [scenario, inputs, system] = view_of(scenario_, inputs_, policy);
    if (scenario.iteration) {
      iterations_.emplace(scenario, inputs, inputs.clusters[0], system);
    } else {
      steps_.emplace(scenario, inputs, inputs.clusters[0], system);
    }
  }
  std::optional<ExecutableStep> next() override {
    return iterations_ ? next_of(*iterations_) : next_of(*steps_);
  }

 private:
  template <class Steps>
  static std::optional<ExecutableStep> next_of(Steps& steps) {
    if (steps.done()) return std::nullopt;
    return steps.next();
  }

  Scenario scenario_;
  Inputs inputs_;
  StepsOrigin origin_;
  std::optional<PolicySteps> steps_;
  std::optional<PolicyIterations> iterations_;
};

}  // namespace

std::unique_ptr<StepSource> planned_source(Scenario scenario, Inputs inputs) {
  return std::make_unique<PlannedSource>(std::move(scenario), std::move(inputs));
}

}  // namespace moesim
