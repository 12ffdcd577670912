// SPDX-License-Identifier: Apache-2.0
// What people print and copy: lists of frameworks, Python's dicts, Prometheus.
#include <gmock/gmock.h>

#include "tests/import/told.h"

namespace moesim {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const std::string printed_routes = "top 2 [2] 1: 2 4 1 3 2: 1 2 7 3";

std::string told_of_log(const std::string& text) { return told_of("table", {{"a.log", text}}); }

TEST(PrintedChoices, MayBeNumbersWithCommas) {
  for (const char* const form :
       {"[MoE] layer {} token {} -> experts {},{}\n", "layer={} token={} experts=({}, {})\n",
        "layer {} token {}: experts {} , {} weights 0.6, 0.4\n"}) {
    EXPECT_EQ(told_of_log(fmt::format(fmt::runtime(form), 1, 0, 2, 4) +
                          fmt::format(fmt::runtime(form), 2, 0, 1, 2) +
                          fmt::format(fmt::runtime(form), 1, 1, 1, 3) +
                          fmt::format(fmt::runtime(form), 2, 1, 7, 3)),
              printed_routes)
        << form;
  }
  EXPECT_THAT(told_of_log("layer 1 token 0 experts 2/4\nlayer 1 token 1 experts 1/3\n"
                          "layer 2 token 0 experts 1/2\nlayer 2 token 1 experts 7/3\n"),
              HasSubstr("token 0 of layer 1 has 1 of 2 choices\nhint: a list of them is [2, 4]"));
}

TEST(PrintedChoices, MayBeBehindTags) {
  for (const std::string tag :
       {"[2026-04-19 11:00:00 TP0] ", "[2026-04-19 11:00:00] INFO moe.py:33 ",
        "[1,0]<stdout>:", "[2026-04-19 11:00:00] [INFO] [0] ", "[3]: ", "  [17.25] "}) {
    const auto text = [&](const char* form) {
      std::string lines;
      for (const auto& [layer, token, ids] :
           {std::tuple(1, 0, "2, 4"), {2, 0, "1, 2"}, {1, 1, "1, 3"}, {2, 1, "7, 3"}}) {
        lines += tag + fmt::format(fmt::runtime(form), layer, token, ids) + "\n";
      }
      return lines;
    };
    EXPECT_EQ(told_of_log(text("layer={} token={} topk_ids=[{}]")), printed_routes) << tag;
    EXPECT_EQ(told_of_log(text("Layer {}, token {}: [{}]")), printed_routes) << tag;
    EXPECT_EQ(told_of_log(text(R"({{"layer": {}, "token": {}, "topk_ids": [{}]}})")),
              printed_routes)
        << tag;
  }
  EXPECT_EQ(told_of_log("[2026-04-19 11:00:00] starting server\n"
                        "{\"layer\": 1, \"token\": 0, \"topk_ids\": [2, 4]}\n"
                        "{\"layer\": 2, \"token\": 0, \"topk_ids\": [1, 2]}\n"),
            "top 2 [1] 1: 2 4 2: 1 2");
}

TEST(PrintedChoices, OfLlamaHaveTheirLayerInTheName) {
  EXPECT_EQ(told_of_log("ffn_moe_topk-1 = [2, 4]\nffn_moe_topk-2 = [1, 2]\n"
                        "ffn_moe_topk-1 = [1, 3]\nffn_moe_topk-2 = [7, 3]\n"),
            printed_routes);
}

TEST(PrintedChoices, MayBeTensorsOfSeveralTokens) {
  const std::string end = ", device='cuda:0', dtype=torch.int32)\n";
  EXPECT_EQ(
      told_of_log("(EngineCore_0 pid=123) INFO 03-14 layer 1 topk_ids: tensor([[2, 4]]" + end +
                  "layer 2 topk_ids: tensor([[1, 2]]" + end + "layer 1 topk_ids: tensor([[1, 3]]" +
                  end + "layer 2 topk_ids: tensor([[7, 3]]" + end),
      printed_routes);
  EXPECT_EQ(told_of_log("layer 1 topk_ids: tensor([[2, 4],\n        [1, 3]]" + end +
                        "layer 2 topk_ids=[[1, 2], [7, 3]]\n"),
            printed_routes);
  EXPECT_EQ(told_of_log("layer 1 topk_ids: tensor([[2, 4],\n ..., [1, 3]]" + end),
            "error: leaves values of a list out ('...')\nhint: print whole tensors: "
            "torch.set_printoptions(threshold=sys.maxsize)\n");
  EXPECT_EQ(told_of_log("layer 1 topk_ids: tensor([[2, 4],\nlayer 2 topk_ids: tensor([[1, 2]])\n"),
            "error: has a printed tensor without its end\n");
}

TEST(PrintedChoices, MayBeDictsOfPython) {
  EXPECT_EQ(told_of_log("{'layer': 1, 'token': 0, 'topk_ids': [2, 4]}\n"
                        "{'layer': 2, 'token': 0, 'topk_ids': [1, 2]}\n"
                        "{'layer': 1, 'token': 1, 'topk_ids': [1, 3]}\n"
                        "{'layer': 2, 'token': 1, 'topk_ids': [7, 3]}\n"),
            printed_routes);
  EXPECT_EQ(told_of_log("{'layer': 1, 'token': 0, 'expert': 2}\n{'layer': 1, 'token': 0, "
                        "'expert': 4}\n{'layer': 2, 'token': 0, 'expert': 1}\n{'layer': 2, "
                        "'token': 0, 'expert': 2}\n"),
            "top 2 [1] 1: 2 4 2: 1 2");
}

TEST(PrintedChoices, OfPythonAreARowPerLine) {
  const std::string row = "{'layer': 1, 'token': 0, 'topk_ids': [2, 4]}";
  EXPECT_EQ(told_of_log(row + ", " + row + "\n"),
            "error: has several of Python's dicts in a line\nhint: json.dumps writes JSON\n");
  for (const std::string& text :
       {"[" + row + "]", std::string(R"({"layer": 1, "topk_ids": [2, 4], "done": None})")}) {
    EXPECT_EQ(told_of_log(text),
              "error: holds Python's text, not JSON\nhint: json.dumps writes JSON\n");
  }
}

/// Counts of two layers: four choices of the experts 0 and 1, then of 2 and 3.
const std::string printed_counts = "top 2 [1, 1, 1, 1] 1: 0 1 0 1 0 1 0 1 2: 2 3 2 3 2 3 2 3";

TEST(PrintedCounts, AreReadIfALogHasNoChoices) {
  EXPECT_EQ(told_of_log(" iteration 10 | layer 1 | tokens_per_expert: [4, 4, 0, 0, 0, 0, 0, 0]\n"
                        " iteration 10 | layer 2 | tokens_per_expert: [0, 0, 4, 4, 0, 0, 0, 0]\n"),
            printed_counts);
  EXPECT_EQ(told_of_log("layer 1 tokens_per_expert tensor([4, 4, 0, 0, 0, 0, 0, 0])\n"
                        "layer 2 tokens_per_expert tensor([0, 0, 4, 4, 0, 0, 0, 0])\n"),
            printed_counts);
  EXPECT_EQ(told_of_log("layer 1 token 0 experts [2, 4] tokens_per_expert [4, 4]\n"
                        "layer 1 tokens_per_expert [4, 4]\nlayer 2 token 0 experts [1, 2]\n"),
            "top 2 [1] 1: 2 4 2: 1 2");
}

TEST(PrintedCounts, MayBeBehindTags) {
  EXPECT_EQ(told_of_log("[2026-04-19 11:00:00] layer 1: tokens_per_expert: [4, 4, 0, 0, 0, 0, 0, 0]"
                        "\n[12] layer 2: tokens_per_expert: [0, 0, 4, 4, 0, 0, 0, 0]\n"),
            printed_counts);
}

TEST(PrintedCounts, MayComeBeforeWhatTheyCount) {
  EXPECT_EQ(told_of_log("layer 1 expert 0: 4 tokens\nlayer 1 expert 1: 4 tokens\n"
                        "layer 2 expert 2: 4 tokens\nlayer 2 expert 3: 4 tokens\n"),
            printed_counts);
  EXPECT_EQ(told_of_log("layer 1: 4 tokens, token 0 experts [2, 4]\n"
                        "layer 2: 4 tokens, token 0 experts [1, 2]\n"),
            "top 2 [1] 1: 2 4 2: 1 2");
}

TEST(PrintedCounts, MayBeMetricsOfPrometheus) {
  const auto metric = [](const std::string& name) {
    std::string text = "# TYPE " + name + " counter\nprocess_open{pid=\"7\"} 3\nup 1\n";
    for (int layer = 1; layer < 3; ++layer) {
      for (int e = 0; e < 2; ++e) {
        text +=
            fmt::format("{}{{layer=\"{}\",expert=\"{}\"}} 4.0\n", name, layer, e + 2 * (layer - 1));
      }
    }
    return text;
  };
  EXPECT_EQ(told_of("table", {{"a.prom", metric("moe:tokens_total")}}), printed_counts);
  EXPECT_THAT(told_of("table", {{"a.prom", metric("a") + metric("b")}}),
              StartsWith("error: has metrics 'a' and 'b' of experts\nhint: give the lines of one"));
}

/// Samples of one layer: counts of experts 0, 1 ...
std::string scrape(const std::vector<int>& counts, const std::string& time = "",
                   const std::string& name = "t_total") {
  std::string text;
  for (std::size_t e = 0; e < counts.size(); ++e) {
    text += fmt::format("{}{{layer=\"1\",expert=\"{}\"}} {}{}\n", name, e, counts[e], time);
  }
  return text;
}

TEST(PrintedCounters, AreDifferencesOfScrapes) {
  const auto of = [](const TextsByName& texts) {
    return told_of("table", texts,
                   [](ImportOptions& options) { options.top_k = 1, options.moe_layers = {1}; });
  };
  const std::string steps = "top 1 [1, 1, 1] 1: 0 1 1";  // the first scrape begins the counting
  const std::string first = scrape({1, 1}), second = scrape({2, 3});
  EXPECT_EQ(of({{"a1.prom", first}, {"a2.prom", second}}), steps);
  EXPECT_EQ(of({{"a.prom", first + second}}), steps);
  EXPECT_EQ(of({{"a.prom", scrape({1, 1}, " 1000") + scrape({2, 3}, " 2000")}}), steps);
  EXPECT_EQ(of({{"a.prom", scrape({2, 3}, " 2000") + scrape({1, 1}, " 1000")}}), steps);
  const std::string type = "# TYPE t counter\n";
  EXPECT_EQ(of({{"a.prom", type + scrape({1, 1}, "", "t") + type + scrape({2, 3}, "", "t")}}),
            steps);
  EXPECT_EQ(of({{"a.prom", type + scrape({2}) + type + scrape({3, 1})}}), "top 1 [1, 1] 1: 0 1")
      << "an expert that no token had chosen before";
  const std::string begun_anew = "top 1 [1, 1, 1] 1: 0 1 1";
  EXPECT_EQ(of({{"a1.prom", scrape({3, 1})}, {"a2.prom", scrape({1, 2})}}), begun_anew);
  EXPECT_EQ(of({{"rank0.prom", first}, {"rank1.prom", second}}),
            "top 1 [2, 5] 1: 0 1 0 1 1 0 1 rank 0");
}

TEST(PrintedCounters, DoNotSayWhenTheyBeganNorWhoseTheyAre) {
  const auto warnings = [](const TextsByName& texts) {
    const ScratchFolder scratch;
    for (const auto& [name, text] : texts) write_bytes(scratch / ("in/" + name), text);
    auto options = options_of(scratch / "in", scratch / "out");
    options.top_k = 1, options.moe_layers = {1};
    std::string all;
    for (const Diagnostic& warning : import_trace("table", options).warnings)
      all += warning.message;
    return all;
  };
  EXPECT_THAT(warnings({{"a.prom", scrape({1, 1})}}), StartsWith("one scrape of counters"));
  EXPECT_THAT(warnings({{"a.prom", scrape({1, 1})}, {"b.prom", scrape({2, 1})}}),
              StartsWith("several files have the same series"));
  EXPECT_EQ(warnings({{"a.prom", scrape({1, 1}) + scrape({2, 1})}}), "");
}

TEST(PrintedCounters, ThatAreGaugesAreAsTheyAre) {
  const std::string type = "# TYPE t_total gauge\n";
  EXPECT_EQ(
      told_of("table", {{"a1.prom", type + scrape({1, 0})}, {"a2.prom", type + scrape({2, 0})}},
              [](ImportOptions& options) { options.top_k = 1, options.moe_layers = {1}; }),
      "top 1 [1] 1: 0 step 1 [1, 1] 1: 0 0");
}

TEST(PrintedCounts, MayBeArraysOfNumPyAndPyTorch) {
  const auto counts = [](const std::string& text) { return told_of("counts", {{"a.txt", text}}); };
  EXPECT_EQ(counts("[[ 4  4  0  0  0  0  0  0]\n [ 0  0  4  4  0  0  0  0]]\n"), printed_counts);
  EXPECT_EQ(counts("tensor([[4, 4, 0, 0, 0, 0, 0, 0],\n        [0, 0, 4, 4, 0, 0, 0, 0]], "
                   "device='cuda:0')\n"),
            printed_counts);
  EXPECT_EQ(counts("array([[4., 4., 0., 0., 0., 0., 0., 0.],\n [0., 0., 4., 4., 0., 0., 0., 0.]])"),
            printed_counts);
  EXPECT_EQ(counts("[4 4 0 0 0 0 0 0]\n[0 0 4 4 0 0 0 0]\n"), printed_counts);
  EXPECT_THAT(counts("[[4 4 ... 0 0]\n [0 0 ... 4 4]]\n"),
              StartsWith("error: is a printed array that leaves values out ('...')"));
}

TEST(PrintedCounts, MayBeNextToWhatTheyAreOf) {
  EXPECT_EQ(told_of("counts", {{"a.json", R"({"metadata": {"model": "x"}, "expert_counts": )"
                                          R"({"1": [4, 4, 0, 0, 0, 0, 0, 0], )"
                                          R"("2": [0, 0, 4, 4, 0, 0, 0, 0]}})"}}),
            printed_counts);
  EXPECT_EQ(told_of("counts", {{"a.json", R"({"step": 3, "logical_count": )"
                                          R"([[4, 4, 0, 0, 0, 0, 0, 0], )"
                                          R"([0, 0, 4, 4, 0, 0, 0, 0]]})"}}),
            printed_counts);
}

TEST(PrintedCounts, InRowsAreOfAnotherKind) {
  const std::string rows =
      R"({"layers": [{"layer_id": 1, "expert_counts": [4, 4, 0, 0, 0, 0, 0, 0]},)"
      R"({"layer_id": 2, "expert_counts": [0, 0, 4, 4, 0, 0, 0, 0]}]})";
  EXPECT_EQ(told_of("counts", {{"a.json", rows}}),
            "error: has rows of counts, not lists by layer\nhint: kind 'table' reads it\n");
  EXPECT_EQ(told_of("table", {{"a.json", rows}}), printed_counts);
  for (const char* const log : {"layer 1 | tokens_per_expert: [4, 4]\n",
                                "tokens{layer=\"1\",expert=\"0\"} 4\ntokens{layer=\"1\"} 4\n"}) {
    EXPECT_THAT(told_of("counts", {{"a.log", log + std::string(log)}}),
                HasSubstr("is not a count\nhint: kind 'table' reads logs and metrics"));
  }
  EXPECT_EQ(told_of("table", {{"a.txt", "[[ 4  4]\n [ 0  0]]\n"}}),
            "error: is a printed array, not rows\nhint: kind 'counts' reads printed counts, 'npy' "
            "ids that np.save wrote\n");
}

TEST(PrintedCounts, OfSlotsAreNotOfExperts) {
  EXPECT_THAT(told_of("sglang-counts", {{"a.json", R"({"physical_count": [[4, 4], [2, 2]]})"}}),
              HasSubstr("hint: physical_count counts slots, not experts: give logical_count"));
}

}  // namespace
}  // namespace moesim
