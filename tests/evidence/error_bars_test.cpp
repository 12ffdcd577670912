// SPDX-License-Identifier: Apache-2.0
// Intervals: formulas, and how many of what they were made for they hold.
#include "sim/evidence/error_bars.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "sim/base/data_files.h"
#include "sim/base/files.h"
#include "sim/base/units.h"
#include "sim/evidence/interval_table.h"
#include "sim/run/simulate.h"
#include "sim/topology/reader.h"
#include "sim/trace/memory_step.h"
#include "sim/trace/writer.h"
#include "tests/scenario/traces.h"

namespace moesim {
namespace {

using testing::HasSubstr;

std::vector<Seconds> seconds(const std::vector<double>& values) {
  std::vector<Seconds> list;
  for (const double v : values) list.emplace_back(v);
  return list;
}

TEST(ErrorBars, StudentsQuantiles) {
  for (const auto& [df, t] : std::vector<std::pair<int, double>>{{1, 6.314},
                                                                 {2, 2.920},
                                                                 {4, 2.132},
                                                                 {5, 2.015},
                                                                 {8, 1.860},
                                                                 {20, 1.725},
                                                                 {1000, 1.646}}) {
    EXPECT_NEAR(student_95(df), t, 2e-3) << df;
  }
}

// Three values 1, 2, 3 have variance 1; their neighbours are not correlated: r = 0 + 1/3.
TEST(ErrorBars, TheMeanOfThreeSteps) {
  const auto sampled = sampled_mean(seconds({1, 2, 3}));
  EXPECT_DOUBLE_EQ(sampled->value, 2);
  EXPECT_NEAR(stretch_of_variance({1, 2, 3}), (1 + 1. / 3) / (1 - 1. / 3), 1e-12);
  EXPECT_NEAR(stretch_of_variance({1, 2, 4}), 55. / 29, 1e-12);  // r = -1/42 + 1/3
  EXPECT_NEAR(sampled->half, 2.920 * std::sqrt(2 * 2 / 3.), 1e-3);
  EXPECT_EQ(sampled_mean(seconds({1})), std::nullopt);
  EXPECT_DOUBLE_EQ(sampled_mean(seconds({1, 2})).value().value, 1.5);
}

TEST(ErrorBars, StepsThatMoveTogetherLeaveNoDoubtOfTheirRatio) {
  const auto sampled = sampled_speedup(seconds({2, 4, 9, 6}), seconds({1, 2, 4.5, 3}));
  EXPECT_DOUBLE_EQ(sampled->value, 2);
  EXPECT_NEAR(sampled->half, 0, 1e-12);
  EXPECT_EQ(sampled_speedup(seconds({1, 2}), seconds({1})), std::nullopt);
  EXPECT_EQ(sampled_speedup(seconds({1}), seconds({1})), std::nullopt);
  EXPECT_DOUBLE_EQ(sampled_speedup(seconds({3, 5}), seconds({1, 1})).value().value, 4);
}

TEST(ErrorBars, MoreStepsAreNeededAsTheSquare) {
  EXPECT_EQ(steps_to_tell({1.1, 0.2}, 10), 40);
  EXPECT_EQ(steps_to_tell({0.9, 0.05}, 10), 3);
  EXPECT_EQ(steps_to_tell({1, 0.2}, 10), std::nullopt);
}

/// The part of so many trials whose second list of n draws has its mean in the interval of the
/// first. `memory`: each draw keeps so much of the one before.
double held_of_draws(int n, double memory) {
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  int held = 0;
  constexpr int trials = 2000;
  for (int trial = 0; trial < trials; ++trial) {
    const auto draw = [&] {
      std::vector<double> list = {normal(random)};
      while (static_cast<int>(list.size()) < n) {
        list.push_back(memory * list.back() + std::sqrt(1 - memory * memory) * normal(random));
      }
      for (double& v : list) v += 10;
      return list;
    };
    const auto first = sampled_mean(seconds(draw()));
    const auto second = sampled_mean(seconds(draw()));
    held += std::abs(second->value - first->value) <= first->half ? 1 : 0;
  }
  return held / static_cast<double>(trials);
}

TEST(ErrorBars, NinetyPercentOfDrawsAreHeld) {
  for (const int n : {5, 10, 30, 100}) {
    EXPECT_GE(held_of_draws(n, 0), 0.89) << n;
    EXPECT_LE(held_of_draws(n, 0), 0.95) << n;
  }
  EXPECT_NEAR(held_of_draws(50, 0.5), 0.9, 0.05);
}

/// One layer of some sequences of a trace of one step, as a trace.
void write_sequences(const RoutingTrace& trace, int layer, const std::vector<std::size_t>& chosen,
                     const std::string& folder) {
  const TraceStep& step = trace.step(0);
  const auto lengths = step.sequence_lengths();
  std::vector<std::int64_t> first(lengths.size() + 1, 0);
  for (std::size_t s = 0; s < lengths.size(); ++s) first[s + 1] = first[s] + lengths[s];
  TraceInfo info = trace.info();
  info.layers = {info.layers[static_cast<std::size_t>(layer)]};
  StepArrays arrays;
  std::vector<int> ids;
  const IdRows rows = step.ids(layer);
  for (const std::size_t s : chosen) {
    arrays.sequence_lengths.push_back(lengths[s]);
    for (std::int64_t t = first[s]; t < first[s + 1]; ++t) {
      for (int k = 0; k < info.top_k; ++k) ids.push_back(rows.at(t, k));
    }
  }
  arrays.ids = IdArray(info.experts, ids);
  auto writer = TraceWriter::create(folder, info, TraceWriter::Publish::at_end);
  writer.append_step(*make_step(info, std::move(arrays)));
  writer.finish();
}

/// Times of every step, by policy, of one node of eight.
std::vector<std::vector<Seconds>> steps_of(const std::string& folder, const std::string& model,
                                           int tokens) {
  const Scenario scenario = read_scenario("", {{"topology", "h100-measured", "t"},
                                               {"set", "topology.nodes=1", "n"},
                                               {"model", model, "m"},
                                               {"trace", folder, "r"},
                                               {"ep", "8", "e"},
                                               {"policy", "[alltoall, dedup, llep]", "p"},
                                               {"layers", "recorded", "l"},
                                               {"pass", "forward", "f"},
                                               {"fidelity", "analytic", "a"},
                                               {"tokens_per_rank", std::to_string(tokens), "k"}});
  std::vector<std::vector<Seconds>> steps;
  for (const CaseResult& c : simulate(scenario, open_inputs(scenario), {}).cases) {
    steps.push_back(c.metrics.steps);
  }
  return steps;
}

struct Held {
  int times = 0, of_times = 0, speedups = 0, of_speedups = 0;
};

void add_trial(const std::vector<std::vector<Seconds>>& a,
               const std::vector<std::vector<Seconds>>& b, Held& held) {
  for (std::size_t p = 0; p < a.size(); ++p) {
    const auto time = sampled_mean(a[p]), truth = sampled_mean(b[p]);
    ++held.of_times;
    held.times += std::abs(truth->value - time->value) <= time->half ? 1 : 0;
    if (p == 0) continue;
    const auto speedup = sampled_speedup(a[0], a[p]), other = sampled_speedup(b[0], b[p]);
    ++held.of_speedups;
    held.speedups += std::abs(other->value - speedup->value) <= speedup->half ? 1 : 0;
  }
}

// Random halves of the sequences of public traces: what one half says of the other.
TEST(ErrorBars, HoldTheHalvesOfPublicTracesThatWereHeldBack) {
  struct Recorded {
    std::string trace, model;
    int tokens;
  };
  std::mt19937 random(3);
  const ScratchFolder scratch;
  Held held;
  for (const Recorded& r :
       {Recorded{"gptoss20b", "gpt-oss-20b", 256}, Recorded{"esft-law", "deepseek-v2-lite", 48},
        Recorded{"esft-translation", "deepseek-v2-lite", 48}}) {
    const auto& trace = open_trace(r.trace);
    if (!trace) GTEST_SKIP() << MOESIM_SHARED "/traces is absent";
    std::vector<std::size_t> order(trace->step(0).sequence_lengths().size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (int split = 0; split < 8; ++split) {
      std::shuffle(order.begin(), order.end(), random);
      const auto middle = order.begin() + static_cast<std::ptrdiff_t>(order.size() / 2);
      const int layer = 3 * split % static_cast<int>(trace->info().layers.size());
      const std::string name = scratch / fmt::format("{}-{}", r.trace, split);
      write_sequences(*trace, layer, {order.begin(), middle}, name + "-a");
      write_sequences(*trace, layer, {middle, order.end()}, name + "-b");
      const auto a = steps_of(name + "-a", r.model, r.tokens);
      const auto b = steps_of(name + "-b", r.model, r.tokens);
      add_trial(a, b, held);
      add_trial(b, a, held);
    }
  }
  RecordProperty("times", fmt::format("{} of {}", held.times, held.of_times));
  RecordProperty("speedups", fmt::format("{} of {}", held.speedups, held.of_speedups));
  const double times = held.times / static_cast<double>(held.of_times);
  const double speedups = held.speedups / static_cast<double>(held.of_speedups);
  EXPECT_GE(times, 0.85);
  EXPECT_LE(times, 0.95);
  EXPECT_GE(speedups, 0.85);
  EXPECT_LE(speedups, 0.95);
}

TEST(ModelErrors, EveryTableWeighsTheSame) {
  // One of two tables has ten figures, which together weigh as much as the other's single one.
  const ModelError error = model_error({{"many", std::vector<double>(10, 0.1)}, {"one", {-0.5}}});
  EXPECT_DOUBLE_EQ(error.low, 0.5);
  EXPECT_DOUBLE_EQ(error.high, 1.1);
  EXPECT_DOUBLE_EQ(error.most(1), 2);
}

/// Of every table's errors those inside the quantiles of all other tables.
std::pair<int, int> held_by_others(const std::map<std::string, double>& errors) {
  const ErrorsByTable tables = by_table(errors);
  int held = 0, all = 0;
  for (const auto& [name, list] : tables) {
    ErrorsByTable others = tables;
    others.erase(name);
    const ModelError error = model_error(others);
    for (const double e : list) {
      ++all;
      held += error.low <= 1 + e && 1 + e <= error.high ? 1 : 0;
    }
  }
  return {held, all};
}

TEST(ModelErrors, HoldTablesThatWereHeldBack) {
  for (const std::string of : {"state", "iterations-state"}) {  // figures of steps, and iterations
    const std::string file = MOESIM_ROOT "/papers/" + of + ".json";
    const StoredErrors stored = read_papers_state(file, read_file(file));
    const std::pair<const char*, std::map<std::string, double>> kinds[] = {
        {"times", stored.absolute}, {"speedups", stored.relative}};
    for (const auto& [kind, errors] : kinds) {
      const auto [held, all] = held_by_others(errors);
      const double part = held / static_cast<double>(all);
      RecordProperty(of + " " + kind, fmt::format("{} of {}", held, all));
      EXPECT_TRUE(0.85 <= part && part <= 0.95) << of << ": " << held << " of " << all;
    }
  }
}

CaseResult iterations_of(const std::string& routing, const std::vector<double>& times) {
  CaseResult c{{"t", "p", "port", routing}, nullptr, {}, ""};
  c.metrics.iteration.emplace();
  for (const double t : times) {
    IterationTimes one;
    one.iteration = Seconds(t);
    one.parts[static_cast<std::size_t>(IterationPart::waiting)] = Seconds(t);
    c.metrics.iteration->add(one, 1);
    c.metrics.steps.push_back(Seconds(t));
  }
  return c;
}

/// One iteration of 10 s and one of 8: no sampling, times by x 1 / 1.25 and x 2, speedups by
/// x 1 / 1.1 and x 1.6.
TEST(ErrorBars, IterationsHaveIntervalsByErrorsOfPublishedOnes) {
  const ShippedModelErrors errors{{0.5, 1.25}, {0.625, 1.1}};
  const std::string text =
      interval_table({iterations_of("recorded", {10}), iterations_of("balanced", {8})}, errors)
          .text();
  EXPECT_THAT(text, testing::ContainsRegex("recorded +10 s +8 s - 20 s +1.00x +- +-"));
  EXPECT_THAT(text,
              testing::ContainsRegex("balanced +8 s +6.4 s - 16 s +1.25x +- +yes +1.14-2.00"));
  EXPECT_THAT(text, HasSubstr("one iteration is not sampled"));
  EXPECT_THAT(text, HasSubstr("(-37.5 % to +10.0 %; times -50.0 % to +25.0 %)"));
}

TEST(ErrorBars, SampledIterationsAddToTheErrorsOfPublishedOnes) {
  const std::vector<double> base = {10, 11, 9, 10.5, 9.5, 10};
  std::vector<double> faster;
  for (const double b : base) faster.push_back(b / 1.2);
  const std::string text =
      interval_table({iterations_of("recorded", base), iterations_of("balanced", faster)},
                     {{1, 1}, {0.7, 1.4}})
          .text();
  const auto sampled = sampled_mean(seconds(base));
  const double wide = std::exp(sampled->half / sampled->value);
  EXPECT_THAT(text,
              HasSubstr(to_string(Seconds(10 / wide)) + " - " + to_string(Seconds(10 * wide))));
  EXPECT_THAT(text, HasSubstr("1.20-1.20  measure waiting   0.86-1.71"));
  EXPECT_EQ(text.find("# note"), std::string::npos);
}

CaseResult case_of(const std::string& policy, const std::vector<double>& steps) {
  CaseResult c{{"t", policy, "port"}, nullptr, {}, ""};
  c.metrics.steps = seconds(steps);
  c.metrics.breakdown.tokens = Seconds(steps[0]);
  return c;
}

TEST(ErrorBars, TheTableSaysWhatWouldTellPoliciesApart) {
  const std::vector<double> base = {10, 11, 9, 10.5, 9.5, 10, 10.2, 9.8};
  std::vector<double> noisy = {9, 12, 8, 11.5, 8.9, 10.6, 9.1, 10.3}, faster, fastest;
  for (const double b : base) faster.push_back(b / 1.2), fastest.push_back(b / 4);
  const ShippedModelErrors errors{{0.8, 1.2}, {0.7, 1.4}};
  const std::string text = interval_table({case_of("base", base), case_of("noisy", noisy),
                                           case_of("faster", faster), case_of("fastest", fastest)},
                                          errors)
                               .text();
  EXPECT_THAT(text, testing::ContainsRegex("noisy.* no, [0-9]+ steps"));
  EXPECT_THAT(text, HasSubstr("1.20-1.20  measure tokens   0.86-1.71"));
  EXPECT_THAT(text, testing::ContainsRegex("fastest.*yes"));
  EXPECT_THAT(interval_table({case_of("base", {1})}, errors).text(), HasSubstr("one step"));
}

TEST(ErrorBars, DataSheetsTellNobodyApart) {
  static const Topology topology = read_topology(data_file("topologies", "h100-rail")).topology;
  const auto nic = std::ranges::find(topology.classes(), "nic", &LinkClass::name);
  std::vector<CaseResult> cases = {case_of("base", {10, 11, 9, 10}),
                                   case_of("sheet", {2.5, 2.75, 2.25, 2.5}),
                                   case_of("measured", {2.5, 2.75, 2.25, 2.5})};
  for (CaseResult& c : cases) {
    c.topology = &topology;
    c.metrics.total.traffic.link_class.assign(topology.classes().size(), 1);
  }
  cases[1].by_data_sheet = {static_cast<std::size_t>(nic - topology.classes().begin())};
  add_intervals(cases, {{0.8, 1.2}, {0.7, 1.4}});
  EXPECT_EQ(cases[1].intervals->told_apart, "measure nic");
  EXPECT_EQ(cases[2].intervals->told_apart, "yes");
}

/// Documents and reports have what the table says.
TEST(ErrorBars, CasesKeepTheirIntervals) {
  std::vector<CaseResult> cases = {case_of("base", {10, 11, 9, 10}),
                                   case_of("half", {5, 5.5, 4.5, 5}),
                                   case_of("other", {10, 11, 9, 10})};
  add_intervals(cases, {{1, 1}, {0.5, 2}});
  EXPECT_EQ(cases[0].intervals->told_apart, "");
  EXPECT_EQ(cases[1].intervals->told_apart, "measure tokens");
  EXPECT_NEAR(cases[1].intervals->speedup.low, 1, 1e-9);
  EXPECT_NEAR(cases[1].intervals->speedup.high, 4, 1e-9);
  EXPECT_EQ(cases[2].intervals->told_apart, "no");
  std::vector<CaseResult> one = {case_of("base", {10})};
  add_intervals(one, {{1, 1}, {0.5, 2}});
  EXPECT_FALSE(one[0].intervals) << "one step has none";
}

}  // namespace
}  // namespace moesim
