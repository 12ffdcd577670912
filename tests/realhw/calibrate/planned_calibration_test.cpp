// SPDX-License-Identifier: Apache-2.0
// What a calibration of two GPUs measures by its flags, and the files that it writes.
#include "realhw/calibrate/planned_calibration.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "realhw/calibrate/cluster_file.h"
#include "realhw/calibrate/kernel_plans.h"
#include "sim/base/files.h"
#include "tests/realhw/calibrate/clusters.h"

namespace moesim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

CalibrationInputs of_two_gpus() {
  CalibrationInputs in;
  in.topology = "hiermoe-a6000";
  in.model = "tiny-moe";
  in.set = {"topology.nodes=1", "model.hidden=64", "topology.node.gpus=2"};
  in.rows = 1;
  in.longest = 0.001;
  return in;
}

const MicroPlan& plan_of(const PlannedCalibration& planned, const std::string& name) {
  const auto plans = planned.plans();
  const auto found = std::ranges::find(plans, name, &MicroPlan::name);
  if (found == plans.end()) throw std::logic_error("no plan " + name);
  return **found;
}

/// Of the largest all-to-all, what a GPU sends to the other one, at 20 GB/s.
std::int64_t largest_exchange(const CalibrationInputs& inputs) {
  CalibrationInputs with_rate = inputs;
  with_rate.set.push_back("topology.node.pcie.socket_link.bandwidth=20 GB/s");
  const PlannedCalibration planned(with_rate);
  const Op& op = plan_of(planned, "alltoall between sockets").plan.ops.back();
  return op.exchange()->traffic.at(GpuId(0), GpuId(1)).value;
}

TEST(PlannedCalibration, NamesWhatItIsOf) {
  const PlannedCalibration planned(of_two_gpus());
  EXPECT_EQ(planned.origin().topology, "hiermoe-a6000 nodes=1 node.gpus=2");
  EXPECT_EQ(planned.origin().model, "tiny-moe hidden=64");
  EXPECT_EQ(planned.origin().ranks, 2);
  EXPECT_EQ(planned.origin().shape.hidden, 64);
}

TEST(PlannedCalibration, MeasuresFewerRoundsIfItHasToBeQuick) {
  CalibrationInputs in = of_two_gpus();
  EXPECT_EQ(PlannedCalibration(in).origin().rounds.rounds, 5);
  in.quick = true;
  EXPECT_EQ(PlannedCalibration(in).origin().rounds.rounds, 2);
  in.rounds = 1;
  EXPECT_EQ(PlannedCalibration(in).origin().rounds.rounds, 1) << "as it is told";
}

TEST(PlannedCalibration, ExchangesLessIfItHasToBeQuick) {
  CalibrationInputs in = of_two_gpus();
  in.longest = 0;
  const auto most = static_cast<double>(256 << 20);
  EXPECT_NEAR(static_cast<double>(largest_exchange(in)), most, 1e-6 * most);
  in.quick = true;
  EXPECT_EQ(largest_exchange(in), 32 << 20) << "in powers of two";
  in.longest = 1;
  EXPECT_EQ(largest_exchange(in), 16 << 20) << "in a millisecond";
}

TEST(PlannedCalibration, ComputesLessIfItHasToBeQuick) {
  CalibrationInputs in = of_two_gpus();
  in.quick = true;
  in.rows = 0;
  const auto names = [&] {
    std::vector<std::string> list;
    const PlannedCalibration planned(in);
    for (const MicroPlan* plan : planned.kernels()) list.push_back(plan->name);
    return list;
  };
  EXPECT_THAT(names(),
              ElementsAre("step of 1 experts with 1 row", "step of 1 experts with 4 rows",
                          "step of 1 experts with 16 rows", "step of 1 experts with 64 rows",
                          "step of 16 experts with 1 row", "step of 16 experts with 4 rows",
                          "memory-bound kernels"));
  in.rows = 1;
  EXPECT_THAT(names(), ElementsAre("step of 1 experts with 1 row", "memory-bound kernels"));
  const auto largest_kernel = [&] {
    const PlannedCalibration planned(in);
    const Op& op = plan_of(planned, "memory-bound kernels").plan.ops.back();
    return 2 * std::get<MemoryBound>(op.kernels()->of(0)).read;
  };
  EXPECT_EQ(largest_kernel(), Bytes(4 << 20));
  in.quick = false;
  EXPECT_EQ(largest_kernel(), Bytes(64 << 20));
}

TEST(PlannedCalibration, MeasuresWhatHappensAtOnceLastAndOnlyOfSeveralGpus) {
  CalibrationInputs in = of_two_gpus();
  const PlannedCalibration two(in);
  EXPECT_EQ(two.plans().back()->name, "kernels beside exchanges");
  in.topology = "a100-nccl";
  in.set = {"topology.nodes=1", "topology.node.gpus=1"};
  const PlannedCalibration one(in);
  EXPECT_EQ(one.gpus().size(), 1u);
  EXPECT_EQ(one.plans().size(), 2u);
  EXPECT_EQ(one.plans().back()->name, "memory-bound kernels");
}

