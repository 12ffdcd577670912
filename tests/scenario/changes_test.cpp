// SPDX-License-Identifier: Apache-2.0
// Which changes find their input, which flags replace a scenario file, and which names are one.
#include "sim/scenario/changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/files.h"
#include "sim/base/temporary_folder.h"
#include "sim/scenario/require_flags.h"
#include "sim/scenario/scenario.h"
#include "tests/error_of.h"
#include "tests/scenario/override_pairs.h"

namespace moesim {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Changes, WithoutAFieldGetAHint) {
  const auto hint = [](const std::string& text) {
    const std::string all = error_of([&] { changes_by_flags({{"set", text, ""}}); });
    return all.substr(all.find("hint: ") + 6);
  };
  EXPECT_EQ(hint("topology=8"),
            "name a field of it: topology.field=value; another one is 'topology: 8', or "
            "--topology 8\n");
  EXPECT_EQ(hint("topology:a=8"), "name a field of it: topology:a.field=value\n");
  EXPECT_EQ(hint("gpu=8"), "name a field of it: gpu.field=value\n") << "a GPU is set in a topology";
  EXPECT_EQ(hint("tokens_per_rank=8"),
            "it is a key of the scenario: 'tokens_per_rank: 8', or --tokens-per-rank 8\n");
  EXPECT_EQ(hint("scenario.zero=2"), "keys of the scenario have no name before them: zero=2\n");
}

TEST(Changes, ByFlagsNameAnInputAndAFieldOfIt) {
  const auto mistake = [](const std::string& text) {
    return error_of([&] { changes_by_flags({{"set", text, ""}}); });
  };
  EXPECT_EQ(mistake("topology.nodes"),
            "--set set=topology.nodes: error: 'set' needs input.path=value, not 'topology.nodes'\n"
            "hint: for example topology.nodes=8\n");
  EXPECT_THAT(mistake("topology..nodes=1"), HasSubstr("'set' needs input.path=value"));
  EXPECT_THAT(mistake("nodes=8"),
              AllOf(HasSubstr("'set' cannot change 'nodes'\n"),
                    HasSubstr("hint: if it is a field of an input, name that first: INPUT.nodes, "
                              "of topology, model, gpu, policy, transport, software\n")));
  EXPECT_THAT(mistake("topolgy.nodes=8"), HasSubstr("hint: did you mean 'topology.nodes'?\n"));
  EXPECT_THAT(mistake("precisionn=bf16"), HasSubstr("hint: did you mean 'precision'?\n"));
  EXPECT_THAT(mistake("paralel.dp=4"), HasSubstr("hint: did you mean 'parallel.dp'?\n"));
  EXPECT_THAT(mistake("topology=8"), AllOf(HasSubstr("'set' cannot change 'topology'\n"),
                                           HasSubstr("a field of it: topology.field=value")));
  EXPECT_THAT(mistake("scenario:m=1"), AllOf(HasSubstr("'set' cannot change 'scenario:m'\n"),
                                             HasSubstr("scenario:NAME.parallel.tp=8")));
  EXPECT_THAT(mistake("scenario:m"), HasSubstr("'set' needs input.path=value"));
  const auto changes = changes_by_flags(
      {{"zero", "1", ""}, {"set", "gpu:h100.memory=1 GB", ""}, {"set", "scenario:m.zero=2", ""}});
  EXPECT_THAT(pairs_of(changes), ElementsAre("gpu:h100.memory=1 GB", "scenario:m.zero=2"));
}

TEST(Changes, OfOneInputAreThoseOfAllAndOfItsName) {
  const std::vector<Override> changes = {{"policy.a", "1", "f"},
                                         {"policy:m.b", "2", ""},
                                         {"policy:n.c", "3", ""},
                                         {"model.d", "4", ""},
                                         {"policyx.e", "5", ""}};
  const auto of_m = changes_of(changes, "policy", "m");
  EXPECT_THAT(pairs_of(of_m), ElementsAre("a=1", "b=2"));
  EXPECT_EQ(of_m[0].flag, "f");
  EXPECT_EQ(of_m[1].flag, "--set policy:m.b=2");
  EXPECT_THAT(pairs_of(changes_of(changes, "policy", "folder/n.yaml")), ElementsAre("a=1", "c=3"));
  // A name may hold a dot: the longest that fits is meant.
  EXPECT_THAT(pairs_of(changes_of({{"policy:v1.2.b", "6", ""}}, "policy", "v1.2")),
              ElementsAre("b=6"));
}

