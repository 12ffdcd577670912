// SPDX-License-Identifier: Apache-2.0
// Calibrations on hardware that only counts.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "realhw/calibrate/kernel_plans.h"
#include "realhw/calibrate/rounds.h"
#include "sim/base/data_files.h"
#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/topology/reader.h"

namespace moesim {

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
  int sms() const override { return sms_of_gpu; }
  std::unique_ptr<StepRunner> runner(const RealStep& step) override {
    if (runners++ == fault) throw std::runtime_error("unplugged");
    return std::make_unique<Runner>(*this, step.plan.ops.size());
  }
  int runners = 0, runs = 0, fault = -1, sms_of_gpu = 0, compared = 0;
  std::int64_t wrong = 0;  // bytes, when they are compared next

 private:
  class Runner : public StepRunner {
   public:
    Runner(CountingBackend& backend, std::size_t ops) : backend_(backend), ops_(ops) {}
    std::vector<Stamp> run(bool) override {
      ++backend_.runs;
      const Clock::time_point now = Clock::now();
      return std::vector<Stamp>(ops_, {now, now + std::chrono::milliseconds(1)});
    }
    void poison() override {}
    Comparison compare(const CompareOptions& options) override {
      backend_.compared = options.tokens;
      Comparison c;
      c.wrong_bytes = std::exchange(backend_.wrong, 0);
      return c;
    }

   private:
    CountingBackend& backend_;
    std::size_t ops_;
  };
};

struct MeasuredCalibration {
  MeasuredCalibration()
      : topology(parse_topology("nodes: 1\nnode: {gpu: h100-sxm, gpus: 1}\n", "t").topology),
        model(read_moe_model(data_file("models/moe", "tiny-moe"))),
        micros(kernel_plans(topology, model, {.rows = 4, .most = Bytes(4096)})) {
    for (const MicroPlan& plan : micros) plans.push_back(&plan);
    const auto folder = std::filesystem::path(::testing::TempDir()) / "moesim_rounds";
    std::filesystem::create_directories(folder);
    path = folder / "times.jsonl";
  }
  void measure(bool resume) {
    Times times;
    std::string before;
    if (resume) {
      before = read_file(path);
      times = read_times(path).times;
      check_times(times, plans, options, path);
    }
    TimesFile file(path, head(), before);
    measure_rounds(
        job, backend, plans, ExpertShape(model), options, times,
        [&](const std::string& plan, int round, const std::vector<Timeline>& timelines) {
          file.add(plan, round, timelines);
        },
        [&](const std::string& plan, int round) { told.emplace_back(plan, round); });
    measured = times;
  }
  TimesHead head() const {
    TimesHead h;
    h.origin = {"1.2.3",
                {"t", "m", {"model.hidden=64"}, true, 2, 0.5, 16},
                "t",
                "m hidden=64",
                "hash",
                1,
                ExpertShape(model),
                options,
                identity_of(plans, options)};
    h.provenance = {"1.2.4",
                    "moesim-hw calibrate -o \"x\"",
                    "today",
                    "counting",
                    "",
                    "",
                    {"a processor"},
                    {"b", "a"},
                    0,
                    {}};
    h.provenance.set_origin(h.origin);
    return h;
  }
  /// What a file of times with this content is refused for.
  std::string complaint(const std::string& content) const {
    write_file(path, content);
    try {
      check_times(read_times(path).times, plans, options, path);
    } catch (const Error& e) {
      EXPECT_EQ(e.diagnostics()[0].file, path) << e.what();
      return e.what();
    }
    return "";
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
  std::vector<std::pair<std::string, int>> told;  // plan and round
};

}  // namespace moesim
