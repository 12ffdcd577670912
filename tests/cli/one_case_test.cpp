// SPDX-License-Identifier: Apache-2.0
// What one case cannot do is a line of the comparison; only when none can run is it an error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/run.h"

namespace moesim {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::ordered_json;

const Surroundings shipped{.folder = MOESIM_ROOT, .data = {}};

std::vector<std::string> compare_tiny(const std::vector<std::string>& more) {
  std::vector<std::string> command = {"compare", "--model",        "tiny-moe",
                                      "--trace", "tiny-moe-train", "--steps",
                                      "0",       "--fidelity",     "analytic"};
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

// 64 GPUs for 32 experts: only placements that replicate fill them.
const std::vector<std::string> too_many_ranks = {
    "--topology", "h100-rail", "--set", "topology.nodes=8", "--ep", "64", "--repeat", "2"};

TEST(OneCase, ThatNeedsMoreExpertsIsALine) {
  auto command = compare_tiny(too_many_ranks);
  command.insert(command.end(), {"--policy", "alltoall,lazarus", "--json", "-"});
  const Outcome outcome = run_moesim(command, shipped);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("# alltoall on h100-rail was not run: ep = 64 GPUs for 32 "
                                     "experts leaves GPUs without an expert\n"
                                     "# hint: ep may not exceed the number of experts\n"
                                     "# speedups on h100-rail are over lazarus, as alltoall was "
                                     "not run\n"));
  const Json cases = Json::parse(outcome.out)["cases"];
  ASSERT_EQ(cases.size(), 2u);
  EXPECT_TRUE(cases[0].contains("unsuitable"));
  EXPECT_GT(cases[1]["step_s"], 0);
}

TEST(OneCase, ThatIsTheOnlyOneIsAnError) {
  auto command = compare_tiny(too_many_ranks);
  command[0] = "run";
  command.insert(command.end(), {"--policy", "alltoall"});
  const Outcome outcome = run_moesim(command, shipped);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("ep = 64 GPUs for 32 experts"));
}

TEST(OneCase, OnAClusterThatTheTraceDoesNotFitIsALine) {
  const Outcome outcome = run_moesim(
      compare_tiny({"--topology", "h100-rail,wan-1000dc", "--policy", "alltoall", "--json", "-"}),
      shipped);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("# alltoall on wan-1000dc was not run: trace 'tiny-moe-train' is too "
                              "short"),
                    Not(HasSubstr("# wan-1000dc: "))));
  const Json result = Json::parse(outcome.out);
  EXPECT_TRUE(result["clusters"][1].contains("unsuitable"));
  EXPECT_EQ(result["clusters"][0]["steps"], 1);
}

/// A copy of the hand-sized trace whose rows are said to be of counts.
TEST(OneCase, ThatNeedsTokensIsALineOverCounts) {
  const Scratch scratch;
  std::filesystem::copy(MOESIM_ROOT "/tests/fixtures/traces/hand", scratch.path() / "counts",
                        std::filesystem::copy_options::recursive);
  std::string json = content(scratch.file("counts/trace.json"));
  json.insert(json.find("\"provenance\""), "\"rows\": \"counts\", ");
  std::ofstream(scratch.file("counts/trace.json")) << json;
  auto command = on_hand_trace("compare", "pair", {"megatron", "dedup"});
  std::replace(command.begin(), command.end(),
               std::string(MOESIM_ROOT "/tests/fixtures/traces/hand"), scratch.file("counts"));
  const Outcome outcome = run_moesim(command);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out + outcome.err,
              HasSubstr("# dedup on pair was not run: 'dedup' looks at which experts a token has, "
                        "but trace 'hand' was made of counts, which do not say it"));
}

