// SPDX-License-Identifier: Apache-2.0
// A cluster of known costs is calibrated from its simulated times, and the files that are written
// tell these costs again.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "realhw/calibrate/cluster_file.h"
#include "realhw/calibrate/kernel_plans.h"
#include "sim/base/data_files.h"
#include "sim/plan/exchange_time.h"
#include "sim/topology/reader.h"
#include "tests/realhw/calibrate/simulated_times.h"

namespace moesim {
namespace {

struct Costs {
  double nvlink, nic;                  // GB/s
  double nvlink_latency, nic_latency;  // us
  double exchange, peer;               // us
};

std::string cluster_text(const Costs& c) {
  return fmt::format(
      "name: t\nexchange_overhead: {} us\npeer_overhead: {} us\nnodes: 2\nnode:\n"
      "  gpu: h100-sxm\n  gpus: 4\n"
      "  nvlink: {{kind: switch, bandwidth: {} GB/s, latency: {} us}}\n"
      "  nics: {{count: 4, bandwidth: {} GB/s, latency: {} us}}\nfabric: {{kind: switch}}\n",
      c.exchange, c.peer, c.nvlink, c.nvlink_latency, c.nic, c.nic_latency);
}

constexpr Costs stated{100, 25, 0, 0, 0, 0}, real{80, 20, 3, 6, 12, 1.5};

Topology topology_of(const Costs& costs, const std::vector<Override>& overrides = {}) {
  return parse_topology(cluster_text(costs), "t.yaml", overrides).topology;
}

GpuModels gpus_of(const GpuModel& gpu, int count) {
  return GpuModels(static_cast<std::size_t>(count), std::make_shared<const GpuModel>(gpu));
}

GpuModel h100() { return read_gpu_model(data_file("models/gpu", "h100-sxm")); }

std::string scratch(const std::string& name) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "moesim_calibrate_fit";
  std::filesystem::create_directories(folder);
  return folder / name;
}

/// The stated cluster as calibrated from times of the real one.
struct Calibrated {
  explicit Calibrated(Noise noise) : plans(exchange_plans(topology_of(stated), {})) {
    const Topology there = topology_of(real);
    for (const ExchangePlan& plan : plans) {
      add_simulated(there, gpus_of(h100(), 8), plan.micro, 15, noise, times);
    }
    fit = fit_exchanges(topology_of(stated), plans, times);
  }
  Topology written(const std::string& name, const std::vector<Override>& more = {}) const {
    const CalibrationFiles files(scratch(name));
    write_calibration(files, fit, {}, {});
    auto overrides = more;
    overrides.push_back({"calibration", files.cluster(), ""});
    return topology_of(stated, overrides);
  }
  std::vector<ExchangePlan> plans;
  Times times;
  ExchangeFit fit;
};

TEST(ExchangeFit, RecoversTheCostsOfACluster) {
  for (const Noise noise : {Noise{}, Noise{0.02, 9}}) {
    const Calibrated c(noise);
    EXPECT_NEAR(c.fit.exchange_overhead.value * 1e6, real.exchange, 0.02 * real.exchange);
    EXPECT_NEAR(c.fit.peer_overhead * 1e6, real.peer, 0.25 * real.peer);
    ASSERT_EQ(c.fit.classes.size(), 2u);
    EXPECT_EQ(c.fit.classes[0].link_class, "nic");
    EXPECT_EQ(c.fit.classes[1].link_class, "nvlink");
    EXPECT_EQ(c.fit.classes[0].nominal, BytesPerSecond(25e9));
    const auto rate = [](const ClassFit& f) { return f.fit.knots.back().point.rate.value / 1e9; };
    EXPECT_NEAR(rate(c.fit.classes[0]), real.nic, 0.03 * real.nic);
    EXPECT_NEAR(rate(c.fit.classes[1]), real.nvlink, 0.03 * real.nvlink);
  }
}

TEST(ExchangeFit, OfOneRankHasNoExchanges) {
  const ExchangeFit none = fit_exchanges(topology_of(stated), {}, {});
  EXPECT_TRUE(none.classes.empty());
  const CalibrationFiles files(scratch("one-rank"));
  write_calibration(files, none, {}, {});
  const Topology calibrated = topology_of(stated, {{"calibration", files.cluster(), ""}});
  EXPECT_EQ(calibrated.exchange_overhead(), topology_of(stated).exchange_overhead());
}

TEST(ExchangeFit, WritesFilesThatTellTheMeasuredTimes) {
  const Calibrated c({0.02, 9});
  const Topology calibrated = c.written("mine");
  for (const ExchangeCheck& check : check_exchanges(calibrated, c.plans, c.fit, c.times)) {
    // The backend that made the times lets no two exchanges meet.
    if (check.plan.starts_with("two at once")) continue;
    EXPECT_LT(check.typical, 0.05) << check.plan;
    EXPECT_LT(std::abs(check.worst), 0.15) << check.plan;
  }
}

TEST(ExchangeFit, LetsBandwidthsBeChangedAfterwards) {
  const Calibrated c({});
  const Topology twice = c.written("twice", {{"node.nics.bandwidth", "50 GB/s", ""}});
  for (const Link& link : twice.links()) {
    if (twice.classes()[static_cast<std::size_t>(link.link_class)].name != "nic") continue;
    EXPECT_NEAR(link.bandwidth.value / 1e9, 2 * real.nic, 0.03 * 2 * real.nic);
  }
}

TEST(ExchangeFit, IsRefusedByAnotherCluster) {
  const Calibrated c({});
  c.written("other");
  const std::string path = CalibrationFiles(scratch("other")).cluster();
  try {
    parse_topology("calibration: " + path +
                       "\nnodes: 1\nnode: {gpu: h100-sxm, gpus: 2, nvlink: "
                       "{kind: mesh, bandwidth: 1 GB/s, latency: 1 us}}\n",
                   "t.yaml");
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("t.yaml:1"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("'nic'"), std::string::npos) << e.what();
  }
}

TEST(KernelFit, WritesAModelThatTellsTheMeasuredTimes) {
  const Topology topology = topology_of(stated);
  GpuModel slow = h100();
  slow.peak[DataType::fp32] = FlopsPerSecond(3e9);
  slow.memory_bandwidth = BytesPerSecond(5e9);
  const MoeModel model = tiny();
  const auto plans = kernel_plans(topology, model, {.rows = 512, .step = 2});
  Times times;
  std::vector<const MicroPlan*> list;
  for (const MicroPlan& plan : plans) {
    add_simulated(topology, gpus_of(slow, 8), plan, 9, {0.02, 9}, times);
    list.push_back(&plan);
  }
  const auto fits = fit_kernels(topology, list, {{"h100-sxm", h100()}}, {1.5, 1.25}, times);
  ASSERT_EQ(fits.size(), 1u);
  EXPECT_GT(fits.begin()->second.rejected, 0);
  const CalibrationFiles files(scratch("kernels"));
  write_calibration(files, {}, fits, {});
  const Topology calibrated = topology_of(stated, {{"calibration", files.cluster(), ""}});
  const GpuModel read = read_gpu_model(calibrated.gpu_model(GpuId(3)));
  EXPECT_EQ(read.memory, slow.memory);
  EXPECT_NEAR(read.overlap.compute, 1.5, 1e-9);
  EXPECT_NEAR(read.overlap.communication, 1.25, 1e-9);
  const auto expect_near = [&](const Kernel& kernel, const std::string& op, double part) {
    const double exact = slow.time(kernel).value;
    EXPECT_NEAR(read.time(kernel, *find_op_type(op)).value, exact, part * exact) << op;
  };
  expect_near(GroupedGemm{{16, 16, 16, 16}, 256, 128, model.weights}, "fc1", 0.03);
  expect_near(GroupedGemm{{100}, 256, 128, model.weights}, "fc1", 0.03);
  expect_near(GroupedGemm{{4096}, 256, 128, model.weights}, "fc1-wgrad", 0.05);  // beyond
  expect_near(GroupedGemm{{10, 90, 0, 40}, 256, 128, model.weights}, "fc1", 0.1);
  expect_near(MemoryBound{Bytes(40000), Bytes(40000)}, "sort", 0.05);
  expect_near(MemoryBound{Bytes(1 << 20), Bytes(1 << 20)}, "relay", 0.05);
}

TEST(OverlapFit, RecoversTheFactors) {
  const Topology topology = topology_of(real);
  GpuModel gpu = h100();
  gpu.peak[DataType::fp32] = FlopsPerSecond(20e9);
  gpu.overlap = {1.4, 1.2};
  for (const Seconds exchange : {Seconds(0.002), Seconds(0.02)}) {  // shorter, longer than kernels
    const MicroPlan plan = overlap_plan(topology, tiny(), {.exchange = exchange});
    Times times;
    add_simulated(topology, gpus_of(gpu, 8), plan, 3, {}, times);
    const OverlapFit fit = fit_overlap(plan, times);
    if (fit.compute.kept > 0) {
      EXPECT_NEAR(fit.factors.compute, 1.4, 0.02);
    }
    if (fit.communication.kept > 0) {
      EXPECT_NEAR(fit.factors.communication, 1.2, 0.02);
    }
    EXPECT_GT(exchange.value > 0.01 ? fit.compute.kept : fit.communication.kept, 0);
  }
}

}  // namespace
}  // namespace moesim
