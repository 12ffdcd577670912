// SPDX-License-Identifier: Apache-2.0
// Passes whose tokens chose as others did: text that repeats itself, ranks that count the same
// tokens, and microbatches of sequences that alternate.
#include <gmock/gmock.h>

#include "sim/import/import_sink.h"
#include "sim/import/repeated_ranks.h"
#include "sim/trace/npy.h"
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

/// The lengths of the sequences of microbatches.
std::vector<std::int32_t> sequences_of_microbatches(const std::vector<RoutedPass>& passes) {
  const ScratchFolder scratch;
  ImportOptions options;
  options.output = scratch / "out", options.inputs = {"input"};
  options.experts = 8, options.layers = {0, 1, 2, 3};
  auto writer = TraceWriter::resume(options.output, "key");
  ImportSink sink(options, writer, {});
  for (const RoutedPass& pass : passes) sink.add_microbatch(pass);
  sink.finish("kind", "[]");
  const RoutingTrace trace = RoutingTrace::open(options.output);
  const auto lengths = trace.step(0).sequence_lengths();
  return {lengths.begin(), lengths.end()};
}

TEST(MicrobatchesThatAlternate, AreTakenApartAsTheFirstWithTokensSays) {
  const RoutedPass none = microbatch_in_turn(0, 1), one = microbatch_in_turn(1, 1);
  const RoutedPass two = microbatch_in_turn(10, 2), other = microbatch_in_turn(4, 4);
  EXPECT_THAT(sequences_of_microbatches({two, other}), ElementsAre(5, 5, 2, 2));
  EXPECT_THAT(sequences_of_microbatches({none, two}), ElementsAre(5, 5));
  EXPECT_THAT(sequences_of_microbatches({one, two}), ElementsAre(1, 10));
  EXPECT_THAT(sequences_of_microbatches({other, two}), ElementsAre(4, 10));
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

}  // namespace
}  // namespace moesim
