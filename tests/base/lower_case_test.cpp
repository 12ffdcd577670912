// SPDX-License-Identifier: Apache-2.0
#include "sim/base/lower_case.h"

#include <gtest/gtest.h>

namespace moesim {
namespace {

TEST(LowerCase, LeavesOtherSignsAsTheyAre) {
  EXPECT_EQ(lower_case("DeepSeek-V3 \xc3\x89"), "deepseek-v3 \xc3\x89");
}

TEST(LowerCase, NamesAreTheSameByTheirLettersAndDigits) {
  EXPECT_EQ(letters_and_digits("DeepSeek-V3.1 (fp8)"), "deepseekv31fp8");
  EXPECT_EQ(letters_and_digits("mean_ttft_ms"), letters_and_digits("Mean TTFT (ms)"));
  EXPECT_EQ(letters_and_digits("\xc3\xa9-_"), "");
}

}  // namespace
}  // namespace moesim
