// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/mistakes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace moesim {
namespace {

TEST(MistakesTest, TheRestIsCountedInTheirFile) {
  Mistakes mistakes;
  EXPECT_TRUE(mistakes.empty());
  mistakes.throw_if_any();
  for (int i = 0; i < 23; ++i) {
    Diagnostic mistake;
    mistake.file = "step.plan";
    mistake.message = fmt::format("mistake {}", i);
    mistakes.add(mistake);
  }
  try {
    mistakes.throw_if_any();
    FAIL();
  } catch (const Error& error) {
    ASSERT_EQ(error.diagnostics().size(), 21u);
    EXPECT_EQ(error.diagnostics()[19].message, "mistake 19");
    EXPECT_EQ(error.diagnostics()[20].str(), "step.plan: error: 3 more mistakes\n");
  }
}

}  // namespace
}  // namespace moesim
