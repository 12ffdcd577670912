// SPDX-License-Identifier: Apache-2.0
// Random changes of right plans: the check rejects exactly the plans that a brute-force replay
// rejects.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>

#include "tests/error_of.h"
#include "tests/plan/delivery_fixtures.h"

namespace moesim {
namespace {

using namespace test;

constexpr int all_gpus = 8, gpus_per_node = 4, all_experts = 16, choices_each = 4, all_tokens = 48;
using Random = std::mt19937;

int draw(Random& random, int below) {
  return static_cast<int>(random() % static_cast<unsigned>(below));
}

/// Experts 0-15 on two GPUs each: a group of four GPUs holds all of them.
class World {
 public:
  explicit World(unsigned seed)
      : assignment_(contiguous_placement(all_experts, all_gpus, gpus_per_node), make_slots(seed)) {
    Random random(seed);
    for (int token = 0; token < all_tokens; ++token) {
      routing.source.emplace_back(token * all_gpus / all_tokens);
      auto& chosen = routing.chosen.emplace_back();
      while (chosen.size() < choices_each) {
        const ExpertId expert(draw(random, all_experts));
        if (std::find(chosen.begin(), chosen.end(), expert) == chosen.end())
          chosen.push_back(expert);
      }
    }
    routing.layer = 7;
    routing.assignment = &assignment_;
  }
  GpuId target(std::size_t token, int k) const {
    return assignment_.gpu(routing.source[token],
                           routing.chosen[token][static_cast<std::size_t>(k)]);
  }
  /// Rows of one token from one holder, choices merged by the next GPU where asked.
  void hop(std::vector<RowMove>& rows, std::size_t token, GpuId from, Choices choices, bool merge,
           const std::function<GpuId(int)>& next) const {
    const std::size_t begin = rows.size();
    for (int k = 0; k < choices_each; ++k) {
      if ((choices >> k & 1) == 0) continue;
      const auto same = std::find_if(rows.begin() + static_cast<std::ptrdiff_t>(begin), rows.end(),
                                     [&](const RowMove& row) { return row.to == next(k); });
      if (merge && same != rows.end()) {
        same->choices |= Choices{1} << k;
      } else {
        rows.push_back({from, next(k), TokenId(static_cast<int>(token)), Choices{1} << k});
      }
    }
  }
  Phases flat(bool merge) const {
    Phases out(1);
    for (std::size_t token = 0; token < all_tokens; ++token) {
      hop(out[0], token, routing.source[token], (1 << choices_each) - 1, merge,
          [&](int k) { return target(token, k); });
    }
    return out;
  }
  /// First to the GPU of equal place on the target's node, then to the target.
  Phases two_hop() const {
    Phases out(2);
    for (std::size_t token = 0; token < all_tokens; ++token) {
      const int place = routing.source[token].value % gpus_per_node;
      hop(out[0], token, routing.source[token], (1 << choices_each) - 1, true, [&](int k) {
        return GpuId(target(token, k).value / gpus_per_node * gpus_per_node + place);
      });
    }
    for (const RowMove& row : out[0]) {
      hop(out[1], row.token.index(), row.to, row.choices, true,
          [&](int k) { return target(row.token.index(), k); });
    }
    return out;
  }

  LayerRouting routing;

 private:
  /// Each rank takes either of the two replicas.
  static std::vector<std::vector<SlotId>> make_slots(unsigned seed) {
    Random random(seed + 1000);
    const Placement placement = contiguous_placement(all_experts, all_gpus, gpus_per_node);
    std::vector<std::vector<SlotId>> slots(all_gpus);
    for (auto& row : slots) {
      for (int e = 0; e < all_experts; ++e) {
        row.push_back(placement.slots_of(ExpertId(e))[static_cast<std::size_t>(draw(random, 2))]);
      }
    }
    return slots;
  }

