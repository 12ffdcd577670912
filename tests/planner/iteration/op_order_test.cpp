// SPDX-License-Identifier: Apache-2.0
// The ops of one GPU in a small iteration, in the order in which its streams take them.
#include <gmock/gmock.h>

#include "tests/planner/iteration/fixtures.h"

namespace moesim {
namespace {

/// Of a dense layer and one with experts on 8 GPUs, one microbatch: "LABEL@LAYER" of GPU 0.
std::string ops_of_first(const std::function<void(Spec&)>& change) {
  const Topology topology = test::h100_nodes(1);
  const MoeModel model = test::whole(2);
  Spec o;
  o.spec.parallel = {.tp = 1, .pp = 1, .ep = 8, .etp = 1};
  o.spec.global_batch = 8;
  o.spec.sequence = 64;
  o.state = {4, 12};
  change(o);
  const RoutingTrace trace = test::tokens_for(model, 8 * 64, 64);
  Planner planner(test::policy("alltoall"), topology, model, trace, o);
  const Plan plan = planner.plan(0).plan;
  std::string text;
  for (const Op& op : plan.ops) {
    if (!op.group.contains(GpuId(0))) continue;
    text += op.label.text();
    if (op.key.layer >= 0) text += "@" + std::to_string(op.key.layer);
    text += " ";
  }
  return text;
}

/// Words with a role and their layer behind each.
std::string of_layer(int layer, std::string words, const std::string& role = "") {
  for (std::size_t at = 0; (at = words.find(' ', at)) != std::string::npos;) {
    const std::string behind = role + "@" + std::to_string(layer);
    words.insert(at, behind);
    at += behind.size() + 1;
  }
  return words;
}

// A block adds the result of the one before it to its input and normalizes the sum; the first one
// has nothing to add.
const std::string attention =
    "norm attention-projections attention-projections attention-scores attention-output ";
const std::string dense = "norm norm dense-fc1 dense-activation dense-fc2 ";
const std::string routing = "gate permute dispatch-alltoall sort ";
const std::string computed = "fc1 activation fc2 reduce combine-alltoall unpermute ";

std::string first_layer(const std::string& role = "") {
  return of_layer(0, attention + dense, role);
}
std::string experts_again(const std::string& role = "") {
  return of_layer(1, routing + computed, role);
}
std::string second_layer(const std::string& role = "") {
  return of_layer(1, "norm " + attention + "norm norm ", role) + experts_again(role);
}
const std::string head = of_layer(0, "norm norm head loss ");
const std::string head_back =
    of_layer(0, "loss-dgrad head-dgrad norm-dgrad norm-dgrad head-wgrad ");

// Of the input first, then of weights, which nobody waits for.
const std::string experts_back = of_layer(
    1,
    "unpermute-grad dispatch-alltoall-grad reduce-grad fc2-dgrad fc2-wgrad activation-grad "
    "fc1-dgrad fc1-wgrad sort-grad combine-alltoall-grad permute-grad gate-dgrad gate-wgrad "
    "norm-dgrad norm-dgrad ");
const std::string attention_input =
    "attention-output-dgrad attention-scores-dgrad attention-projections-dgrad "
    "attention-projections-dgrad norm-dgrad ";
const std::string attention_weights = "attention-output-wgrad attention-projections-wgrad ";
const std::string dense_input =
    "dense-fc2-dgrad dense-activation-dgrad dense-fc1-dgrad norm-dgrad norm-dgrad ";
const std::string dense_weights = "dense-fc2-wgrad dense-fc1-wgrad ";
const std::string second_attention_back =
    of_layer(1, attention_input + "norm-dgrad " + attention_weights);
const std::string first_back =
    of_layer(0, dense_input + dense_weights + attention_input + attention_weights);
const std::string embedding = "embedding@0 ", embedding_back = "embedding-dgrad@0 ";
const std::string gradients = "gradient-exchange-grad ", update = "optimizer-grad ";
/// Sums of the head's, both layers' and the embedding's gradients; new weights go round at last.
const std::string ending = gradients + "gradient-exchange-grad@1 gradient-exchange-grad@0 " +
                           gradients + update + "weight-exchange-grad ";

TEST(OpOrder, IsThatOfTheLayersAndBack) {
  EXPECT_EQ(ops_of_first([](Spec&) {}), embedding + first_layer() + second_layer() + head +
                                            head_back + experts_back + second_attention_back +
                                            first_back + embedding_back + ending);
}

TEST(OpOrder, WhatIsRecomputedComesBeforeTheBackwardOfItsLayer) {
  const std::string forward = embedding + first_layer() + second_layer() + head + head_back;
  const std::string again = "-recompute";
  EXPECT_EQ(ops_of_first([](Spec& o) { o.spec.recompute = {RecomputeModule::full}; }),
            forward + second_layer(again) + experts_back + second_attention_back +
                first_layer(again) + first_back + embedding_back + ending);
  EXPECT_EQ(ops_of_first([](Spec& o) { o.spec.recompute = {RecomputeModule::moe}; }),
            forward + experts_again(again) + experts_back + second_attention_back + first_back +
                embedding_back + ending);
}

TEST(OpOrder, WithZeroThreeWeightsComeBeforeAndGradientsGoBehindEveryPart) {
  const std::string weights = "weight-exchange", grad = "-grad", experts = "gather-experts@1 ";
  EXPECT_EQ(ops_of_first([](Spec& o) { o.spec.zero = 3, o.spec.parallel.ep = 4; }),
            weights + " " + embedding + weights + "@0 " + first_layer() + weights + "@1 " +
                experts + second_layer() + weights + " " + head + weights + grad + " " + head_back +
                gradients + weights + grad + "@1 " + experts + experts_back +
                second_attention_back + "sum-gradients@1 gradient-exchange-grad@1 " + weights +
                grad + "@0 " + first_back + "gradient-exchange-grad@0 " + embedding_back +
                gradients + update);
}

TEST(OpOrder, ExpertsThatAreSharedTravelOnceForEachPassAndBack) {
  const Topology topology = test::h100_nodes(1);
  const MoeModel model = test::whole(4);
  const RoutingTrace trace = test::tokens_for(model, 8 * 64, 64);
  Spec o;
  o.spec.parallel = {.tp = 1, .pp = 1, .ep = 4, .etp = 1};
  o.spec.global_batch = 8;
  o.spec.sequence = 64;
  o.spec.zero = 0;
  for (const char* const policy : {"laer", "fsdp-ep"}) {
    Planner planner(test::policy(policy), topology, model, trace, o);
    std::map<int, std::string> moves;  // [layer]
    for (const Op& op : planner.plan(0).plan.ops) {
      if (op.stream != Stream::param) continue;
      moves[op.key.layer] += op.key.stage == Stage::reduce  ? "reduce "
                             : op.key.pass == Pass::forward ? "forward "
                                                            : "backward ";
    }
    const std::string each = "forward backward reduce ";
    EXPECT_EQ(moves, (std::map<int, std::string>{{1, each}, {2, each}, {3, each}})) << policy;
  }
}

TEST(OpOrder, WeightsOfZb1pHaveTurnsOfTheirOwn) {
  const std::string forward = embedding + first_layer(), sent = "stage-transfer ";
  const std::string input = of_layer(0, dense_input + attention_input) + embedding_back;
  const std::string weights = of_layer(0, dense_weights + attention_weights);
  const std::string received = "stage-transfer-grad ";
  EXPECT_EQ(ops_of_first([](Spec& o) {
              o.spec.parallel.pp = 2, o.spec.parallel.ep = 4;
              o.spec.pipeline = PipelineKind::zb1p;
            }),
            forward + sent + received + forward + sent + input + received + weights + input +
                weights + "gradient-exchange-grad@0 " + gradients + update +
                "weight-exchange-grad ");
}

}  // namespace
}  // namespace moesim
