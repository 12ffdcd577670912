// SPDX-License-Identifier: Apache-2.0
// Inputs as scenarios open them: figures against data sheets, damaged traces, hashes, and what a
// pass of serving makes of its GPUs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/data_files.h"
#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/base/temporary_folder.h"
#include "sim/planner/iteration/spec.h"
#include "sim/scenario/inputs.h"
#include "sim/scenario/open_cluster.h"
#include "sim/scenario/scenario_text.h"
#include "sim/trace/memory_step.h"
#include "sim/trace/writer.h"
#include "tests/error_of.h"

namespace moesim {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(DataSheets, AreOfTheFamilyAndNotFitted) {
  EXPECT_EQ(data_sheet_of("h100-measured"), "h100-sxm");
  EXPECT_EQ(data_sheet_of("h200-anything"), "h200") << "not b200";
  EXPECT_EQ(data_sheet_of("b200-training"), "b200");
  EXPECT_EQ(data_sheet_of("unknown"), "");
}

TEST(DataSheets, WarnOfFiguresThatAreTwiceAsHigh) {
  GpuModel sheet;
  sheet.name = "sheet";
  sheet.memory_bandwidth = BytesPerSecond(10);
  sheet.peak = {{DataType::fp8, FlopsPerSecond(10)}};
  const auto warned = [&](double bandwidth, std::map<DataType, FlopsPerSecond> peak = {}) {
    GpuModel gpu;
    gpu.memory_bandwidth = BytesPerSecond(bandwidth);
    gpu.peak = std::move(peak);
    return doubled_figures("gpu.yaml", gpu, sheet);
  };
  for (const double no : {1.0, 10.0, 18.9, 21.1}) EXPECT_THAT(warned(no), IsEmpty()) << no;
  for (const double yes : {19.0, 21.0}) EXPECT_EQ(warned(yes).size(), 1U) << yes;
  EXPECT_EQ(
      warned(20).at(0).str(),
      "gpu.yaml: warning: 'memory_bandwidth' is 20 B/s: the data sheet of sheet has 10 B/s\n");
  // Types that the sheet lacks are passed over.
  const auto rates = warned(10, {{DataType::fp32, FlopsPerSecond(20)},
                                 {DataType::bf16, FlopsPerSecond(20)},
                                 {DataType::fp8, FlopsPerSecond(20)}});
  ASSERT_EQ(rates.size(), 1U);
  EXPECT_THAT(rates[0].str(), HasSubstr("gpu.yaml: warning: 'peak.fp8' is 20 "));
  EXPECT_EQ(rates[0].hint, "dense rates are meant; those with sparsity are twice as high");
}

TEST(OpenedInputs, HaveNoTraceWhoseFirstStepIsDamaged) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/damaged";
  const TraceInfo info{"damaged", "tiny-moe", 32, 4, {0, 1, 2, 3}, Phase::mixed, "{}"};
  TraceWriter writer = TraceWriter::create(path, info, TraceWriter::Publish::at_end);
  for (const int first : {1, 0}) {  // of the first step all choices of the last layer are twice
    IdArray ids(32, 4 * 8 * 4);
    for (std::int64_t i = 0; i < ids.count(); ++i) ids.set(i, static_cast<int>(i % 4));
    if (first == 1) ids.set(ids.count() - 1, 0);
    writer.append_step(*make_step(info, {1 - first, ids, {8}, {}, {}}));
  }
  writer.finish();
  try {
    open_inputs(read_scenario("", {{"topology", "h100-rail", "t"},
                                   {"model", "tiny-moe", "m"},
                                   {"trace", path, "r"},
                                   {"policy", "alltoall", "p"},
                                   {"set", "topology.nodes=1", "n"}}));
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("step 0, layer 3: ids out of range, or twice in a row"));
    EXPECT_THAT(e.what(), HasSubstr("hint: moesim trace verify " + path + " tells where"));
  }
}

