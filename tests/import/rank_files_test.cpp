// SPDX-License-Identifier: Apache-2.0
// Recordings of several ranks, layers or arrays, each a file of a few bytes.
#include <gmock/gmock.h>

#include "sim/trace/npy.h"
#include "tests/error_of.h"
#include "tests/import/told.h"

namespace moesim {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

/// A line of Megatron's router trace.
std::string routed_line(int step, int layer, int rank, const std::string& rows, int tokens,
                        const std::string& block = "decoder") {
  return fmt::format(
      R"({{"step": {}, "block": "{}", "layer": {}, "rank": {}, "num_tokens": {}, "topk": 2, )"
      R"("top_indices": [{}]}})"
      "\n",
      step, block, layer, rank, tokens, rows);
}

/// Both layers of a microbatch of two tokens.
std::string microbatch(int step, int rank, int first = 1) {
  return routed_line(step, first, rank, "[0, 1], [2, 3]", 2) +
         routed_line(step, first + 1, rank, "[4, 5], [6, 7]", 2);
}
std::string other_microbatch(int step, int rank) {
  return routed_line(step, 1, rank, "[1, 2]", 1) + routed_line(step, 2, rank, "[3, 4]", 1);
}

std::string traced(const TextsByName& texts,
                   const std::function<void(ImportOptions&)>& change = {}) {
  return told_of("megatron-trace", texts, change);
}

const std::string both = "1: 0 1 2 3 2: 4 5 6 7";

TEST(TracesOfMegatron, AreMicrobatchesInTheOrderOfTheirLines) {
  EXPECT_EQ(traced({{"a", microbatch(3, 0)}}), "top 2 step 3 [2] " + both + " rank 0");
  EXPECT_EQ(traced({{"a", microbatch(3, 0) + other_microbatch(3, 0)}}),
            "top 2 step 3 [2, 1] 1: 0 1 2 3 1 2 2: 4 5 6 7 3 4 rank 0");
  EXPECT_EQ(traced({{"a", microbatch(3, 0) + microbatch(3, 0)}}),
            "top 2 step 3 [2] " + both +
                " rank 0\n4 rows: that repeat a layer's microbatch (recomputed activations)\n");
  EXPECT_EQ(traced({{"a", microbatch(3, 0) + routed_line(3, 2, 0, "[1, 2]", 1)}}),
            "error: layer 1 has 1 microbatch but another layer has 2\n"
            "hint: layers that dropped tokens are not recorded\n");
  EXPECT_EQ(traced({{"a", routed_line(3, 1, 0, "", 0) + routed_line(3, 2, 0, "", 0) +
                              other_microbatch(3, 0)}}),
            "top 2 step 3 [1] 1: 1 2 2: 3 4 rank 0");
  EXPECT_EQ(traced({{"a", microbatch(3, 0) + routed_line(3, 9, 0, "[0, 0], [0, 0]", 2, "mtp")}}),
            "top 2 step 3 [2] " + both + " rank 0\n2 rows: of multi-token prediction\n");
}

TEST(TracesOfMegatron, AreSortedByStepAndRank) {
  EXPECT_EQ(
      traced({{"a", other_microbatch(3, 1) + microbatch(5, 1)}, {"b", microbatch(3, 0)}}),
      "top 2 step 3 [2, 1] 1: 0 1 2 3 1 2 2: 4 5 6 7 3 4 rank 0 step 5 [2] " + both + " rank 1");
  EXPECT_EQ(traced({{"a", microbatch(3, 0)}, {"b", microbatch(3, 1)}}),
            "top 2 step 3 [2] " + both +
                " rank 0\n4 rows: of ranks that repeat another's tokens (tensor parallelism)\n");
}

TEST(TracesOfMegatron, CountTheirLayersAsTheModelHasThem) {
  const auto counted = [](int first, const std::string& numbering, std::vector<int> moe) {
    return traced({{"a", microbatch(0, 0, first)}}, [&](ImportOptions& options) {
      options.numbering = numbering, options.moe_layers = std::move(moe);
    });
  };
  const std::string ids = ": 0 1 2 3 ", more = ": 4 5 6 7 rank 0";
  for (const int first : {0, 1, 2}) {  // of MoE layers, from 0, from 1
    EXPECT_EQ(counted(first, "", {1, 2}), "top 2 [2] 1" + ids + "2" + more) << first;
  }
  EXPECT_EQ(counted(0, "", {0, 1}), "top 2 [2] 0" + ids + "1" + more);
  EXPECT_THAT(counted(3, "", {1, 2}),
              StartsWith("error: has layers 3, 4, and does not say how they are counted\n"));
  EXPECT_EQ(counted(0, "from-0", {}), "top 2 [2] 0" + ids + "1" + more);
  EXPECT_EQ(counted(3, "from-0", {}), "top 2 [2] 3" + ids + "4" + more);
  EXPECT_EQ(counted(3, "from-1", {}), "top 2 [2] 2" + ids + "3" + more);
  EXPECT_EQ(counted(3, "moe", {}), "top 2 [2] 3" + ids + "4" + more);
  EXPECT_EQ(
      traced({{"a", routed_line(0, 0, 0, "[0, 1]", 1)}},
             [](ImportOptions& options) { options.numbering = "from-0", options.moe_layers = {}; }),
      "top 2 [1] 0: 0 1 rank 0")
      << "the first layer alone";
  EXPECT_EQ(counted(0, "moe", {4, 7}), "top 2 [2] 4" + ids + "7" + more);
  EXPECT_EQ(counted(0, "from-1", {}), "error: has layers 0, 1, which are not counted so\n");
  EXPECT_EQ(counted(1, "moe", {4, 7}), "error: has layers 1, 2, which are not counted so\n");
}

const std::string csv_head = "iteration,tokens,expert distribution\n";

/// Loads of one layer by rank; four experts of a model without dense layers.
std::string loads_of_ranks(const std::vector<std::string>& rows, const std::string& more = "",
                           int top_k = 2, const std::string& name = "moe_layer-0.csv") {
  TextsByName texts = {
      {"data.json", fmt::format(R"({{"num_experts": 4, "world_size": {}{}}})", rows.size(), more)}};
  for (std::size_t r = 0; r < rows.size(); ++r) {
    texts[fmt::format("{}/{}", r, name)] = rows[r];
    texts[fmt::format("{}/notes.csv", r)] = "x";
    texts[fmt::format("{}/moe_layer-1.txt", r)] = "x";
  }
  return told_of("harmoeny", texts, [&](ImportOptions& options) {
    options.experts = 0, options.top_k = top_k;
    options.moe_layers = {0}, options.model_layers = 1;
  });
}

TEST(LoadsOfHarmoeny, AreOfRanksByIteration) {
  // Of two tokens: expert by expert, token by token.
  const std::string row = csv_head + "3,4,\"[1, 1, 1, 1]\"\n";
  EXPECT_EQ(loads_of_ranks({row}), "top 2 [2] 0: 0 2 1 3 rank 0");
  EXPECT_EQ(loads_of_ranks({csv_head + "3,4,\"[1, 1, 1, 1]\"\r\n2,2,\"[0,1,0,1]\"\r\n"}),
            "top 2 [1] 0: 1 3 rank 0 step 1 [2] 0: 0 2 1 3 rank 0");
  EXPECT_EQ(loads_of_ranks({row, csv_head + "3,2,\"[0, 1, 0, 1]\"\n"}),
            "top 2 [2, 1] 0: 0 2 1 3 1 3 rank 0");
}

TEST(LoadsOfHarmoeny, SayTheirChoicesIfTheyDivide) {
  const std::string row = csv_head + "0,4,\"[1, 1, 1, 1]\"\n";
  const auto with = [&](const std::string& sizes) { return loads_of_ranks({row}, sizes, 0); };
  EXPECT_EQ(with(R"(, "batch_size": 1, "seq_len": 2)"), "top 2 [2] 0: 0 2 1 3 rank 0");
  EXPECT_EQ(with(R"(, "batch_size": 2, "seq_len": 2)"), "top 1 [4] 0: 0 1 2 3 rank 0");
  for (const char* const sizes :
       {"", R"(, "batch_size": 2)", R"(, "batch_size": 1, "seq_len": 3)",
        R"(, "batch_size": 2, "seq_len": 4)", R"(, "batch_size": 0, "seq_len": 2)",
        R"(, "batch_size": -1, "seq_len": 2)", R"(, "batch_size": 1048577, "seq_len": 0)"}) {
    EXPECT_THAT(with(sizes), StartsWith("error: counts do not contain top-k\n")) << sizes;
  }
}

TEST(LoadsOfHarmoeny, HaveTheirMistakes) {
  const auto wrong = [](const std::string& row) { return loads_of_ranks({csv_head + row + "\n"}); };
  for (const char* const list : {"1, 1", "[1, 1", "1, 1]", "[1, x]", "[1, -1]", "[1,,1]"}) {
    EXPECT_EQ(wrong(fmt::format("0,2,\"{}\"", list)),
              "error: has no list of counts in its last column\n")
        << list;
  }
  for (const char* const row : {"x,4,\"[1]\"", "-1,4,\"[1]\"", "0,4,[1]", "0,4,\"[1]", "0,4,\""}) {
    EXPECT_EQ(wrong(row), "error: is not an iteration with its counts\n") << row;
  }
  EXPECT_THAT(wrong("0,2,\"[1, 1]\""),
              StartsWith("error: has counts of 2 experts but the model has"));
  EXPECT_EQ(loads_of_ranks({csv_head}), "error: has no iterations\n");
  const std::string row = csv_head + "0,4,\"[1, 1, 1, 1]\"\n";
  EXPECT_EQ(loads_of_ranks({row, csv_head + "1,4,\"[1, 1, 1, 1]\"\n"}),
            "error: has other layers or iterations than rank 0\n");
  for (const char* const name : {"moe_layer-x.csv", "moe_layer-100001.csv", "moe_layer-.csv"}) {
    EXPECT_EQ(loads_of_ranks({row}, "", 2, name), "error: is not named moe_layer-<number>.csv\n");
  }
  EXPECT_EQ(loads_of_ranks({row}, "", 2, "other.csv"), "error: has no moe_layer-<number>.csv\n");
  EXPECT_EQ(loads_of_ranks({}), "error: has no sound 'world_size'\n");
}

/// Tensors of int64 with two choices a token.
std::string tensors_of(const std::map<std::string, std::vector<std::int64_t>>& tensors) {
  std::string header, data;
  for (const auto& [name, ids] : tensors) {
    const std::size_t begin = data.size();
    data += std::string(reinterpret_cast<const char*>(ids.data()), ids.size() * 8);
    header +=
        fmt::format(R"({}"{}": {{"dtype": "I64", "shape": [{}, 2], "data_offsets": [{}, {}]}})",
                    header.empty() ? "" : ", ", name, ids.size() / 2, begin, data.size());
  }
  header = "{" + header + "}";
  const std::uint64_t size = header.size();
  return std::string(reinterpret_cast<const char*>(&size), 8) + header + data;
}

TEST(TensorsOfTrtllm, AreOfRanksIterationsAndLayers) {
  const std::string first =
      tensors_of({{"30_1", {0, 1}}, {"30_2", {2, 3}}, {"31_1", {4, 5}}, {"31_2", {6, 7}}});
  EXPECT_EQ(told_of("trtllm", {{"rank0_raw.safetensors", first},
                               {"rank1048576_raw.safetensors", "x"},
                               {"rank_raw.safetensors", "x"},
                               {"rank1.safetensors", "x"},
                               {"arank1_raw.safetensors", "x"}}),
            "top 2 step 30 [1] 1: 0 1 2: 2 3 rank 0 step 31 [1] 1: 4 5 2: 6 7 rank 0");
  EXPECT_EQ(
      told_of(
          "trtllm",
          {{"rank10_raw.safetensors", first},
           {"token_selected_experts_rank2.safetensors",
            tensors_of({{"30_1", {1, 2}}, {"30_2", {3, 4}}, {"31_1", {5, 6}}, {"31_2", {7, 0}}})}}),
      "top 2 step 30 [1, 1] 1: 1 2 0 1 2: 3 4 2 3 rank 2 step 31 [1, 1] 1: 5 6 4 5 2: 7 0 6 "
      "7 rank 2");
  EXPECT_EQ(told_of("trtllm", {{"rank1048575_raw.safetensors",
                                tensors_of({{"0_1", {0, 1}}, {"0_2", {2, 3}}})}}),
            "top 2 [1] 1: 0 1 2: 2 3 rank 1048575");
  for (const char* const name : {"30", "30_", "_1", "30_1_", "30-1", "x_1", "30_x", "30_100001"}) {
    EXPECT_EQ(told_of("trtllm", {{"rank0_raw.safetensors", tensors_of({{name, {0, 1}}})}}),
              "error: is not named <iteration>_<layer>\n")
        << name;
  }
  EXPECT_EQ(told_of("trtllm", {{"rank0_raw.safetensors", tensors_of({})}}),
            "error: holds no tensors\n");
  EXPECT_EQ(told_of("trtllm",
                    {{"rank0_raw.safetensors", tensors_of({{"7_0", {0, 1}}, {"7_100000", {2, 3}}})},
                     {"token_selected_experts_rank1_raw.safetensors", "x"}},
                    [](ImportOptions& options) { options.moe_layers = {}; }),
            "top 2 step 7 [1] 0: 0 1 100000: 2 3 rank 0");
}

TEST(TensorsOfTrtllm, AreTheSameLayersInEveryIterationOfEveryRank) {
  const auto of = [](const std::vector<std::vector<std::string>>& ranks) {
    TextsByName files;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      std::map<std::string, std::vector<std::int64_t>> tensors;
      for (const std::string& name : ranks[r]) tensors[name] = {0, 1};
      files[fmt::format("rank{}_raw.safetensors", r)] = tensors_of(tensors);
    }
    return told_of("trtllm", files);
  };
  EXPECT_THAT(of({{"7_1", "9_1"}}), StartsWith("error: lacks iteration 8: 9 follows 7\n"));
  EXPECT_THAT(of({{"7_1", "7_2", "8_1"}}), StartsWith("error: lacks layer 2 of iteration 8\n"));
  EXPECT_THAT(of({{"7_1", "8_1", "8_2"}}),
              StartsWith("error: has 2 layers in iteration 8 but 1 in the first\n"));
  EXPECT_THAT(of({{"7_1"}, {"8_1"}}), StartsWith("error: has iteration 8, which "));
  EXPECT_THAT(of({{"7_1", "8_1"}, {"7_1"}}), StartsWith("error: has 1 iterations but "));
  EXPECT_EQ(of({{"7_1", "7_2", "8_1", "8_2"}}),
            "top 2 step 7 [1] 1: 0 1 2: 0 1 rank 0 step 8 [1] 1: 0 1 2: 0 1 rank 0")
      << "an iteration may choose as the one before";
  EXPECT_EQ(of({{"7_1", "7_2"}, {"7_1", "7_2"}}),
            "top 2 step 7 [1] 1: 0 1 2: 0 1 rank 0\n"
            "2 rows: of ranks that repeat another's tokens (tensor parallelism)\n");
}

