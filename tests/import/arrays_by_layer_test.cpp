// SPDX-License-Identifier: Apache-2.0
// Arrays whose axes the model tells apart, which hold a layer each, or mark all experts.
#include <gmock/gmock.h>

#include "sim/import/import_arrays.h"
#include "sim/import/marked_experts.h"
#include "sim/trace/npy.h"
#include "tests/error_of.h"
#include "tests/import/passes_by_hand.h"
#include "tests/import/told.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

std::string bytes_of_array(const std::vector<std::int64_t>& shape, const std::vector<int>& values,
                           NpyType type = {'u', 1}) {
  std::string text = npy_header(type, shape);
  for (const int value : values) text += static_cast<char>(value);
  return text;
}

/// Three tokens of two layers with two choices each.
const std::vector<int> by_token = {0, 1, 2, 3, 4, 5, 6, 7, 1, 0, 3, 2};
const std::vector<int> by_layer = {0, 1, 4, 5, 1, 0, 2, 3, 6, 7, 3, 2};
/// What becomes of arrays of a model with four layers, two of them of experts.
std::string told_of_arrays(const TextsByName& arrays,
                           const std::function<void(ImportOptions&)>& change = {}) {
  return told_of("npy", arrays, [&](ImportOptions& options) {
    options.model_layers = 4;
    if (change) change(options);
  });
}

const std::string both_layers = "top 2 [3] 1: 0 1 4 5 1 0 2: 2 3 6 7 3 2";

TEST(AxesOfArrays, AreThoseThatTheModelAllows) {
  EXPECT_EQ(told_of_arrays({{"a.npy", bytes_of_array({3, 2, 2}, by_token)}}), both_layers);
  EXPECT_EQ(told_of_arrays({{"a.npy", bytes_of_array({2, 3, 2}, by_layer)}}), both_layers);
  EXPECT_EQ(told_of_arrays({{"a.npy", bytes_of_array({1, 3, 2, 2}, by_token)}}), both_layers)
      << "of one batch";
  EXPECT_EQ(told_of_arrays({{"a.npy", bytes_of_array({3, 2, 2}, by_token)}},
                           [](ImportOptions& options) {
                             options.moe_layers.clear(), options.layers = {1, 2};
                           }),
            both_layers);
}

TEST(AxesOfArrays, AreAskedForIfSeveralCanBeTheTokens) {
  const std::string ask = "which axis is the tokens?";
  EXPECT_THAT(told_of_arrays({{"a.npy", bytes_of_array({2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7})}}),
              HasSubstr(ask));
  EXPECT_THAT(told_of_arrays({{"a.npy", bytes_of_array({2, 3, 2}, by_layer)}},
                             [](ImportOptions& options) { options.model_layers = 3; }),
              HasSubstr(ask))
      << "three may be all layers of the model";
  EXPECT_THAT(told_of_arrays({{"a.npy", bytes_of_array({3, 2, 2}, by_token)}},
                             [](ImportOptions& options) { options.moe_layers.clear(); }),
              HasSubstr(ask));
}

TEST(ArraysOfOneLayer, AreLayersByTheNumbersInTheirNames) {
  const std::string first = bytes_of_array({3, 2}, {0, 1, 4, 5, 1, 0});
  const std::string second = bytes_of_array({3, 2}, {2, 3, 6, 7, 3, 2});
  const std::string weights =
      npy_header({'f', 4}, std::vector<std::int64_t>{3, 2}) + std::string(24, '\0');
  EXPECT_EQ(told_of_arrays({{"layer_1.npy", first}, {"layer_2.npy", second}}), both_layers);
  EXPECT_EQ(told_of_arrays({{"rank0.layers.1.mlp.topk_ids.npy", first},
                            {"rank0.layers.2.mlp.topk_ids.npy", second},
                            {"rank0.layers.1.mlp.topk_weights.npy", weights},
                            {"rank0.layers.2.mlp.topk_weights.npy", weights},
                            {"rank0.layers.1.mlp.router_logits.npy", "x"}}),
            both_layers);
  EXPECT_EQ(told_of_arrays({{"layer_1.npy", first},
                            {"layer_2.npy", bytes_of_array({1, 3, 2}, {2, 3, 6, 7, 3, 2})}}),
            both_layers);
  EXPECT_EQ(told_of_arrays({{"arr_0.npy", first}, {"arr_1.npy", second}}), both_layers);
  EXPECT_EQ(told_of_arrays({{"layer_1.npy", first},
                            {"layer_2.npy", second},
                            {"lengths.npy", bytes_of_array({2}, {1, 2})}}),
            "top 2 [1, 2] 1: 0 1 4 5 1 0 2: 2 3 6 7 3 2");
}

