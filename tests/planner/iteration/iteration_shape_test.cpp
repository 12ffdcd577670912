// SPDX-License-Identifier: Apache-2.0
// What sizes make of a cluster and a model, where their mistakes are said, and what an update and
// exchanges of a whole iteration wait for and move.
#include <gmock/gmock.h>

#include <map>

#include "sim/base/error.h"
#include "sim/planner/layer/expert_tensors.h"
#include "sim/planner/layer/phase_exchange.h"
#include "tests/error_of.h"
#include "tests/planner/iteration/memory_fixture.h"

namespace moesim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Of two stages on 8 GPUs: 4 replicas of 2 microbatches.
IterationSpec two_stages() {
  IterationSpec spec;
  spec.parallel = {.tp = 1, .pp = 2, .ep = 2, .etp = 1};
  spec.global_batch = 8;
  spec.sequence = 16;
  return spec;
}

/// The message without its hint; empty: none.
std::string shape_refusal(const IterationSpec& spec, int layers = 4) {
  try {
    shape_of(spec, 8, layers, 0);
  } catch (const Error& e) {
    const std::string text = e.what();
    return text.substr(0, text.find('\n'));
  }
  return "";
}

TEST(IterationShapes, HaveTheMicrobatchesOfAReplica) {
  const IterationShape shape = shape_of(two_stages(), 8, 4, 1);
  EXPECT_EQ(shape.microbatches, 2);
  EXPECT_EQ(shape.grid.size(ParallelAxis::dp), 4);
  EXPECT_EQ(shape.pipeline.stages(), 2);
  EXPECT_EQ(shape.layers.str(), "Ett|ttmL");
  IterationSpec spec = two_stages();
  spec.micro_batch = 2;
  EXPECT_EQ(shape_of(spec, 8, 4, 0).microbatches, 1);
  EXPECT_EQ(tokens_of(spec, 8), 8 * 16);
  spec.global_batch = 4;
  EXPECT_EQ(shape_refusal(spec),
            "error: a global batch of 4 cannot be cut into micro batches of 2 for 4 replicas");
}

TEST(IterationShapes, HaveTheLayersThatTheirKeysSay) {
  const auto layers = [](const std::function<void(IterationSpec&)>& change, int count) {
    IterationSpec spec = two_stages();
    change(spec);
    return shape_of(spec, 8, count, 0).layers.str();
  };
  EXPECT_EQ(layers([](auto& s) { s.first_stage_layers = 1; }, 4), "Et|tttL");
  EXPECT_EQ(layers([](auto& s) { s.last_stage_layers = 1; }, 4), "Ettt|tL");
  EXPECT_EQ(layers([](auto& s) { s.embedding_as_layer = true; }, 5), "Ett|tttL");
  EXPECT_EQ(layers([](auto& s) { s.loss_as_layer = true; }, 5), "Ettt|ttL");
  EXPECT_EQ(layers([](auto& s) { s.layout = "Et|tttL"; }, 4), "Et|tttL");
  const auto interleaved = [](auto& s) {
    s.parallel.vpp = 2;
    s.pipeline = PipelineKind::interleaved;
  };
  EXPECT_EQ(layers(interleaved, 4), "Et|t|t|tL");
}

TEST(IterationShapes, SayTheLineOfWhatIsWrong) {
  const auto line_of = [](IterationSpec spec, int parallel, int pipeline, int batch, int layers) {
    spec.places = {"s.yaml", parallel, pipeline, batch};
    const std::string text = shape_refusal(spec, layers);
    return text.substr(0, text.find(" error"));
  };
  IterationSpec grid = two_stages(), batch = grid, schedule = grid;
  grid.parallel.tp = 3;
  batch.global_batch = 3;
  schedule.pipeline = PipelineKind::dualpipe;
  schedule.global_batch = 4;  // one microbatch
  EXPECT_EQ(line_of(grid, 3, 5, 7, 4), "s.yaml:3:");
  EXPECT_EQ(line_of(grid, 0, 5, 7, 4), "s.yaml:7:");
  EXPECT_EQ(line_of(batch, 3, 5, 7, 4), "s.yaml:7:");
  EXPECT_EQ(line_of(schedule, 3, 5, 7, 4), "s.yaml:5:");
  EXPECT_EQ(line_of(schedule, 3, 0, 7, 4), "s.yaml:3:");
  EXPECT_EQ(line_of(schedule, 1, 1, 7, 4), "s.yaml:1:");
  EXPECT_EQ(line_of(schedule, 0, 0, 7, 4), "s.yaml:7:");
  EXPECT_EQ(line_of(two_stages(), 3, 5, 7, 1), "s.yaml:3:") << "a layer on two stages";
  EXPECT_EQ(line_of(batch, 3, 5, 0, 4), "error:" + shape_refusal(batch).substr(6)) << "no line";
}