Scenario of_serving(const std::string& serving) {
  return parse_scenario(
      "topology: h100-rail\nmodel: gpt-oss-20b\ntrace: tiny-moe-train\n"
      "policy: deepep-low-latency\nserving: {batch: {context: 9, sequences: 4}" +
          serving + "}\n",
      "serving.yaml", {});
}

TEST(OpenedInputs, OfServingQuantizeAndLaunchAsThePassSays) {
  const auto gpu = [](const std::string& serving) {
    return *open_inputs(of_serving(serving)).clusters.at(0).gpus.at(0);
  };
  EXPECT_EQ(gpu("").training_traffic.per_cast, serving_traffic(DataType::bf16).per_cast);
  EXPECT_GT(gpu(", precision: fp8").training_traffic.per_cast, 0);
  EXPECT_EQ(gpu(", precision: fp8").training_traffic.per_weight, 0) << "no weight gradients";
  EXPECT_FALSE(gpu("").host.graphs.empty());
  EXPECT_TRUE(gpu(", graphs: false").host.graphs.empty());
}

TEST(OpenedInputs, OfServingRefuseWeightsOfTheModel) {
  EXPECT_THAT([] { open_inputs(of_serving(", precision: fp8}\nset: [model.weights=fp8]\n#")); },
              testing::Throws<Error>(testing::Property(
                  &Error::what, HasSubstr("'model.weights' has no effect on passes of serving"))));
}

TEST(OpenedInputs, AreHashedWithTheirChanges) {
  const auto hash = [](const std::vector<std::string>& changes) {
    std::vector<Override> flags = {{"topology", "h100-rail", "t"},  {"model", "qwen3-30b-a3b", "m"},
                                   {"policy", "alltoall", "p"},     {"batch.global", "64", "g"},
                                   {"batch.sequence", "4096", "s"}, {"routing", "balanced", "r"}};
    for (const std::string& change : changes) flags.push_back({"set", change, "--set"});
    const Inputs inputs = open_inputs(read_scenario("", flags));
    return std::vector{inputs.software_file.hash, inputs.model_file.hash,
                       inputs.system_files.at(0).hash, inputs.clusters.at(0).file.hash};
  };
  const std::vector<std::string> plain = hash({});
  const char* const changes[] = {"software.kept.gh100.bf16=0.6", "model.name=other",
                                 "policy.description=x", "topology.nodes=2"};
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const std::vector<std::string> changed = hash({changes[i]});
    for (std::size_t j = 0; j < plain.size(); ++j) {
      if (i == 0 && j == 2) continue;  // a software changes policies
      EXPECT_EQ(changed[j] == plain[j], i != j) << changes[i] << " " << j;
    }
  }
}

TEST(OpenedInputs, AreTheSameForPlanners) {
  Scenario scenario = read_scenario("", {{"topology", "h100-rail", "t"},
                                         {"model", "tiny-moe", "m"},
                                         {"trace", "tiny-moe-train", "r"},
                                         {"policy", "alltoall", "p"},
                                         {"layers", "[1, 3]", "l"},
                                         {"tokens_per_rank", "16", "k"},
                                         {"steps", "3:5", "s"},
                                         {"warmup", "2", "w"},
                                         {"accumulate", "7", "a"},
                                         {"gradient_bytes", "4", "g"},
                                         {"attention", "false", "n"},
                                         {"set", "topology.nodes=1", "n"}});
  const Inputs inputs = open_inputs(scenario);
  const PlannerOptions options = inputs.planner_options(scenario, inputs.clusters[0]);
  EXPECT_EQ(options.ep, 8);
  EXPECT_EQ(options.layers, (std::vector{1, 3}));
  EXPECT_TRUE(options.backward);
  EXPECT_FALSE(options.attention);
  EXPECT_EQ(std::pair(options.state.gradient, options.state.optimizer), std::pair(4, 12));
  EXPECT_EQ(options.accumulate, 7);
  EXPECT_EQ(options.first_step, 3);
  EXPECT_EQ(std::pair(options.batches.size(), options.warmup.size()), std::pair(2UL, 2UL));
  scenario.backward = false;
  const TrainingState state = inputs.planner_options(scenario, inputs.clusters[0]).state;
  EXPECT_EQ(std::pair(state.gradient, state.optimizer), std::pair(0, 0));
}

