// SPDX-License-Identifier: Apache-2.0
// LPLB's classes against their words spelled out; the least that serving's planners take.
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/mechanism/placement/moves.h"
#include "sim/mechanism/placement/serving/eplb.h"
#include "sim/mechanism/placement/serving/lazarus.h"
#include "sim/mechanism/placement/serving/lplb.h"
#include "sim/mechanism/placement/serving/prediction.h"
#include "sim/mechanism/placement/serving/replica_choice.h"
#include "sim/mechanism/placement/serving/trt_llm.h"
#include "sim/trace/synth/random.h"
#include "tests/error_of.h"
#include "tests/mechanism/placement/serving/slot_table.h"
#include "tests/plan/fixtures.h"

namespace moesim {
namespace {

std::size_t drawn_below(Random& random, std::size_t n) {
  return random.below(static_cast<std::uint32_t>(n));
}

TEST(ServingWords, LplbsClassesTakeTheirExpertsInTurn) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed, 3);
    const lplb::Wiring wirings[] = {lplb::torus(2, 2), lplb::ring(3), lplb::cube()};
    const lplb::Wiring& wiring = wirings[seed % 3];
    const std::size_t ranks = wiring.size(), classes = wiring[0].size(),
                      per_class = 1 + drawn_below(random, 2);
    const std::size_t owned = classes * per_class + drawn_below(random, 2),
                      groups = 1 + drawn_below(random, 2);
    lplb::Layout layout{wiring, static_cast<int>(per_class), {}};
    std::vector<double> loads;
    for (std::size_t r = 0; r < groups * ranks; ++r) {
      layout.own.emplace_back();
      for (std::size_t i = 0; i < owned; ++i) {
        layout.own.back().emplace_back(static_cast<std::int64_t>(loads.size()));
        loads.push_back(1 + random.below(9));
      }
    }
    const double scale = *std::ranges::max_element(loads);
    const auto solutions = lplb::solve(layout, loads);
    ASSERT_EQ(solutions.size(), groups);
    const std::size_t slots = owned + classes * per_class;
    LoadMatrix batch(static_cast<int>(groups * ranks), static_cast<int>(loads.size()));
    for (int s = 0; s < batch.sources(); ++s) {
      for (int e = 0; e < batch.experts(); ++e) batch.at(GpuId(s), ExpertId(e)) = random.below(6);
    }
    const auto shares = lplb::shares(layout, solutions, batch);
    for (std::size_t g = 0; g < groups; ++g) {
      lplb::Problem problem{wiring, {}, std::vector<double>(ranks)};
      for (std::size_t r = 0; r < ranks; ++r) {
        problem.movable.emplace_back(classes);
        for (std::size_t i = 0; i < owned; ++i) {
          const double load = loads[(g * ranks + r) * owned + i];
          if (i >= classes * per_class)
            problem.fixed[r] += load;
          else
            problem.movable[r][i % classes] += load;
        }
      }
      EXPECT_EQ(solutions[g].stays, lplb::solve(problem, scale).stays) << seed;
      for (std::size_t r = 0; r < ranks; ++r) {
        for (std::size_t i = 0; i < owned; ++i) {
          const std::size_t expert = (g * ranks + r) * owned + i;
          const SlotId original(static_cast<std::int64_t>((g * ranks + r) * slots + i));
          SlotId replica = original;
          for (std::size_t q = 0; q < ranks && i < classes * per_class; ++q) {
            if (wiring[q][i % classes] != static_cast<int>(r)) continue;
            replica = SlotId(static_cast<std::int64_t>((g * ranks + q) * slots + owned + i));
          }
          for (int s = 0; s < batch.sources(); ++s) {
            const std::int64_t total =
                batch.at(GpuId(s), ExpertId(static_cast<std::int64_t>(expert)));
            std::vector<SlotId> sequence;
            for (std::int64_t n = 0; n < total; ++n) {
              const bool stays = lplb::keeps_original(n, total, solutions[g].stays[r][i % classes]);
              sequence.push_back(stays ? original : replica);
            }
            if (i >= classes * per_class || total == 0) sequence = {original};
            const Shares expected = i >= classes * per_class || total == 0 ? Shares{{original, 1}}
                                                                           : run_length(sequence);
            ASSERT_EQ(shares[static_cast<std::size_t>(s)][expert], expected) << seed;
          }
        }
      }
    }
  }
}

