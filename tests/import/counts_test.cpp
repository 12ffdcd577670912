// SPDX-License-Identifier: Apache-2.0
// Rows that are dealt from counts have their loads, in every part of the tokens.
#include "sim/import/counts.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "sim/base/gzip.h"
#include "sim/import/importer.h"
#include "sim/trace/id_counts.h"
#include "sim/trace/npy.h"
#include "sim/trace/verify.h"
#include "tests/error_of.h"
#include "tests/trace/scratch.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::uint32_t> loads_of(const RoutingTrace& trace, int step, int layer,
                                    std::int64_t first, std::int64_t tokens) {
  std::vector<std::uint32_t> loads(static_cast<std::size_t>(trace.info().experts));
  count_ids(trace.step(step).ids(layer), first, tokens, loads);
  return loads;
}

template <class T>
void write_npy(const std::string& path, NpyType type, const std::vector<std::int64_t>& shape,
               const std::vector<T>& values) {
  write_bytes(path,
              npy_header(type, shape) + std::string(reinterpret_cast<const char*>(values.data()),
                                                    values.size() * sizeof(T)));
}

class CountsTest : public testing::Test {
 protected:
  CountsTest() {
    options_.inputs = {scratch_ / "counts.npy"};
    options_.output = scratch_ / "out";
    options_.experts = 4;
    options_.top_k = 2;
    options_.layers = {3};
  }
  ScratchFolder scratch_;
  ImportOptions options_;
};

TEST_F(CountsTest, OfRanksStayWithTheirRanks) {
  // [step][layer][source][expert]: rank 0 has 4 tokens, rank 1 has 3.
  write_npy<std::int64_t>(options_.inputs[0], {'i', 8}, {1, 1, 2, 4}, {4, 2, 1, 1, 0, 3, 0, 3});
  const auto report = import_trace("counts", options_).report;
  EXPECT_THAT(report, HasSubstr("rows       of counts: only loads are recorded\n"));
  EXPECT_TRUE(verify_trace(options_.output).empty());
  const auto trace = RoutingTrace::open(options_.output);
  EXPECT_TRUE(trace.info().counts_alone);
  EXPECT_THAT(trace.step(0).sequence_lengths(), ElementsAre(4, 3));
  EXPECT_EQ(trace.step(0).source_rank(4), 1);
  EXPECT_THAT(loads_of(trace, 0, 0, 0, 4), ElementsAre(4, 2, 1, 1));
  EXPECT_THAT(loads_of(trace, 0, 0, 4, 3), ElementsAre(0, 3, 0, 3));
}

TEST_F(CountsTest, OfUnknownSourcesSpreadOverAnyPart) {
  write_npy<std::int32_t>(options_.inputs[0], {'i', 4}, {2, 1, 4},
                          {0, 0, 0, 0, 1000, 600, 300, 100});
  EXPECT_THAT(import_trace("counts", options_).report,
              HasSubstr("dropped    1 row: of steps without counts"));
  const auto trace = RoutingTrace::open(options_.output);
  ASSERT_EQ(trace.step_count(), 1);
  EXPECT_EQ(trace.step(0).number(), 1);
  EXPECT_EQ(trace.step(0).sequence_lengths().size(), 1000u);
  EXPECT_THAT(loads_of(trace, 0, 0, 0, 1000), ElementsAre(1000, 600, 300, 100));
  for (int part = 0; part < 4; ++part) {
    const auto loads = loads_of(trace, 0, 0, part * 250, 250);
    EXPECT_EQ(loads[0], 250u);
    EXPECT_NEAR(loads[1], 150, 3);
    EXPECT_NEAR(loads[2], 75, 3);
    EXPECT_NEAR(loads[3], 25, 3);
  }
}

TEST_F(CountsTest, OfOneStepNeedNoAxisForIt) {
  options_.layers = {3, 4};
  write_npy<std::int64_t>(options_.inputs[0], {'i', 8}, {2, 4}, {4, 2, 1, 1, 0, 3, 2, 3});
  import_trace("counts", options_);
  const auto trace = RoutingTrace::open(options_.output);
  ASSERT_EQ(trace.step_count(), 1);
  EXPECT_THAT(loads_of(trace, 0, 1, 0, 4), ElementsAre(0, 3, 2, 3));
}

TEST_F(CountsTest, OfTheOtherOrientationAreToldSo) {
  write_npy<std::int64_t>(options_.inputs[0], {'i', 8}, {4, 2}, {4, 0, 2, 3, 1, 2, 1, 3});
  EXPECT_THAT(error_of([&] { import_trace("counts", options_); }),
              HasSubstr("experts are the last axis: is the array transposed?"));
}