/// Bytes as an array of that shape.
std::string array_of(const std::vector<std::int64_t>& shape, const std::string& bytes,
                     NpyType type = {'u', 1}) {
  return npy_header(type, shape) + bytes;
}
std::string lengths_array(const std::vector<std::uint8_t>& lengths) {
  return array_of({std::ssize(lengths)}, {lengths.begin(), lengths.end()});
}

std::string arrays_told(const TextsByName& arrays,
                        const std::function<void(ImportOptions&)>& change = {}) {
  return told_of("npy", arrays, [&](ImportOptions& options) {
    options.order = "tlk";
    if (change) change(options);
  });
}

/// Two tokens, two layers.
const std::string id_array = array_of({2, 2, 2}, std::string("\0\1\2\3\4\5\6\7", 8));
const std::string id_text = "1: 0 1 4 5 2: 2 3 6 7";

TEST(ArraysOfIds, AreFoundByTheirNames) {
  for (const char* const name : {"ids", "expert_ids", "topk_ids", "indices", "selected_experts"}) {
    EXPECT_EQ(arrays_told({{fmt::format("{}.npy", name), id_array}, {"other.npy", "x"}}),
              "top 2 [2] " + id_text);
  }
  for (const char* const name : {"seq_len", "seq_lens", "sequence_lengths", "lengths"}) {
    EXPECT_EQ(arrays_told({{"a/x", ""},
                           {"ids.npy", id_array},
                           {fmt::format("{}.npy", name), lengths_array({1, 1})}}),
              "top 2 [1, 1] " + id_text);
  }
  EXPECT_EQ(arrays_told({{"any.npy", id_array}}), "top 2 [2] " + id_text) << "the only one";
  EXPECT_EQ(arrays_told({{"a.npy", id_array}, {"b.npy", "x"}}),
            "error: no array is named like ids\nhint: name one of: a, b\n");
  EXPECT_EQ(arrays_told({{"ids.npy", id_array}, {"indices.npy", id_array}}),
            "error: several arrays could be the ids\nhint: name one of: ids, indices\n");
  const auto named = [](const char* ids) {
    return arrays_told({{"ids.npy", "x"}, {"mine.npy", id_array}},
                       [&](ImportOptions& options) { options.ids = ids; });
  };
  EXPECT_EQ(named("mine"), "top 2 [2] " + id_text);
  EXPECT_EQ(named("mime"),
            "error: there is no array 'mime' for the ids\nhint: did you mean 'mine'?\n");
}

