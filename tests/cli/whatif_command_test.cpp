// SPDX-License-Identifier: Apache-2.0
// moesim whatif on the hand-sized trace.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/run.h"

namespace moesim {
namespace {

using testing::HasSubstr;

Outcome what_if(const std::vector<std::string>& more) {
  return run_moesim(on_hand_trace("whatif", "two-by-two", {"megatron", "dedup"}, more));
}

TEST(WhatIfCommand, PrintsBeforeAndAfter) {
  const Scratch scratch;
  const Outcome outcome =
      what_if({"--scale", "gpu.flops=2", "--slow", "gpu:1=0.5", "--json", scratch.file("w.json")});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("# what if: --scale gpu.flops=2 --slow gpu:1=0.5\n"));
  EXPECT_THAT(outcome.out, HasSubstr("before"));
  EXPECT_THAT(outcome.out, HasSubstr("megatron"));
  const auto json = nlohmann::json::parse(content(scratch.file("w.json")));
  EXPECT_EQ(json["format"], "moesim-whatif");
  ASSERT_EQ(json["cases"].size(), 2u);
  const auto& first = json["cases"][0];
  EXPECT_EQ(first["change"].get<double>(),
            first["after"]["s"].get<double>() / first["before"]["s"].get<double>() - 1);
}

TEST(WhatIfCommand, TakesSeveralChangesWithCommasOrByFlags) {
  const std::string said = "# what if: --scale gpu.flops=2 --scale nvlink.bandwidth=0.5\n";
  EXPECT_THAT(what_if({"--scale", "gpu.flops=2,nvlink.bandwidth=0.5"}).out, HasSubstr(said));
  EXPECT_THAT(what_if({"--scale", "gpu.flops=2", "--scale", "nvlink.bandwidth=0.5"}).out,
              HasSubstr(said));
}

TEST(WhatIfCommand, NeedsAChangeThatThereIs) {
  const Outcome nothing = what_if({});
  EXPECT_EQ(nothing.code, 2);
  EXPECT_THAT(nothing.err, HasSubstr("needs a change of the cluster"));
  const Outcome misspelt = what_if({"--scale", "gpu.flop=2"});
  EXPECT_EQ(misspelt.code, 2);
  EXPECT_THAT(misspelt.err, HasSubstr("did you mean 'gpu.flops'?"));
  EXPECT_EQ(misspelt.out, "");
}

}  // namespace
}  // namespace moesim
