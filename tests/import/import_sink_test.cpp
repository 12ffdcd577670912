// SPDX-License-Identifier: Apache-2.0
// Passes that importers hand over, made by hand: what becomes of them, and what is refused.
#include "sim/import/import_sink.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/error_of.h"
#include "tests/import/passes_by_hand.h"
#include "tests/trace/scratch.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class SinkTest : public testing::Test {
 protected:
  SinkTest() {
    options_.output = scratch_ / "out";
    options_.inputs = {"input"};
    options_.experts = 8;
    options_.layers = {3};
  }
  /// The trace of some passes.
  RoutingTrace trace_of(const std::vector<RoutedPass>& passes) {
    std::filesystem::remove_all(options_.output);
    auto writer = TraceWriter::resume(options_.output, "key");
    ImportSink sink(options_, writer, {});
    for (const RoutedPass& pass : passes) sink.add(pass);
    report_ = sink.finish("kind", "[]").report;
    return RoutingTrace::open(options_.output);
  }
  /// The first line of what is wrong with them.
  std::string refused(const std::vector<RoutedPass>& passes) {
    std::filesystem::remove_all(options_.output);
    auto writer = TraceWriter::resume(options_.output, "key");
    ImportSink sink(options_, writer, {});
    const std::string text = error_of([&] {
      for (const RoutedPass& pass : passes) sink.add(pass);
      sink.finish("kind", "[]");
    });
    writer.abandon();
    return text.substr(0, text.find('\n'));
  }
  static std::vector<std::int32_t> lengths(const RoutingTrace& trace, int step = 0) {
    const auto all = trace.step(step).sequence_lengths();
    return {all.begin(), all.end()};
  }

  ScratchFolder scratch_;
  ImportOptions options_;
  std::string report_;
};

TEST_F(SinkTest, LeadingSequencesOfEqualTokensAreWarmUp) {
  const Ids eight(8, 5), seven(7, 5), text = {1, 2};
  const auto leading = [&](const Ids& first, const Ids& second) {
    return lengths(trace_of({pass_of_layers({first}, 1), pass_of_layers({second}, 1)}));
  };
  EXPECT_THAT(leading(eight, text), ElementsAre(2));
  EXPECT_THAT(report_, HasSubstr("dropped    8 rows: of leading passes of equal tokens (warm-up)"));
  EXPECT_THAT(leading(seven, text), ElementsAre(7, 2));
  EXPECT_THAT(leading(text, eight), ElementsAre(2, 8));
  EXPECT_THAT(leading({5, 5, 5, 5, 5, 5, 5, 4}, text), ElementsAre(8, 2));
  RoutedPass trained = pass_of_layers({eight}, 1);
  trained.warm_up_first = false;
  EXPECT_THAT(lengths(trace_of({trained})), ElementsAre(8));
  // Equal in the first layer only.
  options_.layers = {3, 4};
  EXPECT_THAT(lengths(trace_of({pass_of_layers({eight, {0, 1, 2, 3, 4, 5, 6, 7}}, 1)})),
              ElementsAre(8));
}

TEST_F(SinkTest, PaddingIsLeftOutTokenByToken) {
  const auto trace = trace_of({pass_of_layers({{1, 2, -1, -1, 3, 4, -1, -1, 5, 6}}, 2, {3, 1, 1})});
  EXPECT_THAT(lengths(trace), ElementsAre(2, 1));
  EXPECT_EQ(trace.step(0).ids(0).at(1, 1), 4);
  EXPECT_EQ(trace.step(0).ids(0).at(2, 0), 5);
  EXPECT_THAT(report_, HasSubstr("dropped    2 rows: of padding (-1)"));
  EXPECT_EQ(refused({pass_of_layers({{1, -1}}, 2)}),
            "pass: error: layer 3, token 0: expert -1 of a model with 8 experts");
  EXPECT_EQ(refused({pass_of_layers({{-1, -1}}, 2)}), "input: error: holds padding only");
  EXPECT_EQ(refused({}), "input: error: holds no tokens");
}

