// SPDX-License-Identifier: Apache-2.0
// What the publication of FSEP says of volumes, memory and planning times, through whole plans.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "sim/mechanism/placement/fsep/fsep_planner.h"
#include "tests/mechanism/placement/fsep/fsep_steps.h"

namespace moesim {
namespace {

struct PublishedShape {
  const char* model;
  int slots;
  std::int64_t parameters, restore, chunk;  // Psi, V in bytes, bytes
};

class PublishedVolume : public testing::TestWithParam<PublishedShape> {};

TEST_P(PublishedVolume, OfThePlanAndItsMemory) {
  const auto& [name, slots, psi, volume, chunk] = GetParam();
  const MoeModel model = read_moe_model(data_file("models/moe", name));
  ASSERT_EQ(model.expert_parameters(), psi);
  const RoutingTrace trace = trace_of(model, 32, 2, 2, [](int) { return 0; });
  const FsepSteps replay(fmt::format("{{kind: fsep, slots: {}}}", slots), laer_a100(), model, trace,
                         32);
  for (const PlannedStep& step : replay.plans) {
    std::map<int, std::vector<std::int64_t>> sent, received;  // [layer][gpu]
    for (const Op& op : step.plan.ops) {
      if (op.stream != Stream::param) continue;
      const ByteMatrix& traffic = op.exchange()->traffic;
      EXPECT_EQ(traffic.unit(), Bytes(chunk));
      std::vector<std::int64_t> off_node(4);
      auto& out = sent[op.key.layer];
      auto& in = received[op.key.layer];
      out.resize(32), in.resize(32);
      for (int from = 0; from < 32; ++from) {
        EXPECT_EQ(traffic.row(GpuId(from)).size(), 32u);  // to itself too
        for (const auto& entry : traffic.row(GpuId(from))) {
          if (entry.to.value == from) continue;
          const std::int64_t bytes = traffic.bytes(entry).value;
          out[static_cast<std::size_t>(from)] += bytes;
          in[entry.to.index()] += bytes;
          if (entry.to.value / 8 != from / 8) off_node[static_cast<std::size_t>(from / 8)] += bytes;
        }
      }
      EXPECT_THAT(off_node, testing::Each(8 * slots * psi * 2 / 32 * 24));
    }
    ASSERT_EQ(sent.size(), 2u);  // layers
    for (int layer = 0; layer < 2; ++layer) {
      EXPECT_THAT(sent[layer], testing::Each(3 * volume));  // two restores and a reduce
      EXPECT_THAT(received[layer], testing::Each(3 * volume));
    }
    for (const MemoryPeak& gpu : step.memory.peaks) {
      const Bytes kept = gpu.use.of(MemoryPart::weights) + gpu.use.of(MemoryPart::gradients) +
                         gpu.use.of(MemoryPart::optimizer);
      EXPECT_EQ(kept.value, 2 * 16 * model.experts * psi / 32);  // of two layers
      // Two layers' weights, two gradients and a receive buffer, `slots` experts each.
      EXPECT_EQ(gpu.use.of(MemoryPart::gathered), Bytes(5 * slots * psi * 2));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, PublishedVolume,
    testing::Values(PublishedShape{"mixtral-8x7b-e8k2", 2, 176'160'768, 682'622'976, 11'010'048},
                    PublishedShape{"mixtral-8x7b-e16k4", 4, 88'080'384, 682'622'976, 5'505'024},
                    PublishedShape{"mixtral-8x22b-e8k2", 2, 301'989'888, 1'170'210'816, 18'874'368},
                    PublishedShape{"mixtral-8x22b-e16k4", 4, 150'994'944, 1'170'210'816,
                                   9'437'184}));

TEST(FsepPlacement, InterNodeBytesOfTheReferenceCluster) {
  const MoeModel model = read_moe_model(data_file("models/moe", "mixtral-8x7b-e8k2"));
  const RoutingTrace trace = trace_of(model, 32, 1, 1, [](int) { return 0; });
  const auto out_of_node_0 = [&](const std::string& placement, int ep) {
    const FsepSteps replay(placement, laer_a100(), model, trace, ep);
    const ByteMatrix& traffic =
        replay.plans[0].layers[0].decision.gather[0].traffic;  // one restore or all-gather
    std::int64_t bytes = 0;
    for (int from = 0; from < 8; ++from) {
      for (const auto& entry : traffic.row(GpuId(from))) {
        if (entry.to.value >= 8) bytes += traffic.bytes(entry).value;
      }
    }
    return bytes;
  };
  EXPECT_EQ(out_of_node_0("{kind: fsep, slots: 2}", 32), 4'227'858'432);  // 4.228 GB
  EXPECT_EQ(out_of_node_0("fsdp-ep", 4), 2'466'250'752);                  // 4 rings x 616.56 MB
}

TEST(FsepPlacement, PlanningTakesThePublishedTimeAndIsHidden) {
  EXPECT_DOUBLE_EQ(published_planning_time(64, 1).value, 0.49e-3);
  EXPECT_DOUBLE_EQ(published_planning_time(1024, 16).value, 282e-3);
  EXPECT_DOUBLE_EQ(published_planning_time(512, 4).value, 33.6e-3);
  EXPECT_NEAR(published_planning_time(90, 1).value, 0.788e-3, 0.01e-3);  // between 0.49 and 1.29
  EXPECT_DOUBLE_EQ(published_planning_time(8, 2).value, 0.52e-3);
  EXPECT_DOUBLE_EQ(published_planning_time(4096, 32).value, 282e-3);
  const MoeModel model = fsep_model();
  const RoutingTrace trace = trace_of(model, 8, 2, 2, [](int) { return 0; });
  const auto replay = [&](const std::string& params) {
    return FsepSteps("{kind: fsep, slots: 2" + params + "}", bare_nodes(1, 8), model, trace, 8);
  };
  const FsepSteps hidden = replay("");
  EXPECT_EQ(hidden.plans[0].planning(), Seconds(0));
  EXPECT_DOUBLE_EQ(hidden.plans[1].planning().value, 2 * 0.52e-3);  // two layers
  EXPECT_EQ(replay(", planner: flex").plans[1].planning(), Seconds(0));
  const auto host_work = [](const PlannedStep& step) {
    std::size_t gpus = 0;
    for (const Op& op : step.plan.ops) {
      gpus += op.key.kind == OpKind::planning ? op.group.size() : 0;
    }
    return gpus;
  };
  EXPECT_EQ(host_work(hidden.plans[1]), 0u);
  EXPECT_EQ(host_work(replay(", planning: blocks, planning_time: 1 ms").plans[1]), 2u * 8);
}

}  // namespace
}  // namespace moesim