TEST_F(CountsTest, ThatAreNoTokensAreRefused) {
  const auto refused = [&](const std::vector<float>& counts) {
    write_npy(options_.inputs[0], {'f', 4}, {1, 1, 4}, counts);
    return error_of([&] { import_trace("counts", options_); });
  };
  EXPECT_THAT(refused({1, 1, 1, 0}), HasSubstr("add up to 3 in layer 0 of the file"));
  EXPECT_THAT(refused({5, 1, 0, 0}), HasSubstr("has 3 tokens, but expert 0 is chosen 5 times"));
  EXPECT_THAT(refused({0.5, 0.5, 1, 0}), HasSubstr("holds 0.5, which is not a count"));
  EXPECT_THAT(refused({-1, 2, 1, 0}), HasSubstr("holds -1, which is not a count"));
  EXPECT_THAT(refused({NAN, 2, 1, 0}), HasSubstr("which is not a count"));
  EXPECT_THAT(refused({1e12F, 1e12F, 0, 0}), HasSubstr("counts 999999995904 tokens; at most"));
  EXPECT_EQ(refused({1, 1, 1, 1}), "");
}

TEST(Counts, OfAStepAreBounded) {
  CountedStep step{"c"};
  step.counts.assign(17, {{std::int64_t{1} << 24}});
  EXPECT_THAT(error_of([&] { deal(step, 1); }),
              HasSubstr("c: error: counts more than 268435456 choices in a step"));
}

/// The loads that LAER's authors measured on 32 GPUs, of one method: [iteration][layer][rank],
/// 1,048,576 copies each.
std::vector<std::int32_t> laer_copies(const std::string& csv, const std::string& method) {
  std::vector<std::int32_t> loads(10 * 32 * 32);
  std::istringstream lines(csv);
  for (std::string line; std::getline(lines, line);) {
    std::array<int, 4> of{};  // rank, layer, iteration, copies
    char name[16] = "", model[64] = "";
    if (std::sscanf(line.c_str(), "%d,%15[^,],%63[^,],%d,%d,%d", &of[0], name, model, &of[1],
                    &of[2], &of[3]) == 6 &&
        name == method) {
      loads[static_cast<std::size_t>((of[2] * 32 + of[1]) * 32 + of[0])] = of[3];
    }
  }
  return loads;
}

/// A 256th of them.
std::vector<std::int32_t> laer_loads(const std::string& csv, const std::string& method) {
  auto loads = laer_copies(csv, method);
  for (std::int32_t& copies : loads) copies /= 256;
  for (std::size_t cell = 0; cell < 320; ++cell) {  // what rounding left out
    const auto first = loads.begin() + static_cast<std::ptrdiff_t>(cell * 32);
    *first += 4096 - std::accumulate(first, first + 32, 0);
  }
  return loads;
}

/// Of 320 layers and iterations, those in which copies left their node of 8 ranks.
int laer_cells_between_nodes(const std::string& csv, const std::string& method) {
  const auto loads = laer_copies(csv, method);
  int cells = 0;
  for (auto cell = loads.begin(); cell != loads.end(); cell += 32) {
    bool within = true;
    for (int node = 0; node < 4; ++node) {
      within = within && std::accumulate(cell + node * 8, cell + node * 8 + 8, 0) == 8 * 32768;
    }
    cells += within ? 0 : 1;
  }
  return cells;
}

/// The mean over iterations and layers of the largest over the mean load of the 32 GPUs, after the
/// import: each GPU's load is that of one expert.
double replayed_imbalance(const std::string& csv, const std::string& method) {
  const ScratchFolder scratch;
  write_npy(scratch / "loads.npy", {'i', 4}, {10, 32, 32}, laer_loads(csv, method));
  ImportOptions options;
  options.inputs = {scratch / "loads.npy"};
  options.output = scratch / "out";
  options.experts = 32;
  options.top_k = 1;
  for (int l = 0; l < 32; ++l) options.layers.push_back(l);
  import_trace("counts", options);
  const auto trace = RoutingTrace::open(options.output);
  double sum = 0;
  for (int s = 0; s < trace.step_count(); ++s) {
    for (int l = 0; l < 32; ++l) {
      const auto loads = loads_of(trace, s, l, 0, trace.step(s).tokens());
      sum += *std::max_element(loads.begin(), loads.end()) / (4096.0 / 32);
    }
  }
  return sum / (trace.step_count() * 32);
}

const std::string laer_file =
    std::string(MOESIM_SHARED) + "/traces/laer_moe_32gpu/token_analysis_e8k2.csv.gz";

TEST(LaerLoads, OfLaerAreNotOfTheReleasedPlanner) {
  if (!std::filesystem::exists(laer_file)) GTEST_SKIP() << "no " << laer_file;
  const std::string csv = read_text_or_gzip(laer_file);
  // It puts 8 experts with 64 slots on every one of 4 nodes, so that no copy would leave its node.
  EXPECT_EQ(laer_cells_between_nodes(csv, "LAER"), 48);
  EXPECT_EQ(laer_cells_between_nodes(csv, "FSDP"), 0);
  EXPECT_EQ(laer_cells_between_nodes(csv, "FLEX"), 0);
}

