// SPDX-License-Identifier: Apache-2.0
// What is known of a case without its steps, and the notes on them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/run/metrics_of_no_step.h"
#include "sim/run/planning_notes.h"
#include "sim/run/result_file.h"
#include "sim/run/runs_on.h"
#include "sim/run/serving_views.h"
#include "sim/run/software_text.h"
#include "sim/scenario/policy_planner.h"
#include "tests/run/scenarios.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// The first policy on the first cluster.
struct OpenedCase {
  explicit OpenedCase(const Scenario& s)
      : scenario(s),
        inputs(open_inputs(scenario)),
        run(runs_on(scenario, inputs, 0).front()),
        steps(run.scenario, run.inputs, run.cluster, run.system, {.routing = run.routing}) {}
  ClusterInput& cluster() { return inputs.clusters[0]; }
  const Planner& planner() const { return steps.planner(); }

  Scenario scenario;
  Inputs inputs;
  PolicyRun run;
  PolicyPlanner steps;
};

OpenedCase iteration_of(const std::string& model) {
  return OpenedCase(read_scenario("", {{"topology", "h100-rail", "t"},
                                       {"model", model, "m"},
                                       {"trace", "tiny-moe-train", "r"},
                                       {"policy", "alltoall", "p"},
                                       {"parallel", "{pp: 2, ep: 4}", "g"},
                                       {"batch", "{global: 16, micro: 1, sequence: 128}", "b"},
                                       {"set", "topology.nodes=1", "n"}}));
}

/// GPT-OSS 20B on 8 GPUs.
OpenedCase pass_of(const std::string& keys) {
  return OpenedCase(parse_scenario(
      "topology: h100-rail\nmodel: gpt-oss-20b\ntrace: tiny-moe-train\n"
      "policy: deepep-low-latency\nparallel: {tp: 1, ep: 8}\nset: [topology.nodes=1]\n"
      "steps: 3:4\nserving:\n  batch: " +
          keys + "\n",
      "pass.yaml", {}));
}

/// 24,576 bytes a token in 12 layers, which keep 128 tokens at most in 12 further ones.
constexpr std::int64_t token_bytes = 24576;

/// GPUs that differ in the peak of 16 bits and in memory.
GpuModels unlike_gpus(const std::vector<double>& peaks, DataType type) {
  GpuModels gpus;
  for (std::size_t g = 0; g < peaks.size(); ++g) {
    GpuModel gpu;
    gpu.peak[type] = FlopsPerSecond(peaks[g]);
    gpu.memory = Bytes(100 + static_cast<std::int64_t>((g + 1) % peaks.size()));
    gpus.push_back(std::make_shared<const GpuModel>(std::move(gpu)));
  }
  return gpus;
}

TEST(MetricsOfNoStep, HaveTheMeanPeakAndTheSmallestMemory) {
  OpenedCase c = iteration_of("gpt-oss-20b");
  c.cluster().gpus = unlike_gpus({2, 4, 9}, DataType::bf16);
  const RunMetrics metrics = metrics_of_no_step(c.run, c.planner());
  EXPECT_EQ(metrics.iteration->peak_flops, 5);
  EXPECT_EQ(metrics.gpu_memory, Bytes(100));
  EXPECT_FALSE(metrics.iteration->serving);
  EXPECT_GT(metrics.iteration->flop_per_token, 0);
  c.cluster().gpus = unlike_gpus({2, 4, 9}, DataType::fp8);
  EXPECT_EQ(metrics_of_no_step(c.run, c.planner()).iteration->peak_flops, 0) << "it is not known";
}

TEST(MetricsOfNoStep, KnowTheFlopOfWholeModelsThatTrain) {
  const OpenedCase experts = iteration_of("tiny-moe");  // describes only its experts
  EXPECT_EQ(metrics_of_no_step(experts.run, experts.planner()).iteration->flop_per_token, 0);
  const OpenedCase pass = pass_of("{context: 300, sequences: 2}");
  const RunMetrics metrics = metrics_of_no_step(pass.run, pass.planner());
  EXPECT_EQ(metrics.iteration->flop_per_token, 0);
  EXPECT_EQ(metrics.iteration->serving->sequences, 16);
  const OpenedCase layers(scenario_of("alltoall"));
  EXPECT_FALSE(metrics_of_no_step(layers.run, layers.planner()).iteration);
}

