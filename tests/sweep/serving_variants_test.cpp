// SPDX-License-Identifier: Apache-2.0
// What instances may do besides: overlap, shared keys and fewer drafts, as the engine can be told.
#include "sim/sweep/serving_variants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/planner/iteration/serving_spec.h"
#include "sim/scenario/engine_run.h"

namespace moesim {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> words_of_variants(const ServingInstanceKind& kind,
                                           const ServingChoices& choices) {
  std::vector<std::string> words;
  for (const ServingInstanceKind& variant : variants_of(kind, choices)) {
    words.push_back(variant.words());
  }
  return words;
}

std::vector<std::string> flags_of_variant(const ServingInstanceKind& variant) {
  std::vector<std::string> flags;
  for (const Override& flag : variant.flags) flags.push_back(flag.path + "=" + flag.value);
  return flags;
}

/// Of an engine that can be told everything.
EngineRun run_of_all_texts() {
  EngineRun run;
  run.engine.launch.overlaps = {{"two-batch", "--two"}, {"single-batch", "--single"}};
  run.engine.launch.dcp = "--dcp {dcp}";
  run.engine.launch.drafts = "--drafts {drafts}";
  return run;
}

TEST(ServingVariants, OverlapWhereRanksExchangeRows) {
  ServingChoices choices;
  choices.overlaps = {"two-batch", "single-batch"};
  choices.exchanging = {"low"};
  EXPECT_THAT(words_of_variants({8, 1, 8, 1, "low", {}, ""}, choices),
              ElementsAre("tp1 ep8 low two-batch", "tp1 ep8 low single-batch"));
  EXPECT_THAT(words_of_variants({8, 1, 8, 1, "all", {}, ""}, choices), IsEmpty())
      << "this policy gathers";
  EXPECT_THAT(words_of_variants({8, 8, 8, 1, "low", {}, ""}, choices), IsEmpty())
      << "one rank has nobody to exchange rows with";
  EXPECT_THAT(words_of_variants({8, 1, 1, 1, "low", {}, ""}, choices), IsEmpty())
      << "every GPU has all experts";
}

TEST(ServingVariants, ShareKeysInPartsOfTheTensorGroup) {
  ServingChoices choices;
  choices.key_copies = [](int tp) { return tp; };
  EXPECT_THAT(words_of_variants({8, 4, 8, 1, "all", {}, ""}, choices),
              ElementsAre("tp4 ep8 all dcp2", "tp4 ep8 all dcp4"));
  EXPECT_THAT(words_of_variants({8, 1, 8, 1, "all", {}, ""}, choices), IsEmpty());
  choices.key_copies = [](int tp) { return tp / 2; };
  EXPECT_THAT(words_of_variants({8, 4, 8, 1, "all", {}, ""}, choices),
              ElementsAre("tp4 ep8 all dcp2"));
  choices.key_copies = nullptr;
  EXPECT_THAT(words_of_variants({8, 4, 8, 1, "all", {}, ""}, choices), IsEmpty());
}

TEST(ServingVariants, AreAllCombinationsWithTheFlagsOfEach) {
  ServingChoices choices;
  choices.overlaps = {"two-batch"};
  choices.exchanging = {"low"};
  choices.key_copies = [](int tp) { return tp; };
  choices.drafts = {{0, 0, {}}, {1, 0.75, {}}};
  const auto variants =
      variants_of({4, 2, 4, 1, "low", {{"policy", "low", "policy"}}, ""}, choices);
  ASSERT_EQ(variants.size(), 2U * 2 * 3 - 1) << "all but the kind itself";
  EXPECT_EQ(variants.back().words(), "tp2 ep4 low two-batch dcp2 1 draft");
  EXPECT_THAT(flags_of_variant(variants.back()),
              ElementsAre("policy=low", "serving.overlap=two-batch", "serving.dcp=2",
                          "serving.drafts=1", "serving.accepted=0.75"));
  EXPECT_EQ(variants.front().words(), "tp2 ep4 low no draft");
}

TEST(ServingVariants, StateTheSharesThatTheScenarioStates) {
  ServingChoices choices;
  choices.drafts = {{1, 0.5, {0.5, 0.5}}};
  const auto variants = variants_of({1, 1, 1, 1, "all", {}, ""}, choices);
  EXPECT_THAT(flags_of_variant(variants.at(0)),
              ElementsAre("serving.drafts=1", "serving.accepted=0.5",
                          "serving.engine.drafts={tokens: 1, gained: [0.5, 0.5]}"));
}

TEST(ServingVariants, AreThoseThatTheEngineCanBeTold) {
  EngineRun run = run_of_all_texts();
  ServingSpec pass;
  const std::vector<ServingPolicy> policies = {{"low", false, true}, {"all", true, false}};
  ServingChoices choices = serving_choices(pass, {}, run, policies);
  EXPECT_THAT(choices.overlaps, ElementsAre("two-batch", "single-batch"));
  EXPECT_THAT(choices.exchanging, ElementsAre("low"));
  EXPECT_EQ(choices.key_copies(8), 8) << "nothing is known of its attention";
  EXPECT_THAT(choices.drafts, IsEmpty()) << "nobody says how many are accepted";
  pass.overlap = ServingOverlap::two_batch;
  pass.dcp = 2;
  choices = serving_choices(pass, {}, run, policies);
  EXPECT_THAT(choices.overlaps, ElementsAre("none", "single-batch"));
  EXPECT_FALSE(choices.key_copies) << "the scenario states dcp";
  run.engine.launch = {};
  pass = {};
  pass.drafts = 1;
  choices = serving_choices(pass, {}, run, policies);
  EXPECT_THAT(choices.overlaps, IsEmpty());
  EXPECT_FALSE(choices.key_copies);
  EXPECT_THAT(choices.drafts, IsEmpty());
  run.engine.launch.file.drafts = {"drafts: {drafts}"};
  run.engine.options.drafts = 1;
  EXPECT_EQ(serving_choices(pass, {}, run, policies).drafts.size(), 1U);
}

TEST(ServingVariants, ShareKeysThatSeveralGpusHold) {
  MoeModel model;
  model.attention.emplace().shape.emplace();
  AttentionShape& shape = *model.attention->shape;
  const auto copies = [&](int tp) {
    return serving_choices({}, model, run_of_all_texts(), {}).key_copies(tp);
  };
  shape.kv_heads = 4;
  EXPECT_EQ(copies(8), 2);
  EXPECT_EQ(copies(2), 1);
  shape.kind = AttentionKind::mla;
  EXPECT_EQ(copies(8), 8) << "all have the whole of a compressed key";
  shape.indexer.emplace();
  EXPECT_FALSE(serving_choices({}, model, run_of_all_texts(), {}).key_copies);
}

/// Each of three drafts is accepted with a chance of 0.5 once those before it are.
TEST(ServingVariants, FewerDraftsKeepTheChanceOfEach) {
  EngineRun run = run_of_all_texts();
  run.engine.options.drafts = 3;
  ServingSpec pass;
  pass.drafts = 3;
  pass.accepted = 0.5 + 0.25 + 0.125;
  const ServingChoices choices = serving_choices(pass, {}, run, {});
  ASSERT_EQ(choices.drafts.size(), 3U);
  for (int drafts = 0; drafts < 3; ++drafts) {
    const FewerDrafts& fewer = choices.drafts[static_cast<std::size_t>(drafts)];
    EXPECT_EQ(fewer.drafts, drafts);
    EXPECT_NEAR(fewer.accepted, drafts == 0 ? 0 : drafts == 1 ? 0.5 : 0.75, 1e-9);
  }
  EXPECT_NEAR(first_drafts(run, 3, 2).accepted, 2, 1e-9) << "all are accepted";
  EXPECT_EQ(first_drafts(run, 0, 2).accepted, 0);
}

TEST(ServingVariants, StatedSharesAreCutBehindTheLastDraft) {
  EngineRun run = run_of_all_texts();
  run.states_gained = true;
  run.engine.options.drafts = 3;
  run.engine.options.gained = {0.4, 0.1, 0.2, 0.3};
  const FewerDrafts one = first_drafts(run, 1.4, 1), two = first_drafts(run, 1.4, 2);
  EXPECT_THAT(one.gained, ElementsAre(0.4, DoubleNear(0.6, 1e-12)));
  EXPECT_NEAR(one.accepted, 0.6, 1e-12);
  EXPECT_THAT(two.gained, ElementsAre(0.4, 0.1, DoubleNear(0.5, 1e-12)));
  EXPECT_NEAR(two.accepted, 1.1, 1e-12);
  EXPECT_THAT(first_drafts(run, 1.4, 0).gained, ElementsAre(DoubleNear(1, 1e-12)));
}

}  // namespace
}  // namespace moesim
