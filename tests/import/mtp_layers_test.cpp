// SPDX-License-Identifier: Apache-2.0
// Layers of multi-token prediction behind those of the model are left out, whatever recorded them.
// The model has a dense layer, two with experts and one of MTP.
#include <gmock/gmock.h>

#include "tests/import/told.h"

namespace moesim {
namespace {

using testing::HasSubstr;

const auto with_mtp = [](ImportOptions& options) { options.mtp_layers = 1; };

const char* const taken = "top 2 [2] 1: 0 1 4 5 2: 2 3 6 7";

/// Two tokens, the layers of `rows` in each.
std::string response(const char* first, const char* second) {
  return fmt::format(R"({{"routed_experts": [[{}], [{}]]}})", first, second);
}

TEST(LayersOfMtp, AreTheLastOfAResponse) {
  const std::string dropped = "\n2 rows: of dense layers\n2 rows: of multi-token prediction\n";
  const std::string all =
      response("[0, 0], [0, 1], [2, 3], [5, 1]", "[0, 0], [4, 5], [6, 7], [3, 0]");
  EXPECT_EQ(told_of("vllm-routes", {{"a.json", all}}, with_mtp), taken + dropped);
  EXPECT_EQ(told_of("vllm-routes", {{"a.json", all}}), taken + dropped)
      << "the model does not say how many it has";
  const std::string moe = response("[0, 1], [2, 3], [5, 1]", "[4, 5], [6, 7], [3, 0]");
  EXPECT_EQ(told_of("vllm-routes", {{"a.json", moe}}, with_mtp),
            std::string(taken) + "\n2 rows: of multi-token prediction\n");
  EXPECT_THAT(told_of("vllm-routes", {{"a.json", moe}}),
              HasSubstr("of multi-token prediction ('mtp' of the model says how many)"));
  const std::string dense = response("[0, 0], [0, 1], [2, 3]", "[0, 0], [4, 5], [6, 7]");
  EXPECT_EQ(told_of("vllm-routes", {{"a.json", dense}}, with_mtp),
            std::string(taken) + "\n2 rows: of dense layers\n")
      << "as many layers as the model";
}

TEST(LayersOfMtp, MayBeAmongBytes) {
  const std::string bytes =
      R"({"meta_info": {"routed_experts": "AAAAAQIDBQEAAAQFBgcDAA==", "routed_experts_dtype": "uint8"}})";
  EXPECT_EQ(told_of("sglang-routes", {{"a.json", bytes}}, with_mtp),
            std::string(taken) + "\n2 rows: of dense layers\n2 rows: of multi-token prediction\n");
  EXPECT_THAT(
      told_of("sglang-routes", {{"a.json", bytes}}),
      HasSubstr("or layers of multi-token prediction that the model does not have ('mtp')"));
}

TEST(LayersOfMtp, AreInAllBytesOrInNone) {
  const auto response = [](const char* routes) {
    return fmt::format(
        R"({{"meta_info": {{"routed_experts": "{}", "routed_experts_dtype": "uint8"}}}})", routes);
  };
  // Three tokens of four layers are as many bytes as four of three.
  const std::string two = response("AAAAAQIDBQEAAAQFBgcDAA=="),
                    three = response("AAAAAQIDBQEAAAABAgMFAQAAAAECAwUB");
  const auto told = [&](bool layers) {
    return told_of("sglang-routes", {{"a.jsonl", two + "\n" + three + "\n"}},
                   [&](ImportOptions& options) {
                     options.mtp_layers = 1;
                     if (layers) options.layers = {0, 1, 2, 3};
                   });
  };
  EXPECT_THAT(told(false), HasSubstr("may be of 3 layers a token, as those before are not\nhint: "
                                     "--layers 0:4 if multi-token prediction is among them"));
  EXPECT_THAT(told(true), HasSubstr("\n5 rows: of multi-token prediction\n"));
}

TEST(LayersOfMtp, MayBeNumbered) {
  std::string rows;
  for (const auto& [token, layer, ids] :
       std::vector<std::tuple<int, int, const char*>>{{0, 1, "0, 1"},
                                                      {0, 2, "2, 3"},
                                                      {0, 3, "5, 1"},
                                                      {1, 1, "4, 5"},
                                                      {1, 2, "6, 7"},
                                                      {1, 3, "3, 0"}}) {
    rows += fmt::format(R"({{"token": {}, "layer": {}, "topk_ids": [{}]}})"
                        "\n",
                        token, layer, ids);
  }
  const std::string dropped = "\n2 rows: of multi-token prediction\n";
  EXPECT_EQ(told_of("table", {{"a.jsonl", rows}}, with_mtp), taken + dropped);
  EXPECT_EQ(told_of("table", {{"a.jsonl", rows}}), taken + dropped);
}

/// A line of Megatron's router trace for each layer.
std::string megatron(const std::vector<int>& layers) {
  std::string text;
  const char* const ids[] = {"[0, 1], [4, 5]", "[2, 3], [6, 7]", "[5, 1], [3, 0]"};
  for (std::size_t l = 0; l < layers.size(); ++l) {
    text += fmt::format(R"({{"step": 0, "layer": {}, "rank": 0, "num_tokens": 2, "topk": 2, )"
                        R"("top_indices": [{}]}})"
                        "\n",
                        layers[l], ids[l]);
  }
  return text;
}

TEST(LayersOfMtp, AreCountedWithTheOthers) {
  const std::string all = std::string(taken) + " rank 0\n2 rows: of multi-token prediction\n";
  for (const std::vector<int>& layers : {std::vector{1, 2, 3}, {2, 3, 4}, {0, 1, 2}}) {
    EXPECT_EQ(told_of("megatron-trace", {{"a.jsonl", megatron(layers)}}, with_mtp), all);
  }
  EXPECT_EQ(told_of("megatron-trace", {{"a.jsonl", megatron({2, 3, 4})}},
                    [](ImportOptions& options) { options.numbering = "from-1"; }),
            all);
  EXPECT_THAT(told_of("megatron-trace", {{"a.jsonl", megatron({0, 1, 2})}}),
              HasSubstr("does not say how they are counted"))
      << "the model has no such layer";
  EXPECT_THAT(told_of("megatron-trace", {{"a.jsonl", megatron({1, 3, 4})}}, with_mtp),
              HasSubstr("has layers 1, 3, 4, and does not say how they are counted"));
}

TEST(LayersOfMtp, MayHaveCounts) {
  const auto counts = [](const char* layers) {
    return told_of("sglang-counts",
                   {{"a.json", fmt::format(R"({{"logical_count": [[{}]]}})", layers)}}, with_mtp);
  };
  const char* const one = "[1, 1, 0, 0, 0, 0, 0, 0]";
  const char* const none = "[0, 0, 0, 0, 0, 0, 0, 0]";
  const std::string moe = counts(fmt::format("{0}, {0}, {0}", one).c_str());
  EXPECT_THAT(moe, HasSubstr("1: 0 1 2: 0 1"));
  EXPECT_THAT(moe, HasSubstr("of multi-token prediction"));
  EXPECT_EQ(counts(fmt::format("{1}, {0}, {0}, {0}", one, none).c_str()), moe);
  EXPECT_EQ(counts(fmt::format("{1}, {0}, {0}", one, none).c_str()).find("multi"), moe.npos);
}

}  // namespace
}  // namespace moesim