/// What is wrong with the inputs of a scenario, or nothing; warnings are added to a list.
std::string mistakes_of_inputs(const std::string& text,
                               std::vector<std::string>* warnings = nullptr) {
  return error_of([&] {
    const Inputs inputs = open_inputs(parse_scenario(text, "elsewhere/s.yaml", {}));
    for (const Diagnostic& d : inputs.warnings) {
      if (warnings != nullptr) warnings->push_back(d.str());
    }
  });
}

TEST(OpenedInputs, AreAllLookedForAtTheirLines) {
  const std::string said = mistakes_of_inputs(
      "topology: [h100-rail,\n  nowhere]\nmodel: nothing\ntrace: /no/such\npolicy: nobody\n"
      "transport: nohow\n");
  for (const char* const one : {"s.yaml:2: error: 'topology': ", "s.yaml:3: error: 'model': ",
                                "s.yaml:4: error: 'trace': there is no such folder: /no/such\n",
                                "s.yaml:5: error: 'policy': ", "s.yaml:6: error: 'transport': "}) {
    EXPECT_THAT(said, HasSubstr(one));
  }
}

TEST(OpenedInputs, HaveTheSameExpertsAndNamesOfTheirOwn) {
  const std::string trace = "trace: tiny-moe-train\n";
  EXPECT_THAT(
      mistakes_of_inputs("topology: h100-rail\nmodel: olmoe\npolicy: alltoall\n" + trace),
      testing::AllOf(HasSubstr("'experts': the trace has 32 experts, the model 'olmoe' has 64"),
                     HasSubstr("'top_k': the trace has 4 choices a token, the model 'olmoe' has 8"),
                     HasSubstr("or say --set model.top_k=4\n")));
  const std::string two =
      "topology: [h100-rail, h200-rail]\nmodel: tiny-moe\npolicy: "
      "[alltoall, dedup]\ntokens_per_rank: 8\n" +
      trace;
  EXPECT_EQ(mistakes_of_inputs(two), "");
  EXPECT_THAT(mistakes_of_inputs(two + "set: ['policy:dedup.name=alltoall']\n"),
              HasSubstr("two policies of the scenario are called 'alltoall'\nhint: leave one"));
  EXPECT_THAT(mistakes_of_inputs(two + "set: ['topology:h200-rail.name=h100-rail']\n"),
              HasSubstr("two topologies of the scenario are called 'h100-rail'\n"));
}

TEST(OpenedInputs, WarnOfChangesThatReachNothingAndOfMixedLinks) {
  const std::string text =
      "topology: h100-rail\nmodel: tiny-moe\ntrace: tiny-moe-train\n"
      "tokens_per_rank: 8\n";
  const auto warned = [&](const std::string& more) {
    std::vector<std::string> warnings;
    EXPECT_EQ(mistakes_of_inputs(text + more, &warnings), "");
    return warnings;
  };
  EXPECT_THAT(warned("policy: alltoall\n"), IsEmpty());
  EXPECT_THAT(
      warned("policy: alltoall\nset: ['gpu:none.memory=1 GB']\n"),
      testing::ElementsAre(testing::StartsWith("set gpu:none.memory=1 GB: warning: no gpu ")));
  EXPECT_THAT(warned("policy: alltoall\nset: ['transport:none.sms=3']\n"),
              testing::ElementsAre(
                  testing::StartsWith("set transport:none.sms=3: warning: no transport ")));
  EXPECT_THAT(warned("policy: alltoall\ntransport: ideal\nset: [transport.sms=3]\n"),
              testing::ElementsAre(
                  "set transport.sms=3: warning: it has no effect: all exchanges are ideal\nhint: "
                  "--transport own, the default, or a name of `moesim list transports`\n"));
  EXPECT_THAT(
      warned("policy: [alltoall, dedup]\nset: ['policy:dedup.transport=ideal']\n"),
      testing::ElementsAre("warning: dedup on ideal links and alltoall at measured rates: their "
                           "times do not compare\nhint: leave 'transport' out of a policy for that "
                           "of its dispatch, or say --transport ideal\n"));
}

