// SPDX-License-Identifier: Apache-2.0
// Reasons that differ only in numbers are one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/sweep/advice_text.h"

namespace moesim {
namespace {

using testing::ElementsAre;

std::vector<std::string> texts_of(const std::vector<std::string>& reasons) {
  std::map<std::int64_t, SweepRow> rows;
  for (const std::string& reason : reasons) {
    const auto id = static_cast<std::int64_t>(rows.size());
    rows[id] = {id, sweep_unsuitable, reason};
  }
  std::vector<std::string> texts;
  for (const SharedReason& shared : shared_reasons(rows)) texts.push_back(shared.text());
  return texts;
}

TEST(SharedReasons, TellTheLeastShortfallOfMemory) {
  EXPECT_THAT(
      texts_of({"'p' needs 1.522 TB on GPU 0, which has 130 GB: 1.392 TB too much (1 MB a)",
                "'p' needs 137.1 GB on GPU 48, which has 130 GB: 6.469 GB too much (2 B b)", "",
                "'p' needs 140 GB on GPU 1, which has 130 GB: 900 GB too much (3 B c)"}),
      ElementsAre("3 cannot be, such as: 'p' needs 137.1 GB on GPU 48, which has 130 GB: "
                  "6.469 GB too much (2 B b)"));
}

TEST(SharedReasons, AreTheFirstOfOthersTheMostFrequentFirst) {
  EXPECT_THAT(texts_of({"alike", "'ep' is 32: of 16 GPUs", "'ep' is 64: of 16 GPUs", "alike",
                        "'ep' is 48: of 16 GPUs"}),
              ElementsAre("3 cannot be, such as: 'ep' is 32: of 16 GPUs", "2 cannot be: alike"));
}

TEST(SharedReasons, KeepNamesApart) {
  EXPECT_EQ(texts_of({"policy 'hd-2' fails", "policy 'hd-3' fails"}).size(), 2U);
  EXPECT_EQ(texts_of({"zero1 fails", "zero2 fails"}).size(), 2U);
  EXPECT_EQ(texts_of({"a rank's 2 experts", "a rank's 3 experts"}).size(), 1U);
}

TEST(SharedReasons, OfNoReasonAreNone) { EXPECT_THAT(texts_of({"", ""}), ElementsAre()); }

}  // namespace
}  // namespace moesim
