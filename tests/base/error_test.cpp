// SPDX-License-Identifier: Apache-2.0
#include "sim/base/error.h"

#include <gtest/gtest.h>

namespace moesim {
namespace {

TEST(Diagnostic, ShowsPlaceSourceLineCaretAndHint) {
  const Diagnostic d{Severity::error,       "a.yaml", 3, 5, "unknown key 'gpuz'", "    gpuz: 8",
                     "did you mean 'gpus'?"};
  EXPECT_EQ(d.str(),
            "a.yaml:3:5: error: unknown key 'gpuz'\n"
            "      gpuz: 8\n"
            "      ^\n"
            "hint: did you mean 'gpus'?\n");
}

TEST(Diagnostic, LeavesOutWhatIsNotKnown) {
  EXPECT_STREQ(Error("no such flag").what(), "error: no such flag\n");
}

TEST(DidYouMean, SuggestsTheNearestOrListsAll) {
  EXPECT_EQ(did_you_mean("bandwith", {"bandwidth", "latency"}), "did you mean 'bandwidth'?");
  EXPECT_EQ(did_you_mean("xyz", {"bandwidth", "latency"}), "known: bandwidth, latency");
  EXPECT_EQ(did_you_mean("xyz", {}), "");
}

TEST(DidYouMean, PrefersTheFirstOfEquallyNear) {
  EXPECT_EQ(nearest("nodex", {"nodes", "node"}), "nodes");
}

TEST(DidYouMean, CapitalsCountLast) {
  EXPECT_EQ(nearest("H200", {"b200", "h200"}), "h200");
  EXPECT_EQ(nearest("QWEN3-30B", {"qwen3-30b-a3b", "olmoe"}), "");  // four letters are missing
  EXPECT_EQ(nearest("Tier", {"tier", "TIER", "Tie"}), "tier");
  EXPECT_EQ(nearest("TIER", {"tier", "TIER"}), "TIER");
  EXPECT_EQ(nearest("ndoes", {"nodes"}), "nodes");
  EXPECT_EQ(nearest("an-old-name", {"a-node", "a-name", "an-odl-naem"}), "an-odl-naem");
  EXPECT_EQ(nearest(std::string(10'000'000, 'x'), {"nodes", std::string(10'000'000, 'y')}), "");
}

}  // namespace
}  // namespace moesim