TEST(IterationShapes, CopiesOfTheStateAreWhole) {
  IterationSpec spec = two_stages();
  spec.dp_replicate = 2;
  EXPECT_EQ(shape_refusal(spec), "");
  spec.dp_replicate = 3;
  EXPECT_EQ(shape_refusal(spec), "error: dp_replicate = 3 does not divide dp = 4");
  spec.dp_replicate = 4;
  EXPECT_EQ(shape_refusal(spec), "error: dp_replicate = 4 does not divide edp = 2");
  spec.dp_replicate = 2;
  spec.parallel.order = "tp-cp-dp-ep-pp";
  EXPECT_EQ(shape_refusal(spec), "error: dp_replicate = 2 cuts groups of expert parallelism");
}

TEST(IterationShapes, ServingHasBatchesForItsRanks) {
  IterationSpec spec = two_stages();
  spec.serving.emplace();
  spec.serving->batch.ranks.resize(1);
  EXPECT_EQ(shape_of(spec, 8, 4, 0).microbatches, 1);
  spec.serving->batch.ranks.resize(4);
  EXPECT_EQ(shape_refusal(spec), "");
  spec.serving->overlap = ServingOverlap::two_batch;
  EXPECT_EQ(shape_of(spec, 8, 4, 0).microbatches, 1);
  spec.serving->batch.ranks[2] = {{.context = 9, .count = 2}};
  EXPECT_EQ(shape_of(spec, 8, 4, 0).microbatches, 2);
  spec.serving->batch.ranks.resize(3);
  EXPECT_EQ(shape_refusal(spec),
            "error: serving.batch has lists of 3 ranks, the cluster 4 ranks of attention");
}

TEST(IterationShapes, KeysAreSharedByGpusThatHoldTheSame) {
  MoeModel model = test::whole(4);  // 4 key heads
  IterationSpec spec;
  spec.serving.emplace().batch.ranks.resize(1);
  const auto refusal = [&](int tp, int dcp) -> std::string {
    spec.parallel = {.tp = tp, .ep = 1, .etp = tp};
    spec.serving->dcp = dcp;
    return error_of([&] { shape_of(spec, 8, model); });
  };
  EXPECT_EQ(refusal(8, 1), "");
  EXPECT_EQ(refusal(8, 2), "");
  EXPECT_EQ(refusal(4, 1), "");
  EXPECT_EQ(refusal(8, 4),
            "error: serving.dcp is 4, but each key head is on 2 of the 8 GPUs of a tensor "
            "group\nhint: at most tp / key heads, as in vLLM: serving.dcp: 2\n");
  EXPECT_EQ(refusal(2, 2),
            "error: serving.dcp is 2, but each key head is on 1 of the 2 GPUs of a tensor "
            "group\nhint: at most tp / key heads, as in vLLM: serving.dcp: 1\n");
  EXPECT_EQ(refusal(8, 3),
            "error: serving.dcp is 3, which does not divide tp = 8\nhint: so many GPUs of each "
            "tensor group share the keys of a sequence\n");
  model.attention->shape.reset();
  EXPECT_EQ(refusal(8, 4), "");
}

TEST(IterationShapes, ZeroTwoHasNoTwoCopiesOfAStage) {
  IterationSpec spec = two_stages();
  for (int zero = 0; zero < 4; ++zero) {
    spec.zero = zero;
    spec.pipeline = PipelineKind::dualpipe;
    if (zero < 2) {
      EXPECT_NO_THROW(check_can_plan(spec)) << zero;
    } else {
      EXPECT_THROW(check_can_plan(spec), Error) << zero;
    }
    spec.pipeline = PipelineKind::dualpipev;
    EXPECT_NO_THROW(check_can_plan(spec)) << zero;
  }
}

