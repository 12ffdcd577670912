// SPDX-License-Identifier: Apache-2.0
// What the page asks for, and where dropped files go.
#include "sim/explore/asked.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/explore/explore.h"
#include "sim/explore/page_run.h"

namespace moesim {
namespace {

using testing::ElementsAre;

TEST(Asked, FlagsAndChangesAreOverrides) {
  const AskedRun run = read_asked(R"({"base": "quickstart", "quick": true, "pictures": false,
      "flags": {"topology": ["a", "b"], "ep": 8, "model": "m"}, "set": ["topology:a.nodes=2"]})");
  EXPECT_EQ(run.base, "quickstart");
  EXPECT_TRUE(run.quick);
  EXPECT_FALSE(run.pictures);
  std::vector<std::string> said;
  for (const Override& o : run.overrides) said.push_back(o.path + " " + o.value);
  EXPECT_THAT(
      said, ElementsAre(R"(topology ["a","b"])", "ep 8", R"(model "m")", "set topology:a.nodes=2"));
}

TEST(Asked, RefusesWhatItDoesNotKnow) {
  for (const char* wrong :
       {"", "[]", "1", R"({"bse": "x"})", R"({"base": 1})", R"({"base": "a", "bse": "x"})",
        R"({"kind": "x"})", R"({"quick": 1})", R"({"flags": []})", R"({"set": {}})",
        R"({"set": [1]})", R"({"flags": {"": 1}})"}) {
    EXPECT_THROW(read_asked(wrong), Error) << wrong;
  }
}

TEST(Asked, HasAtMostFiveHundredChanges) {
  std::string changes = "\"a=1\"";
  for (int i = 1; i < 500; ++i) changes += ",\"a=1\"";
  EXPECT_EQ(read_asked("{\"set\": [" + changes + "]}").overrides.size(), 500U);
  EXPECT_THROW(read_asked("{\"set\": [" + changes + ",\"a=1\"]}"), Error);
}

constexpr const char* small_step = R"(
topology: h100-rail
model: gpt-oss-20b
trace: traces/tiny-moe-train
policy: alltoall
ep: 8
)";

TEST(Asked, ThePageWinsOverTheFile) {
  AskedRun run;
  run.text = small_step;
  run.overrides = {{"ep", "16", "ep"}};
  EXPECT_EQ(scenario_of(run, {}).ep, 16);
  run.quick = true;
  EXPECT_THAT(scenario_of(run, {}).fidelities, ElementsAre(Fidelity::analytic));
}

TEST(Asked, AQuickIterationIsBalanced) {
  AskedRun run;
  run.text = std::string(small_step).substr(0, std::string(small_step).find("ep:")) +
             "parallel: {ep: 8}\nbatch: {global: 32, sequence: 4096}\n";
  EXPECT_THAT(scenario_of(run, {}).iteration->routing, ElementsAre(RoutingSource::recorded));
  run.quick = true;
  EXPECT_THAT(scenario_of(run, {}).iteration->routing, ElementsAre(RoutingSource::balanced));
}

TEST(Asked, DroppedFilesStayInTheirFolder) {
  EXPECT_EQ(drop_path("/tmp/d", "s1", "t/step-1/ids.npy"), "/tmp/d/s1/t/step-1/ids.npy");
  EXPECT_EQ(drop_path("d", "s", "1/2/3/4"), "d/s/1/2/3/4");
  const std::string longest(100, 'a');
  EXPECT_EQ(drop_path("d", longest, "B_2.-" + longest.substr(5)),
            "d/" + longest + "/B_2.-" + longest.substr(5));
  for (const auto& [set, path] :
       std::vector<std::pair<std::string, std::string>>{{"s", ""},
                                                        {"s", longest + "a"},
                                                        {longest + "a", "x"},
                                                        {"s", "../x"},
                                                        {"s", "/x"},
                                                        {"s", "a/"},
                                                        {"s", "a//b"},
                                                        {"..", "x"},
                                                        {"", "x"},
                                                        {"a/b", "x"},
                                                        {"s", ".x"},
                                                        {"s", "a b"},
                                                        {"s", "1/2/3/4/5"},
                                                        {"s", std::string("a\0b", 3)}}) {
    EXPECT_THROW(drop_path("/tmp/d", set, path), Error) << path;
  }
}

}  // namespace
}  // namespace moesim