TEST(ServingWords, TheLeastThatIsPlaced) {
  EXPECT_EQ(trt_llm::replicate(std::vector<double>{3}, 1), (std::vector<int>{1}));
  EXPECT_EQ(trt_llm::replicate(std::vector<double>{3}, 4), (std::vector<int>{4}));
  EXPECT_EQ(trt_llm::replicate(std::vector<double>{0, 1}, 4), (std::vector<int>{1, 3}));
  EXPECT_EQ(error_of([] {
              trt_llm::replicate(std::vector<double>{3, 4}, 1);
            }),
            "error: TensorRT-LLM cannot place 2 experts in 1 slots\n"
            "hint: every expert needs a slot\n");
  EXPECT_EQ(trt_llm::Rotation(1, 1).sets(), 1);
  EXPECT_EQ(error_of([] { trt_llm::Rotation(0, 1); }),
            "error: no rotation of 0 layers, 1 per iteration\n");
  EXPECT_EQ(eplb::replicate(std::vector<double>{3}, 1).copies, (std::vector<int>{1}));
  EXPECT_EQ(error_of([] { eplb::replicate(std::vector<double>{}, 1); }),
            "error: EPLB cannot place 0 experts in 1 slots\nhint: every expert needs a slot\n");
  EXPECT_EQ(
      error_of([] {
        eplb::pack(std::vector<double>{1, 2, 3}, 2);
      }),
      "error: EPLB cannot spread 3 items over 2 packs\nhint: the packs must divide the items\n");
  EXPECT_EQ(
      error_of([] {
        eplb::pack(std::vector<double>{1, 2}, 0);
      }),
      "error: EPLB cannot spread 2 items over 0 packs\nhint: the packs must divide the items\n");
  EXPECT_EQ(eplb::pack_sorted(std::vector<double>{3}, 1).pack, (std::vector<int>{0}));
  EXPECT_EQ(lazarus::replicas(std::vector<double>{2}, {1, 1}, 1), (std::vector<int>{1}));
  EXPECT_EQ(lazarus::replicas(std::vector<double>{2, 2}, {2, 2}, 2), (std::vector<int>{2, 2}));
  const auto lazarus = [](int experts, int least) {
    return error_of([&] {
      lazarus::replicas(std::vector<double>(static_cast<std::size_t>(experts), 1), {2, 2}, least);
    });
  };
  const auto refused = [](int experts, int least) {
    return "error: Lazarus cannot place " + std::to_string(experts) + " experts, " +
           std::to_string(least) + " or more times each, in 2 x 2 slots\n";
  };
  EXPECT_EQ(lazarus(4, 1), "");
  for (const auto& [experts, least] : {std::pair{0, 1}, {1, 0}, {1, 3}, {5, 1}, {3, 2}}) {
    EXPECT_EQ(lazarus(experts, least), refused(experts, least));
  }
}

TEST(ServingWords, MovesOfNodesOfOneGpuComeFromTheLowestHolder) {
  EXPECT_EQ(weight_moves(slot_table_of({{0}, {1}, {1}}), slot_table_of({{1}, {0}, {0}}),
                         std::vector{0, 1, 2}),
            (std::vector<WeightMove>{{ExpertId(1), GpuId(1), GpuId(0)},
                                     {ExpertId(0), GpuId(0), GpuId(1)},
                                     {ExpertId(0), GpuId(0), GpuId(2)}}));
  EXPECT_EQ(error_of([] { weight_moves(slot_table_of({{0}}), slot_table_of({{0}}), {}); }),
            "error: 1 and 1 GPUs on hosts of 0 do not match\n");
  EXPECT_EQ(error_of([] {
              weight_moves(slot_table_of({{0}}), slot_table_of({{0}, {0}}), std::vector{0});
            }),
            "error: 1 and 2 GPUs on hosts of 1 do not match\n");
}

}  // namespace
}  // namespace moesim
