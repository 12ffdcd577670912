// SPDX-License-Identifier: Apache-2.0
// "-" is standard output: only documents are there, what people read goes to standard error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/run.h"

namespace moesim {
namespace {

using testing::HasSubstr;
using Json = nlohmann::ordered_json;

TEST(Output, JsonStandsAloneOnStandardOutput) {
  const std::string trace = MOESIM_ROOT "/tests/fixtures/traces/hand";
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {on_hand_trace("compare", "pair", {"megatron", "dedup"}), "megatron"},
      {on_hand_trace("run", "pair", {"dedup"}), "dedup"},
      {on_hand_trace("explain", "pair", {"dedup"}), "dispatch"},
      {{"topology", "show", MOESIM_ROOT "/tests/cli/data/topologies/pair.yaml"}, "bisection"},
      {{"trace", "info", trace, "--ranks", "2"}, "hand"}};
  const Scratch scratch;
  for (auto [command, people] : cases) {
    const Outcome printed = run_moesim(command, {.folder = scratch.path()});
    command.insert(command.end(), {"--json", "-"});
    const Outcome outcome = run_moesim(command, {.folder = scratch.path()});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_TRUE(Json::accept(outcome.out)) << outcome.out;
    EXPECT_EQ(outcome.err, printed.out);
    EXPECT_THAT(outcome.err, HasSubstr(people));
    EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));  // no file named "-"
  }
}

TEST(Output, OfPlanAndCalibrateMayBePrintedToo) {
  const Scratch scratch;
  const Surroundings here{.folder = scratch.path()};
  auto plan = on_hand_trace("plan", "pair", {"dedup"});
  const Outcome printed = run_moesim(plan, here);
  plan.insert(plan.end(), {"-o", "-"});
  EXPECT_EQ(run_moesim(plan, here).out, printed.out);
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

}  // namespace
}  // namespace moesim
