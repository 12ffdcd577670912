// SPDX-License-Identifier: Apache-2.0
// Hecate's replicas and shards and SmartMoE's mapping against their words spelled out, with ties.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "sim/mechanism/placement/training/hecate.h"
#include "sim/mechanism/placement/training/smart_moe.h"
#include "tests/error_of.h"
#include "tests/mechanism/placement/training/routed_layer.h"
#include "tests/plan/fixtures.h"

namespace moesim {
namespace {

using TokenLoads = std::vector<std::int64_t>;

/// Experts 0..n-1 on GPUs at random.
SlotTable drawn_homes(std::mt19937& random, std::size_t experts, std::size_t gpus) {
  SlotTable table(gpus);
  for (std::size_t e = 0; e < experts; ++e) {
    table[random() % gpus].emplace_back(static_cast<std::int64_t>(e));
  }
  return table;
}

TokenLoads drawn_loads(std::mt19937& random, std::size_t experts) {
  TokenLoads loads;
  for (std::size_t e = 0; e < experts; ++e)
    loads.push_back(static_cast<std::int64_t>(random() % 5));
  return loads;
}

SlotTable replicated_plainly(SlotTable table, const TokenLoads& loads, const HecateLimits& limits) {
  const auto per_node = static_cast<std::size_t>(limits.gpus_per_node);
  const int top = hidden_experts(limits, static_cast<int>(loads.size()));
  std::vector<ExpertId> open = heaviest_first(loads);
  open.resize(static_cast<std::size_t>(top));
  std::vector<int> room;
  for (const int n : limits.free_slots) room.push_back(std::min(n, top));
  const bool all_fit = std::ranges::all_of(room, [&](int n) { return n == top; });
  const auto holds = [&](std::size_t gpu, ExpertId e) {
    return std::ranges::count(table[gpu], e) > 0;
  };
  const auto copies = [&](ExpertId e, std::size_t first, std::size_t count) {
    std::int64_t sum = 0;
    for (std::size_t g = first; g < first + count; ++g) sum += holds(g, e);
    return sum;
  };
  const auto add = [&](ExpertId e) {
    std::optional<std::tuple<std::int64_t, int, std::size_t, int, std::size_t>> best;
    for (std::size_t g = 0; g < table.size(); ++g) {
      if (room[g] == 0 || holds(g, e)) continue;
      const std::size_t first = g / per_node * per_node;
      int free = 0;
      for (std::size_t other = first; other < first + per_node; ++other) free += room[other];
      const std::tuple key(copies(e, first, per_node), -free, first, -room[g], g);
      if (!best || key < *best) best = key;
    }
    if (!best) return false;
    const std::size_t gpu = std::get<4>(*best);
    --room[gpu];
    table[gpu].push_back(e);
    return true;
  };
  if (all_fit) {
    for (const ExpertId e : open) {
      while (add(e)) continue;
    }
    return table;
  }
  std::erase_if(open, [&](ExpertId e) { return loads[e.index()] == 0; });
  while (!open.empty()) {
    std::size_t next = 0;  // the largest load per copy
    for (std::size_t i = 1; i < open.size(); ++i) {
      const auto value = [&](std::size_t at) {
        return static_cast<double>(loads[open[at].index()]) /
               static_cast<double>(copies(open[at], 0, table.size()));
      };
      if (value(i) > value(next)) next = i;
    }
    if (!add(open[next])) open.erase(open.begin() + static_cast<std::ptrdiff_t>(next));
  }
  return table;
}

TEST(HecateWords, ReplicasGoSlotBySlot) {
  std::mt19937 random(11);
  int everywhere = 0;
  for (int round = 0; round < 600; ++round) {
    const std::size_t per_node = 1 + random() % 3, gpus = per_node * (1 + random() % 3),
                      experts = 1 + random() % 6;
    const SlotTable homes = drawn_homes(random, experts, gpus);
    const TokenLoads loads = drawn_loads(random, experts);
    HecateLimits limits{Seconds(static_cast<double>(random() % 5)),
                        BytesPerSecond(10),
                        Bytes(10),
                        Bytes(7),
                        {},
                        static_cast<int>(per_node)};
    const bool roomy = random() % 4 == 0;
    for (std::size_t g = 0; g < gpus; ++g) {
      limits.free_slots.push_back(roomy ? 6 : static_cast<int>(random() % 3));
    }
    everywhere += roomy;
    const Replication found = hecate_replicate(homes, loads, limits);
    ASSERT_EQ(found.table, replicated_plainly(homes, loads, limits)) << round;
    const std::vector<GpuId> owners = owners_of(homes);
    std::size_t added = 0;
    for (std::size_t g = 0; g < gpus; ++g) added += found.table[g].size() - homes[g].size();
    ASSERT_EQ(found.gather.size(), added);
    for (std::size_t i = 0; i < found.gather.size(); ++i) {
      const ExpertTransfer& t = found.gather[i];
      ASSERT_EQ(t, (ExpertTransfer{t.expert, owners[t.expert.index()], t.to, Bytes(10)}));
      ASSERT_EQ(found.reduce[i], (ExpertTransfer{t.expert, t.to, t.from, Bytes(7)}));
    }
  }
  EXPECT_GT(everywhere, 100);
}

std::vector<SlotTable> sharded_plainly(const std::vector<TokenLoads>& loads, std::size_t top,
                                       std::size_t gpus, std::size_t per_node) {
  std::size_t experts = 0;
  for (const auto& layer : loads) experts += layer.size();
  std::vector<int> room;
  for (std::size_t g = 0; g < gpus; ++g)
    room.push_back(static_cast<int>((experts + gpus - 1 - g) / gpus));
  const auto node_room = [&](std::size_t g) {
    int sum = 0;
    for (std::size_t o = g / per_node * per_node; o < (g / per_node + 1) * per_node; ++o)
      sum += room[o];
    return sum;
  };
  std::vector<SlotTable> tables(loads.size(), SlotTable(gpus));
  const auto put = [&](std::size_t layer, ExpertId e, auto key) {
    std::size_t best = gpus;
    for (std::size_t g = 0; g < gpus; ++g) {
      if (room[g] > 0 && (best == gpus || key(g) < key(best))) best = g;
    }
    --room[best];
    tables[layer][best].push_back(e);
    return best;
  };
  std::vector<std::vector<ExpertId>> rest(loads.size()), first(loads.size());
  std::vector<std::pair<std::int64_t, std::size_t>> order;
  for (std::size_t l = 0; l < loads.size(); ++l) {
    for (const ExpertId e : heaviest_first(loads[l]))
      (first[l].size() < top ? first[l] : rest[l]).push_back(e);
    order.emplace_back(rest[l].empty() ? 1 : -loads[l][rest[l].front().index()], l);
  }
  std::sort(order.begin(), order.end());
  for (const auto& [heaviest, l] : order) {
    TokenLoads held(gpus);
    const auto node_load = [&](std::size_t g) {
      std::int64_t sum = 0;
      for (std::size_t o = g / per_node * per_node; o < (g / per_node + 1) * per_node; ++o)
        sum += held[o];
      return sum;
    };
    for (const ExpertId e : rest[l]) {
      const std::size_t gpu = put(l, e, [&](std::size_t g) {
        return std::tuple(node_load(g), node_room(g), g / per_node, held[g], room[g], g);
      });
      held[gpu] += loads[l][e.index()];
    }
  }
  for (std::size_t l = 0; l < loads.size(); ++l) {
    for (const ExpertId e : first[l]) {
      put(l, e,
          [&](std::size_t g) { return std::tuple(-node_room(g), g / per_node, -room[g], g); });
    }
  }
  return tables;
}

TEST(HecateWords, ShardsArePlacedLayerByLayer) {
  std::mt19937 random(12);
  for (int round = 0; round < 400; ++round) {
    const std::size_t per_node = 1 + random() % 3, gpus = per_node * (1 + random() % 3),
                      experts = 1 + random() % 6;
    std::vector<TokenLoads> loads(1 + random() % 3);
    for (auto& layer : loads) layer = drawn_loads(random, experts);
    const auto top = static_cast<int>(random() % 8) - 1;
    ASSERT_EQ(hecate_shards(loads, top, static_cast<int>(gpus), static_cast<int>(per_node)),
              sharded_plainly(loads, static_cast<std::size_t>(std::max(top, 0)), gpus, per_node))
        << round;
  }
}

TEST(HecateWords, NodesAreOfOneGpuOrMore) {
  const auto shards_of = [](int gpus, int per_node) {
    return error_of([&] { hecate_shards({{1, 2}}, 0, gpus, per_node); });
  };
  EXPECT_EQ(shards_of(1, 1), "");
  EXPECT_EQ(shards_of(0, 1), "error: 0 GPUs do not form nodes of 1\n");
  EXPECT_EQ(shards_of(2, 0), "error: 2 GPUs do not form nodes of 0\n");
  EXPECT_EQ(shards_of(3, 2), "error: 3 GPUs do not form nodes of 2\n");
  EXPECT_EQ(error_of([] {
              hecate_assignment(slots({{0}, {1}}), 2, 0);
            }),
            "error: 2 GPUs do not form nodes of 0\n");
}

TEST(SmartMoeWords, TheMappingIsGreedyAndTakenWhereItHelps) {
  std::mt19937 random(13);
  int taken = 0;
  for (int round = 0; round < 500; ++round) {
    const std::size_t gpus = 1 + random() % 4, experts = 1 + random() % 8;
    const SlotTable current = drawn_homes(random, experts, gpus);
    const std::vector<GpuId> owners = owners_of(current);
    const TokenLoads loads = drawn_loads(random, experts);
    SlotTable greedy(gpus);
    TokenLoads held(gpus);
    for (const ExpertId e : heaviest_first(loads)) {
      std::vector<std::tuple<std::int64_t, bool, std::size_t>>
          order;  // its own GPU first of equals
      for (std::size_t g = 0; g < gpus; ++g) {
        if (greedy[g].size() < current[g].size())
          order.emplace_back(held[g], owners[e.index()].index() != g, g);
      }
      const std::size_t best = std::get<2>(*std::ranges::min_element(order));
      greedy[best].push_back(e);
      held[best] += loads[e.index()];
    }
    const bool helps = std::ranges::max(held) < std::ranges::max(gpu_loads(current, loads));
    const SmartMoeMapping found = smart_moe_map(current, loads, Bytes(9));
    ASSERT_EQ(found.table, helps ? greedy : current) << round;
    std::vector<ExpertTransfer> moves;
    for (std::size_t e = 0; e < experts; ++e) {
      const auto place = [&](const SlotTable& table) {
        const ExpertId expert(static_cast<std::int64_t>(e));
        const std::size_t g = owners_of(table)[e].index();
        return std::pair(g, std::ranges::find(table[g], expert) - table[g].begin());
      };
      if (place(current) == place(found.table)) continue;
      moves.push_back(
          {ExpertId(static_cast<std::int64_t>(e)), owners[e], owners_of(found.table)[e], Bytes(9)});
    }
    ASSERT_EQ(found.transfers, moves) << round;
    taken += helps;
  }
  EXPECT_GT(taken, 100);
}

}  // namespace
}  // namespace moesim