  Assignment assignment_;
};

/// Replays rows with sums as sets of choices; false when a row takes what is not there, when a
/// choice is lost, or, on the way back, when a sum is split.
bool replay(const World& world, const Plan& plan, Stage stage) {
  const bool out = stage == Stage::dispatch;
  for (std::size_t token = 0; token < all_tokens; ++token) {
    std::multimap<GpuId, Choices> held;
    for (int k = 0; k < choices_each; ++k) {
      held.emplace(out ? world.routing.source[token] : world.target(token, k), Choices{1} << k);
    }
    for (const Op& op : plan.ops) {
      if (op.key.stage != stage) continue;
      std::multimap<GpuId, Choices> arriving;
      for (const RowMove& row : op.exchange()->rows) {
        if (row.token.index() != token) continue;
        Choices taken = 0;
        const auto [begin, end] = held.equal_range(row.from);
        for (auto at = begin; at != end;) {
          const bool of_row = (at->second & row.choices) != 0;
          if (of_row && (at->second & ~row.choices) != 0) return false;
          taken |= of_row ? at->second : 0;
          at = of_row ? held.erase(at) : std::next(at);
        }
        if (taken != row.choices) return false;
        for (int k = 0; out && k < choices_each; ++k) {  // copies, unlike sums, can part again
          if ((taken >> k & 1) != 0) arriving.emplace(row.to, Choices{1} << k);
        }
        if (!out) arriving.emplace(row.to, taken);
      }
      held.merge(arriving);
    }
    for (const auto& [gpu, choices] : held) {
      for (int k = 0; k < choices_each; ++k) {
        if ((choices >> k & 1) == 0) continue;
        if (gpu != (out ? world.target(token, k) : world.routing.source[token])) return false;
      }
    }
  }
  return true;
}

void mutate(Random& random, Plan& plan) {
  std::vector<Exchange*> exchanges;
  for (Op& op : plan.ops) {
    if (auto* exchange = std::get_if<Exchange>(&op.work)) exchanges.push_back(exchange);
  }
  auto& rows =
      exchanges[static_cast<std::size_t>(draw(random, static_cast<int>(exchanges.size())))]->rows;
  auto& others =
      exchanges[static_cast<std::size_t>(draw(random, static_cast<int>(exchanges.size())))]->rows;
  const auto index = static_cast<std::size_t>(draw(random, static_cast<int>(rows.size())));
  const auto index2 = static_cast<std::size_t>(draw(random, static_cast<int>(rows.size())));
  RowMove& row = rows[index];
  switch (draw(random, 11)) {
    case 0:
      rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(index));
      break;
    case 1:
      rows.push_back(RowMove(row));
      break;
    case 2:
      row.to = GpuId(draw(random, all_gpus));
      break;
    case 3:
      row.from = GpuId(draw(random, all_gpus));
      break;
    case 4:
      row.token = TokenId(draw(random, all_tokens));
      break;
    case 5:
      row.choices ^= Choices{1} << draw(random, choices_each);
      break;
    case 6:
      row.choices = static_cast<Choices>(draw(random, 1 << choices_each));
      break;
    case 7:
      std::swap(row.to, rows[index2].to);
      break;
    case 8:
      std::swap(row.choices, rows[index2].choices);
      break;
    case 9:
      others.push_back(RowMove(row));
      break;
    case 10:
      std::swap(row, rows[index2]);  // order by itself never matters
      break;
  }
}

bool accepted(const Plan& plan, const LayerRouting& routing) {
  return error_of([&] { check_delivery(plan, {routing}); }).empty();
}

TEST(DeliveryMutations, AreCaughtWheneverTheyChangeDelivery) {
  int caught = 0, harmless = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    const World world(seed);
    const std::vector<Phases> dispatches = {world.flat(false), world.flat(true), world.two_hop()};
    for (std::size_t d = 0; d < dispatches.size(); ++d) {
      Plan right{"mutated", all_gpus, {}};
      LayerPlan(world.routing, seed % 2 == 0 ? Pass::forward : Pass::backward, {"fc1", "fc2"})
          .append(right, dispatches[d], mirrored(dispatches[d]));
      if (seed < 10) {
        EXPECT_EQ(error_of([&] { check_delivery(right, {world.routing}); }), "");
      }
      Random random(seed);
      for (int trial = 0; trial < 10; ++trial) {
        Plan plan = right;
        mutate(random, plan);
        for (Op& op : plan.ops) {
          auto* exchange = std::get_if<Exchange>(&op.work);
          if (exchange != nullptr) fill_traffic(*exchange, all_gpus);
        }
        const bool good =
            replay(world, plan, Stage::dispatch) && replay(world, plan, Stage::combine);
        ++(good ? harmless : caught);
        ASSERT_EQ(accepted(plan, world.routing), good)
            << "seed " << seed << " dispatch " << d << " trial " << trial << "\n"
            << error_of([&] { check_delivery(plan, {world.routing}); });
      }
    }
  }
  EXPECT_GT(caught, 5000);
  EXPECT_GT(harmless, 500);
}

