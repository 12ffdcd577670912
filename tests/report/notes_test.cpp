// SPDX-License-Identifier: Apache-2.0
// Notes of cases below a table: each once, with whom it is of.
#include "sim/report/notes.h"

#include <gtest/gtest.h>

namespace moesim {
namespace {

CaseResult noted(const std::string& topology, const std::string& policy,
                 const std::vector<std::string>& notes) {
  CaseResult c;
  c.name = {topology, policy, "port"};
  c.metrics.notes = notes;
  return c;
}

TEST(Notes, StandOnceWithTheirPolicies) {
  EXPECT_EQ(notes_below({noted("a", "eplb", {"slept", "was cold"}), noted("a", "dedup", {}),
                         noted("a", "laer", {"was cold"})}),
            "# note: eplb slept\n# note: eplb, laer was cold\n");
  EXPECT_EQ(notes_below({noted("a", "dedup", {})}), "");
}

TEST(Notes, NameTheTopologyWhereOthersDiffer) {
  EXPECT_EQ(notes_below({noted("a", "eplb", {"slept"}), noted("b", "eplb", {})}),
            "# note: eplb on a slept\n");
  EXPECT_EQ(notes_below({noted("a", "eplb", {"slept"}), noted("b", "eplb", {"slept"})}),
            "# note: eplb slept\n");
}

TEST(Notes, BeginWithWhyACaseCannotRun) {
  CaseResult c = noted("a", "megamoe", {"slept"});
  EXPECT_EQ(c.marked_policy(), "megamoe");
  c.cannot_run = "two hosts";
  EXPECT_EQ(c.marked_policy(), "megamoe (!)");
  EXPECT_EQ(notes_below({c}),
            "# note: megamoe cannot run so (!): two hosts\n# note: megamoe slept\n");
}

TEST(Notes, SayNothingOfACaseThatWasNotRun) {
  CaseResult refused = noted("b", "eplb", {});
  refused.unsuitable = "too few GPUs";
  EXPECT_EQ(notes_below({noted("a", "eplb", {"slept"}), refused}), "# note: eplb slept\n");
}

}  // namespace
}  // namespace moesim