TEST(OverlappedExchanges, AreThoseOfMergedPassesOrOfTwoBatches) {
  using Kind = PipelineKind;
  for (const Kind kind : {Kind::combined, Kind::combined_interleaved, Kind::dualpipe,
                          Kind::dualpipev, Kind::one_f_one_b, Kind::gpipe, Kind::zb1p}) {
    const bool merged = kind == Kind::combined || kind == Kind::combined_interleaved ||
                        kind == Kind::dualpipe || kind == Kind::dualpipev;
    EXPECT_EQ(merges_passes(kind), merged);
    IterationSpec spec = two_stages();
    spec.pipeline = kind;
    EXPECT_FALSE(exchanges_next_to_kernels(spec).tokens);
    spec.overlap.all_to_all = true;
    EXPECT_EQ(exchanges_next_to_kernels(spec).tokens, merged);
  }
  IterationSpec spec = two_stages();
  spec.serving.emplace();
  EXPECT_FALSE(exchanges_next_to_kernels(spec).tokens);
  spec.serving->overlap = ServingOverlap::two_batch;
  EXPECT_TRUE(exchanges_next_to_kernels(spec).tokens);
  for (int zero = 0; zero < 4; ++zero) {
    spec.zero = zero;
    EXPECT_EQ(exchanges_next_to_kernels(spec).parameters, zero == 3);
  }
}

/// Every value of one precision, in the order of its fields.
std::vector<double> values_of(const TrainingTraffic& traffic) {
  const auto& [gradient, cast, kernels, before, software, fused] = traffic;
  EXPECT_FALSE(fused) << "a precision does not say so";
  return {static_cast<double>(gradient), static_cast<double>(cast), static_cast<double>(kernels),
          static_cast<double>(before), software ? 1.0 : 0.0};
}

TEST(PrecisionTraffic, IsOfTwoLayoutsAndTheirScales) {
  using P = TrainingPrecision;
  EXPECT_THAT(values_of(training_traffic(P::bf16, 4)), ElementsAre(8, 0, 0, 0, 1));
  EXPECT_THAT(values_of(training_traffic(P::fp16, 2)), ElementsAre(4, 0, 0, 0, 1));
  EXPECT_THAT(values_of(training_traffic(P::fp8, 4)), ElementsAre(8, 6, 4, 0, 1));
  EXPECT_THAT(values_of(training_traffic(P::fp8_blockwise, 4)), ElementsAre(8, 4.0625, 1, 0, 1));
  EXPECT_THAT(values_of(training_traffic(P::mxfp8, 4)), ElementsAre(8, 4.0625, 1, 2, 1));
  EXPECT_THAT(values_of(training_traffic(P::nvfp4, 4)), ElementsAre(8, 5.125, 2, 2, 1));
  EXPECT_THAT(values_of(serving_traffic(DataType::fp8)), ElementsAre(0, 3.03125, 0, 1, 0));
  EXPECT_THAT(values_of(serving_traffic(DataType::fp4)), ElementsAre(0, 2.5625, 0, 1, 0));
  EXPECT_EQ(values_of(serving_traffic(DataType::bf16)), values_of({}));
}

/// Two groups of GPUs, each of whose first member sends so many bytes to its second.
bool ask_alike(const std::vector<std::vector<int>>& groups, const std::vector<int>& bytes) {
  PhaseTraffic phase;
  for (std::size_t c = 0; c < groups.size(); ++c) {
    std::vector<GpuId> gpus;
    for (const int gpu : groups[c]) gpus.emplace_back(gpu);
    phase.groups.emplace_back(gpus);
    ByteMatrix matrix(Bytes(1));
    for (std::size_t m = 0; m < gpus.size(); ++m) {
      std::vector<ByteMatrix::Entry> row;
      if (m == 0) row.push_back({GpuId(1), static_cast<std::uint32_t>(bytes[c])});
      matrix.add_row(row);
    }
    phase.rows.push_back(std::move(matrix));
  }
  return asks_the_same(phase, test::h100_nodes(2));
}