TEST(DeliveryMutations, OfRowsAloneBreakTheMatrix) {
  const World world(1);
  Plan right{"mutated", all_gpus, {}};
  LayerPlan(world.routing, Pass::forward, {"fc1"})
      .append(right, world.two_hop(), mirrored(world.two_hop()));
  for (std::size_t op : {0, 1}) {
    for (std::size_t row = 0; row < exchange_in(right, op).rows.size(); ++row) {
      Plan plan = right;
      auto& rows = exchange_in(plan, op).rows;
      rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(row));
      EXPECT_FALSE(accepted(plan, world.routing)) << "op " << op << " row " << row;
    }
  }
}

TEST(DeliveryMutations, OfExpertRowsAndWaitsAreCaught) {
  const World world(2);
  Plan right{"mutated", all_gpus, {}};
  LayerPlan(world.routing, Pass::forward, {"fc1", "fc2"})
      .append(right, world.flat(true), mirrored(world.flat(true)));
  for (std::size_t op = 1; op < right.ops.size() - 1; ++op) {
    for (std::size_t group = 0; group < all_experts / gpus_per_node; ++group) {
      for (const int change : {-1, 1}) {
        Plan plan = right;
        auto m = gemm_on(plan.ops[op]).m;
        m[group] += change;
        set_rows(plan.ops[op], m);
        EXPECT_FALSE(accepted(plan, world.routing)) << "op " << op << " group " << group;
      }
    }
    Plan plan = right;
    plan.ops[op].key.stage = Stage::other;
    EXPECT_FALSE(accepted(plan, world.routing)) << "op " << op;
  }
  for (std::size_t gpu = 0; gpu < all_gpus; ++gpu) {
    Plan plan = right;
    plan.ops[1 + gpu].after.clear();
    EXPECT_FALSE(accepted(plan, world.routing)) << "fc1 of GPU " << gpu;
    plan = right;
    auto& after = plan.ops.back().after;
    std::erase_if(after, [&](OpId id) { return id.index() % all_gpus == (1 + gpu) % all_gpus; });
    EXPECT_FALSE(accepted(plan, world.routing)) << "combine after GPU " << gpu;
  }
}

TEST(DeliveryMutations, OfAGroupsRowsAndWaitsAreCaught) {
  const World world(2);
  Plan right{"mutated", all_gpus, {}};
  LayerPlan(world.routing, Pass::forward, {"fc1", "fc2"}, true)
      .append(right, world.flat(true), mirrored(world.flat(true)));
  ASSERT_EQ(right.ops.size(), 4u);
  ASSERT_TRUE(accepted(right, world.routing));
  for (const std::size_t op : {1, 2}) {
    for (std::size_t member = 0; member < all_gpus; ++member) {
      Plan plan = right;
      auto m = gemm_on(plan.ops[op], member).m;
      ++m.back();
      set_rows(plan.ops[op], m, member);
      EXPECT_FALSE(accepted(plan, world.routing)) << "op " << op << " member " << member;
    }
    Plan plan = right;
    plan.ops[op].after.clear();
    // The second GEMM follows the first on its stream.
    EXPECT_EQ(accepted(plan, world.routing), op == 2) << "op " << op;
    plan = right;
    std::erase(plan.ops.back().after, OpId(2));
    EXPECT_FALSE(accepted(plan, world.routing)) << "combine before fc2";
  }
}

}  // namespace
}  // namespace moesim
