// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/synth/workload.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "sim/trace/statistics.h"
#include "tests/error_of.h"
#include "tests/trace/scratch.h"

namespace moesim {
namespace {

RoutingTrace workload_trace(const std::string& name, const SynthOptions& options) {
  WorkloadSynthesis synthesis(options, workload_of(name));
  std::vector<std::shared_ptr<const TraceStep>> steps;
  for (int s = 0; s < options.steps; ++s) steps.push_back(synthesis.next_step());
  return {synthesis.info(), std::move(steps)};
}

/// Of the benchmark: 8 experts, seed 1234, one rank's tokens.
SynthOptions of_benchmark(int top_k, std::int64_t tokens) {
  SynthOptions options;
  options.experts = 8;
  options.top_k = top_k;
  options.tokens = tokens;
  options.sequences = 1;
  options.seed = 1234;
  return options;
}

std::vector<int> row_of(const RoutingTrace& trace, int step, std::int64_t token) {
  const IdRows rows = trace.step(step).ids(0);
  std::vector<int> row;
  for (int k = 0; k < rows.top_k(); ++k) row.push_back(rows.at(token, k));
  return row;
}

/// Expert max/mean of every step by itself.
std::vector<double> max_over_mean(const RoutingTrace& trace) {
  std::vector<double> out;
  for (int s = 0; s < trace.step_count(); ++s) {
    out.push_back(
        measure(RoutingTrace(trace.info(), {trace.shared_step(s)})).expert_max_over_mean.mean());
  }
  return out;
}

TEST(Workload, HasTheLoadsThatTheBenchmarkPublishes) {
  struct Published {
    const char* workload;
    double max_over_mean, cv;  // to three decimals
  };
  // W3 is not among them: its published loads are those of draws from all experts, which its code
  // does not make.
  const auto check = [](const SynthOptions& options, const std::vector<Published>& table) {
    for (const Published& p : table) {
      const auto statistics = measure(workload_trace(p.workload, options));
      EXPECT_NEAR(statistics.expert_max_over_mean.mean(), p.max_over_mean, 5.1e-4) << p.workload;
      EXPECT_NEAR(statistics.expert_load_cv.mean(), p.cv, 5.1e-4) << p.workload;
    }
  };
  check(of_benchmark(2, 128), {{"W0", 1.000, 0.000},
                               {"W1", 3.312, 1.309},
                               {"W2", 3.219, 1.272},
                               {"W4", 1.281, 0.141},
                               {"W5", 2.156, 1.007},
                               {"W6", 3.312, 1.319},
                               {"W7", 1.219, 0.126}});
  check(of_benchmark(4, 512), {{"W0", 1.000, 0.000},
                               {"W1", 1.781, 0.744},
                               {"W2", 1.770, 0.747},
                               {"W4", 1.086, 0.046},
                               {"W5", 2.000, 1.000},
                               {"W6", 1.770, 0.742},
                               {"W7", 1.066, 0.040}});
}

TEST(Workload, DealsABalancedOneInTurn) {
  using testing::ElementsAre;
  const auto w0 = workload_trace("W0", of_benchmark(3, 20));
  EXPECT_THAT(row_of(w0, 0, 0), ElementsAre(0, 1, 2));
  EXPECT_THAT(row_of(w0, 0, 2), ElementsAre(6, 7, 0));
  EXPECT_THAT(row_of(w0, 0, 17), ElementsAre(3, 4, 5));  // 51 = 6 x 8 + 3
}

TEST(Workload, DrawsAsPyTorchDoes) {  // rows and gates drawn with PyTorch 1.13
  using testing::ElementsAre;
  const auto w1 = workload_trace("W1", of_benchmark(2, 128));
  EXPECT_THAT(row_of(w1, 0, 0), ElementsAre(6, 7));
  EXPECT_THAT(row_of(w1, 0, 4), ElementsAre(1, 5));
  EXPECT_THAT(row_of(w1, 0, 124), ElementsAre(2, 3));
  EXPECT_FLOAT_EQ(w1.step(0).weight(0, 127, 0), 0.5669263601303101F);
  EXPECT_FLOAT_EQ(w1.step(0).weight(0, 127, 1), 0.43307363986968994F);
  SynthOptions options = of_benchmark(3, 20);
  options.seed = 7;
  const auto w3 = workload_trace("W3", options);
  EXPECT_THAT(row_of(w3, 0, 1), ElementsAre(0, 4, 6));
  EXPECT_THAT(row_of(w3, 0, 18), ElementsAre(0, 4, 6));
  EXPECT_THAT(row_of(w3, 0, 19), ElementsAre(2, 4, 6));
  EXPECT_FLOAT_EQ(w3.step(0).weight(0, 19, 1), 0.2762521803379059F);
  options = of_benchmark(2, 128);
  options.steps = 4;
  const auto w7 = workload_trace("W7", options);
  EXPECT_THAT(row_of(w7, 3, 0), ElementsAre(0, 1));
  EXPECT_THAT(row_of(w7, 3, 3), ElementsAre(2, 6));
  EXPECT_THAT(row_of(w7, 3, 125), ElementsAre(3, 7));
  EXPECT_THAT(row_of(w7, 3, 127), ElementsAre(1, 4));
  EXPECT_FLOAT_EQ(w7.step(3).weight(0, 0, 0), 0.5238801836967468F);
}

TEST(Workload, ManyTokensComeToTheExpectedLoads) {
  // With H of E experts hot and a part p of the tokens hot: p E / H + 1 - p.
  SynthOptions options;
  options.experts = 32;
  options.top_k = 4;
  options.tokens = 60000;
  options.steps = 4;
  using testing::DoubleNear;
  using testing::Each;
  for (const auto& [workload, expected] :
       {std::pair("W0", 1.0), std::pair("W1", 0.75 * 4 + 0.25), std::pair("W2", 0.75 * 4 + 0.25),
        std::pair("W3", 0.75 * 2 + 0.25), std::pair("W4", 1.0), std::pair("W5", 2.0)}) {
    EXPECT_THAT(max_over_mean(workload_trace(workload, options)), Each(DoubleNear(expected, 0.04)))
        << workload;
  }
  EXPECT_THAT(max_over_mean(workload_trace("W7", options)),
              testing::ElementsAre(DoubleNear(1, 0.04), DoubleNear(1, 0.04), DoubleNear(1, 0.04),
                                   DoubleNear(0.5 * 4 + 0.5, 0.04)));
}

TEST(Workload, IsOnTheRanksThatItNames) {
  SynthOptions options;
  options.experts = 32;
  options.top_k = 4;
  options.tokens = 20000;
  const auto rank_load = [&](const char* workload) {  // four ranks of 8 experts
    const auto statistics = measure(workload_trace(workload, options));
    return std::ranges::find(statistics.ranks, 4, &RankStatistics::ranks)
        ->rank_max_over_mean.mean();
  };
  EXPECT_NEAR(rank_load("W2"), 3.25, 0.03);  // its hot experts are those of the first rank
  EXPECT_NEAR(rank_load("W3"), 1, 0.03);     // as hot, on all ranks
  EXPECT_NEAR(rank_load("W5"), 2, 0.03);
  const auto counts = measure(workload_trace("W5", options)).counts[0];
  for (std::size_t expert = 0; expert < 16; ++expert) EXPECT_EQ(counts[expert], 0);
}

TEST(Workload, MovesItsHotspotEveryThirdStep) {
  SynthOptions options = of_benchmark(2, 4096);
  options.steps = 13;
  const auto trace = workload_trace("W6", options);
  for (int step = 0; step < options.steps; ++step) {
    const auto counts = measure(RoutingTrace(trace.info(), {trace.shared_step(step)})).counts[0];
    const auto first = static_cast<std::size_t>(step / 3 * 2 % 8);
    for (std::size_t expert = 0; expert < 8; ++expert) {
      EXPECT_EQ(counts[expert] > 2000, expert == first || expert == first + 1) << step;
    }
  }
}

TEST(Workload, HasRaggedSequencesAndSeedsOfItsOwn) {
  SynthOptions options = of_benchmark(2, 36);
  options.sequences = 8;
  options.layers = {0, 1};
  const auto ragged = workload_trace("W4", options);
  EXPECT_THAT(ragged.step(0).sequence_lengths(), testing::ElementsAre(1, 3, 3, 4, 5, 6, 6, 8));
  SynthOptions next = options;
  next.seed = 1235;
  next.layers = {1};
  const auto alone = workload_trace("W4", next);
  const IdRows second = ragged.step(0).ids(1), first = alone.step(0).ids(0);
  for (std::int64_t t = 0; t < 36; ++t) EXPECT_EQ(second.at(t, 1), first.at(t, 1));
  float sum = 0;
  for (int k = 0; k < 2; ++k) sum += ragged.step(0).weight(1, 35, k);
  EXPECT_NEAR(sum, 1, 1e-6);
}

TEST(Workload, RefusesWhatItCannotDraw) {
  EXPECT_EQ(error_of([] { workload_of("W8"); }).substr(0, 29), "error: 'W8' is not a workload");
  EXPECT_EQ(error_of([] { workload_trace("W5_zero_expert_rank", of_benchmark(5, 10)); }),
            "error: W5 chooses among the upper half of 8 experts, fewer than top-k 5\n");
  EXPECT_EQ(error_of([] { workload_trace("W1", of_benchmark(9, 10)); }),
            "error: top-k is 9; it is from 1 to 8\n");
}

}  // namespace
}  // namespace moesim
