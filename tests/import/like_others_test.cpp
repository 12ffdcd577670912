// SPDX-License-Identifier: Apache-2.0
// Passes whose tokens chose as others did: text that repeats itself, ranks that count the same
// tokens, and microbatches of sequences that alternate.
#include <gmock/gmock.h>

#include "sim/import/import_sink.h"
#include "sim/import/layer_choice.h"
#include "sim/import/repeated_ranks.h"
#include "sim/trace/npy.h"
#include "tests/error_of.h"
#include "tests/import/told.h"

namespace moesim {
namespace {

using ::testing::ElementsAre;

TEST(MatricesOfMoeInfinity, AreOfSequencesAndOfNoRank) {
  // Two sequences of two tokens each; the place between them is unused.
  const std::string bytes = npy_header({'u', 1}, std::vector<std::int64_t>{3, 1, 8}) +
                            std::string("\1\1\0\0\0\0\1\1", 8) + std::string(8, '\0') +
                            std::string("\0\0\2\2\0\0\0\0", 8);
  EXPECT_EQ(told_of("moe-infinity", {{"a.npy", bytes}},
                    [](ImportOptions& o) { o.layers = {1}, o.moe_layers = {}; }),
            "top 2 [2, 2] 1: 0 6 1 7 2 3 2 3\n1 row: of unused places\n");
}

/// Tokens that chose `period` experts in turn, in four layers.
RoutedPass microbatch_in_turn(std::int32_t tokens, std::int32_t period) {
  std::vector<std::int32_t> ids;
  for (std::int32_t t = 0; t < tokens; ++t) ids.push_back(t % period);
  std::vector<NpyArray> layers(4, NpyArray::of(std::move(ids), {tokens, 1}, "in turn"));
  return {"pass", ChoiceTable(std::move(layers)), {tokens}};
}

using AddPass = void (ImportSink::*)(const RoutedPass&);

/// The lengths of the sequences of passes of four layers.
std::vector<std::int32_t> sequences_of_passes(const std::vector<RoutedPass>& passes, AddPass add) {
  const ScratchFolder scratch;
  ImportOptions options;
  options.output = scratch / "out", options.inputs = {"input"};
  options.experts = 8, options.layers = {0, 1, 2, 3};
  auto writer = TraceWriter::resume(options.output, "key");
  ImportSink sink(options, writer, {});
  for (const RoutedPass& pass : passes) (sink.*add)(pass);
  sink.finish("kind", "[]");
  const RoutingTrace trace = RoutingTrace::open(options.output);
  const auto lengths = trace.step(0).sequence_lengths();
  return {lengths.begin(), lengths.end()};
}

std::vector<std::int32_t> sequences_of_microbatches(const std::vector<RoutedPass>& passes) {
  return sequences_of_passes(passes, &ImportSink::add_microbatch);
}

TEST(LeadingTokensThatAreEqual, AreNoWarmUpBehindPadding) {
  const RoutedPass equal = microbatch_in_turn(8, 1), text = microbatch_in_turn(3, 3);
  RoutedPass padding = equal;
  const NpyArray none = NpyArray::of(std::vector<std::int32_t>(8, -1), {8, 1}, "none");
  padding.ids = ChoiceTable(std::vector<NpyArray>(4, none));
  const auto sequences = [](const std::vector<RoutedPass>& passes) {
    return sequences_of_passes(passes, &ImportSink::add);
  };
  EXPECT_THAT(sequences({equal, text}), ElementsAre(3));
  EXPECT_THAT(sequences({equal, equal, text, equal}), ElementsAre(3, 8)) << "all that lead";
  EXPECT_THAT(sequences({padding, equal, text}), ElementsAre(8, 3));
}

TEST(MicrobatchesThatAlternate, AreTakenApartAsEachSays) {
  const RoutedPass none = microbatch_in_turn(0, 1), one = microbatch_in_turn(1, 1);
  const RoutedPass two = microbatch_in_turn(10, 2), other = microbatch_in_turn(4, 4);
  EXPECT_THAT(sequences_of_microbatches({two, other}), ElementsAre(5, 5, 2, 2));
  EXPECT_THAT(sequences_of_microbatches({none, two}), ElementsAre(5, 5));
  EXPECT_THAT(sequences_of_microbatches({one, two}), ElementsAre(1, 5, 5));
  EXPECT_THAT(sequences_of_microbatches({other, two}), ElementsAre(4, 5, 5));
}

TEST(RanksThatRepeat, ChoseTheSameInEveryToken) {
  const auto table = [](std::vector<std::int32_t> ids) {
    const auto tokens = std::ssize(ids);
    return ChoiceTable({NpyArray::of(std::move(ids), {tokens, 1}, "ids")});
  };
  EXPECT_TRUE(same_choices(table({1, 2, 3}), table({1, 2, 3})));
  EXPECT_FALSE(same_choices(table({1, 2, 3}), table({0, 2, 3}))) << "the first token";
  EXPECT_FALSE(same_choices(table({1, 2, 3}), table({1, 2, 0}))) << "the last token";
}

/// Of two tokens of two choices in the first of three layers, which the model says is dense:
/// "dense" if it is taken for that, else "router".
std::string first_layer_as(std::vector<std::int32_t> ids) {
  const NpyArray others = NpyArray::of(std::vector<std::int32_t>{1, 2, 3, 4}, {2, 2}, "ids");
  RoutedPass pass{
      "pass", ChoiceTable({NpyArray::of(std::move(ids), {2, 2}, "ids"), others, others}), {2}};
  pass.of_routers = true;
  ImportOptions options;
  options.moe_layers = {1, 2};
  return choose_layers(pass, options).mtp == 0 ? "dense" : "router";
}

TEST(RoutersBeyondThoseOfTheModel, AreOfADenseLayerIfNoTokenChose) {
  EXPECT_EQ(first_layer_as({0, 0, 0, 0}), "dense");
  EXPECT_EQ(first_layer_as({0, -1, -1, 0}), "dense");
  for (const auto& ids : std::vector<std::vector<std::int32_t>>{
           {5, 0, 0, 0}, {0, 5, 0, 0}, {0, 0, 5, 0}, {0, 0, 0, 5}, {0, 0, 0, 1}}) {
    EXPECT_EQ(first_layer_as(ids), "router");
  }
}

/// What is wrong with tokens [first, first + 2) of four, each with two choices in a dense layer and
/// in layer 1, of which the model takes one.
std::string left_out_of(std::vector<std::int32_t> dense, std::vector<std::int32_t> taken,
                        std::int64_t first) {
  const RoutedPass pass{"pass",
                        ChoiceTable({NpyArray::of(std::move(dense), {4, 2}, "ids"),
                                     NpyArray::of(std::move(taken), {4, 2}, "ids")}),
                        {4}};
  ImportOptions options;
  options.moe_layers = {1}, options.top_k = 1;
  const LayerChoice choice = choose_layers(pass, options);
  const std::string error = error_of([&] { check_left_out(pass, choice, first, 2); });
  return error.substr(0, error.find('\n'));
}

TEST(ChoicesThatAreLeftOut, AreNoneInEveryTokenThatIsRead) {
  const std::vector<std::int32_t> none = {0, 0, 0, -1, -1, 0, 0, 0};
  const std::vector<std::int32_t> one = {3, -1, 4, -1, 5, -1, 6, -1};
  EXPECT_EQ(left_out_of(none, one, 1), "");
  for (const std::size_t at : {0U, 1U, 6U, 7U}) {
    std::vector<std::int32_t> dense = none, taken = one;
    dense[at] = 7, taken[at] = 7;
    EXPECT_EQ(left_out_of(dense, taken, 1), "") << "of other tokens";
  }
  for (const std::size_t at : {2U, 3U, 4U, 5U}) {
    std::vector<std::int32_t> dense = none;
    dense[at] = 7;
    EXPECT_EQ(left_out_of(dense, one, 1),
              fmt::format("pass: error: layer 0 is dense in the model but token {} chose expert 7",
                          at / 2));
  }
  for (const std::size_t at : {3U, 5U}) {
    std::vector<std::int32_t> taken = one;
    taken[at] = 7;
    EXPECT_EQ(left_out_of(none, taken, 1), "ids: error: has 2 choices per token but top-k is 1");
  }
}

}  // namespace
}  // namespace moesim