TEST_F(SinkTest, IdsAreDifferentExpertsOfTheModel) {
  EXPECT_EQ(refused({pass_of_layers({{0, 1, 2, 2}}, 2)}),
            "pass: error: layer 3, token 1: expert 2 is chosen twice");
  EXPECT_EQ(refused({pass_of_layers({{0, 1, 2, 8}}, 2)}),
            "pass: error: layer 3, token 1: expert 8 of a model with 8 experts");
  RoutedPass real = pass_of_layers({{0}}, 1);
  real.ids = ChoiceTable({NpyArray::of(std::vector<float>{0}, {1, 1}, "reals")});
  EXPECT_EQ(refused({real}), "reals: error: holds float32; ids are integers");
  EXPECT_EQ(refused({pass_of_layers({{0, 1, 2}}, 1, {2})}),
            "pass: error: the sequences add up to 2 tokens but the ids have 3");
  options_.top_k = 3;
  EXPECT_EQ(refused({pass_of_layers({{0, 1}}, 2)}),
            "ids: error: has 2 choices per token but top-k is 3");
  options_.top_k = 1;
  EXPECT_EQ(refused({pass_of_layers({{0, 1}}, 2)}),
            "ids: error: has 2 choices per token but top-k is 1");
  EXPECT_EQ(lengths(trace_of({pass_of_layers({{0, -1}}, 2)})).size(), 1U);
  options_.top_k = 0, options_.experts = 2;
  EXPECT_EQ(refused({pass_of_layers({{0, 1, 2}}, 3)}),
            "pass: error: has 3 choices per token of 2 experts");
  EXPECT_EQ(lengths(trace_of({pass_of_layers({{0, 1}}, 2)})).size(), 1U) << "all experts";
  options_.experts = 300;
  EXPECT_EQ(refused({pass_of_layers({{0, 1, 299, 299}}, 2)}),
            "pass: error: layer 3, token 1: expert 299 is chosen twice");
  options_.layers = {3, 4};
  EXPECT_EQ(refused({pass_of_layers({{0, 1, 2, 3}, {4, 5, 6, 6}}, 2)}),
            "pass: error: layer 4, token 1: expert 6 is chosen twice");
  options_.experts = 0, options_.layers = {3};
  EXPECT_EQ(refused({pass_of_layers({{0}}, 1)}), "error: the number of experts is not known");
}

TEST_F(SinkTest, PassesHaveTheSameLayersAndChoices) {
  options_.layers.clear();
  RoutedPass first = pass_of_layers({{0, 1}}, 2), second = pass_of_layers({{0, 1}}, 2);
  first.layers = {3}, second.layers = {4};
  EXPECT_EQ(refused({first, second}),
            "pass: error: has 2 choices of layers 4 but those before have 2 of layers 3");
  second = pass_of_layers({{0}}, 1);
  second.layers = {3};
  EXPECT_EQ(refused({first, second}),
            "pass: error: has 1 choices of layers 3 but those before have 2 of layers 3");
  RoutedPass twice = pass_of_layers({{0}, {1}}, 1);
  twice.layers = {3, 3};
  EXPECT_EQ(refused({twice}), "pass: error: has layer 3 twice");
  twice.layers = {4, 3};
  const auto trace = trace_of({twice});
  EXPECT_THAT(trace.info().layers, ElementsAre(3, 4));
  EXPECT_EQ(trace.step(0).ids(0).at(0, 0), 1);
}

