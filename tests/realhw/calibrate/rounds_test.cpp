// SPDX-License-Identifier: Apache-2.0
// Rounds on hardware that only counts, and calibrations that are interrupted.
#include "realhw/calibrate/rounds.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <stdexcept>

#include "realhw/calibrate/kernel_plans.h"
#include "sim/base/data_files.h"
#include "sim/base/files.h"
#include "sim/topology/reader.h"

namespace moesim {
namespace {

/// A rank by itself.
class LoneJob : public Job {
 public:
  int rank() const override { return 0; }
  int ranks() const override { return 1; }
  std::string launcher() const override { return "a test"; }
  std::vector<std::string> gather(const std::string& mine) override { return {mine}; }
  std::string broadcast(const std::string& of_first) override { return of_first; }
  void barrier() override {}
  void send(int, const std::string&) override {}
  std::string receive(int) override { return {}; }
  void abort(int) override { throw std::logic_error("aborted"); }
};

/// Every op takes a millisecond; the fault comes after so many runners.
class CountingBackend : public HardwareBackend {
 public:
  std::string name() const override { return "counting"; }
  std::string description() const override { return "nothing"; }
  std::unique_ptr<StepRunner> runner(const RealStep& step) override {
    if (runners++ == fault) throw std::runtime_error("unplugged");
    return std::make_unique<Runner>(*this, step.plan.ops.size());
  }
  int runners = 0, runs = 0, fault = -1;
  std::int64_t wrong = 0;

 private:
  class Runner : public StepRunner {
   public:
    Runner(CountingBackend& backend, std::size_t ops) : backend_(backend), ops_(ops) {}
    std::vector<Stamp> run(bool) override {
      ++backend_.runs;
      const Clock::time_point now = Clock::now();
      return std::vector<Stamp>(ops_, {now, now + std::chrono::milliseconds(1)});
    }
    Comparison compare(const CompareOptions&) override {
      Comparison c;
      c.wrong_bytes = backend_.wrong;
      return c;
    }

   private:
    CountingBackend& backend_;
    std::size_t ops_;
  };
};

struct Calibration {
  Calibration()
      : topology(parse_topology("nodes: 1\nnode: {gpu: h100-sxm, gpus: 1}\n", "t").topology),
        model(read_moe_model(data_file("models/moe", "tiny-moe"))),
        micros(kernel_plans(topology, model, {.rows = 4, .most = Bytes(4096)})) {
    for (const MicroPlan& plan : micros) plans.push_back(&plan);
    const auto folder = std::filesystem::path(testing::TempDir()) / "moesim_rounds";
    std::filesystem::create_directories(folder);
    path = folder / "times.jsonl";
  }
  void measure(bool resume) {
    const std::string identity = identity_of(plans, options);
    Times times;
    if (resume) times = parse_times(read_file(path), path, identity);
    TimesFile file(path, identity, resume);
    measure_rounds(
        job, backend, plans, ExpertShape(model), options, times,
        [&](const std::string& plan, int round, const std::vector<Timeline>& timelines) {
          file.add(plan, round, timelines);
        },
        [](const std::string&, int) {});
    measured = times;
  }
  Topology topology;
  MoeModel model;
  std::vector<MicroPlan> micros;
  std::vector<const MicroPlan*> plans;
  RoundOptions options{.rounds = 2, .repeats = 3};
  std::string path;
  LoneJob job;
  CountingBackend backend;
  Times measured;
};

TEST(Rounds, MeasureEveryPlanInEveryRound) {
  Calibration c;
  c.measure(false);
  const int count = static_cast<int>(c.plans.size());
  EXPECT_EQ(c.backend.runners, 2 * count);
  EXPECT_EQ(c.backend.runs, 2 * count * (1 + 3));
  for (const MicroPlan* plan : c.plans) {
    const auto timelines = timelines_of(c.measured, plan->name);
    ASSERT_EQ(timelines.size(), 6u);
    EXPECT_NEAR(timelines[0].ops[0][0].end.value - timelines[0].ops[0][0].start.value, 1e-3, 1e-9);
  }
}

TEST(Rounds, GoOnWhereTheyWereInterrupted) {
  Calibration c;
  c.backend.fault = 3;
  EXPECT_THROW(c.measure(false), std::runtime_error);
  const int count = static_cast<int>(c.plans.size());
  c.backend = {};
  c.measure(true);
  EXPECT_EQ(c.backend.runners, 2 * count - 3);
  EXPECT_EQ(timelines_of(c.measured, c.plans[0]->name).size(), 6u);
  c.backend = {};
  c.measure(true);
  EXPECT_EQ(c.backend.runners, 0);
}

TEST(Rounds, MeasureALineThatWasCutShortAgain) {
  Calibration c;
  c.measure(false);
  const std::string text = read_file(c.path);
  write_file(c.path, text.substr(0, text.size() - 10));
  c.backend = {};
  c.measure(true);
  EXPECT_EQ(c.backend.runners, 1);
  EXPECT_EQ(parse_times(read_file(c.path), c.path, identity_of(c.plans, c.options)).size(),
            c.plans.size());
}

TEST(Rounds, RefuseTimesOfOtherPlansAndBrokenOnes) {
  Calibration c;
  c.measure(false);
  c.options.rounds = 3;
  EXPECT_THROW(c.measure(true), Error);
  EXPECT_THROW(parse_times("hello\n", "f", "x"), Error);
  c.options.rounds = 2;
  write_file(c.path, read_file(c.path) + "{\"plan\": 3}\n");
  try {
    c.measure(true);
    FAIL();
  } catch (const Error& e) {
    EXPECT_GT(e.diagnostics().front().line, 1);
  }
}

TEST(Rounds, EndWithWrongNumbers) {
  Calibration c;
  c.backend.wrong = 1;
  EXPECT_THROW(c.measure(false), std::runtime_error);
}

}  // namespace
}  // namespace moesim