TEST(AlikeCommunicators, HaveTheSameSizesAndLoadsOnLinksOfTheirOwn) {
  EXPECT_TRUE(ask_alike({{0, 1}, {2, 3}}, {100, 100}));
  EXPECT_TRUE(ask_alike({{0, 1}, {2, 3}, {8, 9}}, {100, 100, 100}));
  EXPECT_FALSE(ask_alike({{0, 1}, {2, 3}}, {100, 101}));
  EXPECT_FALSE(ask_alike({{0, 1, 4}, {2, 3}}, {100, 100}));
  EXPECT_FALSE(ask_alike({{0, 1}, {2, 3, 4}}, {100, 100}));
  EXPECT_FALSE(ask_alike({{0, 1}, {2, 8}}, {100, 100})) << "another host";
  EXPECT_FALSE(ask_alike({{0, 1}, {0, 2}}, {100, 100})) << "a link of both";
  EXPECT_TRUE(ask_alike({{0, 8}, {1, 9}}, {100, 100}));
  EXPECT_TRUE(ask_alike({{0, 1, 2}}, {100})) << "a single one";
}

TEST(JointLoads, HaveTheLoadsOfAllWhoShareThem) {
  const Topology topology = test::h100_nodes(1);
  const EpGroups groups(topology, 2);  // 4 groups
  const TensorSharers sharers = {{0, 1}, {2, 3}};
  const auto lists = tensor_groups(groups, sharers);
  ASSERT_EQ(lists.size(), 4U);
  EXPECT_THAT(lists[0].list(), ElementsAre(groups.gpu(0, GpuId(0)), groups.gpu(1, GpuId(0))));
  EXPECT_THAT(lists[3].list(), ElementsAre(groups.gpu(2, GpuId(1)), groups.gpu(3, GpuId(1))));
  LoadMatrix loads(8, 2);
  for (int g = 0; g < 8; ++g) {
    loads.at(GpuId(g), ExpertId(0)) = 1 + g;
    loads.at(GpuId(g), ExpertId(1)) = 10 * g;
  }
  const LoadMatrix joint = joint_loads(loads, groups, sharers);
  for (const Group& each : lists) {
    const auto sum = each[0].value + each[1].value;
    for (const GpuId gpu : each) {
      EXPECT_EQ(joint.at(gpu, ExpertId(0)), 2 + sum);
      EXPECT_EQ(joint.at(gpu, ExpertId(1)), 10 * sum);
    }
  }
  EXPECT_EQ(joint_loads(loads, groups, {}).at(GpuId(3), ExpertId(0)), 4);
  MoeModel model = test::tiny();
  model.expert_ffn = 12;
  EXPECT_EQ(with_parts_of_experts(model, 3).expert_ffn, 4);
  EXPECT_THROW(with_parts_of_experts(model, 5), Error);
}

/// A plan of a whole model of 4 layers on two nodes.
Plan plan_on_two_nodes(const Spec& spec) {
  const Topology topology = test::h100_nodes(2);
  const MoeModel model = test::whole(4);
  const RoutingTrace trace = test::tokens_for(model, 16 * 512, 512);
  Planner planner(test::policy("alltoall"), topology, model, trace, spec);
  return planner.plan(0).plan;
}

Spec spec_of(int tp, int cp, int pp, int ep) {
  Spec o;
  o.spec.parallel = {.tp = tp, .cp = cp, .pp = pp, .ep = ep, .etp = 1};
  o.spec.global_batch = 16;
  o.spec.sequence = 512;
  o.spec.distinct_microbatches = 1;
  o.state = {4, 12};
  return o;
}

// Keys and values of 4 heads of 64 go once round the other members of the group, and back with
// their gradients, which come home.
TEST(ContextExchanges, PassKeysOnceRoundInEachPass) {
  for (const int cp : {2, 4}) {
    const Plan plan = plan_on_two_nodes(spec_of(1, cp, 1, 4));
    std::map<Pass, int> found;
    for (const Op& op : plan.ops) {
      if (op.key.kind != OpKind::context_exchange) continue;
      ++found[op.key.pass];
      const std::int64_t keys = 512 / cp * (2 * 4 * 64) * 2;
      const int times = op.key.pass == Pass::forward ? cp - 1 : (cp - 1) + cp;
      EXPECT_EQ(op.exchange()->traffic.total().value,
                static_cast<std::int64_t>(op.group.size()) * times * keys)
          << cp;
      EXPECT_TRUE(op.exchange()->ring);
    }
    EXPECT_GT(found[Pass::forward], 0);
    EXPECT_EQ(found[Pass::forward], found[Pass::backward]);
  }
  for (const Op& op : plan_on_two_nodes(spec_of(1, 1, 1, 4)).ops) {
    EXPECT_NE(op.key.kind, OpKind::context_exchange);
  }
}