TEST_F(SinkTest, StepsAreThoseOfThePassesOrFilled) {
  const auto of_step = [](std::optional<std::int64_t> step) {
    RoutedPass pass = pass_of_layers({{1, 2, 3}}, 1);
    pass.step = step;
    return pass;
  };
  const auto numbers = [&](const std::vector<RoutedPass>& passes) {
    const auto trace = trace_of(passes);
    std::string text;
    for (int s = 0; s < trace.step_count(); ++s) {
      text += fmt::format("{}:{} ", trace.step(s).number(), trace.step(s).tokens());
    }
    return text;
  };
  EXPECT_EQ(numbers({of_step(4), of_step(4), of_step(7)}), "4:6 7:3 ");
  EXPECT_EQ(numbers({of_step({}), of_step({})}), "0:6 ");
  options_.step_tokens = 3;
  EXPECT_EQ(numbers({of_step({}), of_step({})}), "0:3 1:3 ");
  EXPECT_EQ(numbers({of_step(4), of_step(4), of_step(7)}), "4:6 7:3 ");
  EXPECT_EQ(refused({of_step(4), of_step({}), of_step(4)}), "error: step 4 comes after step 4");
  options_.step_tokens = 4;
  EXPECT_EQ(numbers({of_step({}), of_step({}), of_step({})}), "0:6 1:3 ");
  EXPECT_EQ(numbers({of_step(4), of_step(5), of_step(7)}), "4:6 7:3 ");
  options_.step_tokens = 0;
  EXPECT_EQ(refused({of_step(4), of_step(3)}), "error: step 3 comes after step 4");
}

TEST_F(SinkTest, PhasesAreJoinedAndPickedOut) {
  RoutedPass prefill = pass_of_layers({{1, 2}}, 1), decode = pass_of_layers({{3}}, 1);
  prefill.phase = Phase::prefill, decode.phase = Phase::decode;
  EXPECT_EQ(trace_of({prefill, prefill}).info().phase, Phase::prefill);
  EXPECT_EQ(trace_of({prefill, decode, decode}).info().phase, Phase::mixed);
  options_.step_tokens = 1;
  EXPECT_EQ(trace_of({decode, decode}).info().phase, Phase::decode) << "steps of one pass each";
  options_.step_tokens = 0;
  EXPECT_EQ(trace_of({pass_of_layers({{1}}, 1)}).info().phase, Phase::mixed);
  options_.passes = Phase::decode;
  EXPECT_THAT(lengths(trace_of({prefill, decode})), ElementsAre(1));
  EXPECT_THAT(report_, HasSubstr("dropped    2 rows: of prefill passes"));
  EXPECT_EQ(trace_of({decode, prefill}).info().phase, Phase::decode);
}

TEST_F(SinkTest, DroppedRowsAreOfTokensInEveryLayer) {
  options_.layers = {3, 4};
  const Ids eight(8, 5);
  trace_of({pass_of_layers({eight, eight}, 1), pass_of_layers({{-1, 1}, {-1, 2}}, 1)});
  EXPECT_THAT(report_, HasSubstr("dropped    16 rows: of leading passes of equal tokens"));
  EXPECT_THAT(report_, HasSubstr("dropped    2 rows: of padding (-1)"));
  RoutedPass prefill = pass_of_layers({{1, 2, 3}, {4, 5, 6}}, 1), decode = prefill;
  prefill.phase = Phase::prefill, decode.phase = Phase::decode;
  options_.passes = Phase::decode;
  trace_of({prefill, decode});
  EXPECT_THAT(report_, HasSubstr("dropped    6 rows: of prefill passes"));
  options_.layers.clear();
  options_.moe_layers = {2}, options_.model_layers = 3;
  trace_of({pass_of_layers({{0, 0, 0}, {0, 0, 0}, {1, 2, 3}}, 1)});
  EXPECT_THAT(report_, HasSubstr("dropped    6 rows: of dense layers"));
}

TEST_F(SinkTest, WeightsAreOfAllTokensOrOfNone) {
  RoutedPass plain = pass_of_layers({{1, 2}}, 1), weighted = plain;
  weighted.weights = ChoiceTable({NpyArray::of(std::vector<float>{0.5F, 2.0F}, {2, 1}, "w")});
  weighted.weight_scale = 0.5;
  const auto trace = trace_of({weighted, weighted});
  EXPECT_EQ(trace.step(0).weight(0, 3, 0), 1.0F);
  EXPECT_THAT(report_, HasSubstr("weights    yes"));
  trace_of({plain});
  EXPECT_THAT(report_, HasSubstr("weights    no"));
  const std::string some = "pass: error: some of its tokens have weights, others have none";
  EXPECT_EQ(refused({plain, weighted}), some);
  EXPECT_EQ(refused({weighted, plain}), some);
  weighted.weight_scale = -1;
  EXPECT_EQ(refused({weighted}), "pass: error: token 0: -0.5 is not a weight");
}

