// SPDX-License-Identifier: Apache-2.0
// Waves of tiles: which rows are in which, and what a fused kernel is not written for.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "sim/base/unsuitable.h"
#include "sim/planner/layer/layer_waves.h"
#include "tests/error_of.h"
#include "tests/planner/iteration/chunks.h"

namespace moesim {
namespace {

/// The first step of one layer on one node of eight.
Plan wave_plan(const SystemSpec& system, const MoeModel& model, const RoutingTrace& trace,
               std::int64_t tokens, bool explicit_rows, bool backward = true) {
  const Topology topology = test::h100_nodes(1);
  PlannerOptions options;
  options.ep = 8;
  options.layers = {0};
  options.explicit_rows = explicit_rows;
  options.attention = false;
  options.backward = backward;
  const Batches batches = make_batches(trace, {8, tokens, 1});
  Planner planner(system, topology, model, trace, options);
  return planner.plan(batches.batches[0], 0).plan;
}

/// Choices that `choose(token)` lists, in sequences of 64 tokens.
template <class Choose>
RoutingTrace trace_of(const MoeModel& model, std::int64_t tokens, Choose choose) {
  TraceInfo info;
  info.model = info.name = model.name;
  info.experts = model.experts;
  info.top_k = model.top_k;
  info.layers = {model.moe_layers.front()};
  info.phase = Phase::synthetic;
  StepArrays arrays;
  arrays.ids = IdArray(info.experts, tokens * info.top_k);
  for (std::int64_t t = 0; t < tokens; ++t) {
    std::int64_t k = 0;
    for (const int expert : choose(t)) arrays.ids.set(t * info.top_k + k++, expert);
  }
  arrays.sequence_lengths.assign(static_cast<std::size_t>(tokens / 64), 64);
  return RoutingTrace(info, {make_step(info, std::move(arrays))});
}

/// What a small generator says: experts are not loaded alike.
RoutingTrace uneven_trace(const MoeModel& model, std::int64_t tokens) {
  std::uint32_t state = 7;
  return trace_of(model, tokens, [&](std::int64_t) {
    std::set<int> chosen;
    while (std::ssize(chosen) < model.top_k) {
      state = state * 1664525U + 1013904223U;
      const int drawn = static_cast<int>(state >> 16) % (model.experts * model.experts);
      chosen.insert(drawn / model.experts * (drawn % model.experts) / model.experts);
    }
    return chosen;
  });
}

/// Experts in turn: any eight tokens choose each once.
RoutingTrace trace_in_turn(const MoeModel& model, std::int64_t tokens) {
  return trace_of(model, tokens, [&](std::int64_t t) {
    std::vector<int> chosen;
    for (int k = 0; k < model.top_k; ++k) {
      chosen.push_back(static_cast<int>(t * model.top_k + k) % model.experts);
    }
    return chosen;
  });
}

constexpr const char* small_tiles = ", chunk: tiles, tile: 8, tile_columns: 1";

TEST(Waves, HaveEqualPartsOfEveryGpusTiles) {
  const MoeModel model = test::tiny();
  const RoutingTrace trace = uneven_trace(model, 8 * 64);
  const Plan plan = wave_plan(test::in_chunks("fused", 6, small_tiles), model, trace, 64, false);
  // Brute force: the rows of every expert, filled into tiles of eight.
  std::vector<std::int64_t> rows(static_cast<std::size_t>(model.experts));
  const IdRows ids = trace.step(0).ids(0);
  for (std::int64_t t = 0; t < 8 * 64; ++t) {
    for (int k = 0; k < model.top_k; ++k) ++rows[static_cast<std::size_t>(ids.at(t, k))];
  }
  const int per_gpu = model.experts / 8;
  std::vector<std::vector<std::int64_t>> tiles(8);  // [gpu][tile] its rows
  for (int e = 0; e < model.experts; ++e) {
    auto& of_gpu = tiles[static_cast<std::size_t>(e / per_gpu)];
    for (std::int64_t left = rows[static_cast<std::size_t>(e)]; left > 0; left -= 8) {
      of_gpu.push_back(std::min<std::int64_t>(left, 8));
    }
  }
  int wave = 0;
  for (const Op& op : plan.ops) {
    if (op.key.type() != OpType{OpKind::fc1, Role::plain, Pass::forward}) continue;
    for (std::size_t member = 0; member < op.group.size(); ++member) {
      const auto& gemm = std::get<GroupedGemm>(op.kernels()->of(member));
      const auto& of_gpu = tiles[op.group[member].index()];
      const auto all = std::ssize(of_gpu);
      std::int64_t expected = 0, of_wave = 0, computed = 0;
      for (std::int64_t tile = 0; tile < all; ++tile) {
        if (tile * 6 / all != wave) continue;
        expected += of_gpu[static_cast<std::size_t>(tile)];
        ++of_wave;
      }
      for (const std::int64_t m : gemm.m) computed += m;
      EXPECT_EQ(computed, expected) << "wave " << wave << " of GPU " << op.group[member].value;
      ASSERT_TRUE(gemm.wave);
      EXPECT_EQ(gemm.wave->tiles, of_wave);
      EXPECT_EQ(gemm.wave->of, all);
      EXPECT_EQ(gemm.wave->starts, wave == 0);
    }
    ++wave;
  }
  EXPECT_EQ(wave, 6);
}

/// Every rank has eight rows for every expert: a tile of eight has one of each, so each half of an
/// expert's tiles, a wave, has four.
TEST(Waves, TakeRowsOfAllSourcesInTurn) {
  const MoeModel model = test::tiny();
  const RoutingTrace trace = trace_in_turn(model, 8 * 64);
  const Plan plan = wave_plan(test::in_chunks("fused", 8, small_tiles), model, trace, 64, true);
  int waves = 0;
  for (const Op& op : plan.ops) {
    if (op.exchange() == nullptr || op.key.stage != Stage::dispatch ||
        op.key.pass != Pass::forward) {
      continue;
    }
    std::map<std::pair<std::int64_t, std::int64_t>, int> rows;  // from, to
    for (const RowMove& row : op.exchange()->rows) ++rows[{row.from.value, row.to.value}];
    EXPECT_EQ(rows.size(), 64u);
    for (const auto& [pair, count] : rows) {
      EXPECT_EQ(count, 4) << waves << ": " << pair.first << " -> " << pair.second;
    }
    ++waves;
  }
  EXPECT_EQ(waves, 8);
}

/// DeepGEMM's contiguous layout: an expert's rows are filled up to a multiple of 128, and each
/// product is a kernel by itself.
TEST(Waves, ProductsByThemselvesFillTiles) {
  const MoeModel model = test::tiny();
  const RoutingTrace trace = uneven_trace(model, 8 * 64);
  const auto gpu = read_gpu_model(data_file("models/gpu", "h100-measured"));
  for (const int chunks : {1, 2}) {
    const auto planned = [&](const std::string& keys) {
      return wave_plan(test::in_chunks("alltoall", chunks, keys), model, trace, 64, false, false);
    };
    const Plan plain = planned(""), plan = planned(", tile: 128");
    ASSERT_EQ(plan.ops.size(), plain.ops.size());
    int products = 0;
    for (std::size_t i = 0; i < plan.ops.size(); ++i) {
      const Op& op = plan.ops[i];
      EXPECT_EQ(op.label.text(), plain.ops[i].label.text());
      const Kernels* kernels = op.kernels();
      if (kernels == nullptr || op.key.stage != Stage::experts) continue;
      for (std::size_t member = 0; member < op.group.size(); ++member) {
        const auto* gemm = std::get_if<GroupedGemm>(&kernels->of(member));
        if (gemm == nullptr) continue;
        ++products;
        GroupedGemm filled = *gemm;
        filled.wave.reset();
        EXPECT_EQ(filled, std::get<GroupedGemm>(plain.ops[i].kernels()->of(member)));
        std::int64_t tiles = 0;
        for (std::int64_t& m : filled.m) {
          tiles += (m + 127) / 128;
          m = (m + 127) / 128 * 128;
        }
        ASSERT_TRUE(gemm->wave);
        EXPECT_EQ(gemm->wave->tiles, tiles);
        EXPECT_EQ(gemm->wave->of, tiles);
        EXPECT_TRUE(gemm->wave->starts);
        // No longer than what it would compute if all rows were there, no shorter than without.
        EXPECT_LE(gpu.time(*gemm).value, gpu.time(filled).value * (1 + 1e-9));
      }
    }
    EXPECT_EQ(products, 2 * 8 * chunks);
  }
  EXPECT_THROW(wave_plan(test::in_chunks("alltoall", 1, ", tile: 8"), model, trace, 64, false),
               Unsuitable);
}

/// Of DeepGEMM 891d57b, csrc/jit_kernels/heuristics/mega_moe.hpp, whose borders are within a few
/// rows of these.
TEST(Waves, HaveTheLeastTilesThatHoldAnExpertAndADeviationMore) {
  TiledKernel kernel;
  kernel.rows = {16, 32, 64, 96, 128, 192};
  const auto height = [&](std::int64_t rows) {
    return tile_rows(kernel, {2 * rows, 0, rows, rows});
  };
  EXPECT_EQ(height(0), 16);
  EXPECT_EQ(height(8), 16);
  EXPECT_EQ(height(16), 32);  // 20 rows
  EXPECT_EQ(height(49), 64);
  EXPECT_EQ(height(64), 96);
  EXPECT_EQ(height(128), 192);
  EXPECT_EQ(height(225), 128);  // 240 in two
  EXPECT_EQ(height(256), 192);
  EXPECT_EQ(height(6144), 192);
  kernel.rows = {128};
  EXPECT_EQ(height(1), 128);
  EXPECT_EQ(height(1000), 128);
}

TEST(Waves, FillTheLastTileToWhatTheirKernelSays) {
  const MoeModel model = test::tiny();
  const RoutingTrace trace = uneven_trace(model, 8 * 64);
  for (const auto& [keys, fill] : {std::pair(", tile: 8, fill: 4", 4), std::pair(", tile: 8", 8)}) {
    const Plan plan = wave_plan(test::in_chunks("fused", 6, std::string(", chunk: tiles") + keys),
                                model, trace, 64, false, false);
    int products = 0;
    for (const Op& op : plan.ops) {
      if (op.kernels() == nullptr || op.key.stage != Stage::experts) continue;
      const auto* gemm = std::get_if<GroupedGemm>(&op.kernels()->of(0));
      if (gemm == nullptr) continue;
      ++products;
      EXPECT_EQ(gemm->wave->fill, fill);
    }
    EXPECT_GT(products, 0);
  }
}

void expect_unsuitable(const std::string& dispatch, const std::string& keys,
                       const std::string& what) {
  const MoeModel model = test::tiny();
  const RoutingTrace trace = test::tokens_for(model, 8 * 64, 64);
  try {
    wave_plan(test::in_chunks(dispatch, 4, ", chunk: tiles" + keys), model, trace, 64, false);
    ADD_FAILURE() << what;
  } catch (const Unsuitable& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr(what));
  }
}

TEST(Waves, SayWhatTheirKernelIsNotWrittenFor) {
  expect_unsuitable("fused", ", types: [fp8, fp4]", "its fused kernel takes no weights of fp32");
  expect_unsuitable("fused", ", types: [fp8, fp4]", "weights of fp8 or fp4");
  expect_unsuitable("fused", ", dies: [gb100]", "does not run on h100-measured (die gh100)");
  expect_unsuitable("dedup", "", "need a row for every token and choice");
  expect_unsuitable("{kind: fused, sms: 132}", "", "its exchanges take 132 multiprocessors of 132");
}

TEST(Tiles, AreFilledByProductsOfTypesAndGpusThatTheirKernelIsFor) {
  const Topology hopper = test::h100_nodes(1);
  const EpGroups groups(hopper, 8);
  Chunking chunking;
  const auto fill = [&](DataType weights, bool backward) {
    return fill_tiles(chunking, weights, groups, backward);
  };
  EXPECT_FALSE(fill(DataType::fp8, false));
  chunking.fills_tiles = true;
  EXPECT_TRUE(fill(DataType::bf16, true)) << "for all: who cannot is refused";
  chunking.kernel.types = {DataType::fp8, DataType::mxfp4_mxfp8};
  EXPECT_TRUE(fill(DataType::fp8, false));
  EXPECT_TRUE(fill(DataType::mxfp4_mxfp8, false));
  EXPECT_FALSE(fill(DataType::bf16, false));
  EXPECT_FALSE(fill(DataType::fp8, true));
  chunking.kernel.dies = {"gb100"};
  EXPECT_FALSE(fill(DataType::fp8, false));
  chunking.kernel.dies = {"gh100"};
  EXPECT_TRUE(fill(DataType::fp8, false));
  chunking.by = ChunkBy::tiles;
  EXPECT_FALSE(fill(DataType::fp8, false));
}

TEST(Waves, TakeTheMultiprocessorsOfTheSmallestGpu) {
  const Topology mixed = read_topology(data_file("topologies", "heterogeneous")).topology;
  EXPECT_EQ(sms_for({}, DataType::bf16, EpGroups(mixed, mixed.gpu_count())), 108);  // A100, A800
  const Topology alike = test::h100_nodes(1);
  EXPECT_EQ(sms_for({}, DataType::bf16, EpGroups(alike, 8)), 132);
}

TEST(Padding, IsToldWithHowMuchMoreItMovesAndComputes) {
  const MoeModel model = test::tiny();
  const Topology topology = test::h100_nodes(1);
  const auto notes = [&](const RoutingTrace& trace) {
    PlannerOptions options;
    options.ep = 8;
    options.layers = {0};
    const Batches batches = make_batches(trace, {8, 64, 1});
    Planner planner(test::in_chunks("{kind: tutel, padding: max}", 1), topology, model, trace,
                    options);
    planner.plan(batches.batches[0], 0);
    return planner.layer_planner().notes();
  };
  EXPECT_THAT(notes(trace_in_turn(model, 8 * 64)), testing::IsEmpty());
  // Every token chooses the same 4 experts of 32, which all get as many rows.
  const auto four = [](std::int64_t) { return std::vector<int>{0, 1, 2, 3}; };
  EXPECT_THAT(notes(trace_of(model, 8 * 64, four)),
              testing::ElementsAre("pads: 8.0 times as many rows on the wire, 8.0 times as much "
                                   "expert work as without padding (megatron and megatron-2dh "
                                   "send exact rows)"));
}

TEST(Waves, KeysAreChecked) {
  const auto message = [](const std::string& keys) {
    return error_of([&] { test::in_chunks("fused", 4, keys); });
  };
  EXPECT_THAT(message(", tile_columns: 64"), testing::HasSubstr("chunks are not tiles"));
  EXPECT_THAT(message(", weights: fp4"), testing::HasSubstr("products fill no tiles"));
  EXPECT_THAT(message(", chunk: tiles, tile: [64, 16]"), testing::HasSubstr("does not ascend"));
  EXPECT_THAT(message(", chunk: tiles, streamed: false"),
              testing::HasSubstr("one kernel exchanges the rows of all of them"));
}

}  // namespace
}  // namespace moesim
