// SPDX-License-Identifier: Apache-2.0
// Numbers and names in plain lines of a log: signs, exponents, modules, counts next to an expert.
#include <gmock/gmock.h>

#include "tests/import/told.h"

namespace moesim {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string log_told(const std::string& text, std::vector<std::string> map = {}) {
  return told_of("table", {{"a.log", text}}, [&](ImportOptions& o) { o.map = std::move(map); });
}

/// A line for each of 8 experts of the layers 1 and 2, with a number of 4 for all.
std::string lines_of_experts(const char* form) {
  std::string text;
  for (int row = 0; row < 16; ++row) {
    text += fmt::format(fmt::runtime(form), row / 8 + 1, row % 8, 4) + "\n";
  }
  return text;
}

TEST(LogValues, HaveSignsAndExponents) {
  EXPECT_THAT(log_told("layer=1 token=0 expert=-4\nlayer=1 token=0 expert=3\n"),
              StartsWith("error: field 'expert' holds -4, not expert ids\n"));
  const ScratchFolder scratch;
  write_bytes(scratch / "in/a.log", "layer=1 token=0 experts=3,4 weights=0.75,2.5e-01\n");
  auto options = options_of(scratch / "in", scratch / "out");
  options.layers = {1};
  import_trace("table", options);
  const auto trace = RoutingTrace::open(scratch / "out");
  EXPECT_EQ(trace.step(0).weight(0, 0, 1), 0.25F);
}

TEST(LogValues, NameLayersByTheirModules) {
  const std::string told = "top 2 [1] 1: 3 4 2: 5 6";
  for (const char* const form : {"layer_name=model.layers.{}.mlp.experts topk_ids=[{}]\n",
                                 "layer='layers.{}' topk_ids=[{}]\n",
                                 "[moe.py:12] model.layers.{}.mlp.gate: topk_ids=[{}]\n",
                                 "layer=decoder.{}.moe -> experts [{}]\n"}) {
    EXPECT_EQ(log_told(fmt::format(fmt::runtime(form), 1, "3, 4") +
                       fmt::format(fmt::runtime(form), 2, "5, 6")),
              told)
        << form;
  }
  EXPECT_EQ(
      log_told("where=h.1.mlp topk_ids=[3, 4]\nwhere=h.2.mlp topk_ids=[5, 6]\n", {"layer=where"}),
      told);
  EXPECT_EQ(log_told("layer=1 loads layers.7.mlp topk_ids=[3, 4]\nlayer.2 topk_ids=[5, 6]\n"),
            told);
}

TEST(LogValues, AreCountsNextToAnExpert) {
  const std::string told = "top 2 [1, 1, 1, 1] 1: 0 1 0 1 0 1 0 1 2: 2 3 2 3 2 3 2 3";
  for (const char* const form :
       {"layer={} expert={} tokens=4\n", "layer={} expert={} load: 4 (25.0%)\n"}) {
    std::string text;
    for (int e = 0; e < 4; ++e) text += fmt::format(fmt::runtime(form), e / 2 + 1, e);
    EXPECT_EQ(log_told(text), told) << form;
  }
  EXPECT_EQ(log_told("layer=1 token=0 expert=3 load=7\nlayer=1 token=0 expert=4 load=7\n"
                     "layer=2 token=0 expert=5 load=7\nlayer=2 token=0 expert=6 load=7\n"),
            "top 2 [1] 1: 3 4 2: 5 6");
}

TEST(LogValues, AreNotChoicesOfEveryExpertInTurn) {
  const std::string each = "error: has each expert once per layer";
  EXPECT_THAT(log_told(lines_of_experts("layer {} expert {}: {}")),
              StartsWith(each + " in their order, without counts and tokens\n"));
  EXPECT_THAT(log_told(lines_of_experts("layer={} expert={} share={}.5%")),
              StartsWith(each + ", and no field is known to count its tokens: share\n"));
  EXPECT_THAT(log_told(lines_of_experts("layer={} expert={} n={}")), StartsWith("top 2 [1, 1"));
}

TEST(LogValues, AssignedToRequestsAreWords) {
  const auto requests = [](const char* form, std::vector<std::string> map = {}) {
    std::string text;
    for (const char* id : {"chatcmpl-05", "8f14e45f-ceea", "8a7b6c5d-1111"}) {
      text += fmt::format(fmt::runtime(form), id, 3) + "\n";
    }
    return told_of("table", {{"a.log", text}},
                   [&](ImportOptions& o) { o.map = std::move(map), o.layers = {1}; });
  };
  const std::string three = "top 2 [1, 1, 1] 1: 3 4 3 4 3 4";
  EXPECT_EQ(requests("INFO request_id={} token=0 layer=1 experts=[{}, 4]"), three);
  EXPECT_EQ(requests("at={} token=0 layer=1 experts=[{}, 4]", {"request=at"}), three);
  EXPECT_EQ(requests("INFO 11-26 10:11:12 [moe.py:33] {{\"req_id\": \"{}\", \"token_idx\": 0, "
                     "\"layer\": 1, \"topk_ids\": [{}, 4]}}"),
            three);
  EXPECT_EQ(requests("{{'req_id': '{}', 'token_idx': 0, 'layer': 1, 'topk_ids': [{}, 4]}}"), three);
  EXPECT_THAT(requests("at={} token=0 layer=1 experts=[{}, 4]", {"request=id"}),
              StartsWith("error: has no value of 'id', which --map names\n"));
}

TEST(LogValues, OfTagsMayBeLayers) {
  const std::string counts = "top 2 [1, 1, 1, 1] 1: 0 1 0 1 0 1 0 1 2: 2 3 2 3 2 3 2 3";
  for (const char* form :
       {"[layer {}] expert {} received {} tokens\n", "layer {} expert {} received {} tokens\n"}) {
    std::string text;
    for (int expert = 0; expert < 4; ++expert) {
      text += fmt::format(fmt::runtime(form), 1 + expert / 2, expert, 4);
    }
    EXPECT_EQ(log_told(text), counts) << form;
  }
}

}  // namespace
}  // namespace moesim