TEST_F(SinkTest, DenseLayersHoldNothing) {
  options_.layers.clear();
  options_.moe_layers = {1}, options_.model_layers = 2;
  const auto trace = trace_of({pass_of_layers({{0, -1}, {3, 4}}, 1)});
  EXPECT_THAT(trace.info().layers, ElementsAre(1));
  EXPECT_THAT(report_, HasSubstr("dropped    2 rows: of dense layers"));
  EXPECT_EQ(refused({pass_of_layers({{0, 5}, {3, 4}}, 1)}),
            "pass: error: layer 0 is dense in the model but token 1 chose expert 5");
}

TEST_F(SinkTest, WhatFilesSayIsWhatFlagsSay) {
  auto writer = TraceWriter::resume(options_.output, "key");
  ImportSink sink(options_, writer, {});
  const auto said = [](const std::function<void()>& action) {
    const std::string text = error_of(action);
    return text.substr(0, text.find('\n'));
  };
  EXPECT_EQ(said([&] { sink.says_experts(8, "f"); }), "");
  EXPECT_EQ(said([&] { sink.says_experts(9, "f"); }),
            "f: error: has 9 experts but the flags say 8");
  EXPECT_EQ(said([&] { sink.says_experts(0, "f"); }),
            "f: error: has 0 experts; there are from 1 to 65535");
  EXPECT_EQ(said([&] { sink.says_experts(65536, "f"); }),
            "f: error: has 65536 experts; there are from 1 to 65535");
  EXPECT_EQ(said([&] { sink.says_top_k(0, "f"); }), "f: error: has 0 experts per token");
  EXPECT_EQ(said([&] { sink.says_top_k(65536, "f"); }), "f: error: has 65536 experts per token");
  sink.says_top_k(2, "f");
  EXPECT_EQ(sink.options().top_k, 2);
  EXPECT_EQ(said([&] { sink.says_top_k(3, "f"); }),
            "f: error: has 3 experts per token but top-k is 2");
  EXPECT_THAT(error_of([&] { sink.says_top_k(8, "f"); }), HasSubstr("counts of all experts?"));
  writer.abandon();
}

TEST_F(SinkTest, ExpertsAndChoicesAreAtMostTheLargestIds) {
  options_.experts = 0;
  auto writer = TraceWriter::resume(options_.output, "key");
  ImportSink sink(options_, writer, {});
  sink.says_experts(65535, "f");
  EXPECT_EQ(sink.experts(), 65535);
  sink.says_top_k(65535, "f");
  EXPECT_EQ(sink.options().top_k, 65535);
  writer.abandon();
}

TEST_F(SinkTest, NamesAreThoseOfTheFlagsOrOfTheFolder) {
  const auto info = trace_of({pass_of_layers({{1}}, 1)}).info();
  EXPECT_EQ(info.name + " of " + info.model, "out of unknown");
  options_.name = "a", options_.model = "m";
  const auto named = trace_of({pass_of_layers({{1}}, 1)}).info();
  EXPECT_EQ(named.name + " of " + named.model, "a of m");
  options_.name = "", options_.output = scratch_ / "other/";
  EXPECT_EQ(trace_of({pass_of_layers({{1}}, 1)}).info().name, "other");
}

TEST_F(SinkTest, ProgressEndsAtOne) {
  auto writer = TraceWriter::resume(options_.output, "key");
  std::vector<double> seen;
  ImportSink sink(options_, writer, [&](double done) { seen.push_back(done); });
  RoutedPass pass = pass_of_layers({{1, 2, 3, 4}}, 1, {1, 3});
  sink.add(pass);
  pass.progress = true;
  sink.add(pass);
  sink.progress(1.5);
  EXPECT_THAT(seen, ElementsAre(0, 0.25, 1));
  writer.abandon();
}

}  // namespace
}  // namespace moesim