TEST(NoCase, ThatCanRunIsAnErrorWithAllReasons) {
  const Scratch scratch;
  auto command = compare_tiny(too_many_ranks);
  command.insert(command.end(), {"--policy", "alltoall,dedup", "--fidelity", "port", "--json",
                                 scratch.file("r.json")});
  const Outcome outcome = run_moesim(command, shipped);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err,
            "error: alltoall on h100-rail was not run: ep = 64 GPUs for 32 experts leaves GPUs "
            "without an expert\n"
            "error: dedup on h100-rail was not run: ep = 64 GPUs for 32 experts leaves GPUs "
            "without an expert\n"
            "hint: ep may not exceed the number of experts\n"
            "error: no case of the comparison can run\n");
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

// LAER-MoE's obvious command at its full size keeps all activations, and says what helps once.
TEST(NoCase, FitsAndAHintSaysWhatHelps) {
  const auto command = [](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"compare",
                                    "--topology",
                                    "laer-a100",
                                    "--policy",
                                    "laer,fsep-flexmoe,megatron",
                                    "--model",
                                    "mixtral-8x7b-e8k2",
                                    "--synth",
                                    "skew=1,tokens=524288,steps=2"};
    all.insert(all.end(), more.begin(), more.end());
    return run_moesim(all, shipped);
  };
  const std::string hint = "hint: fewer layers (--layers 0,1), ";
  const Outcome none = command({});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, AllOf(HasSubstr("policy 'laer' needs 156.6 GB on GPU "), HasSubstr(hint)));
  EXPECT_EQ(none.err.find(hint), none.err.rfind(hint));
  const Outcome two_layers = command({"--layers", "0,1"});
  EXPECT_EQ(two_layers.code, 0) << two_layers.err;
  const Outcome few_tokens = command({"--set", "synth.tokens=32768"});
  ASSERT_EQ(few_tokens.code, 0) << few_tokens.err;
  EXPECT_THAT(few_tokens.out, AllOf(HasSubstr("# megatron on laer-a100 was not run: "),
                                    HasSubstr("# hint: fewer layers (--layers 0,1), ")));
}

TEST(NoCase, FitsTwoClustersAndIsToldOnce) {
  const Outcome outcome = run_moesim(
      compare_tiny({"--topology", "h100-rail,laer-a100", "--policy", "dedup", "--ep", "7"}),
      shipped);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err, "error: 'ep' is 7: it must divide 32 GPUs\nhint: ep 32 fits\n");
}

/// Megatron's dispatcher waits for counts on the host, and passes of serving are graphs.
TEST(OneCase, ThatWaitsInsideAGraphIsALineOrAnError) {
  const auto decode = [](const std::string& command, const std::string& policies) {
    return run_moesim({command, "scenarios/serving-decode.yaml", "--policy", policies, "--routing",
                       "balanced", "--fidelity", "analytic", "--steps", "12", "--set",
                       "scenario:megatron.serving.graphs=true"},
                      shipped);
  };
  const std::string why = "host.graphs: a CUDA graph of full_iteration cannot hold 'read-counts'";
  const Outcome alone = decode("run", "megatron");
  EXPECT_EQ(alone.code, 2);
  EXPECT_THAT(alone.err, AllOf(HasSubstr(why), HasSubstr("serving.graphs: false")));
  const Outcome both = decode("compare", "megatron,deepep-low-latency");
  EXPECT_EQ(both.code, 0) << both.err;
  EXPECT_THAT(both.err + both.out, HasSubstr(why));
  EXPECT_EQ(run_moesim({"run", "scenarios/serving-decode.yaml", "--policy", "megatron", "--routing",
                        "balanced", "--fidelity", "analytic", "--steps", "12"},
                       shipped)
                .code,
            0)
      << "as the scenario ships";
}

TEST(OneCase, IsToldFromTheOthersByItsName) {
  const Outcome outcome = run_moesim(
      compare_tiny({"--topology", "h100-rail", "--policy", "dedup,models/system/dedup.yaml"}),
      shipped);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err,
            "error: two policies of the scenario are called 'dedup'\n"
            "hint: leave one of them out, or change its 'name'\n");
}

}  // namespace
}  // namespace moesim
