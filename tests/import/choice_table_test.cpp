// SPDX-License-Identifier: Apache-2.0
#include "sim/import/choice_table.h"

#include <gmock/gmock.h>

#include "sim/import/repeated_ranks.h"
#include "tests/error_of.h"
#include "tests/import/passes_by_hand.h"
#include "tests/trace/scratch.h"

namespace moesim {
namespace {

NpyArray ids_of_layer(std::vector<std::int64_t> shape) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(shape[0] * shape[1]));
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i);
  return NpyArray::of(std::move(ids), std::move(shape), "ids");
}

TEST(ChoiceTables, HaveLayersOfOneShape) {
  const auto refused = [](std::vector<std::int64_t> shape) {
    return error_of([&] { ChoiceTable({ids_of_layer({2, 3}), ids_of_layer(std::move(shape))}); });
  };
  EXPECT_THAT(refused({2, 2}),
              testing::HasSubstr("has shape (2, 2) but the first layer has (2, 3)"));
  EXPECT_THAT(refused({3, 3}),
              testing::HasSubstr("has shape (3, 3) but the first layer has (2, 3)"));
  EXPECT_EQ(refused({2, 3}), "");
}

TEST(ChoiceTables, HavePartsAndEveryFewTokens) {
  const ChoiceTable table({ids_of_layer({5, 2})});  // token t chose 2 t and 2 t + 1
  const ChoiceTable part = table.part(2, 2);
  ASSERT_EQ(part.tokens(), 2);
  EXPECT_EQ(part.at(0, 0, 0), 4);
  EXPECT_EQ(part.at(1, 0, 1), 7);
  const ChoiceTable odd = table.every(1, 2), even = table.every(0, 2);
  ASSERT_EQ(odd.tokens(), 2);
  ASSERT_EQ(even.tokens(), 3);
  EXPECT_EQ(odd.at(1, 0, 0), 6);
  EXPECT_EQ(even.at(2, 0, 1), 9);
}

TEST(ChoiceTables, AreTheSameIfAllTheirChoicesAre) {
  const auto table = [](std::int64_t tokens, std::int64_t choices, std::size_t layers = 1) {
    return ChoiceTable(std::vector(layers, ids_of_layer({tokens, choices})));
  };
  EXPECT_TRUE(same_choices(table(3, 2), table(3, 2)));
  EXPECT_FALSE(same_choices(table(3, 2), table(2, 2)));
  EXPECT_FALSE(same_choices(table(2, 2), table(3, 2)));
  EXPECT_FALSE(same_choices(table(3, 2), table(3, 1)));
  EXPECT_FALSE(same_choices(table(3, 2), table(3, 2, 2)));
  const ChoiceTable five = table(5, 2);
  EXPECT_TRUE(same_choices(five.part(0, 2), table(2, 2)));
  EXPECT_FALSE(same_choices(five.part(1, 2), table(2, 2)));
  EXPECT_FALSE(same_choices(five.every(0, 2), table(3, 2))) << "from the second token on";
}

TEST(RepeatedTables, AreOfOnePass) {
  RepeatedRanks seen;
  const ChoiceTable five({ids_of_layer({5, 2})});
  seen.begin(7);
  EXPECT_FALSE(seen.repeats(five));
  EXPECT_FALSE(seen.repeats(five.part(1, 2)));
  EXPECT_TRUE(seen.repeats(five));
  EXPECT_TRUE(seen.repeats(five.part(1, 2)));
  seen.begin(7);
  EXPECT_TRUE(seen.repeats(five));
  seen.begin(8);
  EXPECT_FALSE(seen.repeats(five));
  for (int twice = 0; twice < 2; ++twice) EXPECT_FALSE(seen.repeats(five.part(0, 0))) << "empty";
}

TEST(RepeatedRanksOfAPass, HaveEveryChoiceInCommon) {
  const ChoiceTable table = table_of_layers({{1, 2, 3, 4}, {5, 6, 7, 0}}, 2);
  EXPECT_TRUE(same_choices(table, table));
  for (const auto& other :
       {table_of_layers({{0, 2, 3, 4}, {5, 6, 7, 0}}, 2),
        table_of_layers({{1, 2, 3, 4}, {5, 6, 7, 1}}, 2), table_of_layers({{1, 2, 3, 4}}, 2),
        table_of_layers({{1, 2}, {5, 6}}, 2), table_of_layers({{1, 3}, {5, 7}}, 1),
        table_of_layers({{1, 7, 3, 4}, {5, 6, 7, 0}}, 2)}) {
    EXPECT_FALSE(same_choices(table, other));
  }
  RepeatedRanks seen;
  seen.begin(3);
  EXPECT_FALSE(seen.repeats(table));
  EXPECT_TRUE(seen.repeats(table));
  seen.begin(3);
  EXPECT_TRUE(seen.repeats(table)) << "the same pass";
  seen.begin(4);
  EXPECT_FALSE(seen.repeats(table));
  EXPECT_FALSE(seen.repeats(table_of_layers({{}}, 1))) << "nothing repeats nothing";
  EXPECT_FALSE(seen.repeats(table_of_layers({{}}, 1)));
}

TEST(AxesOfIds, AreTokensLayersAndChoices) {
  const NpyArray values = NpyArray::of(Ids{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {2, 3, 2}, "v");
  const ChoiceTable by_token(values, 2, ""), by_layer(values, 3, ""), told(values, {}, "ltk");
  EXPECT_EQ(by_token.at(1, 2, 1), 11);
  EXPECT_EQ(by_token.at(0, 1, 0), 2);
  EXPECT_EQ(by_layer.tokens(), 3);
  EXPECT_EQ(by_layer.at(2, 0, 1), 5);
  EXPECT_EQ(told.at(0, 1, 0), 6);
  const ChoiceTable single(values.reshaped({6, 2}), {}, "");
  EXPECT_EQ(single.layers(), 1);
  EXPECT_EQ(single.at(5, 0, 1), 11);
  const auto refused = [](std::vector<std::int64_t> shape, std::optional<std::int64_t> tokens) {
    std::int64_t count = 1;
    for (const std::int64_t n : shape) count *= n;
    const NpyArray array = NpyArray::of(Ids(static_cast<std::size_t>(count)), shape, "v");
    const std::string text = error_of([&] { ChoiceTable(array, tokens, ""); });
    return text.substr(0, text.find('\n'));
  };
  EXPECT_EQ(refused({2, 0, 2}, 2), "v: error: holds no ids");
  EXPECT_EQ(refused({2, 3, 0}, 2), "v: error: holds no ids");
  EXPECT_EQ(refused({0, 3, 2}, 0), "");
  EXPECT_THAT(refused({3, 3, 2}, 3), testing::HasSubstr("which axis is the tokens?"));
  EXPECT_THAT(refused({2, 3, 2}, 5), testing::HasSubstr("which axis is the tokens?"));
  EXPECT_THAT(refused({6}, 6), testing::HasSubstr("has shape (6,); ids have three axes"));
  EXPECT_THAT(refused({1, 1, 1, 1}, 1),
              testing::HasSubstr("has shape (1, 1, 1, 1); ids have three axes"));
}

}  // namespace
}  // namespace moesim
