// SPDX-License-Identifier: Apache-2.0
// The emulated GPU finds what a kernel does wrong, and nothing in kernels that are right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "realhw/cuda/device_memory.h"
#include "tests/realhw/emulated/emulated.h"
#include "tests/realhw/emulated/probes.h"

namespace moesim::emulated {
namespace {

using cuda::check;
using cuda::DeviceMemory;

/// Floats 1, 2, 3 and so on in memory of the GPU.
struct Floats {
  explicit Floats(std::size_t count) : memory(count * sizeof(float)) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i + 1);
    check(cudaMemcpy(memory.data(), values.data(), memory.size(), cudaMemcpyHostToDevice));
    check(cudaStreamSynchronize(nullptr));
  }
  float* data() const { return reinterpret_cast<float*>(memory.data()); }
  std::vector<float> values() const {
    std::vector<float> all(memory.size() / sizeof(float));
    check(cudaMemcpy(all.data(), memory.data(), memory.size(), cudaMemcpyDeviceToHost));
    return all;
  }
  DeviceMemory memory;
};

/// Kinds of the faults that one probe's launch has, over several orders.
template <class LaunchProbe>
std::set<std::string> faults_of(LaunchProbe launch) {
  std::set<std::string> kinds;
  take_faults();
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    set_block_seed(seed);
    launch();
    check(cudaStreamSynchronize(nullptr));
    for (const Fault& fault : take_faults()) kinds.insert(name_of(fault.kind));
  }
  set_block_seed(0);
  return kinds;
}

std::set<std::string> faults_of_blocks(Probe probe) {
  return faults_of([=] {
    const Floats in(700), sums(3);
    launch_sum_blocks(probe, in.data(), 700, sums.data(), nullptr);
    if (probe != Probe::right) return check(cudaStreamSynchronize(nullptr));
    EXPECT_THAT(sums.values(), testing::ElementsAre(256 * 257 / 2, 512 * 513 / 2 - 256 * 257 / 2,
                                                    700 * 701 / 2 - 512 * 513 / 2));
  });
}

std::set<std::string> faults_of_warps(Probe probe, bool half) {
  return faults_of([=] {
    const Floats in(512), sums(16);
    launch_sum_warps(probe, in.data(), 16, sums.data(), half, nullptr);
    const std::vector<float> values = sums.values();
    // 1 to 32 add up to 528. Half has 11 bits; bfloat16 has 8, and rounds every sum.
    if (probe != Probe::right) return;
    EXPECT_EQ(values[0], 528);
    EXPECT_NEAR(values[15], 15888, half ? 8 : 128);
  });
}

std::set<std::string> faults_of_rows(Probe probe) {
  return faults_of([=] {
    const Floats x(5 * 301);
    const DeviceMemory total(4);
    check(cudaMemsetAsync(total.data(), 0, 4, nullptr));
    launch_scale_rows(probe, x.data(), 5, 301, 2, reinterpret_cast<unsigned*>(total.data()),
                      nullptr);
    const std::vector<float> values = x.values();
    if (probe != Probe::right) return;
    EXPECT_EQ(values[1504], 2 * 1505);
  });
}

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(EmulatedProbes, RightKernelsHaveNoFaults) {
  EXPECT_THAT(faults_of_blocks(Probe::right), IsEmpty());
  EXPECT_THAT(faults_of_warps(Probe::right, true), IsEmpty());
  EXPECT_THAT(faults_of_warps(Probe::right, false), IsEmpty());
  EXPECT_THAT(faults_of_rows(Probe::right), IsEmpty());
}

TEST(EmulatedProbes, FaultsOfBlocksAreFound) {
  EXPECT_THAT(faults_of_blocks(Probe::no_barrier), ElementsAre("race"));
  EXPECT_THAT(faults_of_blocks(Probe::not_written), ElementsAre("uninitialized"));
  EXPECT_THAT(faults_of_blocks(Probe::behind_shared), ElementsAre("out of bounds"));
  EXPECT_THAT(faults_of_blocks(Probe::divergent), ElementsAre("barrier"));
}

TEST(EmulatedProbes, FaultsOfWarpsAreFound) {
  EXPECT_THAT(faults_of_warps(Probe::no_warp_barrier, false), Contains("race"));
  EXPECT_THAT(faults_of_warps(Probe::missing_lane, false), ElementsAre("barrier"));
}

TEST(EmulatedProbes, FaultsOfRowsAreFound) {
  EXPECT_THAT(faults_of_rows(Probe::behind_end), Contains("out of bounds"));
  EXPECT_THAT(faults_of_rows(Probe::wrong_stride), ElementsAre("out of bounds"));
  EXPECT_THAT(faults_of_rows(Probe::every_block), ElementsAre("race"));
  EXPECT_THAT(faults_of_rows(Probe::same_element), ElementsAre("race"));
  EXPECT_THAT(faults_of_rows(Probe::misaligned), Contains("misaligned"));
}

TEST(EmulatedProbes, FaultsOfAddressesAreFound) {
  std::vector<float> host(512);
  const DeviceMemory total(4);
  auto* at = reinterpret_cast<unsigned*>(total.data());
  EXPECT_THAT(
      faults_of([&] { launch_scale_rows(Probe::right, host.data(), 1, 9, 2, at, nullptr); }),
      ElementsAre("host memory"));
  float* freed = Floats(512).data();
  EXPECT_THAT(faults_of([&] { launch_scale_rows(Probe::right, freed, 1, 9, 2, at, nullptr); }),
              ElementsAre("use after free"));
  EXPECT_THAT(faults_of([&] { cudaMemsetAsync(total.data(), 0, 5, nullptr); }),
              ElementsAre("out of bounds"));
  EXPECT_THAT(faults_of([&] {
                launch_too_many(freed, nullptr);
                EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
              }),
              ElementsAre("launch"));
}

/// After every other test: no kernel, copy or product of it did anything wrong.
class NoFaults : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo&) override {
    cudaStreamSynchronize(nullptr);
    for (const Fault& fault : take_faults()) {
      ADD_FAILURE() << name_of(fault.kind) << ": " << fault.text;
    }
  }
};
const bool listens = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new NoFaults);
  return true;
}();

}  // namespace
}  // namespace moesim::emulated