TEST(LaerLoads, GiveThePublishedImbalance) {
  if (!std::filesystem::exists(laer_file)) GTEST_SKIP() << "no " << laer_file;
  const std::string csv = read_text_or_gzip(laer_file);
  EXPECT_NEAR(replayed_imbalance(csv, "FSDP"), 1.663836, 0.03 * 1.663836);
  EXPECT_NEAR(replayed_imbalance(csv, "FLEX"), 1.503246, 0.03 * 1.503246);
  EXPECT_NEAR(replayed_imbalance(csv, "LAER"), 1.413492, 0.03 * 1.413492);
}

/// Counts of a model of 6 layers that nobody has described, the first two without experts.
Imported import_unknown_model(const std::vector<int>& layers, const std::string& kind,
                              std::vector<int>& found) {
  const ScratchFolder scratch;
  const std::string none = "[0, 0, 0, 0]", some = "[3, 1, 2, 2]";
  const std::string step =
      "[" + none + "," + none + "," + some + "," + some + "," + some + "," + some + "]";
  write_bytes(scratch / "in/a.json", "{\"logical_count\": [" + step + "," + step + "]}");
  ImportOptions options;
  options.inputs = {scratch / "in"};
  options.output = scratch / "out";
  options.top_k = 2;
  options.layers = layers;
  const Imported imported = import_trace(kind, options);
  found = RoutingTrace::open(scratch / "out").info().layers;
  return imported;
}

TEST(Counts, WithoutAModelSayTheirLayersAndExperts) {
  std::vector<int> found;
  const auto named = import_unknown_model({2, 3, 4, 5}, "sglang-counts", found);
  EXPECT_THAT(named.report, HasSubstr("steps      2\ntokens     8\n"));
  EXPECT_THAT(found, ElementsAre(2, 3, 4, 5));
  import_unknown_model({}, "sglang-counts", found);
  EXPECT_THAT(found, ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(error_of([&] {
                import_unknown_model({2, 3}, "sglang-counts", found);
              }),
              HasSubstr("layer 4 is not one that --layers names but has counts"));
}

TEST(Counts, AsTextHaveARowPerLayerOrOneColumn) {
  const std::string a = "[3, 1, 2, 2]", b = "[0, 2, 3, 3]";
  for (const std::string& text :
       {"[" + a + "," + b + "]", R"({"logical_count": [)" + a + "," + b + "]}",
        R"({"model.layers.10.mlp": )" + b + R"(, "model.layers.9.mlp": )" + a + "}",
        std::string(R"({"layer_10": {"1": 2, "2": 3, "3": 3}, "layer_9": )") +
            R"({"0": 3, "1": 1, "2": 2, "3": 2}})",
        std::string("3,1,2,2\n0,2,3,3\n"),
        std::string("layer,e0,e1,e2,e3\n9,3,1,2,2\n10,0,2,3,3\n"),
        std::string("expert layer_9 layer_10\n0 3 0\n1 1 2\n2 2 3\n3 2 3\n")}) {
    const ScratchFolder scratch;
    write_bytes(scratch / "in/a", text);
    ImportOptions options;
    options.inputs = {scratch / "in"};
    options.output = scratch / "out";
    options.top_k = 2;
    options.layers = {9, 10};
    import_trace("counts", options);
    const auto trace = RoutingTrace::open(scratch / "out");
    EXPECT_THAT(loads_of(trace, 0, 0, 0, 4), ElementsAre(3, 1, 2, 2)) << text;
    EXPECT_THAT(loads_of(trace, 0, 1, 0, 4), ElementsAre(0, 2, 3, 3)) << text;
  }
  const ScratchFolder scratch;
  write_bytes(scratch / "in/a.csv", "layer,expert,count\n1,0,3\n");
  ImportOptions options;
  options.inputs = {scratch / "in"};
  options.output = scratch / "out";
  EXPECT_THAT(error_of([&] { import_trace("counts", options); }),
              HasSubstr("kind 'table' reads it"));
}

TEST(Counts, OfAStepAreNotChoicesOfAToken) {
  const ScratchFolder scratch;
  write_bytes(scratch / "in/a.csv",
              "step,layer,expert,token_count\n0,1,0,3\n0,1,1,3\n1,1,2,4\n1,1,3,4\n");
  ImportOptions options;
  options.inputs = {scratch / "in"};
  options.output = scratch / "out";
  options.experts = 4;
  options.top_k = 2;
  EXPECT_THAT(import_trace("table", options).report, HasSubstr("steps      2\ntokens     7\n"));
}

}  // namespace
}  // namespace moesim
