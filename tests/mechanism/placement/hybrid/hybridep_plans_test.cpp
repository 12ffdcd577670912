// SPDX-License-Identifier: Apache-2.0
// HybridEP's domains as plans: who gathers, who exchanges, how many bytes, and when nothing does.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "sim/base/unsuitable.h"
#include "sim/plan/text.h"
#include "sim/planner/layer/count_loads.h"
#include "tests/mechanism/placement/hybrid/hybrid_case.h"
#include "tests/mechanism/placement/hybrid/token_exchanges.h"

namespace moesim {
namespace {

std::string text_of(const PlannedStep& planned) { return to_text(planned.plan); }

TEST(HybridEpTest, PairsOfAPlanAreThoseOfTableVII) {
  for (const int gpus : {8, 16, 32}) {
    const HybridCase c = even_case(1, gpus, gpus);
    for (int s = 1; s <= gpus; s *= 2) {
      const PlannedStep planned = c.hybrid(fmt::format("domains: {}", s));
      c.prove(planned);
      const Sent tokens = between(planned, "dispatch-alltoall");
      const Sent experts = between(planned, "gather-experts");
      EXPECT_EQ(tokens.pairs, gpus * (gpus / s - 1));
      EXPECT_EQ(experts, (Sent{gpus * (s - 1), gpus * (s - 1) * expert_bytes}));
      // What experts replace is missing from the tokens: D (G - S) / G per GPU.
      EXPECT_EQ(tokens.bytes, std::int64_t{gpus} * row_bytes * (gpus - s));
      EXPECT_EQ(between(planned, "reduce-gradients", Pass::backward).pairs, experts.pairs);
    }
  }
}

// By hand: every rank has each pair of 8 experts once, 28 tokens and 56 rows; 56 (8
// - S) / 8 of them leave it; it gathers S - 1 experts of 1,048,576 bytes.
TEST(HybridEpTest, AllPairsOfEightExperts) {
  std::vector<int> ids;
  for (int rank = 0; rank < 8; ++rank) {
    for (int a = 0; a < 8; ++a) {
      for (int b = a + 1; b < 8; ++b) ids.insert(ids.end(), {a, b});
    }
  }
  HybridCase c(1, 8, 8, 2, 28, ids);
  c.model.hidden = 2048;  // rows of 4,096 bytes
  c.model.expert_ffn = 128;
  c.model.expert_matrices = 2;
  const std::vector<std::int64_t> rows = {49, 42, 28, 0};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const int s = 1 << i;
    const PlannedStep planned = c.hybrid(fmt::format("domains: {}", s));
    c.prove(planned);
    const Sent tokens = between(planned, "dispatch-alltoall");
    EXPECT_EQ(tokens.bytes, 8 * rows[i] * 4096);
    EXPECT_EQ(tokens.pairs, 8 * (8 / s - 1));
    EXPECT_EQ(between(planned, "gather-experts"), (Sent{8 * (s - 1), 8 * (s - 1) * 1'048'576}));
  }
}

// By hand: SF [4, 4], S [2, 4]. 16 ordered pairs gather over nodes, 48 inside them, where every
// GPU forwards the 2 experts that it holds; 16 pairs exchange tokens over nodes, none inside.
TEST(HybridEpTest, TwoLevelsForwardWhatTheFirstGathered) {
  const HybridCase c = even_case(4, 4, 16);
  const PlannedStep planned = c.hybrid("domains: [2, 4]");
  c.prove(planned);
  const auto sent = [](const Op& op) {
    Sent sum;
    const ByteMatrix traffic = op.traffic().moved();
    for (int from = 0; from < traffic.ranks(); ++from) {
      for (const auto& entry : traffic.row(GpuId(from))) {
        if (entry.to == GpuId(from)) continue;
        sum.pairs += 1;
        sum.bytes += traffic.bytes(entry).value;
      }
    }
    return sum;
  };
  const auto gathers = exchanges(planned.plan, "gather-experts");
  ASSERT_EQ(gathers.size(), 2u);
  EXPECT_EQ(sent(*gathers[0]), (Sent{16, 16 * expert_bytes}));
  EXPECT_EQ(sent(*gathers[1]), (Sent{48, 96 * expert_bytes}));
  const auto reduces = exchanges(planned.plan, "reduce-gradients");
  ASSERT_EQ(reduces.size(), 2u);
  EXPECT_EQ(sent(*reduces[0]).pairs, 48);
  EXPECT_EQ(sent(*reduces[1]).pairs, 16);
  EXPECT_EQ(between(planned, "dispatch-level-0").pairs, 16);
  EXPECT_TRUE(exchanges(planned.plan, "dispatch-level-1").empty());
}

TEST(HybridEpTest, ThePrintedRuleDeliversToo) {
  const HybridCase c = random_case(11, 4, 4);
  for (const char* const levels : {"hybridep", "{kind: hybridep, levels: flat}"}) {
    const PlannedStep planned =
        c.plan("{kind: hybridep, domains: [2, 4], match: finer, compression: 50}", levels);
    c.prove(planned);
    EXPECT_EQ(between(planned, "gather-experts").pairs, 16 + 192);
    EXPECT_EQ(between(planned, "reduce-gradients", Pass::backward).pairs, 16 + 192);
  }
  EXPECT_THROW(c.hybrid("match: finer"), Error);
}

TEST(HybridEpTest, DomainsOfOneArePlainExpertParallelism) {
  for (unsigned seed = 0; seed < 8; ++seed) {
    for (const auto& [nodes, gpus, ep] :
         {std::tuple{1, 8, 8}, std::tuple{1, 8, 4}, std::tuple{2, 4, 8}, std::tuple{2, 3, 6}}) {
      const HybridCase c = random_case(seed, nodes, gpus, ep);
      const std::string plain = text_of(c.plan("contiguous", "alltoall"));
      EXPECT_EQ(text_of(c.plan("{kind: hybridep, domains: 1, compression: 50, levels: flat}",
                               "{kind: hybridep, levels: flat}")),
                plain);
    }
  }
}

TEST(HybridEpTest, DomainsOfOneOnTwoLevelsAreHierarchicalWithoutDeduplication) {
  const HybridCase c = random_case(3, 2, 4);
  const PlannedStep planned = c.hybrid("domains: [1, 1]");
  c.prove(planned);
  const PlannedStep hops = c.plan("contiguous", "{kind: hierarchical, depth: 2, dedup: false}");
  EXPECT_EQ(planned.layers[0].counts.phases, hops.layers[0].counts.phases);
  EXPECT_EQ(planned.layers[0].counts.slots, hops.layers[0].counts.slots);
}

TEST(HybridEpTest, LevelsCarryTheBytesOfTheirDomains) {
  const HybridCase c = random_case(5, 4, 4);
  const SlotTable home = contiguous_placement(32, 16, 16).table();
  const LoadMatrix loads = count_loads(c.tokens.batch, c.tokens.step->ids(0), 32);
  for (const int outer : {1, 2, 4}) {
    for (const int inner : {1, 2, 4}) {
      const ExpertDomains domains({{4, outer}, {4, inner}});
      const PlannedStep planned = c.hybrid(fmt::format("domains: [{}, {}]", outer, inner));
      c.prove(planned);
      const auto tokens = token_exchanges(domains, loads, home, Bytes(row_bytes));
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
  const HybridCase c = random_case(6, 2, 4);
  EXPECT_TRUE(exchanges(c.hybrid("domains: [1, 4]").plan, "dispatch-level-1").empty());
  EXPECT_EQ(exchanges(c.hybrid("domains: [1, 4]").plan, "dispatch-level-0").size(), 4u);
  EXPECT_TRUE(exchanges(c.hybrid("domains: [2, 1]").plan, "dispatch-level-0").empty());
  const PlannedStep all = c.hybrid("domains: [2, 4]");
  c.prove(all);
  EXPECT_EQ(between(all, "dispatch-level-1").bytes, 0);
}

TEST(HybridEpTest, RunsOfRanksGatherByThemselves) {
  const HybridCase c = even_case(2, 4, 4, 4);
  const PlannedStep planned = c.hybrid("domains: 2");
  c.prove(planned);
  EXPECT_EQ(between(planned, "gather-experts"), (Sent{8, 8 * expert_bytes}));
  for (const Op* op : exchanges(planned.plan, "gather-experts")) {
    EXPECT_EQ(op->stream, Stream::param);
    EXPECT_EQ(op->traffic().at(GpuId(6), GpuId(7)), Bytes(expert_bytes));
    EXPECT_EQ(op->traffic().at(GpuId(1), GpuId(2)), Bytes(0));
  }
}

TEST(HybridEpTest, BackwardReducesWhatWasGatheredTheOtherWayRound) {
  const HybridCase c = random_case(7, 2, 4);
  const PlannedStep planned = c.hybrid("domains: [2, 2]");
  const auto gathers = exchanges(planned.plan, "gather-experts");
  const auto reduces = exchanges(planned.plan, "reduce-gradients");
  ASSERT_EQ(gathers.size(), 2u);
  ASSERT_EQ(reduces.size(), 2u);
  EXPECT_EQ(gathers[0]->traffic().moved().transposed(), reduces[1]->traffic().moved());
  EXPECT_EQ(gathers[1]->traffic().moved().transposed(), reduces[0]->traffic().moved());
  const OpId first(reduces[0] - planned.plan.ops.data());
  EXPECT_THAT(reduces[1]->after, testing::Contains(first));
  EXPECT_EQ(
      exchanges(c.hybrid("domains: [2, 2], backward: regather").plan, "gather-experts").size(), 4u);
  EXPECT_TRUE(exchanges(c.hybrid("domains: [2, 2]", false).plan, "reduce-gradients").empty());
}

TEST(HybridEpTest, CompressedExpertsAreEncodedOnceAndDecodedLast) {
  const HybridCase c = random_case(8, 2, 4);
  const std::string options = "domains: [2, 2], compression: 50";
  const PlannedStep planned = c.hybrid(options);
  // 3072 parameters: 2 / (50 (2 + 4)) of them, 20 pairs of 6 bytes.
  const std::int64_t message = 120;
  EXPECT_EQ(between(planned, "gather-experts"), (Sent{8 + 8, (8 * 2 + 8 * 4) * message}));
  EXPECT_EQ(between(planned, "reduce-gradients", Pass::backward).bytes, (8 * 2 + 8 * 4) * message);
  int encodes = 0, decodes = 0;
  for (const Op& op : planned.plan.ops) {
    if (op.label == "gather-experts-encode") {
      encodes += static_cast<int>(op.group.size());
      EXPECT_EQ(
          op.kernels()->each(),
          std::vector<Kernel>{(MemoryBound{Bytes(2 * 2 * expert_bytes), Bytes(2 * message)})});
    }
    if (op.label == "gather-experts-decode") {
      decodes += static_cast<int>(op.group.size());
      EXPECT_EQ(op.kernels()->each(),
                std::vector<Kernel>{
                    (MemoryBound{Bytes(6 * (message + expert_bytes)), Bytes(6 * expert_bytes)})});
    }
  }
  EXPECT_EQ(encodes, 8);
  EXPECT_EQ(decodes, 8);
  // A ring: 2 x 7/8 of an expert to the next rank.
  EXPECT_EQ(between(planned, "shared-expert", Pass::backward),
            (Sent{8, 8 * 2 * 7 * (expert_bytes / 8)}));
  const PlannedStep whole = c.hybrid(options + ", gradients: whole");
  EXPECT_EQ(between(whole, "reduce-gradients", Pass::backward).bytes,
            (8 * 2 + 8 * 4) * expert_bytes);
  EXPECT_TRUE(
      exchanges(c.hybrid("domains: [1, 1], compression: 50").plan, "shared-expert").empty());
  const PlannedStep fused = c.hybrid(options + ", fused: true");
  for (const Op& op : fused.plan.ops) {
    if (op.label != "gather-experts-decode") continue;
    const std::int64_t read = std::llround(0.55 * (message + expert_bytes));
    EXPECT_EQ(op.kernels()->each(),
              std::vector<Kernel>{
                  (MemoryBound{Bytes(6 * read), Bytes(6 * std::llround(0.55 * expert_bytes))})});
  }
}

TEST(HybridEpTest, GatheredExpertsTakeMemory) {
  const HybridCase c = random_case(9, 1, 4);  // two experts at home on each GPU
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

TEST(HybridEpTest, SizesThatDoNotDivideAreUnsuitable) {
  const HybridCase c = random_case(1, 2, 4);
  EXPECT_THROW(c.hybrid("domains: 2"), Unsuitable);
  EXPECT_THROW(c.hybrid("domains: [2, 3]"), Unsuitable);
  EXPECT_THROW(c.hybrid("domains: 2, pre_expert: 1 ms"), Error);
  EXPECT_THROW(c.hybrid("domains: [2, 2], objective: published"), Error);
  EXPECT_THROW(c.hybrid("domains: []"), Error);
}

}  // namespace
}  // namespace moesim
