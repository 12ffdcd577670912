// SPDX-License-Identifier: Apache-2.0
// Sequences that alternate in a microbatch are taken apart, and routers that are none of the
// model's layers are left out.
#include "sim/import/microbatch.h"

#include <gmock/gmock.h>

#include <random>

#include "sim/trace/statistics.h"
#include "tests/import/passes_by_hand.h"
#include "tests/import/told.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Microbatch, SequencesThatAlternateAreTakenApart) {
  const ScratchFolder scratch;
  const auto imported =
      import_trace("router-lists", options_of(formats() + "/replay-three", scratch / "out"));
  ASSERT_EQ(imported.warnings.size(), 1u);
  EXPECT_THAT(imported.warnings[0].message, HasSubstr("tokens of 3 sequences alternate"));
  const auto trace = RoutingTrace::open(scratch / "out");
  EXPECT_THAT(trace.step(0).sequence_lengths(), ElementsAre(32, 32, 32));
  EXPECT_GT(measure(trace, {}).previous_token_overlap.mean(), 0.7);
}

TEST(Microbatch, TheFlagSaysHowManyThereAre) {
  const ScratchFolder scratch;
  auto options = options_of(formats() + "/replay-three", scratch / "out");
  options.micro_batch = 1;
  const auto imported = import_trace("router-lists", options);
  EXPECT_TRUE(imported.warnings.empty());
  EXPECT_THAT(imported.report, HasSubstr("sequences  1\n"));
  options.output = scratch / "other";
  options.micro_batch = 7;
  EXPECT_THAT(error_of([&] { import_trace("router-lists", options); }),
              HasSubstr("has 96 tokens, which are not 7 sequences of one length"));
}

/// Tokens [position][sequence] of samples of prompts: `shared` positions are the same for all
/// samples of a prompt, the rest are their own, and choices have no memory.
ChoiceTable samples(int prompts, int of_each, int shared, int positions) {
  std::mt19937 random(11);
  std::vector<std::int32_t> ids;
  for (int p = 0; p < positions; ++p) {
    for (int prompt = 0; prompt < prompts; ++prompt) {
      auto first = static_cast<std::int32_t>(random() % 32);
      for (int s = 0; s < of_each; ++s) {
        if (p >= shared) first = static_cast<std::int32_t>(random() % 32);
        ids.push_back(first);
      }
    }
  }
  const auto tokens = static_cast<std::int64_t>(ids.size());
  return ChoiceTable({NpyArray::of(std::move(ids), {tokens, 1}, "samples")});
}

/// A line of Megatron's router trace for each layer of a microbatch of `step`.
std::string lines_of(int step, const ChoiceTable& ids) {
  std::string rows, text;
  for (std::int64_t t = 0; t < ids.tokens(); ++t) {
    rows += fmt::format("{}[{}]", t == 0 ? "" : ", ", ids.at(t, 0, 0));
  }
  for (const int layer : {1, 2}) {
    text += fmt::format(R"({{"step": {}, "layer": {}, "rank": 0, "num_tokens": {}, "topk": 1, )"
                        R"("top_indices": [{}]}})"
                        "\n",
                        step, layer, ids.tokens(), rows);
  }
  return text;
}

TEST(Microbatch, EachTellsItsOwn) {
  const auto lengths = [](const std::string& text) {
    const std::string said = told_of("megatron-trace", {{"a.jsonl", text}}, [](auto& options) {
      options.experts = 32;
      options.top_k = 1;
    });
    std::string found;
    for (auto at = said.find('['); at != said.npos; at = said.find('[', at + 1)) {
      found += said.substr(at, said.find(']', at) + 1 - at);
    }
    return found.empty() ? said : found;
  };
  const auto four = samples(1, 4, 48, 64), two = samples(1, 2, 32, 64), none = samples(1, 1, 0, 64);
  EXPECT_EQ(lengths(lines_of(0, four) + lines_of(1, two)), "[64, 64, 64, 64][64, 64]");
  EXPECT_EQ(lengths(lines_of(0, none) + lines_of(1, two)), "[64][64, 64]");
  EXPECT_EQ(lengths(lines_of(0, two) + lines_of(1, none)), "[64, 64][32, 32]")
      << "what does not tell is as what was before";
}

