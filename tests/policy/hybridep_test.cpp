// SPDX-License-Identifier: Apache-2.0
// HybridEP's domains as plans: who gathers, who exchanges, how many bytes, and when nothing does.
#include "sim/policy/placement/hybrid/hybridep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "sim/balance/hybrid/domains.h"
#include "sim/engine/simgrid_backend.h"
#include "sim/plan/text.h"
#include "sim/policy/placement/hybrid/hybridep_levels.h"
#include "sim/policy/step_plan.h"
#include "sim/policy/unsuitable.h"
#include "tests/policy/random_layers.h"

namespace moesim {
namespace {

using ::testing::ElementsAre;

constexpr int hidden = 128;
constexpr std::int64_t row = 2 * hidden;               // bf16
constexpr std::int64_t parameters = 3LL * hidden * 8;  // of an expert
constexpr std::int64_t expert_bytes = parameters * 2;  // bf16

/// One step of one layer on a small cluster.
struct Case {
  Case(int nodes, int gpus_per_node, int experts, int top_k, std::int64_t per_rank,
       const std::vector<int>& ids, int degree = 0, int nvlink_gigabytes = 400)
      : topology(bare_nodes(nodes, gpus_per_node, nvlink_gigabytes)),
        ep(degree == 0 ? nodes * gpus_per_node : degree),
        tokens(nodes * gpus_per_node, experts, top_k, per_rank, ids, ep),
        trace(tokens.info, {tokens.step}) {
    model.hidden = hidden;
    model.experts = experts;
    model.top_k = top_k;
    model.expert_ffn = 8;
  }
  StepPlan plan(const std::string& placement, const std::string& dispatch, bool backward = true,
                const std::string& schedule = "{kind: overlap, gather: step}") const {
    const SystemSpec system =
        parse_system("{name: t, source: test, routing: identity, placement: " + placement +
                         ", dispatch: " + dispatch + ", schedule: " + schedule + "}",
                     "test");
    StepPlanner planner(system, topology, model, trace, {ep, {0}, backward, true});
    return planner.plan(tokens.batch, 0);
  }
  StepPlan hybrid(const std::string& options, bool backward = true) const {
    return plan("{kind: hybridep, " + options + "}", "hybridep", backward);
  }
  /// The plan delivers every token and result once.
  void prove(const StepPlan& planned) const {
    LayerRouting routing{0, {}, planned.chosen[0], &planned.layers[0].assignment()};
    for (std::size_t r = 0; r < tokens.batch.ranks.size(); ++r) {
      const auto count = static_cast<std::size_t>(tokens.batch.ranks[r][0].count);
      routing.source.insert(routing.source.end(), count, GpuId(static_cast<std::int64_t>(r)));
    }
    check_delivery(planned.plan, {routing});
  }