TEST(ArraysOfIds, HaveLengthsThatAddUp) {
  const auto with = [](const std::string& lengths) {
    return arrays_told({{"ids.npy", id_array}, {"lengths.npy", lengths}});
  };
  EXPECT_EQ(with(lengths_array({2})), "top 2 [2] " + id_text);
  EXPECT_EQ(with(lengths_array({0, 2})), "error: sequence 0 has length 0\n");
  EXPECT_EQ(with(lengths_array({3})), "error: sequence 0 has length 3\n");
  EXPECT_EQ(with(lengths_array({1, 2})),
            "error: the sequences add up to 3 tokens but the ids have 2\n");
  EXPECT_THAT(with(array_of({1, 1}, "\2")), HasSubstr("is not a list of sequence lengths"));
}

TEST(ArraysOfIds, HaveWeightsOfAKnownUnit) {
  const std::string weights = array_of({2, 2, 2}, std::string(8, '\x32'));
  const auto weight = [&](const std::string& name, double scale) {
    const ScratchFolder scratch;
    write_bytes(scratch / "in/ids.npy", id_array);
    write_bytes(scratch / ("in/" + name + ".npy"), weights);
    auto options = options_of(scratch / "in", scratch / "out");
    options.order = "tlk", options.weight_scale = scale;
    std::string text;
    const std::string error = error_of([&] {
      import_trace("npy", options);
      text = fmt::format("{}", RoutingTrace::open(scratch / "out").step(0).weight(1, 1, 1));
    });
    return error.empty() ? text : error.substr(error.find("error: "));
  };
  EXPECT_EQ(weight("gate_w1e4", 0), "0.005");
  EXPECT_EQ(weight("gate_w1e4", 0.5), "25");
  EXPECT_EQ(weight("weights", 0.02), "1");
  EXPECT_EQ(
      weight("weights", 0),
      "error: holds uint8 weights of unknown unit\nhint: give --weight-scale, such as 1e-4\n");
}