TEST(ArraysOfOneLayer, MayBeCountedInAnotherWay) {
  const TextsByName texts = {{"layer_0.npy", bytes_of_array({3, 2}, {0, 1, 4, 5, 1, 0})},
                             {"layer_1.npy", bytes_of_array({3, 2}, {2, 3, 6, 7, 3, 2})}};
  EXPECT_EQ(told_of_arrays(texts),
            "error: has layers 0, 1 but the model's MoE layers are 1, 2\nhint: --numbering moe "
            "says that they are counted from the first MoE layer, 0\n");
  EXPECT_EQ(told_of_arrays(texts, [](ImportOptions& options) { options.numbering = "moe"; }),
            both_layers);
}

TEST(ArraysOfOneLayer, AreNotOtherNumberedArrays) {
  const auto found = [](const std::vector<std::string>& names, std::size_t expected = 0) {
    const auto its = find_layer_arrays(names, ArrayRole::ids, expected);
    return its ? its->names : std::vector<std::string>{};
  };
  EXPECT_THAT(found({"layer_10", "layer_9"}), ElementsAre("layer_9", "layer_10"));
  EXPECT_THAT(found({"layer_1_ids", "layer_1_hits"}), ElementsAre("layer_1_ids"));
  EXPECT_THAT(found({"rank_0", "rank_1"}), IsEmpty());
  EXPECT_THAT(found({"step0_layer1", "step1_layer1"}), IsEmpty()) << "two sets";
  EXPECT_THAT(found({"arr_0", "arr_1"}, 3), IsEmpty());
  EXPECT_THAT(found({"layer_1", "layer_01"}), IsEmpty()) << "twice";
  EXPECT_THAT(found({"layer_1_lengths", "layer_2_lengths"}), IsEmpty());
}

TEST(MarksOfExperts, AreChoices) {
  const auto marks = [](const std::vector<int>& ids, std::size_t choices) {
    std::vector<int> values(ids.size() / choices * 8);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      values[i / choices * 8 + static_cast<std::size_t>(ids[i])] = 1;
    }
    return values;
  };
  std::string bools = bytes_of_array({3, 2, 8}, marks(by_token, 2));
  const std::string sorted = "top 2 [3] 1: 0 1 4 5 0 1 2: 2 3 6 7 2 3";
  EXPECT_EQ(told_of_arrays({{"a.npy", bools}}), sorted);
  bools.replace(bools.find("|u1"), 3, "|b1");
  EXPECT_EQ(told_of_arrays({{"a.npy", bools}}), sorted);
  EXPECT_EQ(told_of_arrays({{"layer_1.npy", bytes_of_array({1, 8}, {0, 1, 0, 1, 0, 0, 0, 0})},
                            {"layer_2.npy", bytes_of_array({1, 8}, {0, 0, 0, 0, 1, 0, 0, 1})}}),
            "top 2 [1] 1: 1 3 2: 4 7");
  EXPECT_THAT(told_of_arrays({{"a.npy", bytes_of_array({3, 2, 8}, marks(by_token, 1))}}),
              StartsWith("error: "));
}

TEST(MarksOfExperts, AreAsManyForEveryToken) {
  const auto refused = [](const std::vector<std::int32_t>& values, int top_k) {
    const auto rows = std::ssize(values) / 4;
    return error_of([&] { without_marks(NpyArray::of(Ids(values), {rows, 4}, "m"), 4, top_k); });
  };
  EXPECT_EQ(refused({1, 1, 0, 0, 0, 1, 0, 1}, 0), "");
  EXPECT_THAT(refused({1, 1, 0, 0, 0, 1, 0, 0}, 0),
              HasSubstr("m: error: int32 (2, 4): row 1 marks 1 of 4 experts, not 2"));
  EXPECT_THAT(refused({1, 1, 0, 0}, 1), HasSubstr("row 0 marks 2 of 4 experts, not 1"));
  EXPECT_THAT(refused({0, 0, 0, 0}, 0), HasSubstr("row 0 marks 0 of 4 experts, not 0"));
  EXPECT_EQ(refused({0, 1, 2, 3}, 0), "") << "ids";
}

}  // namespace
}  // namespace moesim