/// [op] whether it comes after all of `others` that have a GPU in common with it.
bool comes_after(const Plan& plan, OpId op, const std::vector<OpId>& others) {
  const auto direct = dependencies(plan);
  std::vector<bool> before(plan.ops.size());
  std::vector<OpId> open = {op};
  while (!open.empty()) {
    const OpId at = open.back();
    open.pop_back();
    for (const OpId id : direct[at.index()]) {
      if (!before[id.index()]) open.push_back(id);
      before[id.index()] = true;
    }
  }
  return std::ranges::all_of(others, [&](const OpId id) {
    const auto met = [&](const GpuId gpu) { return plan[op].group.contains(gpu); };
    return before[id.index()] || std::ranges::none_of(plan[id].group, met);
  });
}

TEST(Updates, WaitForAllSumsOfGradients) {
  for (const int zero : {0, 1, 2, 3}) {
    for (const bool overlap : {false, true}) {
      for (const int tp : {1, 2}) {
        Spec o = spec_of(tp, 1, 2, 2);
        o.spec.zero = zero;
        o.spec.overlap.gradients = o.spec.overlap.parameters = overlap;
        const Plan plan = plan_on_two_nodes(o);
        std::vector<OpId> sums, updates;
        int undivided = 0;
        for (OpId id(0); id.index() < plan.ops.size(); ++id.value) {
          const OpKey& key = plan[id].key;
          const bool of_tensors = key.kind == OpKind::tensor_exchange && key.stage == Stage::reduce;
          undivided += of_tensors ? 1 : 0;
          if (key.kind == OpKind::optimizer) updates.push_back(id);
          if (of_tensors || key.kind == OpKind::gradient_sum ||
              key.kind == OpKind::gradient_exchange) {
            sums.push_back(id);
          }
        }
        EXPECT_EQ(undivided > 0, tp > 1);
        EXPECT_FALSE(sums.empty());
        ASSERT_FALSE(updates.empty());
        for (const OpId update : updates) {
          EXPECT_TRUE(comes_after(plan, update, sums)) << zero << " " << overlap << " " << tp;
        }
      }
    }
  }
}

// Experts of FSDP x EP are divided among all replicas by themselves, whatever ZeRO says.
TEST_F(IterationMemoryTest, ExpertsThatAPolicySharesAreNotSharedAgain) {
  const MoeModel model = all_chosen(2);
  const auto trace = test::tokens_for(model, 8 * tokens_of_gpu, tokens_of_gpu);
  const auto state = [&](const char* policy, int zero, MemoryPart part) {
    Spec o = options(PipelineKind::one_f_one_b, 1, 1, 1);
    o.spec.parallel.ep = 4;
    o.spec.zero = zero;
    Planner planner(test::policy(policy), topology_, model, trace, o);
    return planner.plan(0).memory.peaks[0].use.of(part).value;
  };
  EXPECT_EQ(state("alltoall", 0, MemoryPart::gathered), 0);
  // Two experts in the layer at work, and in the next one: weights and gradients of 2 bytes.
  EXPECT_EQ(state("fsdp-ep", 0, MemoryPart::gathered), 2 * 2 * (2 + 2) * model.expert_parameters());
  std::int64_t dense = 0;
  for (const char* const policy : {"alltoall", "fsdp-ep"}) {
    const bool shared = std::string(policy) == "fsdp-ep";
    const std::int64_t all = state(policy, 0, MemoryPart::optimizer);
    const std::int64_t experts =
        std::int64_t{2} * (shared ? 1 : 2) * model.expert_parameters() * 12;
    dense = all - experts;  // on each GPU, divided among 8 with ZeRO
    EXPECT_GT(dense, 0);
    EXPECT_NEAR(static_cast<double>(state(policy, 1, MemoryPart::optimizer)),
                static_cast<double>(dense / 8 + (shared ? experts : experts / 2)), 16)
        << policy;
  }
}

}  // namespace
}  // namespace moesim