TEST(Microbatch, ThatDoesNotTellIsOneSequenceAndSaidToBe) {
  const ScratchFolder scratch;
  const auto imported =
      import_trace("router-lists", options_of(formats() + "/router-lists", scratch / "out"));
  EXPECT_THAT(imported.report, HasSubstr("microbatch one sequence each: no tokens alternate"));
}

/// Tokens [position][sequence]: each sequence draws from its own experts, which drift.
ChoiceTable drawn(int sequences, int positions, double own) {
  std::mt19937 random(7);
  std::vector<std::int32_t> ids;
  for (int p = 0; p < positions; ++p) {
    for (int s = 0; s < sequences; ++s) {
      const bool near = std::uniform_real_distribution<>(0, 1)(random) < own;
      const int first = near ? (s * 5 + p / 16) % 32 : static_cast<int>(random() % 32);
      ids.push_back(first);
      ids.push_back((first + 1 + static_cast<int>(random() % 31)) % 32);
    }
  }
  const std::int64_t tokens = std::int64_t{1} * sequences * positions;
  return ChoiceTable({NpyArray::of(std::move(ids), {tokens, 2}, "drawn")});
}

TEST(Microbatch, LagsOfTheChoicesTellSequences) {
  for (const int sequences : {1, 2, 3, 4, 8, 16}) {
    EXPECT_EQ(alternating_sequences(drawn(sequences, 512, 0.5)), sequences);
  }
}

/// Tokens with one choice a layer, which come again after so many.
ChoiceTable taking_turns(std::int32_t tokens, std::int32_t period, std::size_t layers) {
  std::vector<std::int32_t> ids;
  for (std::int32_t t = 0; t < tokens; ++t) ids.push_back(t % period);
  return ChoiceTable(std::vector(layers, NpyArray::of(ids, {tokens, 1}, "in turn")));
}

TEST(Microbatch, FewTokensTellNothing) {
  // Of n sequences lags up to 2 n + 1 are compared, each at most half of the tokens.
  EXPECT_EQ(alternating_sequences(taking_turns(8, 2, 4)), 1);
  EXPECT_EQ(alternating_sequences(taking_turns(10, 2, 4)), 2);
  EXPECT_EQ(alternating_sequences(taking_turns(11, 2, 4)), 1) << "not of one length";
  EXPECT_EQ(alternating_sequences(taking_turns(12, 3, 4)), 1);
  EXPECT_EQ(alternating_sequences(taking_turns(15, 3, 4)), 3);
  // Five errors of 6 pairs 4 tokens apart are 2.5 / sqrt(6) > 1, those of 8 are less.
  EXPECT_EQ(alternating_sequences(taking_turns(10, 2, 1)), 1);
  EXPECT_EQ(alternating_sequences(taking_turns(12, 2, 1)), 2);
}

TEST(Microbatch, SamplesOfAPromptAreSequences) {
  EXPECT_EQ(alternating_sequences(samples(1, 4, 48, 64)), 4);
  EXPECT_EQ(alternating_sequences(samples(1, 2, 32, 64)), 2);
  EXPECT_EQ(alternating_sequences(samples(1, 8, 12, 64)), 8);
  EXPECT_EQ(alternating_sequences(samples(1, 1, 48, 64)), 1);
  EXPECT_FALSE(may_alternate(samples(1, 1, 48, 64)));
  const ChoiceTable few = samples(1, 4, 4, 64);
  EXPECT_EQ(alternating_sequences(few), 1) << "too few positions to tell";
  EXPECT_TRUE(may_alternate(few));
}

TEST(Microbatch, SequencesAreEveryFewTokens) {
  RoutedPass pass{"w", taking_turns(6, 6, 1), {6}};
  EXPECT_EQ(without_alternation(pass, 1).size(), 1U);
  EXPECT_FALSE(without_alternation(pass, 2)[0].weights);
  pass.weights = taking_turns(6, 6, 1);
  const auto passes = without_alternation(pass, 3);
  ASSERT_EQ(passes.size(), 3U);
  for (std::size_t s = 0; s < 3; ++s) {
    const auto first = static_cast<std::int64_t>(s);
    EXPECT_THAT(passes[s].lengths, ElementsAre(2));
    EXPECT_EQ(passes[s].ids.tokens(), 2);
    EXPECT_EQ(std::pair(passes[s].ids.at(0, 0, 0), passes[s].ids.at(1, 0, 0)),
              std::pair(first, first + 3));
    EXPECT_EQ(passes[s].weights->at(1, 0, 0), first + 3);
  }
  EXPECT_EQ(error_of([&] { without_alternation(pass, 4); }),
            "w: error: has 6 tokens, which are not 4 sequences of one length\nhint: --micro-batch "
            "N: a microbatch has N sequences, padded to one length\n");
}

