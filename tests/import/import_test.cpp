// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <zlib.h>

#include "sim/import/importer.h"
#include "sim/trace/verify.h"
#include "tests/error_of.h"
#include "tests/trace/scratch.h"

namespace moesim {
namespace {

const std::string npz_arrays = std::string(MOESIM_ROOT) + "/tests/fixtures/npz/";

class ImportTest : public testing::Test {
 protected:
  ImportTest() {
    options_.experts = 4;
    options_.layers = {0, 1};
    options_.output = scratch_ / "out";
  }
  RoutingTrace import(const std::string& kind) {
    const Imported imported = import_trace(kind, options_);
    report_ = imported.report;
    warnings_.clear();
    for (const Diagnostic& warning : imported.warnings) warnings_ += warning.str();
    EXPECT_TRUE(verify_trace(options_.output).empty());
    return RoutingTrace::open(options_.output);
  }
  /// The ids of one layer: "0 1, 2 3, 0 2".
  static std::string row_text(const RoutingTrace& trace, int layer) {
    std::string text;
    const IdRows rows = trace.step(0).ids(layer);
    for (std::int64_t t = 0; t < rows.tokens(); ++t) {
      for (int k = 0; k < rows.top_k(); ++k) {
        text += (k > 0 ? " " : t > 0 ? ", " : "") + std::to_string(rows.at(t, k));
      }
    }
    return text;
  }
  static void expect_three_tokens(const RoutingTrace& trace) {
    EXPECT_THAT(trace.step(0).sequence_lengths(), testing::ElementsAre(2, 1));
    EXPECT_EQ(row_text(trace, 0), "0 1, 2 3, 0 2");
    EXPECT_EQ(row_text(trace, 1), "3 1, 1 0, 2 3");
  }

