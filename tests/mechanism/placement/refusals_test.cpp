// SPDX-License-Identifier: Apache-2.0
// The least that every planner of the room takes, and what is said of less.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "sim/mechanism/placement/affinity/exflow.h"
#include "sim/mechanism/placement/affinity/moetuner.h"
#include "sim/mechanism/placement/hybrid/compression.h"
#include "sim/mechanism/placement/hybrid/domains.h"
#include "sim/mechanism/placement/hybrid/stream_model.h"
#include "sim/mechanism/placement/serving/lplb.h"
#include "sim/mechanism/placement/serving/prediction.h"
#include "sim/mechanism/placement/serving/replica_choice.h"
#include "sim/mechanism/placement/training/expert_swap.h"
#include "sim/mechanism/placement/training/janus.h"
#include "sim/mechanism/placement/training/pro_prophet.h"
#include "tests/error_of.h"
#include "tests/mechanism/placement/affinity/chosen_tokens.h"
#include "tests/mechanism/placement/training/routed_layer.h"
#include "tests/mechanism/placement/training/training_play.h"
#include "tests/plan/fixtures.h"

namespace moesim {
namespace {

TEST(Refusals, PartsOfExpertsAreEqual) {
  const auto parts = [](int experts, int count, int of_transitions) {
    return error_of([&] { exflow_parts({PairMatrix(of_transitions)}, experts, count); });
  };
  EXPECT_EQ(parts(1, 1, 1), "");
  EXPECT_EQ(parts(4, 4, 4), "");
  EXPECT_EQ(parts(4, 0, 4), "error: 4 experts cannot be split into 0 equal parts\n");
  EXPECT_EQ(parts(0, 1, 0), "error: 0 experts cannot be split into 1 equal parts\n");
  EXPECT_EQ(parts(4, 3, 4), "error: 4 experts cannot be split into 3 equal parts\n");
  EXPECT_EQ(parts(4, 2, 3), "error: transitions of 3 experts, not 4\n");
  EXPECT_EQ(error_of([] { place_exflow({PairMatrix(4)}, 4, 2, 3); }),
            "error: 4 experts cannot be split into 6 equal parts\n");
}

TEST(Refusals, LayersOfMoetunerHaveTransitionsAndCosts) {
  const auto place = [](std::size_t layers, std::size_t transitions, std::size_t costs, int gpus) {
    return error_of([&] {
      place_moetuner({.loads = std::vector<std::vector<std::int64_t>>(layers, {1, 1}),
                      .transitions = std::vector<PairMatrix>(transitions, PairMatrix(2)),
                      .seconds_per_token = std::vector<double>(costs, 1),
                      .gpus = gpus});
    });
  };
  EXPECT_EQ(place(1, 0, 1, 1), "");
  EXPECT_EQ(place(2, 1, 4, 2), "");
  EXPECT_EQ(place(0, 0, 1, 1), "error: 0 transitions for 0 layers\n");
  EXPECT_EQ(place(2, 2, 4, 2), "error: 2 transitions for 2 layers\n");
  EXPECT_EQ(place(2, 1, 3, 2), "error: 2 GPUs need a cost for each of their pairs\n");
  EXPECT_EQ(place(1, 0, 0, 0), "error: 2 experts cannot fill 0 clusters\n");
  EXPECT_EQ(place(1, 0, 9, 3), "error: 2 experts cannot fill 3 clusters\n");
}

TEST(Refusals, ChoicesAreOfExpertsThatThereAre) {
  for (const int largest : {3, 299}) {  // of one and of two bytes
    const ChosenTokens tokens(largest + 1, {{0, largest}});
    EXPECT_EQ(error_of([&] { co_choices(tokens.rows(), largest + 1); }), "");
    EXPECT_EQ(error_of([&] { co_choices(tokens.rows(), largest); }),
              "error: expert " + std::to_string(largest) + " of " + std::to_string(largest) +
                  " experts\n");
  }
  PairMatrix two(2);
  EXPECT_EQ(error_of([&] { two += PairMatrix(3); }), "error: counts of 2 and 3 experts\n");
}

TEST(Refusals, DomainsDivideTheirLevel) {
  const auto domains = [](std::vector<DomainLevel> levels) {
    return error_of([&] { ExpertDomains(std::move(levels)); });
  };
  EXPECT_EQ(domains({{1, 1}}), "");
  EXPECT_EQ(domains({}), "error: expert domains need a level or more\n");
  EXPECT_EQ(domains({{0, 1}}), "error: level 0: domains of 1 do not divide 0 workers\n");
  EXPECT_EQ(domains({{2, 0}}), "error: level 0: domains of 0 do not divide 2 workers\n");
  EXPECT_EQ(domains({{2, 2}, {4, 3}}), "error: level 1: domains of 3 do not divide 4 workers\n");
  EXPECT_EQ(error_of([] {
              ExpertDomains({{2, 1}, {2, 1}}).gathered(SlotTable(3));
            }),
            "error: experts of 3 GPUs for domains of 4\n");
}

TEST(Refusals, StreamsHaveLevelsAndRatios) {
  const BytesPerSecond link(1);
  const auto cost = [&](std::vector<StreamLevel> levels, std::vector<int> domains, double ratio) {
    const StreamLayer layer{Bytes(4), Bytes(2), ratio, Seconds(0)};
    return error_of([&] { domain_cost(layer, levels, domains); });
  };
  EXPECT_EQ(cost({{1, link}}, {1}, 1), "");
  EXPECT_EQ(cost({{1, link}}, {1}, 0.75), "error: a compression ratio of 0.75 is below 1\n");
  EXPECT_EQ(cost({}, {}, 1), "error: 0 domain sizes for 0 levels\n");
  EXPECT_EQ(cost({{1, link}}, {1, 1}, 1), "error: 2 domain sizes for 1 levels\n");
  EXPECT_EQ(cost({{0, link}}, {1}, 1), "error: level 0: domains of 1 do not divide 0 workers\n");
  EXPECT_EQ(cost({{2, link}, {2, link}}, {1, 0}, 1),
            "error: level 1: domains of 0 do not divide 2 workers\n");
  EXPECT_EQ(cost({{4, link}}, {3}, 1), "error: level 0: domains of 3 do not divide 4 workers\n");
  EXPECT_EQ(error_of([&] {
              best_domains({}, {{0, link}});
            }),
            "error: a level needs a worker or more\n");
}

TEST(Refusals, CodecsSendAParameterOrMore) {
  EXPECT_EQ((ExpertCodec{.ratio = 1000, .parameters = 2}).kept(), 1);
  EXPECT_EQ((ExpertCodec{.ratio = 1000, .parameters = 0}).kept(), 0);
  EXPECT_EQ((ExpertCodec{.ratio = 2, .parameters = 12}).kept(), 3);
  EXPECT_EQ(error_of([] { ExpertCodec{.ratio = 0.5}.kept_fraction(); }),
            "error: a compression ratio of 0.5 is below 1\n");
}

TEST(Refusals, WiringsAreSoundPermutations) {
  const auto solve = [](lplb::Problem problem) {
    return error_of([&] { lplb::solve(problem, 1); });
  };
  EXPECT_EQ(solve({{{1}, {0}}, {{1}, {1}}, {0, 0}}), "");
  const std::vector<lplb::Problem> wrong = {
      {{}, {}, {}},                                   // nobody
      {{{}}, {{}}, {0}},                              // no class
      {{{1}, {0}}, {{1}}, {0, 0}},                    // loads of one rank
      {{{1}, {0}}, {{1}, {1}}, {0}},                  // fixed loads of one rank
      {{{1}, {0, 1}}, {{1}, {1, 1}}, {0, 0}},         // classes differ
      {{{1}, {0}}, {{1}, {1, 1}}, {0, 0}},            // loads of more classes
      {{{1}, {-1}}, {{1}, {1}}, {0, 0}},              // no such rank
      {{{1}, {2}}, {{1}, {1}}, {0, 0}},               // nor this
      {{{1}, {1}}, {{1}, {1}}, {0, 0}},               // twice
      {{{1, 0}, {0, 0}}, {{1, 1}, {1, 1}}, {0, 0}}};  // twice in the second class
  for (const lplb::Problem& problem : wrong) {
    EXPECT_EQ(solve(problem), "error: " + std::to_string(problem.wiring.size()) +
                                  " ranks are wired badly for LPLB\n");
  }
  const auto place = [](const lplb::Wiring& wiring, int per_class, int gpus) {
    return error_of([&] { lplb::place(std::vector<double>(8, 1), wiring, per_class, 1, gpus); });
  };
  EXPECT_EQ(place(lplb::ring(2), 1, 2), "");
  EXPECT_EQ(place(lplb::ring(2), 4, 2), "");
  EXPECT_EQ(place({}, 1, 2), "error: LPLB cannot cut 2 GPUs into groups of 0\n");
  EXPECT_EQ(place(lplb::ring(2), 0, 2), "error: LPLB cannot cut 2 GPUs into groups of 2\n");
  EXPECT_EQ(place(lplb::ring(3), 1, 4), "error: LPLB cannot cut 4 GPUs into groups of 3\n");
  EXPECT_EQ(place({}, 1, 1), "error: LPLB cannot cut 1 GPU into groups of 0\n");
  EXPECT_EQ(place(lplb::ring(1), 1, 2),
            "error: LPLB's topology has rank 0 of 1 replicate its own experts\n"
            "hint: a topology of more ranks\n");
  EXPECT_EQ(place(lplb::ring(2), 5, 2),
            "error: LPLB replicates 5 experts per rank, but a rank has 4\n");
}

TEST(Refusals, NameThePolicy) {
  const MoeModel model = toy_model(6, 2);
  PlacementContext context{EpGroups(two_nodes(), 4), model, model.experts, 1, true, {}, 0, 0, {}};
  context.who = "mine";
  for (const std::string kind :
       {"llep", "moon-ep", "ultra-ep", "echo", "feplb", "free-balance", "probe", "occult"}) {
    const SystemSpec system = parse_system(
        "{name: t, source: test, routing: identity, dispatch: alltoall, schedule: sequential, "
        "placement: " +
            kind + "}",
        "test");
    const std::string said = error_of([&] { system.placement.make(context); });
    EXPECT_TRUE(said.starts_with("error: 'mine' ")) << kind << ": " << said;
  }
}

TEST(Refusals, CopiesNeedSlotsAndHolders) {
  const SlotTable base = slots({{0}, {1}});
  const auto replicate = [&](std::size_t experts, std::size_t rows, int extra) {
    return error_of([&] {
      prediction::replicate(std::vector<double>(experts, 1), base, SlotTable(rows), extra);
    });
  };
  EXPECT_EQ(replicate(2, 2, 0), "");
  EXPECT_EQ(replicate(2, 0, 1), "");
  EXPECT_EQ(replicate(2, 2, -1),
            "error: no copies on 2 GPUs with -1 further slots each and 2 rows of copies\n");
  EXPECT_EQ(replicate(2, 1, 1),
            "error: no copies on 2 GPUs with 1 further slots each and 1 rows of copies\n");
  EXPECT_EQ(error_of([] {
              prediction::replicate(std::vector<double>{1, 1}, slots({{1}}), {}, 0);
            }),
            "error: no GPU holds expert 0\n");
  EXPECT_EQ(error_of([] { run_length({}); }), "error: a sequence of choices is empty\n");
  EXPECT_EQ(error_of([] { apportion(1, {}); }), "error: choices cannot be dealt out to no one\n");
}

TEST(Refusals, TrainingNeedsEveryExpertOnce) {
  const auto owners = [](const std::vector<std::vector<int>>& table) {
    return error_of([&] { owners_of(slots(table)); });
  };
  const auto refused = [](int expert, int gpu, int count) {
    return "error: expert " + std::to_string(expert) + " on GPU " + std::to_string(gpu) +
           ": every expert needs exactly one slot, and there are " + std::to_string(count) +
           " slots\n";
  };
  EXPECT_EQ(owners({{}}), "");
  EXPECT_EQ(owners({{0}}), "");
  EXPECT_EQ(owners({{0}, {0}}), refused(0, 1, 2));
  EXPECT_EQ(owners({{0}, {2}}), refused(2, 1, 2));
  EXPECT_EQ(owners({{-1}}), refused(-1, 0, 1));
  EXPECT_EQ(error_of([] {
              owners_of(slots({{0}, {1}}), LoadMatrix(2, 3));
            }),
            "error: loads of 3 experts from 2 ranks for 2 experts on 2 GPUs\n");
  EXPECT_EQ(error_of([] {
              owners_of(slots({{0}, {1}}), LoadMatrix(1, 2));
            }),
            "error: loads of 2 experts from 1 ranks for 2 experts on 2 GPUs\n");
  EXPECT_EQ(error_of([] {
              janus_layer(LoadMatrix(2, 2), slots({{0}, {1}}), 0, {});
            }),
            "error: 2 GPUs do not form nodes of 0\n");
  const auto skip = [](int excluded) {
    return error_of([&] { prophet_plan({}, {1, excluded}, LoadMatrix(2, 2), slots({{0}, {1}})); });
  };
  EXPECT_EQ(skip(0), "");
  EXPECT_EQ(skip(1), "");
  EXPECT_EQ(skip(2), "error: a copy cannot skip 2 of 2 GPUs, its owner among the others\n");
  EXPECT_EQ(skip(-1), "error: a copy cannot skip -1 of 2 GPUs, its owner among the others\n");
}

TEST(Refusals, SwapsHaveALevelAndItsGpus) {
  const RoutedLayer routed(2, 1, 2, {0, 1});
  CollectiveCosts costs;
  costs.nesting = {2, {1}};
  const auto swap = [&](int depth, const SlotTable& table) {
    return error_of([&] {
      find_swap({costs, depth, Bytes(1)}, table, {routed.ids(), routed.ranks});
    });
  };
  const SlotTable two = slots({{0}, {1}});
  EXPECT_EQ(swap(1, two), "");
  EXPECT_EQ(swap(0, two), "error: an all-to-all over 1 levels has no depth 0\n");
  EXPECT_EQ(swap(2, two), "error: an all-to-all over 1 levels has no depth 2\n");
  EXPECT_EQ(swap(1, slots({{0, 1}})),
            "error: the costs are of 2 GPUs, but 1 hold experts and 2 hold tokens\n");
}

}  // namespace
}  // namespace moesim
