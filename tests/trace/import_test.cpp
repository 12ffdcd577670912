// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <zlib.h>

#include "sim/trace/import/importer.h"
#include "sim/trace/verify.h"
#include "tests/trace/scratch.h"

namespace moesim {
namespace {

const std::string kArrays = std::string(MOESIM_ROOT) + "/tests/fixtures/npz/";

class ImportTest : public testing::Test {
 protected:
  ImportTest() {
    options_.experts = 4;
    options_.layers = {0, 1};
    options_.output = scratch_ / "out";
  }
  RoutingTrace import(const std::string& kind) {
    report_ = import_trace(kind, options_);
    EXPECT_TRUE(verify_trace(options_.output).empty());
    return RoutingTrace::open(options_.output);
  }
  /// The ids of one layer: "0 1, 2 3, 0 2".
  static std::string row_text(const RoutingTrace& trace, int layer) {
    std::string text;
    const IdRows rows = trace.step(0).ids(layer);
    for (std::int64_t t = 0; t < rows.tokens(); ++t)
      for (int k = 0; k < rows.top_k(); ++k)
        text += (k > 0 ? " " : t > 0 ? ", " : "") + std::to_string(rows.at(t, k));
    return text;
  }
  static void expect_three_tokens(const RoutingTrace& trace) {
    EXPECT_THAT(trace.step(0).sequence_lengths(), testing::ElementsAre(2, 1));
    EXPECT_EQ(row_text(trace, 0), "0 1, 2 3, 0 2");
    EXPECT_EQ(row_text(trace, 1), "3 1, 1 0, 2 3");
  }

  ScratchFolder scratch_;
  ImportOptions options_;
  std::string report_;
};

TEST_F(ImportTest, TokenMajorArchive) {
  options_.inputs = {kArrays + "tlk.npz"};
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
  options_.inputs = {kArrays + "ltk.npz"};
  options_.phase = Phase::decode;
  options_.name = "three";
  const auto trace = import("npz");
  expect_three_tokens(trace);
  EXPECT_EQ(trace.info().phase, Phase::decode);
  EXPECT_EQ(trace.info().name, "three");
}

TEST_F(ImportTest, LooseArrays) {
  options_.inputs = {kArrays + "ids.npy", kArrays + "seq_len.npy"};
  expect_three_tokens(import("npy"));
}

TEST_F(ImportTest, RecorderWithDenseLayersPaddingAndWarmUp) {
  options_.inputs = {kArrays + "recorder.npz"};
  options_.layers = {};
  options_.moe_layers = {1, 2};
  options_.top_k = 2;
  const auto trace = import("npz");
  expect_three_tokens(trace);
  EXPECT_EQ(trace.info().layers, (std::vector{1, 2}));
  EXPECT_THAT(report_, testing::HasSubstr("dropped    13 rows: of dense layers\n"
                                          "dropped    27 rows: of leading passes of equal tokens "
                                          "(warm-up)\ndropped    3 rows: of padding (-1)\n"));
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

TEST_F(ImportTest, RefusesToOverwrite) {
  options_.inputs = {kArrays + "tlk.npz"};
  import("npz");
  EXPECT_THAT(error_text([&] { import_trace("npz", options_); }),
              testing::HasSubstr("exists already"));
}

}  // namespace
}  // namespace moesim