  Topology topology;
  int ep;
  Tokens tokens;
  RoutingTrace trace;
  MoeModel model;
};

/// Every rank has one token for every expert.
Case even(int nodes, int gpus_per_node, int experts, int ep = 0) {
  std::vector<int> ids;
  for (int i = 0; i < nodes * gpus_per_node * experts; ++i) ids.push_back(i % experts);
  return {nodes, gpus_per_node, experts, 1, experts, ids, ep};
}

Case random_case(unsigned seed, int nodes, int gpus, int ep = 0) {
  std::mt19937 random(seed);
  const int experts = 2 * nodes * gpus;
  return {nodes, gpus, experts, 2, 5, random_ids(random, 5 * nodes * gpus, experts, 2), ep};
}

/// Ordered pairs of different GPUs, and bytes between them, of the exchanges of one name.
struct Sum {
  std::int64_t pairs = 0;
  std::int64_t bytes = 0;
  bool operator==(const Sum&) const = default;
};
Sum between(const StepPlan& planned, const std::string& name, Pass pass = Pass::forward) {
  Sum sum;
  for (const Op* op : exchanges(planned.plan, name)) {
    if (op->pass != pass) continue;
    const ByteMatrix& traffic = op->exchange()->traffic;
    sum.bytes += traffic.off_diagonal().value;
    for (int from = 0; from < traffic.ranks(); ++from) {
      for (const auto& entry : traffic.row(GpuId(from))) sum.pairs += entry.to != GpuId(from);
    }
  }
  return sum;
}

std::string text_of(const StepPlan& planned) { return to_text(planned.plan); }

TEST(HybridEpTest, PairsOfAPlanAreThoseOfTableVII) {
  for (const int gpus : {8, 16, 32}) {
    const Case c = even(1, gpus, gpus);
    for (int s = 1; s <= gpus; s *= 2) {
      const StepPlan planned = c.hybrid(fmt::format("domains: {}", s));
      c.prove(planned);
      const Sum tokens = between(planned, "dispatch-alltoall");
      const Sum experts = between(planned, "gather-experts");
      EXPECT_EQ(tokens.pairs, gpus * (gpus / s - 1));
      EXPECT_EQ(experts, (Sum{gpus * (s - 1), gpus * (s - 1) * expert_bytes}));
      // What experts replace is missing from the tokens: D (G - S) / G per GPU.
      EXPECT_EQ(tokens.bytes, std::int64_t{gpus} * row * (gpus - s));
      EXPECT_EQ(between(planned, "reduce-gradients", Pass::backward).pairs, experts.pairs);
    }
  }
}

TEST(HybridEpTest, DomainsOfOneArePlainExpertParallelism) {
  for (unsigned seed = 0; seed < 8; ++seed) {
    for (const auto& [nodes, gpus, ep] :
         {std::tuple{1, 8, 8}, std::tuple{1, 8, 4}, std::tuple{2, 4, 8}, std::tuple{2, 3, 6}}) {
      const Case c = random_case(seed, nodes, gpus, ep);
      const std::string plain = text_of(c.plan("contiguous", "alltoall"));
      EXPECT_EQ(text_of(c.plan("{kind: hybridep, domains: 1, compression: 50, levels: flat}",
                               "{kind: hybridep, levels: flat}")),
                plain);
    }
  }
}

TEST(HybridEpTest, DomainsOfOneOnTwoLevelsAreHierarchicalWithoutDeduplication) {
  const Case c = random_case(3, 2, 4);
  const StepPlan planned = c.hybrid("domains: [1, 1]");
  c.prove(planned);
  const StepPlan hops = c.plan("contiguous", "{kind: hierarchical, depth: 2, dedup: false}");
  EXPECT_EQ(planned.layers[0].counts.phases, hops.layers[0].counts.phases);
  EXPECT_EQ(planned.layers[0].counts.slots, hops.layers[0].counts.slots);
}

TEST(HybridEpTest, LevelsCarryTheBytesOfTheirDomains) {
  const Case c = random_case(5, 4, 4);
  const SlotTable home = contiguous_placement(32, 16, 16).table();
  const LoadMatrix loads = count_loads(c.tokens.batch, c.tokens.step->ids(0), 32);
  for (const int outer : {1, 2, 4}) {
    for (const int inner : {1, 2, 4}) {
      const ExpertDomains domains({{4, outer}, {4, inner}});
      const StepPlan planned = c.hybrid(fmt::format("domains: [{}, {}]", outer, inner));
      c.prove(planned);
      const auto tokens = domains.token_exchanges(loads, home, Bytes(row));
      for (int level = 0; level < 2; ++level) {
        EXPECT_EQ(between(planned, fmt::format("dispatch-level-{}", level)).bytes,
                  tokens[static_cast<std::size_t>(level)].off_diagonal().value);
      }
      std::int64_t gathered = 0;
      for (const ByteMatrix& level : domains.gather_exchanges(home, Bytes(expert_bytes))) {
        gathered += level.total().value;
      }
      EXPECT_EQ(between(planned, "gather-experts").bytes, gathered);
      const Placement& placement = planned.layers[0].assignment().placement();
      EXPECT_EQ(placement.slots(), 32 * outer * inner);
    }
  }
}

TEST(HybridEpTest, ALevelThatIsOneDomainExchangesNoTokens) {
  const Case c = random_case(6, 2, 4);
  EXPECT_TRUE(exchanges(c.hybrid("domains: [1, 4]").plan, "dispatch-level-1").empty());
  EXPECT_EQ(exchanges(c.hybrid("domains: [1, 4]").plan, "dispatch-level-0").size(), 4u);
  EXPECT_TRUE(exchanges(c.hybrid("domains: [2, 1]").plan, "dispatch-level-0").empty());
  const StepPlan all = c.hybrid("domains: [2, 4]");
  c.prove(all);
  EXPECT_EQ(between(all, "dispatch-level-1").bytes, 0);
}

TEST(HybridEpTest, RunsOfRanksGatherByThemselves) {
  const Case c = even(2, 4, 4, 4);
  const StepPlan planned = c.hybrid("domains: 2");
  c.prove(planned);
  EXPECT_EQ(between(planned, "gather-experts"), (Sum{8, 8 * expert_bytes}));
  for (const Op* op : exchanges(planned.plan, "gather-experts")) {
    EXPECT_EQ(op->lane, Lane::param);
    EXPECT_EQ(op->exchange()->traffic.at(GpuId(6), GpuId(7)), Bytes(expert_bytes));
    EXPECT_EQ(op->exchange()->traffic.at(GpuId(1), GpuId(2)), Bytes(0));
  }
}

TEST(HybridEpTest, BackwardReducesWhatWasGatheredTheOtherWayRound) {
  const Case c = random_case(7, 2, 4);
  const StepPlan planned = c.hybrid("domains: [2, 2]");
  const auto gathers = exchanges(planned.plan, "gather-experts");
  const auto reduces = exchanges(planned.plan, "reduce-gradients");
  ASSERT_EQ(gathers.size(), 2u);
  ASSERT_EQ(reduces.size(), 2u);
  EXPECT_EQ(gathers[0]->exchange()->traffic.transposed(), reduces[1]->exchange()->traffic);
  EXPECT_EQ(gathers[1]->exchange()->traffic.transposed(), reduces[0]->exchange()->traffic);
  const OpId first(reduces[0] - planned.plan.ops.data());
  EXPECT_THAT(reduces[1]->after, testing::Contains(first));
  EXPECT_EQ(
      exchanges(c.hybrid("domains: [2, 2], backward: regather").plan, "gather-experts").size(), 4u);
  EXPECT_TRUE(exchanges(c.hybrid("domains: [2, 2]", false).plan, "reduce-gradients").empty());
}

TEST(HybridEpTest, CompressedExpertsAreEncodedOnceAndDecodedLast) {
  const Case c = random_case(8, 2, 4);
  const std::string options = "domains: [2, 2], compression: 50";
  const StepPlan planned = c.hybrid(options);
  // 3072 parameters: 2 / (50 (2 + 4)) of them, 20 pairs of 6 bytes.
  const std::int64_t message = 120;
  EXPECT_EQ(between(planned, "gather-experts"), (Sum{8 + 8, (8 * 2 + 8 * 4) * message}));
  EXPECT_EQ(between(planned, "reduce-gradients", Pass::backward).bytes, (8 * 2 + 8 * 4) * message);
  int encodes = 0, decodes = 0;
  for (const Op& op : planned.plan.ops) {
    if (op.name == "gather-experts-encode") {
      ++encodes;
      EXPECT_EQ(std::get<MemoryBound>(op.compute()->kernel),
                (MemoryBound{Bytes(2 * 2 * expert_bytes), Bytes(2 * message)}));
    }
    if (op.name == "gather-experts-decode") {
      ++decodes;
      EXPECT_EQ(std::get<MemoryBound>(op.compute()->kernel),
                (MemoryBound{Bytes(6 * (message + expert_bytes)), Bytes(6 * expert_bytes)}));
    }
  }
  EXPECT_EQ(encodes, 8);
  EXPECT_EQ(decodes, 8);
  // A ring: 2 x 7/8 of an expert to the next rank.
  EXPECT_EQ(between(planned, "shared-expert", Pass::backward),
            (Sum{8, 8 * 2 * 7 * (expert_bytes / 8)}));
  const StepPlan whole = c.hybrid(options + ", gradients: whole");
  EXPECT_EQ(between(whole, "reduce-gradients", Pass::backward).bytes,
            (8 * 2 + 8 * 4) * expert_bytes);
  EXPECT_TRUE(
      exchanges(c.hybrid("domains: [1, 1], compression: 50").plan, "shared-expert").empty());
}

TEST(HybridEpTest, GatheredExpertsTakeMemory) {
  const Case c = random_case(9, 1, 4);  // two experts at home on each GPU
  const auto memory = [&](const std::string& options, bool backward) {
    return c.hybrid(options, backward).layers[0].decision.memory[1];
  };
  const ExpertMemory kept = memory("domains: 2", true);
  EXPECT_EQ(kept.weights, Bytes(4 * expert_bytes));
  EXPECT_EQ(kept.gradients, Bytes(2 * 2 * parameters));
  EXPECT_EQ(kept.optimizer, Bytes(2 * 12 * parameters));
  EXPECT_EQ(kept.gathered, Bytes(2 * 2 * parameters));
  const ExpertMemory again = memory("domains: 2, backward: regather", true);
  EXPECT_EQ(again.weights, Bytes(2 * expert_bytes));
  EXPECT_EQ(again.gathered, Bytes(2 * (2 + 2) * parameters));
  EXPECT_EQ(memory("domains: 2, compression: 50", true).weights, Bytes(5 * expert_bytes));
  EXPECT_EQ(memory("domains: 1, compression: 50", true).weights, Bytes(2 * expert_bytes));
}

TEST(HybridEpTest, LevelsStopAtHosts) {
  const auto workers = [](const std::string& name, int ep, DomainLevels levels) {
    const TopologyFile file =
        read_topology(std::string(MOESIM_ROOT "/topologies/") + name + ".yaml");
    return domain_workers(file.topology, ep, levels);
  };
  EXPECT_THAT(workers("hybridep-m", 16, DomainLevels::cluster), ElementsAre(2, 8));
  EXPECT_THAT(workers("hybridep-l", 32, DomainLevels::cluster), ElementsAre(4, 8));
  EXPECT_THAT(workers("hybridep-l", 32, DomainLevels::flat), ElementsAre(32));
  EXPECT_THAT(workers("hybridep-l", 8, DomainLevels::cluster), ElementsAre(8));
  EXPECT_THAT(workers("hybridep-l", 4, DomainLevels::cluster), ElementsAre(4));
  // Sockets and pairs of the same node are one level.
  EXPECT_THAT(workers("hiermoe-a6000", 32, DomainLevels::cluster), ElementsAre(4, 8));
}

TEST(HybridEpTest, TheStreamModelGetsTheClustersBandwidths) {
  const TopologyFile file = read_topology(MOESIM_ROOT "/topologies/hybridep-m.yaml");
  const auto levels = stream_levels(file.topology, {2, 8});
  ASSERT_EQ(levels.size(), 2u);
  EXPECT_DOUBLE_EQ(levels[0].bandwidth.value, 1.25e9 / 8);  // 8 GPUs share 10 Gbit/s
  EXPECT_LE(levels[1].bandwidth.value, 16e9);
  EXPECT_GT(levels[1].bandwidth.value, 1e9);
  const Topology nodes = bare_nodes(2, 4);
  const auto even = stream_levels(nodes, {2, 4});
  EXPECT_DOUBLE_EQ(even[0].bandwidth.value, 50e9);  // a NIC each
  EXPECT_DOUBLE_EQ(even[1].bandwidth.value, 400e9);
}

TEST(HybridEpTest, PreExpertTimeIsThatOfDenseGemms) {
  const Topology nodes = bare_nodes(1, 2);  // of h100-sxm: 989.4 TFLOP/s at 0.795
  MoeModel model;
  model.hidden = 4096;
  EXPECT_EQ(pre_expert_estimate(model, nodes, 1000), Seconds(0));
  model.attention = Attention{4 * 4096 * 4096, 0};
  EXPECT_NEAR(pre_expert_estimate(model, nodes, 1 << 16).value,
              2.0 * 65536 * 4 * 4096 * 4096 / (989.4e12 * 0.795), 1e-7);
  model.shared_experts = 2;
  model.shared_ffn = 8192;
  model.expert_matrices = 2;
  EXPECT_NEAR(pre_expert_estimate(model, nodes, 1 << 16).value,
              2.0 * 65536 * (4 + 8) * 4096 * 4096 / (989.4e12 * 0.795), 1e-7);
}

TEST(HybridEpTest, SizesThatDoNotDivideAreUnsuitable) {
  const Case c = random_case(1, 2, 4);
  EXPECT_THROW(c.hybrid("domains: 2"), Unsuitable);
  EXPECT_THROW(c.hybrid("domains: [2, 3]"), Unsuitable);
  EXPECT_THROW(c.hybrid("domains: 2, pre_expert: 1 ms"), Error);
  EXPECT_THROW(c.hybrid("domains: []"), Error);
}

/// Table IV: 8 GPUs at 128 Gbit/s, one expert each. D, P_E and PE make up a model of plain GEMMs.
struct TableIv {
  std::string name;
  int hidden, ffn;  // P_E = 4 hidden x ffn bytes
  std::int64_t tokens;
  double pre_expert;
  int best;
  friend void PrintTo(const TableIv& t, std::ostream* out) { *out << t.name; }
};
class HybridEpTableIv : public testing::TestWithParam<TableIv> {};
INSTANTIATE_TEST_SUITE_P(All, HybridEpTableIv,
                         testing::Values(TableIv{"mix1", 62500, 19, 64, 0.49e-3, 2},
                                         TableIv{"mix2", 58750, 10, 64, 0.49e-3, 4},
                                         TableIv{"all1", 2350, 10, 640, 0.099e-3, 8},
                                         TableIv{"all2", 2350, 5, 640, 0.099e-3, 8}),
                         [](const auto& one) { return one.param.name; });

TEST_P(HybridEpTableIv, PortFollowsTheStreamModelToTheBestDomain) {
  const TableIv& p = GetParam();
  std::vector<int> ids;
  for (int t = 0; t < 8 * p.tokens; ++t) ids.push_back(t % 8);
  Case c(1, 8, 8, 1, p.tokens, ids, 8, 16);
  c.model.hidden = p.hidden;
  c.model.expert_ffn = p.ffn;
  c.model.expert_matrices = 2;
  c.model.attention = Attention{std::int64_t{p.hidden} * 100'000, 1};
  const auto gpu = std::make_shared<GpuModel>();  // only attention takes time
  gpu->memory_bandwidth = BytesPerSecond(1e18);
  gpu->peak[DataType::bf16] = FlopsPerSecond(
      2.0 * static_cast<double>(p.tokens * c.model.attention->parameters) / p.pre_expert);
  const auto backend = make_simgrid_backend(c.topology, GpuModels(8, gpu));
  const StreamLayer layer{.tokens = Bytes(p.tokens * p.hidden * 2),
                          .experts = Bytes(4LL * p.hidden * p.ffn),
                          .pre_expert = Seconds(p.pre_expert)};
  std::map<double, int> by_time;
  for (const int s : {1, 2, 4, 8}) {
    const double port =
        backend->run(c.hybrid(fmt::format("domains: {}", s), false).plan).makespan.value;
    const double model = domain_cost(layer, {{8, BytesPerSecond(16e9)}}, {s}).latency.value;
    EXPECT_NEAR(port / model, 1, 0.01) << s;
    by_time[port] = s;
  }
  EXPECT_EQ(by_time.begin()->second, p.best);
  const StepPlan automatic =
      c.hybrid(fmt::format("domains: auto, pre_expert: {} ms", p.pre_expert * 1e3), false);
  EXPECT_EQ(automatic.layers[0].assignment().placement().slots_on(GpuId(0)), p.best);
}

}  // namespace
}  // namespace moesim