TEST(ServingFigures, CountWhatDecodesKeepOfTheirDrafts) {
  const OpenedCase plain = pass_of("{context: 300, sequences: 2}");
  EXPECT_EQ(serving_figures(plain.planner(), plain.inputs.model).tokens_per_sequence, 1);
  EXPECT_EQ(output_tokens(plain.planner()), 16);
  const OpenedCase drafts = pass_of("{context: 300, sequences: 2}\n  drafts: 3\n  accepted: 1.5");
  const ServingFigures figures = serving_figures(drafts.planner(), drafts.inputs.model);
  EXPECT_TRUE(figures.decodes);
  EXPECT_EQ(figures.sequences, 16);
  EXPECT_EQ(figures.tokens_per_sequence, 2.5);
  EXPECT_EQ(figures.cache_per_token, Bytes(token_bytes));
  EXPECT_EQ(output_tokens(drafts.planner()), 40);  // 16 sequences
  const OpenedCase prompts = pass_of("{prompt: 300, sequences: 1}");
  EXPECT_FALSE(serving_figures(prompts.planner(), prompts.inputs.model).decodes);
  EXPECT_EQ(output_tokens(prompts.planner()), 8 * 300);
}

TEST(ServingFigures, HaveRoomForWhatTheFullestGpuLeaves) {
  OpenedCase c = pass_of("{context: 300, sequences: 2}");
  StepMemory memory{MemoryPeaks(8)};
  GpuModel gpu;
  gpu.memory = Bytes(1000);  // of which an engine takes nine tenths
  const GpuModels gpus(8, std::make_shared<const GpuModel>(gpu));
  memory.peaks[0].use.of(MemoryPart::weights) = Bytes(100);
  memory.peaks[5].use.of(MemoryPart::weights) = Bytes(395);
  EXPECT_EQ(free_cache_tokens(c.planner(), memory, gpus, Bytes(10)), 50);
  EXPECT_EQ(free_cache_tokens(c.planner(), memory, gpus, Bytes(0)), 0);
  memory.peaks[5].use.of(MemoryPart::weights) = Bytes(2000);
  EXPECT_EQ(free_cache_tokens(c.planner(), memory, gpus, Bytes(10)), 0);
}

std::string header_of(const OpenedCase& c, std::vector<std::vector<SequenceStep>> ranks,
                      int attention_ranks = 0) {
  Scenario scenario = c.scenario;
  scenario.iteration->serving->batch.ranks = std::move(ranks);
  scenario.iteration->serving->attention_ranks = attention_ranks;
  return serving_header(scenario, c.inputs, "1");
}

TEST(ServingHeader, SaysWhatTheBatchIsOrHowItsRanksDiffer) {
  const OpenedCase c = pass_of("{context: 300, sequences: 2}");
  const std::string alike = header_of(c, {{{0, 300, 1, -1}, {200, 1, 2, -1}}});
  EXPECT_THAT(alike, HasSubstr(": 8 GPUs on 1 host, attention: tp 1 cp 1 dp 8, experts: etp 1 ep "
                               "8\n#   1 sequence of 300 new tokens and 2 sequences of 1 new "
                               "token after 200 on each of 8 ranks\n"));
  EXPECT_THAT(
      header_of(c, {{{0, 60, 2, -1}}, {{0, 9, 1, -1}}, {{0, 70, 2, -1}}, {{0, 50, 1, -1}}}, 4),
      HasSubstr("attention: tp 1 cp 1 dp 4, experts: on the other 4 GPUs\n#   9 to 140 new "
                "tokens per rank, 319 in all\n"));
}

TEST(ServingHeader, SaysWhoHasOnlyExperts) {
  OpenedCase c = pass_of("{context: 300, sequences: 2}");
  EXPECT_THAT(header_of(c, {{{0, 9, 1, -1}}}), Not(HasSubstr("KV cache of a sequence divided")));
  c.scenario.iteration->parallel.tp = 2;
  const std::string apart = header_of(c, {{{0, 60, 2, -1}}, {{0, 9, 1, -1}}}, 2);
  EXPECT_THAT(apart, HasSubstr("attention: tp 2 cp 1 dp 2, experts: on the other 4 GPUs\n"));
}

TEST(ServingHeader, SaysWhatTheFirstRankHoldsInTheCache) {
  const OpenedCase c = pass_of("{context: 300, sequences: 2}");
  std::vector<std::vector<SequenceStep>> ranks(8, {SequenceStep{0, 1000, 7, -1}});
  ranks[0] = {{300, 1, 2, -1}, {0, 99, 1, -1}};
  // 2 x 301 + 99 tokens in half of the layers, 2 x 128 + 99 in the others.
  static_assert((701 + 355) * token_bytes == 25'952'256);
  EXPECT_THAT(header_of(c, ranks), HasSubstr("# KV: 24.58 kB per token on a GPU, 25.95 MB for the "
                                             "batch of the first rank\n"));
}

/// GPUs of three dies, of which somebody measured the first.
GpuModels gpus_of_dies() {
  GpuModels gpus;
  for (const auto& [name, part] : std::map<std::string, double>{{"a", 1}, {"b", 0.75}, {"c", 0}}) {
    GpuModel gpu;
    gpu.name = gpu.die = name;
    if (part > 0) gpu.training[DataType::bf16] = part;
    gpus.push_back(std::make_shared<const GpuModel>(gpu));
  }
  return gpus;
}