TEST(ArraysOfCounts, AreOfStepsLayersAndSources) {
  const auto counted = [](const std::vector<std::int64_t>& shape, const std::string& counts) {
    return told_of("counts", {{"a.npy", array_of(shape, counts)}},
                   [](ImportOptions& options) { options.experts = 2, options.top_k = 1; });
  };
  // Two steps of two layers: source 0 has one token, source 1 has two.
  EXPECT_EQ(counted({2, 2, 2, 2}, std::string("\0\1\2\0\1\0\1\1\1\0\0\2\0\1\1\1", 16)),
            "top 1 [1, 2] 1: 1 0 0 2: 0 0 1 rank 0 step 1 [1, 2] 1: 0 1 1 2: 1 0 1 rank 0");
  EXPECT_EQ(counted({2, 2, 2}, std::string("\0\1\1\0\0\0\0\0", 8)),
            "top 1 [1] 1: 1 2: 0\n2 rows: of steps without counts\n");
  EXPECT_EQ(counted({2, 2}, std::string("\0\1\1\0", 4)), "top 1 [1] 1: 1 2: 0");
  EXPECT_THAT(counted({1, 1, 1, 1, 2}, std::string("\0\1", 2)),
              HasSubstr("has shape (1, 1, 1, 1, 2)"));
  EXPECT_THAT(counted({2, 3}, std::string(6, '\1')), HasSubstr("has counts of 3 experts"));
}

}  // namespace
}  // namespace moesim
