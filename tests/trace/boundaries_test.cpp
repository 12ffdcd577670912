// SPDX-License-Identifier: Apache-2.0
// Where figures of traces begin and end: batches, thresholds of suspicions, pages, and the
// bytes of synthetic traces.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "sim/trace/batches.h"
#include "sim/trace/slice.h"
#include "sim/trace/statistics.h"
#include "sim/trace/suspicions.h"
#include "sim/trace/synth/workload.h"
#include "sim/trace/verify.h"
#include "tests/error_of.h"
#include "tests/trace/samples.h"
#include "tests/trace/scratch.h"
#include "tests/trace/synthesize.h"

namespace moesim {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(BatchesThatLackTokens, NameTokensPerRankOnlyWhereSomeAreLeft) {
  const auto trace = trace_of_sequences({{4, 2, 1, 3}});
  const auto said = [&](const BatchOptions& options) {
    return error_of([&] { make_batches(trace, options); });
  };
  EXPECT_THAT(said({.ranks = 8, .tokens_per_rank = 2}),
              testing::EndsWith("often enough, or use fewer ranks\n"));
  EXPECT_THAT(said({.ranks = 2, .tokens_per_rank = 5}),
              testing::EndsWith("or use fewer ranks or tokens_per_rank of at most 4\n"));
}

TEST(BatchesThatLackTokens, OfManyRepeatsNameTheLeast) {
  // 3 tokens in turn to 2 ranks: after three plays 6 and 3, after four 6 each.
  const auto trace = trace_of_sequences({{3}});
  const auto repeat_of = [&](std::int64_t tokens) {
    const std::string text =
        error_of([&] { make_batches(trace, {.ranks = 2, .tokens_per_rank = tokens}); });
    return text.substr(text.find('`'), text.rfind('`') - text.find('`') + 1);
  };
  EXPECT_EQ(repeat_of(3), "`repeat: 2`");
  EXPECT_EQ(repeat_of(4), "`repeat: 4`");
  EXPECT_EQ(repeat_of(6), "`repeat: 4`");
  EXPECT_EQ(repeat_of(7), "`repeat: 6`");
}

/// One layer, top-1: what the tokens of each sequence choose.
RoutingTrace choices_of(int experts, const std::vector<std::vector<int>>& sequences,
                        std::vector<std::int32_t> ranks = {}) {
  const TraceInfo info{"choices", "toy", experts, 1, {0}, Phase::decode, ""};
  StepArrays step;
  std::vector<int> ids;
  for (const auto& sequence : sequences) {
    ids.insert(ids.end(), sequence.begin(), sequence.end());
    step.sequence_lengths.push_back(static_cast<std::int32_t>(sequence.size()));
  }
  step.ids = IdArray(experts, ids);
  step.source_ranks = std::move(ranks);
  return {info, {make_step(info, std::move(step))}};
}

std::vector<int> counted_up(int count, int every, int experts) {
  std::vector<int> ids;
  for (int i = 0; i < count; ++i) ids.push_back(i / every % experts);
  return ids;
}

TEST(SuspiciousChoices, AscendOverAHundredTokensAndMore) {
  const auto ascending = HasSubstr("1 steps have tokens in the order of their experts");
  EXPECT_THAT(suspicions(choices_of(200, {counted_up(100, 1, 200)})), Contains(ascending));
  EXPECT_THAT(suspicions(choices_of(200, {counted_up(99, 1, 200)})), Not(Contains(ascending)));
  EXPECT_THAT(suspicions(choices_of(51, {counted_up(100, 1, 51)})), Not(Contains(ascending)))
      << "a descent in 100";
  EXPECT_THAT(suspicions(choices_of(51, {counted_up(101, 1, 51)})), Contains(ascending))
      << "a descent in 101";
}

TEST(SuspiciousChoices, AreOfEightTokensAndMore) {
  const std::vector<int> seven = {1, 2, 3, 4, 5, 6, 7}, eight = {1, 2, 3, 4, 5, 6, 7, 0};
  const auto repeats = HasSubstr("1 sequences repeat another one of their step");
  EXPECT_THAT(suspicions(choices_of(8, {eight, eight})), Contains(repeats));
  EXPECT_THAT(suspicions(choices_of(8, {seven, seven})), Not(Contains(repeats)));
  EXPECT_THAT(suspicions(choices_of(8, {eight, {0, 1, 2, 3, 4, 5, 6, 7}})), Not(Contains(repeats)));
  const auto dummies = HasSubstr("8 tokens are of sequences whose tokens all choose the same");
  const std::vector<int> same(8, 3);
  EXPECT_THAT(suspicions(choices_of(8, {same, seven})), Contains(dummies));
  EXPECT_THAT(suspicions(choices_of(8, {std::vector<int>(7, 3), seven})),
              Not(Contains(HasSubstr("tokens are of sequences"))));
  const auto ranks = HasSubstr("1 source ranks repeat another one of their step");
  const auto of_ranks = [&](const std::vector<int>& part) {
    std::vector<std::int32_t> list(part.size(), 0);
    list.resize(2 * part.size(), 5);
    return suspicions(choices_of(8, {part, part}, list));
  };
  EXPECT_THAT(of_ranks(eight), Contains(ranks));
  EXPECT_THAT(of_ranks(seven), Not(Contains(ranks)));
}

TEST(SuspiciousChoices, AreSharedByTwoPercentOfAStep) {
  // 8 tokens of one expert among others that all differ.
  const auto shared = [](int tokens) {
    std::vector<int> ids = counted_up(tokens - 8, 1, 1000);
    std::ranges::reverse(ids);
    ids.insert(ids.end(), 8, 999);
    return suspicions(choices_of(1000, {ids}));
  };
  EXPECT_THAT(shared(399), Contains("2.0 % of a step's tokens choose the same experts in all "
                                    "layers: padding or dummy tokens"));
  EXPECT_THAT(shared(400), Not(Contains(HasSubstr("of a step's tokens"))));
}

TEST(SuspiciousLoads, NeedTwentyTokensPerExpert) {
  // Two experts in turns of one; three experts, the last of which nobody chooses.
  const auto even = HasSubstr("1 of 1 layers have loads more even than chance");
  const auto in_turn = [](int tokens) {
    std::vector<int> ids;
    for (int i = 0; i < tokens; ++i) ids.push_back(1 - i % 2);
    return suspicions(choices_of(2, {ids}));
  };
  EXPECT_THAT(in_turn(40), Contains(even));
  EXPECT_THAT(in_turn(39), Not(Contains(even)));
  EXPECT_THAT(in_turn(41), Contains(even)) << "off by a half: variance 1/4 of a mean of 20.5";
  const auto unused = HasSubstr("1 of 3 experts were never chosen");
  const auto two_of_three = [](int tokens) {
    return suspicions(choices_of(3, {counted_up(tokens, 3, 2)}));
  };
  EXPECT_THAT(two_of_three(60), Contains(unused));
  EXPECT_THAT(two_of_three(59), Not(Contains(HasSubstr("never chosen"))));
}

TEST(SuspiciousLoads, OfOneExpertForAllNeedAHundredTokens) {
  const auto shared = HasSubstr("1 experts are chosen by every token");
  const auto all_but = [](int tokens, int others, int experts) {
    std::vector<int> ids(static_cast<std::size_t>(tokens - others), 0);
    ids.insert(ids.end(), static_cast<std::size_t>(others), experts - 1);
    return suspicions(choices_of(experts, {ids}));
  };
  EXPECT_THAT(all_but(100, 0, 2), Contains(shared));
  EXPECT_THAT(all_but(99, 0, 2), Not(Contains(shared)));
  EXPECT_THAT(all_but(1000, 1, 2), Not(Contains(shared)));
  EXPECT_THAT(all_but(2000, 1, 2), Contains(shared));
  EXPECT_THAT(all_but(100, 0, 1), Not(Contains(shared))) << "there is no other";
}

TEST(SuspiciousSteps, AreFewerThanThePlannerWaitsFor) {
  const auto never = HasSubstr("1 step: a planner that first plans after 1 never does");
  EXPECT_THAT(suspicions(tiny_trace(), {{}, 1}), Contains(never));
  EXPECT_THAT(suspicions(tiny_trace(), {{}, 0}), IsEmpty());
  EXPECT_THAT(suspicions(tiny_trace(), {ExpectedModel{"m", 5, 2, {0}}, 0}),
              ElementsAre("4 experts where m has 5"));
}

// {0,1} {2,3} | {0,2} of 4 experts, as in Statistics.OfThreeTokens.
TEST(StatisticsPages, AreWordForWordWhatWasMeasured) {
  const RoutingTrace trace = tiny_trace();
  TraceStatistics s = measure(trace, {.ranks = {2}});
  s.tokens = 1234567, s.sequences = 1000, s.longest_sequence = 1;
  s.tokens_of_source_rank = {999, 12345};
  EXPECT_EQ(replace_all(statistics_text(trace, s), trace.hash(), "HASH"),
            R"(trace                   tiny
model                   toy
phase                   training
experts                 4, top-2, logical ids
layers                  1 (model layers 0)
steps                   1 (numbers 7 to 7)
tokens                  1,234,567
sequences               1,000 (1 to 1 token, median 1.5)
source ranks            2, 999 to 12,345 tokens each
gate weights            not recorded
hash                    HASH
counts crc32, fnv1a64   0a274241 92dde59f6cb28485

expert max/mean         1.3333 (largest layer 1.3333)
expert load CV          0.3333
previous-token overlap  0.0000 (uniform 0.5000)
strongest 1 % of pairs  hold 33.33 % of all pairs
  pair                  layer 0: 0 and 1 in 33.33 % of tokens, lift 1.50
  pair                  layer 0: 2 and 3 in 33.33 % of tokens, lift 1.50
  pair                  layer 0: 0 and 2 in 33.33 % of tokens, lift 0.75

 ranks  distinct ranks  rank max/mean  largest layer
     2          1.3333         1.0000         1.0000
)");
  const RoutingTrace single = trace_of_sequences({{1, 1, 1, 1}});
  const std::string text = statistics_text(single, measure(single, {.ranks = {1}}));
  EXPECT_THAT(text, Not(HasSubstr("strongest")));
  EXPECT_THAT(text, Not(HasSubstr("previous-token")));
  EXPECT_THAT(text, HasSubstr("sequences               4 (1 to 1 token, median 1)\n"));
}

TEST(StatisticsPages, OfNoRanksEndWithThePairs) {
  TraceStatistics s = measure(tiny_trace());
  s.ranks.clear();
  EXPECT_THAT(statistics_text(tiny_trace(), s), testing::EndsWith("lift 0.75\n"));
}

TEST(StatisticsDocuments, HaveAllThatWasMeasured) {
  const RoutingTrace trace = tiny_trace();
  TraceStatistics s = measure(trace, {.ranks = {2}, .pairs = 1});
  s.step_similarity = {{1, 5, 1, 0.5}};
  s.tokens_of_source_rank = {3};
  auto document = nlohmann::ordered_json::parse(statistics_json(trace, s));
  EXPECT_EQ(document["strongest_pairs"].size(), 1U);
  EXPECT_EQ(document["ranks"][0]["ranks"], 2);
  EXPECT_NEAR(document["ranks"][0]["distinct_ranks"].get<double>(), 4 / 3., 1e-12);
  EXPECT_EQ(document["ranks"][0]["rank_max_over_mean"]["max"], 1);
  EXPECT_EQ(document["expert_max_over_mean"]["layers"].size(), 1U);
  EXPECT_NEAR(document["expert_load_cv"]["mean"].get<double>(), 1 / 3., 1e-12);
  EXPECT_EQ(document["hash"], trace.hash());
  for (const char* const key : {"strongest_pairs", "ranks", "expert_max_over_mean",
                                "expert_load_cv", "hash", "top_pairs_share"}) {
    document.erase(key);
  }
  EXPECT_EQ(document.dump(),
            R"({"trace":"tiny","model":"toy","phase":"training","experts":4,"top_k":2,)"
            R"("layers":[0],"steps":1,"tokens":3,"sequences":2,)"
            R"("sequence_length":{"min":1,"median":1.5,"max":2},"tokens_of_source_rank":[3],)"
            R"("counts_crc32":"0a274241","counts_fnv1a64":"92dde59f6cb28485",)"
            R"("previous_token_overlap":{"mean":0.0,"max":0.0,"layers":[0.0]},)"
            R"("uniform_overlap":0.5,"step_similarity":[{"from":1,"to":5,"cosine":1.0,)"
            R"("shared_load":0.5}],"counts":[[2,1,2,1]]})");
}

TEST(StatisticsRanks, AreThePowersOfTwoThatDivide) {
  const auto ranks_of = [](int experts) {
    std::vector<int> ranks;
    for (const auto& r : measure(choices_of(experts, {{0, 0}})).ranks) ranks.push_back(r.ranks);
    return ranks;
  };
  EXPECT_THAT(ranks_of(128), ElementsAre(2, 4, 8, 16, 32, 64));
  EXPECT_THAT(ranks_of(12), ElementsAre(2, 4));
  EXPECT_THAT(ranks_of(2), ElementsAre(2));
  EXPECT_THAT(ranks_of(1), IsEmpty());
  EXPECT_THAT(error_of([] { measure(tiny_trace(), {.ranks = {0}}); }),
              HasSubstr("4 experts cannot be placed in equal blocks on 0 ranks"));
}

TEST(SlicedTraces, SayWhereTheyAreFrom) {
  const RoutingTrace trace = tiny_trace();
  const RoutingTrace part = slice(trace, {.steps = std::pair(0, 1),
                                          .layers = {0},
                                          .sequences = std::pair(0, 1),
                                          .tokens = 1,
                                          .name = "part"});
  EXPECT_EQ(part.info().name, "part");
  EXPECT_EQ(part.info().provenance,
            fmt::format(R"({{"sliced_from":{{"name":"tiny","hash":"{}","steps":[0,1],"layers":[0],)"
                        R"("sequences":[0,1],"tokens":1}},"provenance":{{}}}})",
                        trace.hash()));
  const auto refused = [&](const SliceOptions& options) {
    return error_of([&] { slice(trace, options); });
  };
  EXPECT_THAT(refused({.steps = std::pair(-1, 1)}), HasSubstr("steps -1:1 are none"));
  EXPECT_THAT(refused({.sequences = std::pair(-1, 1)}), HasSubstr("sequences -1:1 are none"));
  EXPECT_THAT(refused({.sequences = std::pair(1, 1)}), HasSubstr("sequences 1:1 are none"));
}

TEST(WorkloadPools, ThatGoRoundAreOfAllExperts) {
  SynthOptions options;
  options.experts = 8, options.top_k = 5, options.tokens = 64, options.sequences = 1;
  WorkloadSynthesis synthesis(options, workload_of("W3"));
  const auto step = synthesis.next_step();
  EXPECT_FALSE(check_ids(step->ids(0), 8).any());
  std::vector<int> met(8);
  for (std::int64_t t = 0; t < 64; ++t) {
    for (int k = 0; k < 5; ++k) met[static_cast<std::size_t>(step->ids(0).at(t, k))] = 1;
  }
  EXPECT_THAT(met, testing::Each(1));
}

TEST(WorkloadPools, OfAsManyExpertsAsAreChosenAreChosen) {
  SynthOptions options;
  options.experts = 8, options.top_k = 4, options.tokens = 16, options.sequences = 1;
  WorkloadSynthesis synthesis(options, workload_of("W3"));
  const auto step = synthesis.next_step();
  for (std::int64_t t = 1; t < 16; ++t) {
    for (int k = 0; t % 4 != 0 && k < 4; ++k) EXPECT_EQ(step->ids(0).at(t, k), 2 * k) << t;
  }
}

TEST(SynthesisShapes, AreChecked) {
  const auto refused = [](const std::function<void(SynthOptions&)>& change) {
    SynthOptions options;
    options.experts = 8, options.top_k = 2, options.tokens = 16, options.sequences = 2;
    change(options);
    const std::string text = error_of([&] { Synthesis of(options); });
    return text.substr(0, text.find('\n'));
  };
  using O = SynthOptions;
  EXPECT_EQ(refused([](O&) {}), "");
  EXPECT_EQ(refused([](O& o) { o.top_k = 8; }), "");
  EXPECT_EQ(refused([](O& o) { o.sequences = 16; }), "");
  EXPECT_EQ(refused([](O& o) { o.communities = 8; }), "");
  EXPECT_EQ(refused([](O& o) { o.groups = 4, o.kept_groups = 1; }), "");
  EXPECT_EQ(refused([](O& o) { o.experts = 0; }), "error: experts is 0; it is from 1 to 65535");
  EXPECT_EQ(refused([](O& o) { o.top_k = 9; }), "error: top-k is 9; it is from 1 to 8");
  EXPECT_EQ(refused([](O& o) { o.layers.clear(); }), "error: layers is 0; it is from 1 to 100000");
  EXPECT_EQ(refused([](O& o) { o.tokens = 0; }), "error: tokens is 0; it is from 1 to 2147483647");
  EXPECT_EQ(refused([](O& o) { o.sequences = 17; }), "error: sequences is 17; it is from 1 to 16");
  EXPECT_EQ(refused([](O& o) { o.steps = 0; }), "error: steps is 0; it is from 1 to 99999999");
  EXPECT_EQ(refused([](O& o) { o.skew = 11; }), "error: skew is 11; it is from 0 to 10");
  EXPECT_EQ(refused([](O& o) { o.affinity = 1.5; }), "error: affinity is 1.5; it is from 0 to 1");
  EXPECT_EQ(refused([](O& o) { o.communities = 9; }), "error: communities is 9; it is from 1 to 8");
  EXPECT_EQ(refused([](O& o) { o.stickiness = -1; }), "error: stickiness is -1; it is from 0 to 1");
  EXPECT_EQ(refused([](O& o) { o.drift = 2; }), "error: drift is 2; it is from 0 to 1");
  EXPECT_EQ(refused([](O& o) { o.groups = 9; }), "error: groups is 9; it is from 1 to 8");
  EXPECT_EQ(refused([](O& o) { o.groups = 2, o.kept_groups = 3; }),
            "error: kept-groups is 3; it is from 1 to 2");
  EXPECT_EQ(refused([](O& o) { o.groups = 3, o.kept_groups = 1; }),
            "error: 8 experts do not make 3 equal groups");
  EXPECT_EQ(refused([](O& o) { o.groups = 8, o.kept_groups = 1; }),
            "error: 1 kept groups hold 1 experts, fewer than top-k 2");
  EXPECT_THAT(even_lengths(7, 3), ElementsAre(3, 2, 2));
}

/// Of every kind of draw: the bytes that users have of these options. A change alters their traces.
TEST(SyntheticTraces, AreTheSameBytesInEveryVersion) {
  SynthOptions options;
  options.experts = 32, options.top_k = 4, options.tokens = 300, options.sequences = 7;
  options.layers = {0, 3}, options.steps = 3, options.seed = 11;
  std::vector<std::string> hashes = {synthesize(options).hash()};
  options.skew = 0.7, options.drift = 0.2, options.stickiness = 0.4;
  hashes.push_back(synthesize(options).hash());
  options.affinity = 0.6;
  const RoutingTrace joined = synthesize(options);
  hashes.push_back(joined.hash());
  options.groups = 4, options.kept_groups = 2;
  hashes.push_back(synthesize(options).hash());
  options.affinity = 0;
  hashes.push_back(synthesize(options).hash());
  SynthOptions fitted;
  fitted.tokens = 300, fitted.sequences = 7, fitted.steps = 2, fitted.drift = 0.1;
  hashes.push_back(synthesize(fitted, slice(joined, {.layers = {3}})).hash());
  EXPECT_THAT(hashes,
              ElementsAre("6f882dddbbd2c2ec92596d0e0afbbee7", "6084b98fee1d3defe99e4b85c8759cd3",
                          "4767b1f18dbadb2537bc5a9bab93e00e", "fcc69c8d1aaf6ee117a498d8be0810a7",
                          "b7dbe51bf9bcf5663270b63b0ee98b4b", "09e8a0fa92091d01895daa57efe6d91b"));
}

}  // namespace
}  // namespace moesim
