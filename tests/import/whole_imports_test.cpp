// SPDX-License-Identifier: Apache-2.0
// What imports say of all that they read: responses without routes, logs of counts, warm-ups,
// progress.
#include <gmock/gmock.h>

#include "tests/import/told.h"

namespace moesim {
namespace {

TEST(ResponsesOfServers, WithoutRoutesAreCounted) {
  const std::string good = R"({"choices": [{"moe_topk_indices": [[[0, 1], [2, 3]]]}]})";
  const auto warned = [&](const std::string& more) {
    const ScratchFolder scratch;
    write_bytes(scratch / "in/a.json", "[" + good + more + "]");
    const Imported imported =
        import_trace("megatron-routes", options_of(scratch / "in", scratch / "out"));
    return imported.warnings.empty() ? ""
                                     : replace_all(imported.warnings[0].str(), scratch / "in", "");
  };
  EXPECT_EQ(warned(""), "");
  EXPECT_EQ(warned(", {}"),
            ": warning: 1 responses have no moe_topk_indices\nhint: requests that "
            "were preempted or did not ask for them\n");
  EXPECT_THAT(
      told_of("megatron-routes", {{"a.json", R"([{"a": 1}, {"b": 1}])"}}),
      testing::StartsWith("error: none of its 2 responses has moe_topk_indices; the keys of "
                          "the first are a\n"));
  EXPECT_THAT(told_of("megatron-routes", {{"a.json", R"([{"a": 1}])"}}),
              testing::StartsWith("error: none of its 1 responses"));
  EXPECT_THAT(told_of("sglang-routes", {{"a.json", R"({"meta_info": {"routed_experts": "AAAA", )"
                                                   R"("routed_experts_dtype": 5}})"}}),
              testing::StartsWith("error: holds routes of the unknown type \"(no text)\"\n"));
  EXPECT_THAT(told_of("gpt-oss", {{"a.json", "[]"}}),
              testing::StartsWith("error: has no router_data"));
}

TEST(CountsInLogs, AreOfFilesOneAfterTheOtherUnlessTheyNameARank) {
  const std::string one = "layer,expert,count\n1,0,1\n1,1,1\n2,2,1\n2,3,1\n";
  const std::string other = "layer,expert,count\n1,4,1\n1,5,1\n2,6,1\n2,7,1\n";
  EXPECT_EQ(told_of("table", {{"a.csv", one}, {"b.csv", other}}),
            "top 2 [1] 1: 0 1 2: 2 3 step 1 [1] 1: 4 5 2: 6 7");
  EXPECT_EQ(told_of("table", {{"rank0.csv", one}, {"rank1.csv", other}}),
            "top 2 [1, 1] 1: 0 1 4 5 2: 2 3 6 7 rank 0");
  EXPECT_EQ(told_of("table", {{"a.jsonl", R"({"layer": 1, "counts": [1, 1, 0, 0, 0, 0, 0, 0]}
{"layer": 2, "counts": [0, 0, 0, 0, 0, 0, 1, 1]})"}}),
            "top 2 [1] 1: 0 1 2: 6 7");
  EXPECT_EQ(told_of("table", {{"a.csv", "layer,expert,count\n1,0,1\n1,3,3\n2,5,4\n"}}),
            "top 1 [1, 1, 1, 1] 1: 0 3 3 3 2: 5 5 5 5")
      << "no two tokens choose expert 3 three times";
  EXPECT_THAT(told_of("table", {{"a.jsonl", R"({"layer": 1, "counts": [1, 1]})"}}),
              testing::StartsWith("error: has counts of 2 experts but the model has 8\n"));
  EXPECT_EQ(told_of("table", {{"a.jsonl", R"({"layer": 1, "expert": 3, "counts": [1, 1]})"}}),
            "error: has other counts than experts\n");
  EXPECT_THAT(told_of("table", {{"a.csv", "layer,expert,count\n100001,0,1\n"}}),
              testing::StartsWith("error: does not say the layer of its counts\n"));
  EXPECT_EQ(told_of("table", {{"a.csv", "layer,expert,count\n100000,0,1\n100000,1,1\n"}},
                    [](ImportOptions& options) { options.moe_layers = {}; }),
            "top 2 [1] 100000: 0 1");
  EXPECT_EQ(told_of("table", {{"a.csv", "expert,count\n0,1\n1,1\n"}},
                    [](ImportOptions& options) { options.layers = {2}; }),
            "top 2 [1] 2: 0 1")
      << "the only layer that is named";
  EXPECT_EQ(told_of("table", {{"a.csv", "layer,expert\n1,0\n1,1\n"},
                              {"b.csv", "layer,expert,count\n1,0,1\n"}}),
            "error: holds choices of tokens and counts of experts\nhint: give one kind\n");
}

TEST(FilesOfEsft, NameTheirLayer) {
  const std::string row = "0\t1\t\t1\t1\n";
  const auto of = [&](const TextsByName& texts) {
    return told_of("esft", texts, [](ImportOptions& options) { options.moe_layers = {}; });
  };
  EXPECT_EQ(of({{"expert_weights_0.txt", row},
                {"a_expert_weights_100000.txt", row},
                {"expert_weights_100001.txt", "x"},
                {"expert_weights_1x.txt", "x"},
                {"expert_weights_.txt", "x"},
                {"expert_weights_-1.txt", "x"},
                {"weights_1.txt", "x"},
                {"expert_weights_1.csv", "x"}}),
            "top 2 [1] 0: 0 1 100000: 0 1");
  EXPECT_EQ(of({{"notes.txt", "x"}}), "error: has no expert_weights_<layer>.txt\n");
  EXPECT_EQ(of({{"expert_weights_1.txt", row}, {"expert_weights_01.txt", row}}),
            "error: is a second file of layer 1\n");
}

/// Ten equal tokens: a warm-up pass of an engine, or text.
TEST(LeadingTokensThatAreEqual, AreAWarmUpOnlyOfEngines) {
  const auto repeated = [](const std::string& one) {
    std::string all = one;
    for (int i = 1; i < 10; ++i) all += ", " + one;
    return all;
  };
  const std::string nothing = "error: holds padding only\n";
  EXPECT_EQ(told_of("megatron-routes", {{"a.json", R"([{"choices": [{"moe_topk_indices": [)" +
                                                       repeated("[[0, 1], [2, 3]]") + "]}]}]"}}),
            nothing);
  EXPECT_EQ(told_of("core12345", {{"a.json", R"([{"1": [)" + repeated("[0, 1]") + R"(], "2": [)" +
                                                 repeated("[2, 3]") + "]}]"}}),
            nothing);
  const auto has_ten = [](const std::string& text) {
    return text.starts_with("top 2 [10] ") || text.starts_with("top 2 step 3 [10] ");
  };
  std::string row;
  for (int i = 0; i < 10; ++i) row += i == 0 ? "0\t1" : "\t0\t1";
  EXPECT_TRUE(has_ten(
      told_of("esft", {{"expert_weights_1.txt", row + "\t\t" + replace_all(row, "0", "1") + "\n"}},
              [](ImportOptions& options) { options.moe_layers = {}; })));
  std::string lines;
  for (const int layer : {1, 2}) {
    lines += fmt::format(R"({{"step": 3, "layer": {}, "rank": 0, "num_tokens": 10, "topk": 2, )"
                         R"("top_indices": [{}]}})"
                         "\n",
                         layer, repeated("[0, 1]"));
  }
  EXPECT_TRUE(has_ten(told_of("megatron-trace", {{"a", lines}})));
  std::string tokens;
  for (int t = 0; t < 10; ++t) {
    tokens += fmt::format(R"({}{{"token_{}": {{"layer_1": {{"selected_experts": [0, 1], )"
                          R"("selected_probs": [1, 0]}}}}}})",
                          t == 0 ? "" : ", ", t);
  }
  EXPECT_TRUE(has_ten(told_of("gpt-oss", {{"a.json", R"({"router_data": [)" + tokens + "]}"}},
                              [](ImportOptions& options) { options.moe_layers = {}; })));
}

TEST(ProgressOfImports, IsTheShareOfWhatIsRead) {
  const auto seen = [](const std::string& kind) {
    const ScratchFolder scratch;
    std::string shares;
    import_trace(kind, options_of(formats() + "/" + kind, scratch / "out"),
                 [&](double done) { shares += fmt::format("{:.3f} ", done); });
    return shares;
  };
  EXPECT_EQ(seen("ultraep"), "0.000 0.500 ") << "of microbatches";
  EXPECT_EQ(seen("sglang-recorder"), "0.000 0.333 0.667 ") << "of records";
  EXPECT_EQ(seen("router-lists"), "0.000 0.500 ") << "of files";
  EXPECT_EQ(seen("flame"), "1.000 ") << "of tokens";
  EXPECT_EQ(seen("vllm-routes"), "0.500 1.000 ") << "of files";
  EXPECT_EQ(seen("core12345"), "0.000 0.500 ") << "of files";
  EXPECT_EQ(seen("nemo-rl"), "0.000 0.500 ") << "of files";
  EXPECT_EQ(seen("moe-infinity"), "0.000 0.333 0.667 ") << "of sequences";
  EXPECT_EQ(seen("trtllm"), "0.000 ") << "of iterations";
  EXPECT_EQ(seen("trace-v1"), "0.000 ") << "of folders";
  EXPECT_EQ(seen("verl"), "0.000 ") << "of files";
  EXPECT_EQ(seen("hf-logits"), "0.000 ") << "of files";
  EXPECT_EQ(seen("npz"), "0.000 0.556 ") << "of tokens, by sequence";
  EXPECT_EQ(seen("trtllm-routes"), "0.000 0.500 ") << "of files";
  for (const char* const kind : {"esft", "gpt-oss", "megatron-routes", "sglang-routes"}) {
    EXPECT_EQ(seen(kind), "1.000 1.000 ") << "of what is read, which of small files is all";
  }
  EXPECT_EQ(seen("megatron-trace"), "1.000 ");
}

TEST(CountsOfLayers, AreOfThoseThatAreNamedOrTheModels) {
  const auto of = [](const std::string& counts, std::vector<int> layers, std::vector<int> moe,
                     int model_layers = 0) {
    return told_of("counts", {{"a.json", counts}}, [&](ImportOptions& options) {
      options.experts = 2, options.top_k = 1, options.layers = layers;
      options.moe_layers = moe, options.model_layers = model_layers;
    });
  };
  const std::string three = "[[0, 0], [1, 0], [0, 1]]";
  EXPECT_EQ(of(three, {1, 2}, {}), "top 1 [1] 1: 0 2: 1");
  EXPECT_EQ(of("[[1, 0], [0, 1]]", {5, 7}, {}), "top 1 [1] 5: 0 7: 1") << "as many as there are";
  EXPECT_EQ(of(three, {1}, {}), "error: layer 2 is not one that --layers names but has counts\n");
  EXPECT_THAT(of(three, {1, 3}, {}), testing::StartsWith("error: "));
  EXPECT_THAT(
      of("[[1, 0], [0, 1]]", {2}, {}),
      testing::StartsWith("error: has 2 layers, 2 of them with counts, but --layers names 2\n"));
  EXPECT_EQ(of(three, {}, {1, 2}, 3), "top 1 [1] 1: 0 2: 1");
  EXPECT_THAT(of(three, {}, {0, 1}, 3),
              testing::StartsWith("error: layer 2 is dense in the model but has counts\nhint: "));
  EXPECT_THAT(of("[[1, 0], [0, 1]]", {}, {}),
              testing::StartsWith("error: does not say which layers of the model it holds\n"));
}

TEST(CountsOfRanks, ThatAgreeAreSaid) {
  const auto warned = [](const std::string& counts) {
    const ScratchFolder scratch;
    write_bytes(scratch / "in/a.json", "[[" + counts + "]]");
    auto options = options_of(scratch / "in", scratch / "out");
    options.experts = 2, options.top_k = 1, options.layers = {1};
    const Imported imported = import_trace("counts", options);
    return imported.warnings.empty() ? ""
                                     : replace_all(imported.warnings[0].str(), scratch.path(), "");
  };
  EXPECT_EQ(warned("[[0, 1], [1, 0], [0, 1]]"), "") << "neighbours differ";
  EXPECT_EQ(warned("[[0, 1], [1, 0], [1, 0]]"),
            "/in/a.json, step 0: warning: ranks 1 and 2 have the same counts in every layer\nhint: "
            "ranks of a tensor-parallel group count the same tokens: give one\n");
  EXPECT_THAT(warned("[[0, 1], [0, 1], [1, 0]]"), testing::HasSubstr("ranks 0 and 1 have"));
}

}  // namespace
}  // namespace moesim
