// SPDX-License-Identifier: Apache-2.0
#include "realhw/measure/planned_source.h"

#include "sim/scenario/executable_steps.h"

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
    const auto [scenario, inputs, system] = view_of(scenario_, inputs_, policy);
    steps_.emplace(scenario, inputs, inputs.clusters[0], system);
  }
  std::optional<ExecutableStep> next() override {
    if (steps_->done()) return std::nullopt;
    return steps_->next();
  }

 private:
  Scenario scenario_;
  Inputs inputs_;
  StepsOrigin origin_;
  std::optional<ExecutableSteps> steps_;
};

}  // namespace

std::unique_ptr<StepSource> planned_source(Scenario scenario, Inputs inputs) {
  return std::make_unique<PlannedSource>(std::move(scenario), std::move(inputs));
}

}  // namespace moesim