TEST(Microbatch, ChoicesWithoutMemoryTellNothing) {
  EXPECT_EQ(alternating_sequences(drawn(4, 256, 0)), 1);
  EXPECT_EQ(alternating_sequences(drawn(1, 1, 0.5)), 1);
}

TEST(Microbatch, RoutersOfMultiTokenPredictionAreLeftOut) {
  const ScratchFolder scratch;
  auto options = options_of(formats() + "/replay-mtp", scratch / "out");
  const auto imported = import_trace("router-lists", options);
  ASSERT_EQ(imported.warnings.size(), 1u);
  EXPECT_THAT(imported.warnings[0].message,
              HasSubstr("has 3 routers but the model has 2 MoE layers: the last is left out, as of "
                        "multi-token prediction"));
  EXPECT_THAT(imported.report, HasSubstr("9 rows: of multi-token prediction"));
  const auto trace = RoutingTrace::open(scratch / "out");
  EXPECT_THAT(trace.info().layers, ElementsAre(1, 2));
  EXPECT_EQ(trace.step(0).ids(1).at(3, 0), choice(3, 2)[0]);
}

TEST(Microbatch, MoreRoutersThanTheModelExplainsAreRefused) {
  const ScratchFolder scratch;
  auto options = options_of(formats() + "/replay-two-more", scratch / "out");
  EXPECT_THAT(error_of([&] { import_trace("router-lists", options); }),
              HasSubstr("has 4 routers but the model has 2 MoE layers\nhint: --layers FIRST:COUNT "
                        "says which they are; routers of multi-token prediction come last"));
  options.mtp_layers = 2;
  const auto imported = import_trace("router-lists", options);
  EXPECT_THAT(imported.report, HasSubstr("18 rows: of multi-token prediction"));
  EXPECT_THAT(imported.warnings.at(0).message, HasSubstr("the last 2 are left out"));
}

TEST(Microbatch, FlamesCapturesAreReadAsTheyAreWritten) {
  const ScratchFolder scratch;
  const auto imported =
      import_trace("flame", options_of(formats() + "/flame-captures/1080", scratch / "out"));
  ASSERT_EQ(imported.warnings.size(), 1u);
  EXPECT_THAT(imported.warnings[0].message, HasSubstr("its layers 2, 3 are counted from 1"));
  const auto trace = RoutingTrace::open(scratch / "out");
  EXPECT_THAT(trace.info().layers, ElementsAre(1, 2));
  EXPECT_THAT(trace.step(0).sequence_lengths(), ElementsAre(5, 4));
  EXPECT_EQ(trace.step(0).source_rank(6), 1);
  EXPECT_EQ(trace.step(0).weight(1, 6, 0), 0.75F);
  for (int t = 0; t < 9; ++t) EXPECT_EQ(trace.step(0).ids(1).at(t, 0), choice(t, 2)[0]);
}

TEST(Alternation, SequencesAreTakenApartOnlyIfThereAreSeveral) {
  const RoutedPass pass = pass_of_layers({{0, 1, 2, 3, 4, 5}}, 1);
  EXPECT_EQ(without_alternation(pass, 1).size(), 1U);
  EXPECT_EQ(without_alternation(pass, 0).size(), 1U);
  EXPECT_EQ(without_alternation(pass_of_layers({{}}, 1), 4).size(), 1U) << "no tokens";
  RoutedPass weighted = pass;
  weighted.weights = ChoiceTable({NpyArray::of(std::vector<float>{0, 1, 2, 3, 4, 5}, {6, 1}, "w")});
  const auto apart = without_alternation(weighted, 2);
  ASSERT_EQ(apart.size(), 2U);
  EXPECT_THAT(apart[1].lengths, ElementsAre(3));
  EXPECT_EQ(apart[1].ids.at(2, 0, 0), 5);
  EXPECT_EQ(apart[1].weights->real(1, 0, 0), 3);
  EXPECT_THAT(error_of([&] { without_alternation(pass, 4); }),
              HasSubstr("has 6 tokens, which are not 4 sequences of one length"));
}

}  // namespace
}  // namespace moesim
