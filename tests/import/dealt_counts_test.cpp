// SPDX-License-Identifier: Apache-2.0
// Tokens that are dealt from counts of a step, and what cannot be dealt.
#include <gmock/gmock.h>

#include "sim/import/counts.h"
#include "tests/error_of.h"
#include "tests/trace/scratch.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(DealtCounts, GiveEachTokenDifferentExperts) {
  // 3 tokens of 2 choices: steps of floor(3 x 0.618) = 1; 0 0 0 | 1 2 3 in turn.
  CountedStep step{"c"};
  step.counts = {{{3, 1, 1, 1}}};
  const auto passes = deal(step, 2);
  ASSERT_EQ(passes.size(), 1U);
  EXPECT_EQ(passes[0].source_rank, 0);
  EXPECT_THAT(passes[0].lengths, ElementsAre(3));
  for (int t = 0; t < 3; ++t) {
    EXPECT_EQ(passes[0].ids.at(t, 0, 0), 0);
    EXPECT_EQ(passes[0].ids.at(t, 0, 1), t + 1);
  }
  EXPECT_FALSE(passes[0].warm_up_first);
  // 8 tokens: 0.618 x 8 is 4, which shares a factor with 8, so that steps are of 3.
  step.counts = {{{1, 1, 1, 1, 1, 1, 1, 1}}};
  step.source = CountedSource::unknown;
  const RoutedPass eight = deal(step, 1)[0];
  EXPECT_EQ(eight.source_rank, -1);
  EXPECT_THAT(eight.lengths, ElementsAre(1, 1, 1, 1, 1, 1, 1, 1));
  for (int i = 0; i < 8; ++i) EXPECT_EQ(eight.ids.at(3 * i % 8, 0, 0), i);
  step.counts = {{{0, 0}, {1, 0}}};
  step.source = CountedSource::sequence;
  ASSERT_EQ(deal(step, 1).size(), 1U) << "a source without counts";
  EXPECT_THAT(deal(step, 1)[0].lengths, ElementsAre(1));
  step.counts.clear();
  EXPECT_TRUE(deal(step, 1).empty());
}

TEST(DealtCounts, AreOfWholeTokens) {
  const auto refused = [](std::vector<std::vector<std::vector<std::int64_t>>> counts, int top_k) {
    CountedStep step{"c"};
    step.counts = std::move(counts);
    EXPECT_EQ(can_be_dealt({"c", {}, {}, step.counts}, top_k),
              error_of([&] { deal(step, top_k); }).empty());
    const std::string text = error_of([&] { deal(step, top_k); });
    return text.substr(0, text.find('\n'));
  };
  EXPECT_EQ(refused({{{2, 1, 1}}}, 2), "");
  EXPECT_EQ(refused({{{3, 1, 0}}}, 2),
            "c: error: layer 0 of the file: source 0 has 2 tokens, but expert 0 is chosen 3 times: "
            "more than once by some token");
  EXPECT_EQ(refused({{{2, 1, 0}}}, 2),
            "c: error: the counts of source 0 add up to 3 in layer 0 of the file, not to whole "
            "tokens of 2 choices");
  CountedStep step{"c"};
  const auto said = [&] {
    const std::string text = error_of([&] { deal(step, 2); });
    return text.substr(text.find("error: ") + 7);
  };
  step.counts = {{{1, 1}}, {{2, 2}}}, step.layers = {5, 6};
  EXPECT_THAT(said(), HasSubstr("source 0 add up to 4 in layer 6 but to 2 in the first layer"));
  EXPECT_THAT(said(), HasSubstr("hint: a layer dropped tokens"));
  step.counts = {{{1, 0}}};
  EXPECT_THAT(said(), HasSubstr("hint: a layer dropped tokens")) << "of the first layer";
  step.counts = {{{0, 0}}, {{2, 2}}};
  EXPECT_THAT(said(), HasSubstr("hint: are layers without counts dense?"));
  step.counts = {{{-1, 1}}};
  EXPECT_THAT(said(), HasSubstr("source 0 has a count of -1"));
  step.counts = {{{(1LL << 40) + 1, 1}}};
  EXPECT_THAT(said(), HasSubstr("counts an expert 1099511627777 choices; at most 16777216 tokens"));
  step.counts = {{{1LL << 40, 1LL << 40}}};
  EXPECT_THAT(said(), HasSubstr("counts 1099511627776 tokens; at most 16777216 tokens"));
  step.counts = {{{(1LL << 24) + 1, (1LL << 24) + 1}}};
  EXPECT_EQ(
      said(),
      "counts 16777217 tokens; at most 16777216 tokens of a source can be in a step\nhint: "
      "count fewer passes, or divide all counts by the same number: loads stay as they are\n");
}

TEST(CountsOfReals, AreWholeAndBelowATenthOfAQuadrillion) {
  const auto count = [](double value) {
    std::string text;
    const auto kept = std::make_shared<std::vector<double>>(1, value);
    const auto array =
        NpyArray::view({'f', 8}, {1}, std::as_bytes(std::span(*kept)), kept, "counts");
    const std::string error = error_of([&] { text = std::to_string(count_at(array, 0)); });
    return error.empty() ? text : "refused";
  };
  EXPECT_EQ(count(0), "0");
  EXPECT_EQ(count(999'999'999'999'999), "999999999999999");
  EXPECT_EQ(count(1e15), "refused");
  EXPECT_EQ(count(2.5), "refused");
}

}  // namespace
}  // namespace moesim
