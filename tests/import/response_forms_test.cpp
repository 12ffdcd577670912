// SPDX-License-Identifier: Apache-2.0
// Responses as programs that call an engine write them, and what of them is not read.
#include <gmock/gmock.h>

#include "tests/import/told.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string vllm(const std::string& text) { return told_of("vllm-routes", {{"a.json", text}}); }

/// The first line of each warning.
std::vector<std::string> warnings_of(const std::string& kind, const std::string& text) {
  const ScratchFolder scratch;
  write_bytes(scratch / "in/a.json", text);
  std::vector<std::string> said;
  for (const auto& w : import_trace(kind, options_of(scratch / "in", scratch / "out")).warnings) {
    said.push_back(w.message);
  }
  return said;
}

// LLM.generate's RequestOutput
TEST(OfflineResults, HaveOutputsAsChoices) {
  const std::string prompt = R"("prompt_routed_experts": [[[0, 1], [2, 3]]])";
  const std::string next = R"("routed_experts": [[[4, 5], [6, 7]]])";
  const char* const both = "top 2 [2] 1: 0 1 4 5 2: 2 3 6 7";
  EXPECT_EQ(vllm("{" + prompt + R"(, "outputs": [{"index": 0, )" + next + "}]}"), both);
  EXPECT_EQ(vllm(R"({"outputs": [{"index": 0, )" + prompt + ", " + next + "}]}"), both);
  EXPECT_EQ(vllm(R"({"choices": [{"index": 0, )" + prompt + ", " + next + "}]}"), both);
  EXPECT_EQ(vllm("{" + prompt + ", " + next + "}"), both);
  EXPECT_EQ(vllm(R"({"outputs": [{"index": 0, )" + next + R"(}, {"index": 1, )" + next + "}]}"),
            "top 2 [1, 1] 1: 4 5 4 5 2: 6 7 6 7");
  EXPECT_EQ(vllm("{" + prompt + R"(, "outputs": [{"index": 0}]})"), "top 2 [1] 1: 0 1 2: 2 3");
}

TEST(KeysOfRoutes, ThatAreNotReadAreTold) {
  const std::string routes = R"("routed_experts": [[[0, 1], [2, 3]]])";
  EXPECT_THAT(warnings_of("vllm-routes", "{" + routes + "}"), IsEmpty());
  EXPECT_THAT(warnings_of("vllm-routes", "{" + routes + R"(, "steps": [{)" + routes + "}]}"),
              ElementsAre(HasSubstr("1 response has more routes than are read")));
  EXPECT_THAT(warnings_of("vllm-routes", "{" + routes + R"(, "nvext": {)" + routes + "}}"),
              IsEmpty())
      << "the same once more";
  EXPECT_THAT(warnings_of("sglang-routes",
                          R"({"nvext": {)" + routes + R"(, "engine_data": {)" + routes + "}}}"),
              IsEmpty());
  EXPECT_THAT(warnings_of("sglang-routes", R"({"meta_info": {)" + routes +
                                               R"(}, "prompt_routed_experts": [[[0, 1]]]})"),
              ElementsAre(HasSubstr("more routes than are read")));
}

TEST(RoutesOfAResponse, MayBeginBehindACachedPrompt) {
  // One token of uint8, 12 behind the first.
  const auto usage = [](int prompt) {
    return fmt::format(R"({{"usage": {{"prompt_tokens": {}, "completion_tokens": 1}}, "nvext": )"
                       R"({{"routed_experts": {{"data": "AAECAw==", "shape": [1, 2, 2], )"
                       R"("start": 12, "dtype": "uint8"}}}}}})",
                       prompt);
  };
  EXPECT_THAT(warnings_of("sglang-routes", usage(13)), IsEmpty());
  EXPECT_THAT(warnings_of("sglang-routes", usage(12)), IsEmpty());
  EXPECT_THAT(warnings_of("sglang-routes", usage(14)), ElementsAre(HasSubstr("other tokens")));
}

TEST(RoutesOfAResponse, MayEndWithATokenThatNeverRan) {
  const auto routes = [](const char* tokens) {
    return told_of("sglang-routes",
                   {{"a.json", fmt::format(R"({{"nvext": {{"routed_experts": {}}}}})", tokens)}});
  };
  EXPECT_EQ(routes("[[[0, 1], [2, 3]], [[0, 0], [0, 0]]]"),
            "top 2 [1] 1: 0 1 2: 2 3\n2 rows: of last tokens that never ran: all zeros\n");
  EXPECT_THAT(routes("[[[0, 1], [2, 3]], [[0, 0], [0, 0]], [[0, 0], [0, 0]]]"),
              HasSubstr("expert 0 is chosen twice"));
  EXPECT_THAT(routes("[[[0, 1], [2, 3]], [[0, 1], [0, 0]]]"),
              HasSubstr("expert 0 is chosen twice"));
  EXPECT_THAT(routes("[[[0, 0], [0, 0]], [[0, 1], [2, 3]]]"),
              HasSubstr("expert 0 is chosen twice"));
}

TEST(ResponsesOfALog, StandBehindOtherText) {
  const std::string said =
      told_of("sglang-routes", {{"a.log", "2026-01-01 INFO response {\"nvext\": {\"a\": [1]}}\n"}});
  EXPECT_THAT(said, HasSubstr("has other text before the JSON of its lines\nhint: leave it out: "
                              "sed 's/^[^{]*//'"));
}

}  // namespace
}  // namespace moesim
