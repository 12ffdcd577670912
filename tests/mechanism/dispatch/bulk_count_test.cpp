// SPDX-License-Identifier: Apache-2.0
// Layers counted by routes against the same layers row by row: the rows come from the mechanism's
// one `next` with all choices of a token at once.
#include "sim/mechanism/bulk_count.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "sim/base/unsuitable.h"
#include "tests/mechanism/random_layers.h"

namespace moesim {
namespace {

const std::vector<std::string>& dispatches() {
  static const std::vector<std::string> all = {
      "alltoall",
      "dedup",
      "{kind: hierarchical, depth: 1, dedup: true}",
      "{kind: hierarchical, depth: 2, dedup: true}",
      "{kind: hierarchical, depth: 2, dedup: false}",
      "{kind: hierarchical, depth: 3, dedup: true}",
      "{kind: hierarchical, depth: 3, dedup: false}",
      "{kind: deepep-normal, rounds: 1}",
      "{kind: deepep-normal, rounds: 4, channels: 1, rdma_chunk: 16}",
      "deepep-low-latency",
      "fused",
      "fastmoe",
      "schemoe-pipe",
      "hybridep",
      "{kind: two-hop, order: intra-first}",
      "{kind: two-hop, order: inter-first}",
      "{kind: allgather, algorithm: direct}"};
  return all;
}

/// Ranks that hold their tokens in several runs, not in the order of the step.
struct ScatteredLayer {
  ScatteredLayer(std::mt19937& random, int gpus, int experts, int choices, bool wide)
      : per_rank(20 + static_cast<int>(random() % 200)), top_k(choices), width(wide ? 2 : 1) {
    const auto drawn = random_ids(random, gpus * per_rank, experts, top_k);
    for (const int id : drawn) {
      const bool drop = wide && random() % 7 == 0;
      ids.push_back(drop ? IdRows::dropped : static_cast<std::uint16_t>(id));
      narrow.push_back(static_cast<std::uint8_t>(id));
    }
    batch.ranks.resize(static_cast<std::size_t>(gpus));
    for (int r = 0; r < gpus; ++r) {
      auto& runs = batch.ranks[static_cast<std::size_t>(r)];
      const std::int64_t first = (gpus - 1 - r) * per_rank;
      const std::int64_t cut = static_cast<std::int64_t>(random() % 20);
      if (random() % 9 == 0) continue;  // a rank without tokens
      runs.push_back({first + cut, per_rank - cut});
      if (cut > 0) runs.push_back({first, cut});
    }
  }
  IdRows rows() const {
    const void* data = width == 1 ? static_cast<const void*>(narrow.data()) : ids.data();
    return {data, width, top_k, static_cast<std::int64_t>(ids.size()) / top_k};
  }

