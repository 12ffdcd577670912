// SPDX-License-Identifier: Apache-2.0
// What a measurement runs, in which order, and what it adds up over ranks.
#include "realhw/measure/measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sim/base/files.h"
#include "tests/plan/fixtures.h"
#include "tests/realhw/measure/two_gpus.h"
#include "tests/realhw/nccl/thread_job.h"

namespace moesim {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using Calls = std::vector<std::string>;

/// Notes what it is asked for; every op takes 1 s more than in the run before.
class NotingRunner : public StepRunner {
 public:
  NotingRunner(const Plan& plan, Calls& calls) : plan_(plan), calls_(calls) {}
  std::vector<Stamp> run(bool verify) override {
    calls_.push_back(verify ? "verify" : "run");
    ++runs_;
    const Clock::time_point start = Clock::now();
    return std::vector<Stamp>(plan_.ops.size(), {start, start + std::chrono::seconds(runs_)});
  }
  void poison() override { calls_.push_back("poison"); }
  Comparison compare(const CompareOptions& options) override {
    calls_.push_back("compare " + std::to_string(options.tokens));
    return {1, 2, 3, 4, 5, 6, 7, 8, 9};
  }

 private:
  const Plan& plan_;
  Calls& calls_;
  int runs_ = 0;
};

class NotingBackend : public HardwareBackend {
 public:
  explicit NotingBackend(Calls& calls) : calls_(calls) {}
  std::string name() const override { return "noting"; }
  std::string description() const override { return "notes"; }
  std::unique_ptr<StepRunner> runner(const RealStep& step) override {
    return std::make_unique<NotingRunner>(step.plan, calls_);
  }

 private:
  Calls& calls_;
};

Plan kernels_of_both() {
  Plan plan{"plan", 2, {}};
  plan.add(test::kernels("fc1", {0, 1}));
  return plan;
}

void expect_sums(const Comparison& c, std::int64_t times) {
  EXPECT_THAT((std::vector{c.outputs, c.wrong_outputs, c.input_gradients, c.wrong_input_gradients,
                           c.weight_gradients, c.wrong_weight_gradients, c.wrong_bytes, c.weights,
                           c.wrong_weights}),
              ElementsAre(times, 2 * times, 3 * times, 4 * times, 5 * times, 6 * times, 7 * times,
                          8 * times, 9 * times));
}

MeasureOptions options_of(int warmup, int repeats) {
  MeasureOptions options;
  options.warmup = warmup;
  options.repeats = repeats;
  options.compared = 5;
  return options;
}

TEST(MeasureStep, ComparesTheFirstRunAndOneOfPoisonedMemory) {
  const Plan plan = kernels_of_both();
  const RealStep step(plan, ExpertShape(8, 8, false), {});
  std::vector<Calls> calls(2);
  EXPECT_THAT(as_ranks(2,
                       [&](Job& job) {
                         Calls& mine = calls[static_cast<std::size_t>(job.rank())];
                         NotingBackend backend(mine);
                         const auto measured = measure_step(job, backend, step, options_of(2, 3));
                         expect_sums(measured.compared, 2 * 2);
                         ASSERT_EQ(measured.repeats.size(), 3U);
                         if (job.rank() != 0) return;
                         // The 4th to 6th run, as long as their numbers say.
                         EXPECT_NEAR(measured.makespans()[0].value, 4, 0.5);
                         EXPECT_NEAR(measured.median().makespan.value, 5, 0.5);
                       }),
              Each(IsEmpty()));
  EXPECT_THAT(calls, Each(ElementsAre("verify", "compare 5", "run", "run", "run", "run", "run",
                                      "poison", "run", "compare 5")));
}

/// Two steps of one policy that altered the routing.
class TwoSteps : public StepSource {
 public:
  const StepsOrigin& origin() const override { return origin_; }
  const Topology& cluster() const override { return cluster_; }
  std::vector<std::string> policies() const override { return {"first", "second"}; }
  void begin(std::size_t policy) override {
    EXPECT_EQ(policy, 1U);
    given_ = 0;
  }
  std::optional<ExecutableStep> next() override {
    if (given_ == 2) return std::nullopt;
    ExecutableStep step;
    step.plan = kernels_of_both();
    step.number = 7 + given_++;
    step.planning = Seconds(2);
    step.peak_memory = Bytes(given_ == 1 ? 300 : 200);
    step.dropped_choices = 3;
    step.replaced_choices = 5;
    return step;
  }

 private:
  StepsOrigin origin_;
  Topology cluster_ = two_gpus();
  int given_ = 0;
};

TEST(Measure, AddsUpThePolicysSteps) {
  const std::string path = testing::TempDir() + "measured-timeline.json";
  EXPECT_THAT(as_ranks(2,
                       [&](Job& job) {
                         Calls calls;
                         NotingBackend backend(calls);
                         TwoSteps source;
                         MeasureOptions options = options_of(0, 1);
                         std::optional<MeasuredTimeline> timeline;
                         if (job.rank() == 0) {
                           options.timeline = &timeline.emplace(path, source.cluster(), true);
                         }
                         const Measured m = measure(job, backend, source, 1, options);
                         if (timeline) timeline->finish();
                         EXPECT_EQ(m.policy, "second");
                         EXPECT_EQ(m.steps.size(), job.rank() == 0 ? 2U : 0U);
                         EXPECT_EQ(m.metrics.planning, Seconds(4));
                         EXPECT_EQ(m.metrics.peak_memory, Bytes(300));
                         EXPECT_EQ(m.metrics.loss.dropped, 6);
                         EXPECT_EQ(m.metrics.loss.replaced, 10);
                         expect_sums(m.compared, 2 * 2 * 2);
                       }),
              Each(IsEmpty()));
  const auto events = nlohmann::json::parse(read_file(path)).at("traceEvents");
  std::vector<std::string> processes, kernels;
  for (const auto& event : events) {
    if (event["name"] == "process_name") processes.push_back(event["args"]["name"]);
    if (event["name"] == "fc1" && event["ph"] == "X") kernels.push_back(event.dump());
  }
  EXPECT_EQ(kernels.size(), 4U) << "both steps on both ranks";
  EXPECT_THAT(processes, testing::Contains(testing::StartsWith("second")));
  std::remove(path.c_str());
}

TEST(MeasuredTimeline, HasProcessesOfAllGpusAndTheClusterForEachPolicy) {
  const std::string path = testing::TempDir() + "measured-policies.json";
  const Topology cluster = two_gpus();
  MeasuredTimeline file(path, cluster, true);
  for (const char* policy : {"first", "second"}) file.begin(policy);
  file.finish();
  std::vector<std::string> processes;
  const auto events = nlohmann::json::parse(read_file(path)).at("traceEvents");
  for (const auto& event : events) {
    if (event["name"] != "process_name") continue;
    const std::string name = event["args"]["name"];
    processes.push_back(event["pid"].dump() + " " + name.substr(0, name.find(' ')));
  }
  std::remove(path.c_str());
  EXPECT_THAT(
      processes,
      ElementsAre("0 first:", "1 first:", "2 first:", "3 second:", "4 second:", "5 second:"));
}

}  // namespace
}  // namespace moesim
