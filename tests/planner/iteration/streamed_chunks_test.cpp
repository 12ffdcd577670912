// SPDX-License-Identifier: Apache-2.0
// Chunks that are parts of one exchange: their closed form, and that they never cost time.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sim/analytic/analytic_backend.h"
#include "sim/engine/flow_backend.h"
#include "sim/plan/exchange_time.h"
#include "tests/planner/iteration/chunks.h"

namespace moesim {
namespace {

/// A GPU whose kernels take as long as their rows, links with overhead and latency: what a chunk
/// costs more than a part of the whole is the start of its exchange.
class StreamedChunks : public testing::Test {
 protected:
  static constexpr int ranks = 4;

  StreamedChunks() {
    model_.top_k = 1;
    model_.expert_ffn = 4096;
    tokens_ = 4096 * model_.experts;
  }
  static Topology links(int nic) {
    return std::move(
        parse_topology(
            fmt::format("source: test\nexchange_overhead: 10 us\nnodes: 4\nnode:\n  gpu: "
                        "h100-sxm\n  gpus: 1\n  nics: {{count: 1, bandwidth: {} GB/s, latency: 1 "
                        "us}}\nfabric: {{kind: switch}}\n",
                        nic),
            "test.yaml")
            .topology);
  }
  /// Of the ops from the first dispatch to the last combine of the forward pass.
  double time(const Topology& topology, int chunks, bool streamed) const {
    return time(topology, test::in_chunks("alltoall", chunks, streamed ? ", streamed: true" : ""));
  }
  /// As one kernel, in so many waves of tiles.
  double time_in_waves(const Topology& topology, int waves) const {
    return time(topology, test::in_chunks("fused", waves, ", chunk: tiles", "ideal"));
  }
  double time(const Topology& topology, const SystemSpec& system) const {
    const RoutingTrace trace = test::even_trace(model_, ranks * tokens_);
    PlannerOptions options;
    options.ep = ranks;
    options.layers = {0};
    options.backward = false;
    options.attention = false;
    const Batches batches = make_batches(trace, {ranks, tokens_, 1});
    Planner planner(system, topology, model_, trace, options);
    const Plan plan = planner.plan(batches.batches[0], 0).plan;
    const GpuModels gpus(ranks, linear_);
    const auto run = [&](const auto& backend) {
      const Timeline timeline = backend->run(plan);
      double begin = 1e9, end = 0;
      for (std::size_t i = 0; i < plan.ops.size(); ++i) {
        if (plan.ops[i].key.kind != OpKind::token_exchange) continue;
        for (const Interval& interval : timeline.ops[i]) {
          if (plan.ops[i].key.stage == Stage::dispatch)
            begin = std::min(begin, interval.start.value);
          end = std::max(end, interval.end.value);
        }
      }
      return end - begin;
    };
    const double by_port = run(make_port_backend(topology, gpus));
    EXPECT_NEAR(run(make_analytic_backend(topology, gpus)) / by_port, 1, 1e-9);
    EXPECT_NEAR(run(make_flow_backend(topology, gpus)) / by_port, 1, 1e-3);
    return by_port;
  }
  /// Without the starts of its exchanges: bytes that leave a NIC, and a NIC's rate.
  double exchange(int nic, int more = 0) const {
    const double remote = static_cast<double>(tokens_) * (ranks - 1) / ranks;
    return remote * (model_.hidden * size_of(model_.activations) + more) / (nic * 1e9);
  }
  /// Overhead and latency of an exchange: what it takes without bytes.
  static double start_of(const Topology& topology) {
    ByteMatrix nothing(Bytes(1));
    for (int from = 0; from < ranks; ++from) {
      const ByteMatrix::Entry entry{GpuId((from + 1) % ranks), 1};
      nothing.add_row({&entry, 1});
    }
    const ExchangeTime alone = price(topology, nothing)->alone;
    return (alone.overhead + alone.latency).value;
  }

  MoeModel model_ = test::tiny();
  std::int64_t tokens_;
  std::shared_ptr<const GpuModel> linear_ = std::make_shared<const GpuModel>(parse_gpu_model(
      "name: h100-sxm\nsource: test\nmemory: 80 GB\nmemory_bandwidth: 1000 TB/s\npeak: {bf16: 100 "
      "TFLOP/s, fp32: 100 TFLOP/s}\nefficiency: {gemm: 1, memory: 1}\nlaunch_overhead: 0 us\n",
      "test"));
};

/// Of r parts, with exchanges of a each way that start once, and kernels of x in all.
double in_parts(int r, double start, double a, double x) {
  // The end of a chunk's experts: the latest of all prefixes that arrived, and what was left.
  std::vector<double> computed;
  for (int i = 1; i <= r; ++i) {
    double end = 0;
    for (int j = 1; j <= i; ++j) end = std::max(end, start + j * a / r + (i - j + 1) * x / r);
    computed.push_back(end);
  }
  double lane = start + a;
  for (int i = 0; i < r; ++i) {
    lane = std::max(lane, computed[static_cast<std::size_t>(i)]) + (i == 0 ? start : 0) + a / r;
  }
  return lane;
}

TEST_F(StreamedChunks, TakeWhatTheLastPrefixTakes) {
  for (const int nic : {10, 50, 400}) {
    const Topology topology = links(nic);
    const double whole = time(topology, 1, false), start = start_of(topology);
    const double a = exchange(nic), x = whole - 2 * (start + a);  // of exchanges, of kernels
    EXPECT_GT(x, 0);
    double before = whole;
    for (const int r : {2, 4, 16}) {
      const double streamed = time(topology, r, true), lane = in_parts(r, start, a, x);
      EXPECT_NEAR(streamed / lane, 1, 1e-9) << nic << ' ' << r;
      EXPECT_LE(streamed, before * (1 + 1e-9));
      EXPECT_LE(streamed, time(topology, r, false) * (1 + 1e-9));
      EXPECT_GE(streamed, std::max(2 * (start + a), start + x));
      before = streamed;
    }
    const double limit = std::max(2 * (start + a), start + x);  // of chunks without end
    EXPECT_LE(time(topology, 64, true) - limit, start + (2 * a + x) / 64) << nic;
  }
}

/// One wave is the sum of dispatch, products and combine; waves without end are the longer of
/// exchanges and products; what is between follows the closed form.
TEST_F(StreamedChunks, OfTilesAreWavesOfOneKernel) {
  const double rows = static_cast<double>(tokens_);  // of a rank's experts
  const double up = 2.0 * model_.expert_ffn, hidden = model_.hidden;
  const double flop = 2 * rows * (hidden * up + model_.expert_ffn * hidden);
  const double x = flop / 100e12;
  for (const int nic : {10, 50, 400}) {
    const Topology topology = links(nic);
    const double start = start_of(topology), a = exchange(nic, 4);  // with the gate's weight
    EXPECT_NEAR(time_in_waves(topology, 1) / (2 * (start + a) + x), 1, 1e-6) << nic;
    for (const int waves : {2, 4, 16}) {
      EXPECT_NEAR(time_in_waves(topology, waves) / in_parts(waves, start, a, x), 1, 1e-6)
          << nic << ' ' << waves;
    }
    const double limit = std::max(2 * (start + a), start + x);
    const double many = time_in_waves(topology, 256);
    EXPECT_GE(many, limit * (1 - 1e-9)) << nic;
    EXPECT_LE(many - limit, start + (2 * a + x) / 256) << nic;
  }
}

}  // namespace
}  // namespace moesim