TEST(PlannedCalibration, LetsItsCallerRefuseTheTopology) {
  int gpus = 0;
  const auto check = [&](const Topology& topology) {
    gpus = topology.gpu_count();
    throw Error("not here");
  };
  EXPECT_THROW(PlannedCalibration(of_two_gpus(), check), Error);
  EXPECT_EQ(gpus, 2);
}

TEST(PlannedCalibration, SetsKeysOfTopologyAndModelAlone) {
  CalibrationInputs in = of_two_gpus();
  in.set.push_back("gpu.memory=1 GB");
  try {
    const PlannedCalibration planned(in);
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("--set gpu.memory=1 GB: neither of 'topology' nor of 'model'"));
  }
}

/// Files of a calibration, in a folder of each test: a process writes a file only once.
class WrittenCalibration : public ::testing::Test {
 protected:
  WrittenCalibration() { std::filesystem::create_directories(folder_); }
  ~WrittenCalibration() override { std::filesystem::remove_all(folder_); }
  std::string cluster_text(const ExchangeFit& fit, const std::map<std::string, GpuFit>& gpus) {
    Provenance provenance;
    provenance.date = "2026-01-02";
    write_calibration(files_, fit, gpus, provenance);
    return read_file(files_.cluster());
  }
  const char* test_ = ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) / fmt::format("moesim_{}_{}", test_, getpid());
  CalibrationFiles files_{(folder_ / "mine").string()};
};

TEST_F(WrittenCalibration, NamesTheFilesNextToIt) {
  ExchangeFit fit;
  fit.exchange_overhead.value = 12e-6;
  fit.exchange_overhead.kept = 1;
  fit.peer_overhead = 1.5e-6;
  for (const char* name : {"nic", "nvlink"}) {
    ClassFit& c = fit.classes.emplace_back();
    c.link_class = name;
  }
  const std::string text = cluster_text(fit, {{"h100", GpuFit()}, {"models/own.yaml", GpuFit()}});
  EXPECT_THAT(text, ::testing::StartsWith(
                        "# Written by `moesim-hw calibrate`; see docs/calibration.md.\n"
                        "name: \"mine\"\n"
                        "source: \"moesim-hw calibrate, 2026-01-02\"\n"
                        "exchange_overhead: 12 us  # measured; exchanges that move nothing\n"
                        "peer_overhead: 1.5 us  # measured; exchanges of one byte by their number "
                        "of peers\n"
                        "links:  # measured; files next to this one, by link class\n"
                        "  \"nic\": \"mine-nic.calib.yaml\"\n"
                        "  \"nvlink\": \"mine-nvlink.calib.yaml\"\n"
                        "gpus:  # measured; by the topology's GPU model\n"
                        "  \"h100\": \"mine-h100.gpu.yaml\"\n"
                        "  \"models/own.yaml\": \"mine-own.yaml.gpu.yaml\"\n"
                        "provenance:"));
  EXPECT_THAT(read_file(files_.link("nic")), HasSubstr("\nname: \"mine-nic\"\n"));
  EXPECT_THAT(read_file(files_.gpu("h100", false)), HasSubstr("\nname: \"mine-h100\"\n"));
}

TEST_F(WrittenCalibration, IsTakenByTheTopologyThatWasMeasured) {
  cluster_text({}, {{"a6000", GpuFit()}});
  const PlannedCalibration planned(of_two_gpus());
  EXPECT_EQ(planned.topology().gpu_model(GpuId(1)), "a6000");
  const Topology calibrated = planned.calibrated(files_);
  EXPECT_EQ(calibrated.gpu_model(GpuId(1)), files_.gpu("a6000", true));
  EXPECT_EQ(calibrated.gpu_count(), 2) << "with what was set of it";
}

TEST_F(WrittenCalibration, HasOneGpuFileIfThereIsOneModel) {
  const std::string text = cluster_text({}, {{"h100", GpuFit()}});
  EXPECT_THAT(text, HasSubstr("  \"h100\": \"mine.gpu.yaml\"\n"));
  EXPECT_THAT(text, Not(HasSubstr("links:")));
  EXPECT_THAT(read_file(files_.gpu("h100", true)), HasSubstr("\nname: \"mine\"\n"));
}

TEST_F(WrittenCalibration, LeavesTheOverheadsAsStatedIfThereAreNoExchanges) {
  EXPECT_THAT(cluster_text({}, {}), Not(HasSubstr("overhead")));
  EXPECT_THAT(read_file(files_.cluster()), Not(HasSubstr("gpus:")));
}

TEST_F(WrittenCalibration, NeverWritesTwoModelsToOneFile) {
  EXPECT_THROW(cluster_text({}, {{"a/own", GpuFit()}, {"b/own", GpuFit()}}), Error);
  EXPECT_TRUE(std::filesystem::is_empty(folder_)) << "not even one of them";
}

}  // namespace
}  // namespace moesim
