// SPDX-License-Identifier: Apache-2.0
// Whole iterations by all ranks in one process: every element as one process without parallelism
// computes it, and every mistake found.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "realhw/core/reference_iteration.h"
#include "sim/base/unsuitable.h"
#include "tests/realhw/iteration/real_iteration.h"
#include "tests/realhw/program_rules.h"

namespace moesim {
namespace {

using testing::HasSubstr;

std::vector<std::string> rules_broken(RealIteration& real) {
  std::vector<std::string> broken;
  for (const auto& rank : real.ranks()) {
    for (std::string& rule : broken_rules(rank->program)) {
      broken.push_back(fmt::format("rank {}: {}", rank->program.rank.value, rule));
    }
  }
  return broken;
}

struct IterationOption {
  const char* name;
  Changes changes;
};

class ExecutedIteration : public testing::TestWithParam<IterationOption> {};

TEST_P(ExecutedIteration, ComputesWhatOneProcessDoes) {
  RealIteration real(GetParam().changes);
  const Comparison found = real.run();
  EXPECT_EQ(found.wrong(), 0);
  // 16 sequences of 4 tokens, 8 blocks of 4 layers and the head, 32 columns; a loss per token on
  // every GPU of a tensor group.
  EXPECT_EQ(found.outputs, 16 * 4 * (9 * 32 + real.step().iteration->tp));
  EXPECT_EQ(found.input_gradients, 16 * 4 * 9 * 32);
  // Each parameter at least once: replicas, or their shards.
  const std::int64_t parameters = parameters_of(real.step().iteration->model).total();
  EXPECT_GE(found.weight_gradients, parameters);
  EXPECT_GE(found.weights, parameters);
  EXPECT_THAT(rules_broken(real), testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    All, ExecutedIteration,
    testing::Values(
        IterationOption{"one_f_one_b", {}},
        IterationOption{"combined",
                        {{"pipeline", "combined-1f1b"}, {"overlap.all_to_all", "true"}}},
        IterationOption{"combined_with_delayed_weights",
                        {{"pipeline", "combined-1f1b"},
                         {"overlap.all_to_all", "true"},
                         {"overlap.delay_wgrad", "true"}}},
        IterationOption{"zero_bubble", {{"pipeline", "zb1p"}, {"zero", "0"}}},
        IterationOption{"interleaved", {{"pipeline", "interleaved"}, {"parallel.vpp", "2"}}},
        IterationOption{"two_expert_groups", {{"parallel.ep", "2"}, {"zero", "0"}}},
        IterationOption{"two_expert_groups_of_shards", {{"parallel.ep", "2"}}},
        IterationOption{
            "two_expert_groups_gathered_at_the_beginning",
            {{"parallel.ep", "2"}, {"overlap.gradients", "true"}, {"overlap.parameters", "true"}}},
        IterationOption{"eight_replicas", {{"parallel.pp", "1"}}},
        IterationOption{
            "four_stages",
            {{"parallel.pp", "4"}, {"parallel.ep", "2"}, {"overlap.gradients", "true"}}},
        IterationOption{"gathered_at_the_beginning",
                        {{"overlap.gradients", "true"}, {"overlap.parameters", "true"}}},
        IterationOption{"hierarchical", {{"policy", "hiermoe-hd2"}}},
        IterationOption{"tensor_groups",
                        {{"parallel.tp", "2"}, {"parallel.etp", "1"}, {"parallel.ep", "2"}}},
        IterationOption{"tensor_groups_without_zero",
                        {{"parallel.tp", "2"},
                         {"parallel.etp", "1"},
                         {"parallel.ep", "4"},
                         {"zero", "0"},
                         {"overlap.gradients", "true"}}},
        IterationOption{"tensor_groups_combined",
                        {{"parallel.tp", "2"},
                         {"parallel.etp", "1"},
                         {"parallel.ep", "4"},
                         {"batch.micro", "2"},
                         {"pipeline", "combined-1f1b"},
                         {"overlap.all_to_all", "true"},
                         {"overlap.delay_wgrad", "true"}}},
        IterationOption{"tensor_groups_of_four",
                        {{"parallel.tp", "4"},
                         {"parallel.etp", "1"},
                         {"parallel.pp", "1"},
                         {"parallel.ep", "8"},
                         {"set", "model.attention.kv_heads=4"},
                         {"overlap.gradients", "true"},
                         {"overlap.parameters", "true"}}},
        IterationOption{"one_tensor_group",
                        {{"parallel.tp", "4"},
                         {"parallel.etp", "1"},
                         {"parallel.ep", "2"},
                         {"pipeline", "zb1p"},
                         {"set", "model.attention.kv_heads=4"}}}),
    [](const auto& option) { return std::string(option.param.name); });

/// Adds 1 to one float32 in the first message of an op of this label.
Tamper changing(const Plan& plan, const std::string& label, bool& struck) {
  return [&plan, label, &struck](OpId op, GpuId, GpuId, std::span<std::byte> bytes) {
    if (struck || plan[op].label != label) return;
    struck = true;
    float value = 0;
    std::memcpy(&value, bytes.data(), sizeof value);
    value += 1;
    std::memcpy(bytes.data(), &value, sizeof value);
  };
}

TEST(WrongIteration, IsFoundByOneElementOfAnyMessage) {
  RealIteration real(Changes{{"parallel.ep", "2"}});
  for (const char* label :
       {"stage-transfer", "stage-transfer-grad", "gradient-exchange-grad", "weight-exchange-grad",
        "sum-gradients", "dispatch-alltoall", "combine-alltoall-grad"}) {
    bool struck = false;
    EXPECT_GT(real.run(changing(real.step().plan, label, struck)).wrong(), 0) << label;
    EXPECT_TRUE(struck) << label;
  }
}

const Changes tensor_groups = {{"parallel.tp", "2"}, {"parallel.etp", "1"}, {"parallel.ep", "2"}};

/// Every exchange of a tensor group, by what follows it: of blocks forward and back, and the sum of
/// what is whole.
TEST(WrongIteration, IsFoundByOneElementOfAnyMessageOfTensorGroups) {
  Changes changes = tensor_groups;
  changes.emplace_back("zero", "0");  // every GPU updates all that it has
  RealIteration real(changes);
  const Plan& plan = real.step().plan;
  std::set<std::pair<OpType, int>> kinds;
  for (const Op& op : plan.ops) {
    if (op.key.kind != OpKind::tensor_exchange || op.key.microbatch != 0) continue;
    if (!kinds.emplace(op.key.type(), op.key.part).second) continue;
    bool struck = false;
    const auto tamper = [&](OpId id, GpuId, GpuId, std::span<std::byte> bytes) {
      if (struck || &plan[id] != &op) return;
      struck = true;
      float value = 0;
      std::memcpy(&value, bytes.data(), sizeof value);
      value += 1;
      std::memcpy(bytes.data(), &value, sizeof value);
    };
    EXPECT_GT(real.run(tamper).wrong(), 0) << op.label.text() << " " << op.key.part;
    EXPECT_TRUE(struck);
  }
  // Two around attention, dense FFN and shared experts in each pass, and two more because layer 0
  // adds up nothing; one behind and one before the embedding; of the head two forward and one back;
  // one at the end.
  EXPECT_EQ(kinds.size(), 3 * 2 * 2 + 2 + 2 + 3 + 1);
}

/// Sums that are left out: of an exchange, what is received is not added.
TEST(WrongIteration, IsFoundBySumsThatATensorGroupLeavesOut) {
  RealIteration real(tensor_groups);
  EXPECT_EQ(real.run().wrong(), 0);
  const Plan& plan = real.step().plan;
  std::set<std::pair<OpType, int>> kinds;
  for (const auto& rank : real.ranks()) {
    for (RankStep& step : rank->program.steps) {
      const OpKey& key = plan[step.op].key;
      if (key.kind != OpKind::tensor_exchange || !kinds.emplace(key.type(), key.part).second) {
        continue;
      }
      const bool adds = std::ranges::any_of(step.after, [](const Call& call) {
        const auto* dense = std::get_if<DenseCall>(&call);
        return dense != nullptr && std::holds_alternative<AddValues>(*dense);
      });
      if (!adds) continue;
      const std::vector<Call> before = std::exchange(step.after, {});
      EXPECT_GT(real.run().wrong(), 0) << plan[step.op].label.text() << " " << key.part;
      step.after = before;
    }
  }
  EXPECT_EQ(real.run().wrong(), 0);
}

TEST(WrongIteration, IsFoundByOneElementOfWhatRanksHold) {
  RealIteration real(Changes{});
  EXPECT_EQ(real.run().wrong(), 0);
  LocalRank& rank = *real.ranks()[5];
  const IterationResults& results = *rank.program.iteration;
  const auto broken = [&](Place at) {
    auto* value = reinterpret_cast<float*>(rank.device.data(at.buffer) + at.offset);
    const float before = std::exchange(*value, *value + 0.25f);
    const std::int64_t wrong = real.compare_all().wrong();
    *value = before;
    return wrong;
  };
  EXPECT_EQ(broken(results.values.back().at), 1);
  EXPECT_EQ(broken(results.losses.front().at), 1);
  EXPECT_EQ(broken(results.dense.front().weights), 1);
  EXPECT_EQ(broken(results.experts.front().gradients), 1);
}

std::string refusal(const Changes& changes) {
  try {
    RealIteration real(changes);
  } catch (const Error& e) {
    return e.diagnostics().front().message;
  }
  return "none";
}

TEST(RefusedIteration, NamesTheRule) {
  EXPECT_THAT(refusal({{"parallel.cp", "2"}}),
              HasSubstr("cp = 2, whose attention adds up over parts of a sequence"));
  EXPECT_THAT(refusal({{"parallel.tp", "2"}}), HasSubstr("etp = 2"));
  const Changes divided = {{"parallel.tp", "4"}, {"parallel.etp", "1"}};
  EXPECT_THAT(refusal(divided), HasSubstr("2 heads of keys and values over tp = 4"));
  EXPECT_THAT(refusal({{"parallel.tp", "2"},
                       {"parallel.etp", "1"},
                       {"parallel.ep", "2"},
                       {"parallel.order", "ep-dp-tp-pp"}}),
              HasSubstr("a tensor group is not consecutive"));
  EXPECT_THAT(refusal({{"zero", "2"}}), HasSubstr("zero = 2"));
  EXPECT_THAT(refusal({{"collective", "tree"}, {"zero", "0"}}), HasSubstr("but rings"));
  EXPECT_THAT(refusal({{"recompute", "moe"}}), HasSubstr("recomputation"));
  EXPECT_THAT(refusal({{"set", "model.activations=bf16"}}), HasSubstr("bf16 activations"));
  EXPECT_THAT(refusal({{"gradient_bytes", "2"}}), HasSubstr("gradients of 2 bytes"));
  EXPECT_THAT(refusal({{"policy", "clairvoyant"}}), HasSubstr("change places between"));
  EXPECT_THAT(refusal({{"policy", "deepep-normal"}}), HasSubstr("narrower than fp32"));
  EXPECT_THAT(refusal({{"policy", "laer"}}), HasSubstr("experts' parameters travel"));
}

/// A model that has every kind of part, as small as finite differences want it.
TEST(ReferenceIteration, HasTheGradientsOfFiniteDifferences) {
  RealIteration real(Changes{{"batch.global", "8"}, {"batch.sequence", "3"}});
  const HeldIteration& held = *real.step().iteration;
  const auto loss = [&](auto change) {
    ReferenceIteration reference(held, real.real().layers);
    change(reference);
    reference.compute_gradients();
    return reference.loss();
  };
  ReferenceIteration reference(held, real.real().layers);
  reference.compute_gradients();
  constexpr double step = 1e-4;
  const auto check = [&](auto tensor_of, double expected, std::size_t i, const std::string& name) {
    const auto moved = [&](double by) {
      return loss([&](ReferenceIteration& r) { tensor_of(r).weights[i] += by; });
    };
    EXPECT_NEAR((moved(step) - moved(-step)) / (2 * step), expected,
                1e-7 + 1e-3 * std::fabs(expected))
        << name << " element " << i;
  };
  for (const HeldStage& stage : held.stages) {
    for (const StagePart& part : stage.chunks[0].parts) {
      const DenseTensors tensors(held.model, part);
      for (const DenseTensor& tensor : tensors.all()) {
        const auto at = static_cast<std::size_t>(tensor.offset + tensor.rows * tensor.columns / 2);
        check([&](ReferenceIteration& r) -> TrainedTensor& { return r.dense(part); },
              reference.dense(part).gradients[at], at,
              fmt::format("part {} {} tensor {}", static_cast<int>(part.kind), part.number,
                          static_cast<int>(tensor.id)));
      }
    }
  }
  for (const ExpertId expert : {ExpertId(3), ExpertId(17)}) {
    for (const std::size_t at : {std::size_t{5}, std::size_t{600}}) {
      check([&](ReferenceIteration& r) -> TrainedTensor& { return r.expert(2, expert); },
            reference.expert(2, expert).gradients[at], at, fmt::format("expert {}", expert.value));
    }
  }
}

}  // namespace
}  // namespace moesim
