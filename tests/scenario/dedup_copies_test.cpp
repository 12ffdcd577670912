// SPDX-License-Identifier: Apache-2.0
// `dedup` on the public ESFT law trace over 4 x 8 H100 sends exactly the copies that an independent
// count finds.
#include <gtest/gtest.h>

#include <set>

#include "sim/base/data_files.h"
#include "sim/planner/iteration/planner.h"
#include "sim/topology/reader.h"
#include "tests/scenario/traces.h"

namespace moesim {
namespace {

SystemSpec shipped_system(const std::string& name) {
  return read_system(data_file("models/system", name));
}

/// Copies by brute force: for every token the set of GPUs of its experts, 2 of 64 on each of 32.
std::int64_t count_copies(const RoutingTrace& trace, const Batch& batch, int layer, bool local) {
  std::int64_t copies = 0;
  for (int rank = 0; rank < 32; ++rank) {
    for (const TokenRun& run : batch.ranks[static_cast<std::size_t>(rank)]) {
      for (std::int64_t t = run.first; t < run.first + run.count; ++t) {
        std::set<int> gpus;
        for (int k = 0; k < 6; ++k) gpus.insert(trace.step(0).ids(layer).at(t, k) / 2);
        copies += static_cast<std::int64_t>(gpus.size());
        if (!local) copies -= static_cast<std::int64_t>(gpus.count(rank));
      }
    }
  }
  return copies;
}

TEST(DedupCopies, OnEsftLawEqualABruteForceCount) {
  const auto& trace = open_trace("esft-law");
  if (!trace) GTEST_SKIP() << "the public traces are not at hand";
  const TopologyFile file = read_topology(data_file("topologies", "h100-rail"));
  const MoeModel model = read_moe_model(data_file("models/moe", "deepseek-v2-lite"));
  const Batches batches = make_batches(*trace, {32, std::nullopt, 1});
  ASSERT_EQ(batches.batches.size(), 1u);
  std::vector<int> layers(26);
  for (int l = 0; l < 26; ++l) layers[static_cast<std::size_t>(l)] = l;
  Planner planner(shipped_system("dedup"), file.topology, model, *trace,
                  {32, layers, false, false});
  const PlannedStep planned = planner.plan(batches.batches[0], 0);
  int layer = 0;
  for (const Op& op : planned.plan.ops) {
    if (op.key.stage != Stage::dispatch || op.exchange() == nullptr) continue;
    const ByteMatrix& traffic = op.exchange()->traffic;
    const std::int64_t row = 2048 * 2;  // hidden 2048, bf16
    EXPECT_EQ(traffic.total().value, row * count_copies(*trace, batches.batches[0], layer, true));
    EXPECT_EQ(traffic.off_diagonal().value,
              row * count_copies(*trace, batches.batches[0], layer, false));
    ++layer;
  }
  EXPECT_EQ(layer, 26);
}

}  // namespace
}  // namespace moesim
