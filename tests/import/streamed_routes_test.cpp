// SPDX-License-Identifier: Apache-2.0
// Responses in chunks are one request each; layers that files count in their own way.
#include <gmock/gmock.h>

#include "tests/import/told.h"

namespace moesim {
namespace {

using testing::HasSubstr;

/// A chunk of a streamed chat with routes [token][layer][choice] in JSON.
std::string chunk_of(const std::string& id, const std::string& routes, int index = 0) {
  return fmt::format(R"(data: {{"id": "{}", "object": "chat.completion.chunk", "choices": )"
                     R"([{{"index": {}, "delta": {{"content": "a"}}, "routed_experts": {}}}]}})"
                     "\n\n",
                     id, index, routes);
}

TEST(ChunksOfAResponse, AreOneSequence) {
  EXPECT_EQ(
      told_of("vllm-routes",
              {{"a.txt", chunk_of("x", "[[[0, 1], [2, 3]]]") + chunk_of("x", "[[[4, 5], [6, 7]]]") +
                             chunk_of("x", "[[[4, 5], [6, 7]]]") + "data: [DONE]\n"}}),
      "top 2 [3] 1: 0 1 4 5 4 5 2: 2 3 6 7 6 7");
}

TEST(ChunksOfAResponse, MayAlternateWithOthers) {
  const std::string whole = R"({"id": "z", "routed_experts": [[[6, 0], [6, 1]]]})";
  EXPECT_EQ(told_of("vllm-routes", {{"a.txt", chunk_of("x", "[[[0, 1], [2, 3]]]") +
                                                  chunk_of("y", "[[[1, 2], [3, 4]]]") +
                                                  chunk_of("x", "[[[4, 5], [6, 7]]]", 1) +
                                                  chunk_of("x", "[[[5, 6], [7, 0]]]") + whole}}),
            "top 2 [1, 2, 1, 1] 1: 6 0 0 1 5 6 1 2 4 5 2: 6 1 2 3 7 0 3 4 6 7");
}

TEST(ChunksOfAResponse, MayRepeatWhatTheOnesBeforeHave) {
  EXPECT_EQ(told_of("vllm-routes",
                    {{"a.txt", chunk_of("x", "[[[0, 1], [2, 3]]]") +
                                   chunk_of("x", "[[[0, 1], [2, 3]], [[4, 5], [6, 7]]]")}}),
            "top 2 [2] 1: 0 1 4 5 2: 2 3 6 7");
  const std::string all = chunk_of("x", "[[[0, 1], [2, 3]], [[4, 5], [6, 7]]]");
  EXPECT_EQ(told_of("vllm-routes", {{"a.txt", chunk_of("x", "[[[0, 1], [2, 3]]]") + all + all}}),
            "top 2 [2] 1: 0 1 4 5 2: 2 3 6 7")
      << "the last one without a new token";
}

TEST(ChunksOfAResponse, SayThatItIsNotFinished) {
  const auto response = [](const char* id, const char* reason, const char* routes) {
    return fmt::format(R"({{"id": "{}", "object": "text_completion", "choices": [)"
                       R"({{"index": 0, "finish_reason": {}, "routed_experts": {}}}]}})"
                       "\n",
                       id, reason, routes);
  };
  const char* const first = "[[[0, 1], [2, 3]]]";
  const char* const second = "[[[4, 5], [6, 7]]]";
  EXPECT_EQ(told_of("vllm-routes", {{"a.jsonl", response("x", "null", first) +
                                                    response("x", R"("length")", second)}}),
            "top 2 [2] 1: 0 1 4 5 2: 2 3 6 7");
  EXPECT_EQ(told_of("vllm-routes", {{"a.jsonl", response("x", R"("stop")", first) +
                                                    response("x", R"("length")", second)}}),
            "top 2 [1, 1] 1: 0 1 4 5 2: 2 3 6 7")
      << "two whole ones";
}

TEST(ChunksOfAResponse, MayBeThoseOfSglang) {
  const auto chunk = [](const char* reason, const char* routes) {
    return fmt::format(R"(data: {{"text": "a", "meta_info": {{"id": "x", "finish_reason": {}, )"
                       R"("routed_experts": {}}}}})"
                       "\n\n",
                       reason, routes);
  };
  EXPECT_EQ(
      told_of("sglang-routes", {{"a.txt", chunk("null", "[[[0, 1], [2, 3]]]") +
                                              chunk(R"({"type": "stop"})", "[[[4, 5], [6, 7]]]")}}),
      "top 2 [2] 1: 0 1 4 5 2: 2 3 6 7");
}

TEST(RoutesOfAResponse, AreComparedWithItsUsage) {
  const auto warnings = [](int prompt, int completion) {
    const ScratchFolder scratch;
    write_bytes(scratch / "in/a.json",
                fmt::format(R"({{"usage": {{"prompt_tokens": {}, "completion_tokens": {}}}, )"
                            R"("routed_experts": [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]}})",
                            prompt, completion));
    const auto imported = import_trace("vllm-routes", options_of(scratch / "in", scratch / "out"));
    return imported.warnings.empty() ? "" : imported.warnings.front().message;
  };
  EXPECT_EQ(warnings(1, 1), "");
  EXPECT_EQ(warnings(1, 2), "") << "nothing follows the last token";
  for (const int completion : {0, 3}) {
    EXPECT_EQ(warnings(1, completion),
              "the usage of 1 response counts other tokens than the routes have");
  }
}

TEST(ChunksOfAResponse, NeedRoutesOnlyInOneOfThem) {
  const std::string bare =
      R"(data: {"id": "x", "object": "chat.completion.chunk", "choices": [{"delta": {}}]})"
      "\n\n";
  const ScratchFolder scratch;
  write_bytes(scratch / "in/a.txt", bare + bare + chunk_of("x", "[[[0, 1], [2, 3]]]"));
  const auto imported = import_trace("vllm-routes", options_of(scratch / "in", scratch / "out"));
  EXPECT_TRUE(imported.warnings.empty());
  EXPECT_THAT(told_of("vllm-routes", {{"a.txt", bare + bare}}),
              HasSubstr("none of its 1 responses has routed_experts"));
}

TEST(RoutesOfAResponse, AreOfAKindThatIsNamed) {
  const std::string routes = R"("routed_experts": [[[0, 1], [2, 3]]])";
  const auto refused = [&](const std::string& kind, const std::string& response,
                           const std::string& other) {
    EXPECT_EQ(told_of(kind, {{"a.json", response}}),
              "error: has responses with routes in a form that this kind does not read\n"
              "hint: kind '" +
                  other + "' reads them\n");
  };
  refused("sglang-routes", "{" + routes + "}", "vllm-routes");
  refused("sglang-routes", R"({"choices": [{)" + routes + "}]}", "vllm-routes");
  refused("megatron-routes", R"({"choices": [{"nvext": {"engine_data": {)" + routes + "}}}]}",
          "sglang-routes");
  refused("vllm-routes", R"({"moe_topk_indices": [[[0, 1], [2, 3]]]})", "megatron-routes");
}

TEST(RoutesOfAResponse, MayBeNull) {
  const std::string null = R"({"routed_experts": null})";
  for (const std::string& response :
       {R"({"meta_info": )" + null + "}", R"({"choices": [{"nvext": )" + null + "}]}"}) {
    EXPECT_THAT(told_of("sglang-routes", {{"a.json", response}}),
                HasSubstr("routed_experts is null in 1 response: nothing was returned"));
  }
  EXPECT_THAT(told_of("vllm-routes", {{"a.json", R"({"choices": [)" + null + "]}"}}),
              HasSubstr("routed_experts is null in 1 response"));
}

TEST(RoutesOfAResponse, CountOnceInTwoPlaces) {
  const auto taken = [](const std::string& response) {
    return told_of("sglang-routes", {{"a.json", response}});
  };
  const auto extension = [](const std::string& key, int expert) {
    return fmt::format(R"("{}": {{"routed_experts": [[[{}, 1], [2, 3]]]}})", key, expert);
  };
  const std::string meta = extension("meta_info", 0), nvext = extension("nvext", 0);
  const std::string one = "top 2 [1] 1: 0 1 2: 2 3", two = "top 2 [1, 1] 1: 0 1 0 1 2: 2 3 2 3";
  EXPECT_EQ(taken(R"({"choices": [{)" + meta + "}], " + nvext + "}"), one);
  EXPECT_EQ(taken("{" + meta + ", " + nvext + "}"), one);
  EXPECT_EQ(taken(R"({"choices": [{)" + meta + ", " + nvext + "}]}"), one);
  EXPECT_EQ(taken(R"({"choices": [{)" + meta + "}, {" + meta + "}]}"), two) << "of two choices";
  EXPECT_EQ(taken(R"({"choices": [{)" + meta + "}, {" + meta + "}], " + nvext + "}"), two);
  EXPECT_EQ(taken("[{" + meta + "}, {" + nvext + "}]"), two) << "of two responses";
  EXPECT_EQ(taken(R"({"choices": [{)" + meta + "}], " + extension("nvext", 5) + "}"),
            "top 2 [1, 1] 1: 5 1 0 1 2: 2 3 2 3");
}

TEST(ChunksOfAResponse, HaveTheSameLayers) {
  EXPECT_THAT(told_of("vllm-routes", {{"a.txt", chunk_of("x", "[[[0, 1], [2, 3]]]") +
                                                    chunk_of("x", "[[[4, 5]]]")}}),
              HasSubstr("holds routes (1, 1, 2) after (1, 2, 2)"));
}

/// Rows of two tokens, whose layers begin with a number.
std::string rows_from(int first) {
  std::string lines;
  for (int row = 0; row < 4; ++row) {
    lines += fmt::format(R"({{"moe_layer": {}, "token_idx": {}, "experts": [{}, {}]}})"
                         "\n",
                         row % 2 + first, row / 2, 2 * row, 2 * row + 1);
  }
  return lines;
}

TEST(LayersOfRows, MayBeCountedInAnotherWay) {
  const auto rows = [](int first, const std::string& numbering, bool named = false) {
    return told_of("table", {{"a.jsonl", rows_from(first)}}, [&](ImportOptions& options) {
      options.numbering = numbering;
      if (named) options.layers = {1, 2};
    });
  };
  const std::string routes = "top 2 [2] 1: 0 1 4 5 2: 2 3 6 7";
  EXPECT_EQ(rows(1, ""), routes);
  EXPECT_EQ(rows(0, "moe"), routes);
  EXPECT_EQ(rows(2, "from-1"), routes);
  EXPECT_THAT(rows(0, ""), HasSubstr("hint: --numbering moe says that they are counted from the "
                                     "first MoE layer, 0"));
  EXPECT_THAT(rows(2, ""), HasSubstr("hint: --numbering from-1 says that they are counted from 1"));
  EXPECT_THAT(rows(4, "moe"), HasSubstr("has layers 4, 5, which are not counted so"));
  EXPECT_THAT(rows(0, "", true),
              HasSubstr("has layers 0, 1, but --layers names 1, 2\nhint: --layers selects by the "
                        "file's numbers; --numbering moe in its place"));
}

TEST(LayersOfRows, OfCountsMayBe) {
  const TextsByName texts = {{"a.csv", "layer,expert,count\n0,3,2\n0,4,2\n1,1,2\n1,7,2\n"}};
  EXPECT_THAT(told_of("table", texts), HasSubstr("hint: --numbering moe"));
  EXPECT_EQ(told_of("table", texts, [](ImportOptions& options) { options.numbering = "moe"; }),
            "top 2 [1, 1] 1: 3 4 3 4 2: 1 7 1 7");
}

}  // namespace
}  // namespace moesim