  std::int64_t per_rank;
  int top_k, width;
  std::vector<std::uint16_t> ids;
  std::vector<std::uint8_t> narrow;
  Batch batch;
};

/// Choices per slot, one by one.
std::vector<std::int64_t> served(const LayerTokens& tokens) {
  const Placement& placement = tokens.assignment.placement();
  std::vector<std::int64_t> slots(static_cast<std::size_t>(placement.slots()));
  AssignmentWalk walk(tokens.assignment);
  for (std::size_t r = 0; r < tokens.batch.ranks.size(); ++r) {
    for (const TokenRun& run : tokens.batch.ranks[r]) {
      for (std::int64_t t = run.first; t < run.first + run.count; ++t) {
        for (int k = 0; k < tokens.ids.top_k(); ++k) {
          const int e = tokens.ids.at(t, k);
          if (e < placement.experts()) {
            ++slots[walk.next(GpuId(static_cast<std::int64_t>(r)), ExpertId(e)).index()];
          }
        }
      }
    }
  }
  return slots;
}

void expect_equal(const Dispatch& made, const LayerTokens& tokens) {
  const Dispatch& dispatch = made.choose(tokens);
  const auto rows = dispatch.rows(tokens);
  const auto counts = dispatch.count(tokens);
  ASSERT_EQ(counts.phases.size(), rows.size());
  for (std::size_t phase = 0; phase < rows.size(); ++phase) {
    ASSERT_EQ(counted(counts, phase), listed(rows[phase])) << "phase " << phase;
  }
  ASSERT_EQ(counts.slots, served(tokens));
}

/// Every dispatch that the cluster can host, on random layers of both widths.
void expect_equal_counts(std::mt19937& random, const Topology& topology, int ep, int experts,
                         const std::function<Assignment()>& assign, std::set<std::string>& met) {
  MoeModel model;
  model.experts = experts;
  for (const std::string& text : dispatches()) {
    SCOPED_TRACE(text);
    model.top_k = 1 + static_cast<int>(random() % static_cast<unsigned>(std::min(experts, 9)));
    std::unique_ptr<Dispatch> dispatch;
    try {
      const SystemSpec system = parse_system(
          "{name: t, source: test, routing: identity, placement: contiguous, schedule: "
          "sequential, dispatch: " +
              text + "}",
          "test");
      dispatch = system.dispatch.make({topology, model, ep});
    } catch (const Unsuitable&) {
      continue;
    }
    const Assignment assignment = assign();
    const bool wide = experts > 256 || random() % 2 == 0;
    const ScatteredLayer layer(random, topology.gpu_count(), experts, model.top_k, wide);
    expect_equal(*dispatch, {layer.batch, layer.rows(), assignment});
    Batch repeated = layer.batch;  // groups with the tokens of the first are counted with it
    const auto first = [&](std::size_t rank) { return rank % static_cast<std::size_t>(ep); };
    for (std::size_t r = 0; r < repeated.ranks.size(); ++r) {
      repeated.ranks[r] = repeated.ranks[first(r)];
    }
    expect_equal(*dispatch, {repeated, layer.rows(), assignment});
    // By now routes are kept, until experts are elsewhere.
    expect_equal(*dispatch, {layer.batch, layer.rows(), assignment});
    const Assignment changed = assign();
    expect_equal(*dispatch, {layer.batch, layer.rows(), changed});
    met.insert(text);
  }
}

TEST(BulkCount, EqualsTheRowsOfEveryDispatchWithReplicasAndSplitAssignments) {
  std::mt19937 random(1);
  std::set<std::string> met;
  for (const Shape& shape : small_shapes()) {
    for (int trial = 0; trial < 4; ++trial) {
      const int experts = shape.ep * static_cast<int>(1 + random() % 3);
      expect_equal_counts(
          random, topology_of(shape), shape.ep, experts,
          [&] { return random_assignment(random, shape, experts); }, met);
    }
  }
  EXPECT_EQ(met.size(), dispatches().size() - 2) << "three levels are for the test below";
}

TEST(BulkCount, EqualsTheRowsOnHostsOfUnequalSizeAndDeepHierarchies) {
  std::mt19937 random(2);
  std::set<std::string> met;
  for (const char* name :
       {"heterogeneous", "hiermoe-a6000", "torus", "wan-1000dc", "gb200-nvl72"}) {
    SCOPED_TRACE(name);
    const TopologyFile file =
        read_topology(std::string(MOESIM_ROOT "/topologies/") + name + ".yaml");
    const int gpus = file.topology.gpu_count();
    for (const int parts : {1, 2, 3}) {
      if (gpus % parts != 0 || gpus > 144) continue;
      const int ep = gpus / parts;
      const int experts = 2 * ep + 1;
      expect_equal_counts(
          random, file.topology, ep, experts,
          [&] { return Assignment(contiguous_placement(experts, gpus, ep), ep); }, met);
    }
  }
  EXPECT_TRUE(met.contains("{kind: hierarchical, depth: 3, dedup: true}"));
}

TEST(BulkCount, EqualsTheRowsOfMoreThan256ExpertsAndManyClasses) {
  std::mt19937 random(3);
  std::set<std::string> met;
  const Topology topology = bare_nodes(9, 8);
  expect_equal_counts(
      random, topology, 72, 300, [&] { return Assignment(contiguous_placement(300, 72, 72), 72); },
      met);
  EXPECT_TRUE(met.contains("dedup"));
}

TEST(BulkCount, EqualsTheRowsOfMoreSlotsThan16BitsNumber) {
  std::mt19937 random(4);
  std::set<std::string> met;
  constexpr int gpus = 4, experts = 5, slots_on_gpu = 17000;
  SlotTable table(gpus);
  for (auto& slots : table) {
    for (int slot = 0; slot < slots_on_gpu; ++slot) slots.emplace_back(slot % experts);
  }
  const Placement placement(experts, table);
  std::vector<Shares> row;
  for (int e = 0; e < experts; ++e) {
    const auto& slots = placement.slots_of(ExpertId(e));
    row.push_back({{slots.back(), 1}, {slots.front(), 2}, {slots[slots.size() / 2], 1}});
  }
  const Assignment assignment(placement, std::vector<std::vector<Shares>>(gpus, row));
  expect_equal_counts(
      random, bare_nodes(2, 2), gpus, experts, [&] { return assignment; }, met);
  EXPECT_TRUE(met.contains("{kind: deepep-normal, rounds: 4, channels: 1, rdma_chunk: 16}"));
}

}  // namespace
}  // namespace moesim
