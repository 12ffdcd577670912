// SPDX-License-Identifier: Apache-2.0
// chunks: auto, the degree of pipelining that is predicted to be the fastest.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/base/data_files.h"
#include "sim/planner/layer/chunk_count.h"
#include "tests/planner/iteration/chunks.h"

namespace moesim {
namespace {

Topology behind_nics(int gigabytes, int latency_us) {
  return std::move(
      parse_topology(
          fmt::format("source: test\nexchange_overhead: 10 us\nnodes: 4\nnode:\n  gpu: h100-sxm\n"
                      "  gpus: 2\n  nvlink: {{kind: switch, bandwidth: 400 GB/s, latency: 1 us}}\n"
                      "  nics: {{count: 2, bandwidth: {} GB/s, latency: {} us}}\n"
                      "fabric: {{kind: switch}}\n",
                      gigabytes, latency_us),
          "test.yaml")
          .topology);
}

/// The plan of one layer, and how long it takes.
struct Planned {
  std::size_t chunks;
  double time;
};

Planned planned(const SystemSpec& system, const Topology& topology, const MoeModel& model,
                std::int64_t tokens) {
  const RoutingTrace trace = test::tokens_for(model, 8 * tokens, tokens);
  PlannerOptions options;
  options.ep = 8;
  options.layers = {0};
  const Batches batches = make_batches(trace, {8, tokens, 1});
  Planner planner(system, topology, model, trace, options);
  const PlannedStep plan = planner.plan(batches.batches[0], 0);
  const auto gpu =
      std::make_shared<const GpuModel>(read_gpu_model(data_file("models/gpu", "h100-sxm")));
  return {std::max<std::size_t>(plan.layers[0].chunks.size(), 1),
          make_port_backend(topology, GpuModels(8, gpu))->run(plan.plan).makespan.value};
}

SystemSpec with_chunks(const std::string& dispatch, const std::string& chunks) {
  return parse_system(
      "name: test\nsource: test\nrouting: identity\nplacement: contiguous\n"
      "dispatch: " +
          dispatch + "\nschedule: {kind: sequential, chunks: " + chunks + "}\n",
      "test");
}

TEST(AutomaticChunks, ClosedFormOfALayer) {
  const auto time = [](int r, double before, double experts, double after) {
    return time_in_chunks(r, Seconds(before), Seconds(experts), Seconds(after)).value;
  };
  EXPECT_DOUBLE_EQ(time(1, 1, 3, 2), 6);
  EXPECT_DOUBLE_EQ(time(2, 1, 3, 2), 1 + 6 + 2);   // experts bind
  EXPECT_DOUBLE_EQ(time(2, 5, 1, 5), 20);          // exchanges do
  EXPECT_DOUBLE_EQ(time(3, 4, 3, 1), 12 + 3 + 1);  // the last chunk arrives late
  EXPECT_DOUBLE_EQ(time(3, 1, 3, 4), 1 + 3 + 12);  // combines begin late
}

/// GB/s of a NIC, its latency, tokens of a rank, width of an expert, dispatch.
using AutomaticCase = std::tuple<int, int, int, int, const char*>;
class AutomaticChunks : public testing::TestWithParam<AutomaticCase> {};
INSTANTIATE_TEST_SUITE_P(Grid, AutomaticChunks,
                         testing::Combine(testing::Values(2, 50, 400), testing::Values(2, 200),
                                          testing::Values(256, 8192), testing::Values(512, 8192),
                                          testing::Values("alltoall",
                                                          "{kind: tutel, padding: max}")));

TEST_P(AutomaticChunks, AreAsFastAsTheBestDegree) {
  const auto& [nic, latency, tokens, ffn, dispatch] = GetParam();
  const Topology topology = behind_nics(nic, latency);
  MoeModel model = test::tiny();
  model.hidden = 2048;
  model.expert_ffn = ffn;
  double best = 1e9;
  std::string table;
  for (const int chunks : ChunkCount::degrees) {
    const double time =
        planned(with_chunks(dispatch, std::to_string(chunks)), topology, model, tokens).time;
    best = std::min(best, time);
    table += fmt::format(" {}: {:.6f}", chunks, time);
  }
  const Planned chosen = planned(with_chunks(dispatch, "auto"), topology, model, tokens);
  EXPECT_LE(chosen.time, 1.02 * best) << chosen.chunks << " of" << table;
}

TEST(AutomaticChunks, TakeTheDegreeThatPays) {
  MoeModel model = test::tiny();
  model.hidden = 2048;
  model.expert_ffn = 8192;
  const auto chunks = [&](int latency, int tokens) {
    return planned(with_chunks("alltoall", "auto"), behind_nics(50, latency), model, tokens).chunks;
  };
  EXPECT_EQ(chunks(2000, 64), 1u);  // each chunk would pay 2 ms
  EXPECT_GT(chunks(2, 8192), 1u);
}

TEST(AutomaticChunks, LeaveAloneWhatCannotBeCut) {
  const SystemSpec system = read_system(data_file("models/system", "trt-llm"),
                                        {parse_override("schedule={kind: overlap, chunks: auto}")});
  EXPECT_EQ(planned(system, behind_nics(50, 2), test::tiny(), 512).chunks, 1u);
}

TEST(AutomaticChunks, HaveNoOtherKeys) {
  for (const char* const key : {"chunk: partners", "streamed: true"}) {
    try {
      with_chunks("alltoall", std::string("auto, ") + key);
      FAIL();
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), testing::HasSubstr("has no effect with chunks: auto"));
    }
  }
}

}  // namespace
}  // namespace moesim