TEST(OpenedInputs, HaveGpusNextToTheirTopology) {
  const TemporaryFolder folder;
  write_file(folder.path() + "/mine.yaml", read_file(data_file("models/gpu", "h100-sxm")));
  std::string text = read_file(data_file("topologies", "h100-rail"));
  const std::size_t at = text.find("gpu: "), end = text.find('\n', at);
  text.replace(at, end - at, "gpu: ./mine.yaml");
  write_file(folder.path() + "/topology.yaml", text);
  EXPECT_EQ(mistakes_of_inputs("topology: " + folder.path() +
                               "/topology.yaml\nmodel: tiny-moe\ntrace: tiny-moe-train\n"
                               "tokens_per_rank: 8\npolicy: alltoall\n"),
            "");
}

TEST(OpenedInputs, HaveTheFilesOfTheirTransports) {
  const auto files = [](const Scenario& scenario) {
    std::vector<std::string> names;
    for (const InputFile& file : open_inputs(scenario).transport_files) names.push_back(file.name);
    return names;
  };
  const auto steps = [](const std::string& more) {
    return parse_scenario(
        "topology: h100-rail\nmodel: tiny-moe\ntrace: tiny-moe-train\ntokens_per_rank: 8\n" + more,
        "elsewhere/s.yaml", {});
  };
  using testing::ElementsAre;
  EXPECT_THAT(files(steps("policy: alltoall\n")), ElementsAre("nccl-p2p", "nccl-ring"));
  EXPECT_THAT(files(steps("policy: [alltoall, deepep-normal]\n")),
              ElementsAre("deepep-normal", "nccl-p2p", "nccl-ring"));
  EXPECT_THAT(files(steps("policy: [alltoall, deepep-normal]\ntransport: nccl-p2p\n")),
              ElementsAre("nccl-p2p", "nccl-ring"));
  EXPECT_THAT(files(steps("policy: alltoall\ntransport: ideal\n")), IsEmpty());
  EXPECT_THAT(files(of_serving("")), ElementsAre("deepep-ll", "engine-all-reduce"));
}

TEST(OpenedInputs, TellOneFaultOfSeveralClustersOnce) {
  const auto flags = [](const std::string& ep) {
    return std::vector<Override>{{"topology", "[h100-rail, h200-rail]", "t"},
                                 {"model", "tiny-moe", "m"},
                                 {"trace", "tiny-moe-train", "r"},
                                 {"policy", "alltoall", "p"},
                                 {"layers", "recorded", "l"},
                                 {"ep", ep, "e"},
                                 {"tokens_per_rank", "16", "k"},
                                 {"set", "topology:h100-rail.nodes=1", "n"},
                                 {"set", "topology:h200-rail.nodes=2", "n"}};
  };
  const Inputs inputs = open_inputs(read_scenario("", flags("16")));
  EXPECT_EQ(inputs.clusters[0].unsuitable, "'ep' is 16: it must divide 8 GPUs");
  EXPECT_EQ(inputs.clusters[1].unsuitable, "");
  EXPECT_EQ(inputs.clusters[1].ep, 16);
  try {
    open_inputs(read_scenario("", flags("3")));
    FAIL();
  } catch (const Error& e) {
    ASSERT_EQ(e.diagnostics().size(), 2U);
    EXPECT_EQ(e.diagnostics()[0].str(),
              "error: 'ep' is 3: it must divide 8 GPUs\nhint: ep 8 fits\n");
    EXPECT_EQ(e.diagnostics()[1].message, "'ep' is 3: it must divide 16 GPUs");
  }
}

}  // namespace
}  // namespace moesim
