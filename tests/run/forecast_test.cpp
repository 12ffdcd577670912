// SPDX-License-Identifier: Apache-2.0
#include "sim/run/forecast.h"

#include <gmock/gmock.h>

#include <functional>
#include <utility>

#include "sim/topology/reader.h"

namespace moesim {
namespace {

/// Is a quarter through with every plan, and says that one takes six seconds.
class SlowBackend : public SimulatedBackend {
 public:
  using SimulatedBackend::SimulatedBackend;
  Timeline run(const PricedPlan&) override {
    watch()(0.25);
    return {};
  }
  Seconds likely_time(const PricedPlan&) const override { return Seconds(6); }
};

class Forecasts : public testing::Test {
 protected:
  Forecasts() {
    backends_.push_back(std::make_unique<SlowBackend>(topology_));
    backends_.push_back(std::make_unique<SlowBackend>(topology_));
    plan_.gpus = 2;
  }
  Topology topology_ = std::move(
      parse_topology("nodes: 1\nnode: {gpu: test, gpus: 2, nvlink: {kind: switch, bandwidth: 1 "
                     "GB/s, latency: 0 us}}\n",
                     "t.yaml")
          .topology);
  Plan plan_;
  std::vector<std::unique_ptr<SimulatedBackend>> backends_;
};

TEST_F(Forecasts, SayHowLongManyPlansTake) {
  const PricedPlan priced(plan_, topology_);
  EXPECT_EQ(forecast(backends_, priced, 10), "likely to take 2 min (12 s for each of 10 steps)");
  EXPECT_EQ(forecast(backends_, priced, 1), "likely to take 12 s");
  backends_.pop_back();
  EXPECT_EQ(forecast(backends_, priced, 1), std::nullopt);
}

TEST_F(Forecasts, AreToldOnceAndBackendsSayHowFarTheyAre) {
  const PricedPlan priced(plan_, topology_);
  std::vector<double> steps;
  std::vector<std::string> notes;
  const JobProgress progress{[&](double step, int) { steps.push_back(step); },
                             [&](const std::string& text) { notes.push_back(text); }};
  for (int number = 0; number < 2; ++number) {
    report_progress(backends_, priced, number, 2, progress);
    EXPECT_EQ(notes.size(), 1U) << "before the first step";
    for (const auto& backend : backends_) backend->run(priced);
  }
  EXPECT_THAT(steps, testing::ElementsAre(0.125, 0.625, 1.125, 1.625));
  EXPECT_THAT(notes, testing::ElementsAre("likely to take 24 s (12 s for each of 2 steps)"));
}

}  // namespace
}  // namespace moesim