  ScratchFolder scratch_;
  ImportOptions options_;
  std::string report_, warnings_;
};

TEST_F(ImportTest, TokenMajorArchive) {
  options_.inputs = {npz_arrays + "tlk.npz"};
  const auto trace = import("npz");
  expect_three_tokens(trace);
  EXPECT_EQ(trace.step(0).ids(0).width(), 1);
  EXPECT_FLOAT_EQ(trace.step(0).weight(1, 0, 1), 0.03F);  // entry 3 of 12, in units of 0.01
  EXPECT_EQ(report_,
            "tokens     3\nsequences  2\nlayers     2 (model layers 0, 1)\nexperts    4\n"
            "top-k      2\nphase      mixed\nids        logical\nweights    yes\n"
            "dropped    nothing\n");
}

TEST_F(ImportTest, LayerMajorArchive) {
  options_.inputs = {npz_arrays + "ltk.npz"};
  options_.phase = Phase::decode;
  options_.name = "three";
  const auto trace = import("npz");
  expect_three_tokens(trace);
  EXPECT_EQ(trace.info().phase, Phase::decode);
  EXPECT_EQ(trace.info().name, "three");
}

TEST_F(ImportTest, LooseArrays) {
  options_.inputs = {npz_arrays + "ids.npy", npz_arrays + "seq_len.npy"};
  expect_three_tokens(import("npy"));
}

TEST_F(ImportTest, RecorderWithDenseLayersPaddingAndWarmUp) {
  options_.inputs = {npz_arrays + "recorder.npz"};
  options_.layers = {};
  options_.moe_layers = {1, 2};
  options_.top_k = 2;
  const auto trace = import("npz");
  expect_three_tokens(trace);
  EXPECT_EQ(trace.info().layers, (std::vector{1, 2}));
  EXPECT_THAT(report_, testing::HasSubstr("dropped    13 rows: of dense layers\n"
                                          "dropped    18 rows: of leading passes of equal tokens "
                                          "(warm-up)\ndropped    2 rows: of padding (-1)\n"));
}

TEST_F(ImportTest, EsftTextPlainAndGzip) {
  write_bytes(scratch_ / "in/expert_weights_2.txt",
              "0\t1\t2\t3\t\t0.5\t0.25\t1\t0\n0\t2\t\t0.024\t0.1\n");
  const std::string second = "3\t1\t1\t0\t\t0.5\t0.25\t1\t0\r\n2\t3\t\t0.024\t0.1";
  const gzFile file = ::gzopen((scratch_ / "in/expert_weights_10.txt.gz").c_str(), "wb");
  ::gzwrite(file, second.data(), static_cast<unsigned>(second.size()));
  ::gzclose(file);
  options_.inputs = {scratch_ / "in"};
  options_.layers = {};
  options_.top_k = 2;
  const auto trace = import("esft");
  expect_three_tokens(trace);
  EXPECT_EQ(trace.info().layers, (std::vector{2, 10}));
  EXPECT_EQ(trace.step(0).weight(1, 2, 0), 0.024F);
}

TEST_F(ImportTest, WeightsOfEveryFormatAreFiniteFromZeroUp) {
  options_.inputs = {npz_arrays + "tlk.npz"};
  options_.layers = {2, 10};
  options_.weight_scale = -1;
  EXPECT_THAT(error_of([&] { import_trace("npz", options_); }),
              testing::ContainsRegex("token 0: -[0-9.]+ is not a weight"));
}

TEST_F(ImportTest, GptOssRequests) {
  const auto token = [](int position, const std::string& a, const std::string& b) {
    return "{\"token_" + std::to_string(position) + "\": {\"layer_0\": {\"selected_experts\": [" +
           a + "], \"selected_probs\": [0.75, 0.25]}, \"layer_1\": {\"selected_experts\": [" + b +
           "], \"selected_probs\": [0.5, 0.5]}}}";
  };
  write_bytes(scratch_ / "a.json", "{\"full_text\": [\"a\", \"b\"], \"router_data\": [" +
                                       token(9, "0, 1", "3, 1") + "," + token(10, "2, 3", "1, 0") +
                                       "], \"row_index\": 3}");
  write_bytes(scratch_ / "b.json", "[{\"router_data\": [" + token(4, "0, 2", "2, 3") + "]}]");
  options_.inputs = {scratch_ / "a.json", scratch_ / "b.json"};
  options_.layers = {};
  const auto trace = import("gpt-oss");
  expect_three_tokens(trace);
  EXPECT_EQ(trace.info().phase, Phase::decode);
  EXPECT_EQ(trace.step(0).weight(0, 2, 0), 0.75F);
}

TEST_F(ImportTest, MembersThatNobodyNeedsAreNotRead) {
  options_.inputs = {npz_arrays + "texts.npz"};
  expect_three_tokens(import("npz"));
  EXPECT_EQ(warnings_, "");
  options_.weights = "prompts";
  options_.output = scratch_ / "other";
  EXPECT_THAT(error_of([&] { import_trace("npz", options_); }),
              testing::HasSubstr("texts.npz/prompts.npy: error: holds elements of an unsupported"));
}

TEST_F(ImportTest, WithoutLengthsASingleSequenceIsSaid) {
  options_.inputs = {npz_arrays + "ids.npy"};
  options_.order = "tlk";
  EXPECT_THAT(import("npy").step(0).sequence_lengths(), testing::ElementsAre(3));
  EXPECT_EQ(warnings_, npz_arrays +
                           "ids.npy: warning: no array of sequence lengths: all tokens are "
                           "taken as one sequence\nhint: give one next to it, or name it with "
                           "--lengths\n");
}

TEST_F(ImportTest, AnUnknownKindIsNamedFirst) {
  options_.inputs = {npz_arrays + "ids.npy"};
  options_.experts = 0;
  EXPECT_EQ(error_of([&] { import_trace("nzp", options_); }),
            "error: 'nzp' is not a format that can be imported\nhint: did you mean 'npz'?\n");
}

TEST_F(ImportTest, ExpertsAreFewerThanTheIdsOfTwoBytes) {
  options_.inputs = {npz_arrays + "ids.npy", npz_arrays + "seq_len.npy"};
  options_.experts = 65'536;
  EXPECT_EQ(error_of([&] { import_trace("npy", options_); }),
            "error: experts is 65536; it is from 1 to 65535\n");
  options_.experts = 65'535;
  EXPECT_EQ(import("npy").info().experts, 65'535);
}

TEST_F(ImportTest, EsftWeightsAreFiniteFromZeroUp) {
  options_.inputs = {scratch_ / "in"};
  options_.layers = {};
  options_.top_k = 2;
  for (const char* word : {"nan", "inf", "-.5"}) {
    write_bytes(scratch_ / "in/expert_weights_2.txt", fmt::format("0\t1\t\t0.5\t{}\n", word));
    EXPECT_THAT(error_of([&] { import_trace("esft", options_); }),
                testing::HasSubstr(
                    fmt::format("expert_weights_2.txt:1: error: '{}' is not a weight", word)));
  }
}

TEST_F(ImportTest, GptOssRouterDataInsideOther) {
  options_.layers = {};
  options_.inputs = {scratch_ / "a.json"};
  const auto refused = [&](const std::string& text) {
    write_bytes(options_.inputs[0], text);
    return error_of([&] { import_trace("gpt-oss", options_); });
  };
  const std::string row = R"({"selected_experts": [0, 1], "selected_probs": [0.5, 0.5]})";
  const std::string token = R"({"token_0": {"layer_0": )" + row + "}}";
  EXPECT_EQ(refused("[{\"router_data\": [" + token + "]}]"), "");
  std::filesystem::remove_all(options_.output);
  EXPECT_THAT(refused(R"({"a": {"b": {"router_data": [1, {"c": [[[1]]]}]}}})"),
              testing::HasSubstr("has no router_data"));
  EXPECT_THAT(refused(R"({"router_data": {"router_data": [[[[1]]]]}})"),
              testing::HasSubstr("has a request without tokens"));
  EXPECT_THAT(refused(R"({"router_data": [{"router_data": [)" + token + "]}]}"),
              testing::HasSubstr("router_data: 'router_data' is not a token"));
  EXPECT_THAT(refused(R"({"router_data": [[{"layer_0": [[1]]}], [[[3]]]]})"),
              testing::HasSubstr("request without tokens"));
  EXPECT_THAT(
      refused(R"([{"router_data": [{"token_0": {"layer_0": {"selected_experts": [1e300]}}}]}])"),
      testing::HasSubstr("token_0: layer_0 chose expert 1e+300"));
}

/// Four requests of one token each, one layer, top-1.
std::string four_requests(const std::string& last) {
  std::string text;
  for (const std::string& expert : {std::string("0"), std::string("1"), std::string("2"), last}) {
    text += (text.empty() ? "[" : ",") +
            (R"({"router_data": [{"token_0": {"layer_0": {"selected_experts": [)" + expert +
             R"(], "selected_probs": [1]}}}]})");
  }
  return text + "]";
}

TEST_F(ImportTest, RequestsFillStepsOfSoManyTokens) {
  options_.layers = {};
  options_.step_tokens = 2;
  options_.inputs = {scratch_ / "a.json"};
  write_bytes(options_.inputs[0], four_requests("3"));
  const auto trace = import("gpt-oss");
  ASSERT_EQ(trace.step_count(), 2);
  EXPECT_EQ(trace.step(1).number(), 1);
  EXPECT_THAT(trace.step(1).sequence_lengths(), testing::ElementsAre(1, 1));
  EXPECT_EQ(trace.step(1).ids(0).at(1, 0), 3);
  EXPECT_THAT(report_, testing::StartsWith("steps      2\ntokens     4\n"));
}

TEST_F(ImportTest, GoesOnWhereItWasKilled) {
  options_.layers = {};
  options_.step_tokens = 1;
  options_.inputs = {scratch_ / "a.json", scratch_ / "b.json", scratch_ / "c.json"};
  for (const auto& input : options_.inputs) write_bytes(input, four_requests("3"));
  const auto whole = import("gpt-oss").hash();
  const std::string written = read_bytes(options_.output + "/trace.json");
  std::filesystem::remove_all(options_.output);

  const auto killed_after = [&](double share) {
    EXPECT_THROW(import_trace("gpt-oss", options_,
                              [&](double done) {
                                if (done >= share) throw std::runtime_error("killed");
                              }),
                 std::runtime_error);
    EXPECT_FALSE(std::filesystem::exists(options_.output));
  };
  killed_after(0.6);
  const std::string first = scratch_ / ".out.part/step-00000000/ids.npy";
  const auto time = std::filesystem::last_write_time(first);
  EXPECT_EQ(import("gpt-oss").hash(), whole);
  EXPECT_EQ(read_bytes(options_.output + "/trace.json"), written);
  EXPECT_EQ(std::filesystem::last_write_time(options_.output + "/step-00000000/ids.npy"), time);
  EXPECT_FALSE(std::filesystem::exists(scratch_ / ".out.part"));

  // What other options or inputs have left is not gone on with.
  std::filesystem::remove_all(options_.output);
  killed_after(0.6);
  write_bytes(options_.inputs[0], four_requests("0"));
  EXPECT_EQ(import("gpt-oss").step(3).ids(0).at(0, 0), 0);
}

TEST_F(ImportTest, BadInputLeavesNothing) {
  options_.layers = {};
  options_.step_tokens = 1;
  options_.inputs = {scratch_ / "a.json"};
  write_bytes(options_.inputs[0], four_requests("4"));
  EXPECT_THAT(error_of([&] { import_trace("gpt-oss", options_); }),
              testing::HasSubstr("token_0: layer_0 chose expert 4"));
  EXPECT_FALSE(std::filesystem::exists(scratch_ / ".out.part"));
}

TEST_F(ImportTest, RefusesToOverwrite) {
  options_.inputs = {npz_arrays + "tlk.npz"};
  import("npz");
  EXPECT_THAT(error_of([&] { import_trace("npz", options_); }),
              testing::HasSubstr("exists already"));
}

}  // namespace
}  // namespace moesim