TEST(SoftwareText, SaysWhatEachGpuKeepsAndWhatNobodyMeasured) {
  OpenedCase c = iteration_of("gpt-oss-20b");
  c.cluster().gpus = gpus_of_dies();
  Software& software = c.inputs.software;
  software = {};
  software.name = "mine";
  software.kept["a"] = {};
  software.dispatch["alltoall"] = {{"dispatch.launch", "\"2 us\"", ""}, {"dispatch.sms", "4", ""}};
  Scenario scenario = c.scenario;
  scenario.software_stated = true;
  scenario.iteration->overlap = {};
  const std::string gpus =
      "#   a: its kernels' own rates; host: takes no time\n"
      "#   b: 0.75 of its kernels' own rates (assumed: nobody measured mine on it); host: takes no "
      "time\n"
      "#   c: its kernels' own rates (assumed: nobody measured mine on it); host: takes no time\n"
      "#   dispatch alltoall, unless its policy says otherwise: launch 2 us, sms 4\n";
  const auto lines = [&] { return software_text(scenario, c.inputs); };
  EXPECT_EQ(lines(),
            "# software mine: per parameter 4 bytes of gradients, 12 of optimizer state; gradients "
            "are summed after the passes\n" +
                gpus);
  scenario.iteration->serving.emplace();
  EXPECT_EQ(lines(), "# software mine\n" + gpus);
  scenario.software_stated = false;
  EXPECT_EQ(lines(), "# software mine (by default)\n" + gpus);
  scenario.software.clear();
  EXPECT_EQ(lines(), "");
}

TEST(IterationNotes, SayWhatDoesNotFitAndWhatWasNotSimulated) {
  const OpenedCase c = iteration_of("tiny-moe");
  IterationFigures figures;
  const auto notes = [&] { return iteration_notes(c.planner(), c.run.cluster, figures); };
  EXPECT_THAT(notes(), IsEmpty());
  figures.fullest = {Bytes(3000), Bytes(0), Bytes(2000), GpuId(5), "late"};
  figures.simulated_gpus = 1;
  figures.simulated_microbatches = 1;
  figures.continued_error = Seconds(0.002);
  figures.continued_drift = Seconds(0.003);
  EXPECT_THAT(
      notes(),
      ElementsAre("does not fit (!): GPU 5 has 2 kB and needs 3 kB late",
                  "simulated by 1 of 8 GPUs, because the others do the same (--every-gpu: all)",
                  "simulated 1 of 4 microbatches and continued their steady state: within 2 ms, "
                  "parts within 3 ms (--every-microbatch: all)"));
}

TEST(IterationNotes, NameWhatDeepEpsLowLatencyKernelsAreFor) {
  const OpenedCase c = iteration_of("tiny-moe");
  SystemSpec system = c.run.system;
  EXPECT_EQ(low_latency_note(system, c.run.inputs.model, 8192), "");
  system.dispatch.name = "deepep-low-latency";
  EXPECT_EQ(low_latency_note(system, c.run.inputs.model, 256), "");
  EXPECT_THAT(low_latency_note(system, c.run.inputs.model, 8192),
              testing::HasSubstr("at most 256 tokens per GPU"));
}

TEST(PlanningNotes, SayThatAPolicyNeverPlannedOrBeganCold) {
  OpenedCase c(scenario_of("eplb"));  // plans after ten steps
  const auto notes = [&](int played, int replans) {
    return planning_notes(c.planner(), c.run.cluster, {played, replans});
  };
  const std::string cold =
      "started cold at step 3: no step before it was seen (--warmup 3 shows them)";
  EXPECT_THAT(notes(3, 0),
              ElementsAre("never planned: that first happens after 10 steps, the run has 3", cold));
  EXPECT_THAT(
      notes(10, 0),
      ElementsAre("never planned: that first happens after 10 steps, the run has 10", cold));
  EXPECT_THAT(notes(11, 0), ElementsAre("never planned: nothing called for it in 11 steps", cold));
  EXPECT_THAT(notes(11, 1), ElementsAre(cold));
  c.cluster().first_step = 1;
  EXPECT_THAT(notes(11, 1), ElementsAre("started cold at step 1: no step before it was seen "
                                        "(--warmup 1 shows them)"));
  c.cluster().first_step = 0;
  EXPECT_THAT(notes(11, 1), IsEmpty());
  c.cluster().first_step = 3;
  c.cluster().warmup.resize(1);
  EXPECT_THAT(notes(11, 1), IsEmpty());
  const OpenedCase fixed(scenario_of("alltoall"));
  EXPECT_THAT(planning_notes(fixed.planner(), fixed.run.cluster, {3, 0}), IsEmpty());
}

}  // namespace
}  // namespace moesim