TEST(Changes, ThatReachNothingAreNamedWithWhatThereIs) {
  const std::vector<Override> changes = {{"policy:n.c", "3", ""},
                                         {"policy:megatron.b", "2", ""},
                                         {"model:n.c", "3", ""},
                                         {"policy:o", "4", "f"}};
  const auto lost = unreached(changes, "policy", {"megatron"});
  ASSERT_EQ(lost.size(), 2U);
  EXPECT_EQ(lost[0].str(),
            "--set policy:n.c=3: error: no policy of the scenario is called 'n'\nhint: known: "
            "megatron\n");
  EXPECT_EQ(lost[1].str(),
            "f: error: no policy of the scenario is called 'o'\nhint: known: megatron\n");
  EXPECT_THAT(unreached({{"scenario:n.c", "3", ""}}, "scenario", {"megatron"})[0].message,
              HasSubstr("no policy of the scenario is called 'n'"));
}

TEST(Changes, RemoveKeysOfTheScenarioByNull) {
  for (const char* removes : {"ep=null", "parallel.tp=null", "topology=null"}) {
    EXPECT_TRUE(removes_scenario_key(removes)) << removes;
  }
  for (const char* keeps : {"ep=4", "ep", "topology.nodes=null", "gpu:h100.memory=null", "=null"}) {
    EXPECT_FALSE(removes_scenario_key(keeps)) << keeps;
  }
}

TEST(Changes, MayOmitTheInputIfOnlyATopologyIsRead) {
  const auto changes = [](const std::vector<std::string>& set) {
    return changes_of_topology(set, "h100-rail");
  };
  EXPECT_THAT(pairs_of(changes({"nodes=8", "topology.nodes=4", "topology:h100-rail.nodes=2",
                                "gpu=h200", "topology.nic=null"})),
              ElementsAre("nodes=8", "nodes=4", "nodes=2", "gpu=h200", "nic=null"));
  EXPECT_THAT(error_of([&] { changes({"model.layers=1"}); }),
              AllOf(HasSubstr("only a topology is read here, not a model"),
                    HasSubstr("hint: topology.PATH=VALUE changes it")));
  EXPECT_THAT(error_of([&] { changes({"topology:torus.nodes=2"}); }),
              HasSubstr("no topology of the scenario is called 'torus'"));
}

TEST(RequiredFlags, AreThoseThatNameInputs) {
  const auto missing = [](const std::vector<Override>& flags) {
    return error_of([&] { require_flags(flags); });
  };
  EXPECT_EQ(missing({}),
            "error: no scenario file, and no --topology, --model, --trace, --policy\n"
            "hint: name a scenario file, or give these flags; --synth draws a trace\n");
  const auto with = [&](const Override& more) {
    return missing({{"topology", "t", ""}, {"model", "tiny-moe", ""}, {"policy", "p", ""}, more});
  };
  for (const Override& needs_no_trace : std::vector<Override>{{"trace", "r", ""},
                                                              {"routing", "balanced", ""},
                                                              {"routing", "[\"balanced\"]", ""},
                                                              {"synth.skew", "1", ""},
                                                              {"set", "synth.skew=1", ""}}) {
    EXPECT_EQ(with(needs_no_trace), "") << needs_no_trace.str();
  }
  for (const Override& needs_a_trace : std::vector<Override>{
           {"routing", "recorded", ""}, {"set", "model.layers=1", ""}, {"ep", "balanced", ""}}) {
    EXPECT_THAT(with(needs_a_trace), HasSubstr("and no --trace\n")) << needs_a_trace.str();
  }
  EXPECT_EQ(missing({{"topology", "t", ""}, {"model", "llama-3-8b", ""}}), "");
  EXPECT_THAT(missing({{"topology", "t", ""}, {"model", "llama-3-8c", ""}}),
              testing::StartsWith("error: no 'llama-3-8c' in models/moe and models/dense\n"
                                  "hint: did you mean 'llama-3-8b'?"));
  EXPECT_THAT(missing({{"model", "llama-3-8b", ""}}), HasSubstr("and no --topology\n"));
  EXPECT_THAT(missing({{"topology", "t", ""}, {"model", "tiny-moe", ""}}),
              HasSubstr("and no --trace, --policy\n"));
}

TEST(ScenarioFile, IsAPathOrAName) {
  const TemporaryFolder folder;
  write_file(folder.path() + "/plain", "{}\n");
  EXPECT_EQ(scenario_file(folder.path() + "/plain"), folder.path() + "/plain");
  EXPECT_TRUE(scenario_file("quickstart").ends_with("scenarios/quickstart.yaml"));
  EXPECT_TRUE(scenario_file("eplb").ends_with("scenarios/eplb.yaml")) << "a policy's name, too";
  EXPECT_EQ(error_of([&] { scenario_file("torus"); }),
            "error: 'torus' is a topology, not a scenario\nhint: --topology torus\n");
  EXPECT_THAT(error_of([&] { scenario_file("tiny-moe"); }),
              HasSubstr("'tiny-moe' is a model, not a scenario\nhint: --model tiny-moe\n"));
  EXPECT_THAT(error_of([&] { scenario_file("megatron"); }),
              HasSubstr("'megatron' is a policy, not a scenario\nhint: --policy megatron\n"));
}

}  // namespace
}  // namespace moesim
