// SPDX-License-Identifier: Apache-2.0
// A GPU as a device: its memory, lanes, marks and captures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/realhw/cuda/twins.h"

namespace moesim {
namespace {

TEST(CudaDevice, PoisonsAllButInitialValuesAndZeros) {
  Twins twins;
  const Place initial = twins.add(RowFormat::bfloat16, 3, 2, {1, 2, 3});
  const Place zeros = twins.add(RowFormat::float32, 4, 0);
  const Place other = twins.add(RowFormat::bfloat16, 4, 0);
  twins.program.zeroed.push_back(zeros.buffer);
  twins.run();
  twins.expect_same();
  EXPECT_THAT(twins.read(*twins.gpu, initial, 3), testing::ElementsAre(1, 2, 3));
  EXPECT_THAT(twins.read(*twins.gpu, zeros, 4), testing::Each(0));
  EXPECT_THAT(twins.read(*twins.gpu, other, 4), testing::Each(testing::IsNan()));
}

/// Two ops on two lanes, the second waiting for the first, which sleeps.
struct TwoLanes {
  TwoLanes() {
    from = twins.add(RowFormat::float32, 100, 0, std::vector<float>(100, 2.5f));
    middle = twins.add(RowFormat::float32, 100, 0);
    to = twins.add(RowFormat::float32, 100, 0);
    twins.call(HostWork{20'000'000});
    twins.call(LocalCopy{from, middle, 400});
    twins.call(LocalCopy{middle, to, 400});
    twins.gpu = make_cuda_device(0);
    twins.gpu->load(twins.program);
    twins.gpu->make_marks(4);
  }
  void put() {
    GpuDevice& gpu = *twins.gpu;
    gpu.mark(0, Lane::compute);
    gpu.run(twins.program.steps[0].before[0], Lane::compute);
    gpu.run(twins.program.steps[1].before[0], Lane::compute);
    gpu.mark(1, Lane::compute);
    gpu.wait(1, Lane::token);
    gpu.mark(2, Lane::token);
    gpu.run(twins.program.steps[2].before[0], Lane::token);
    gpu.mark(3, Lane::token);
  }
  void expect_ran(Clock::time_point started) {
    GpuDevice& gpu = *twins.gpu;
    while (!gpu.idle()) std::this_thread::yield();
    const Clock::time_point ended = Clock::now();
    for (std::size_t mark = 0; mark < 4; ++mark) EXPECT_TRUE(gpu.passed(mark));
    EXPECT_GE(gpu.time_of(1) - gpu.time_of(0), std::chrono::milliseconds(20));
    EXPECT_GE(gpu.time_of(2), gpu.time_of(1));
    EXPECT_GE(gpu.time_of(3), gpu.time_of(2));
    // The clocks agree to the width of a launch.
    EXPECT_GE(gpu.time_of(0), started - std::chrono::milliseconds(1));
    EXPECT_LE(gpu.time_of(3), ended + std::chrono::milliseconds(1));
    EXPECT_THAT(twins.read(gpu, to, 100), testing::Each(2.5f));
  }

  Twins twins;
  Place from, middle, to;
};

TEST(CudaDevice, LanesWaitForMarks) {
  TwoLanes lanes;
  for (int run = 0; run < 2; ++run) {
    lanes.twins.gpu->reset(true);
    lanes.twins.gpu->start_clock();
    const Clock::time_point started = Clock::now();
    lanes.put();
    EXPECT_FALSE(lanes.twins.gpu->passed(1));
    lanes.expect_ran(started);
  }
}

TEST(CudaDevice, ReplaysWhatWasCaptured) {
  TwoLanes lanes;
  GpuDevice& gpu = *lanes.twins.gpu;
  gpu.reset(true);
  gpu.start_clock();
  const Clock::time_point first = Clock::now();
  lanes.put();
  lanes.expect_ran(first);
  gpu.begin_capture();
  lanes.put();
  gpu.end_capture();
  for (int run = 0; run < 3; ++run) {
    gpu.reset(true);
    gpu.start_clock();
    for (std::size_t mark = 0; mark < 4; ++mark) EXPECT_FALSE(gpu.passed(mark));
    const Clock::time_point started = Clock::now();
    gpu.replay();
    EXPECT_FALSE(gpu.passed(1)) << "a mark of an earlier run";
    lanes.expect_ran(started);
  }
}

TEST(CudaDevice, ForgetsACaptureThatFailed) {
  TwoLanes lanes;
  lanes.twins.gpu->begin_capture();
  lanes.put();
  lanes.twins.gpu->drop_capture();
  EXPECT_THROW(lanes.twins.gpu->replay(), std::runtime_error);
  lanes.twins.gpu->reset(true);
  lanes.twins.gpu->start_clock();
  const Clock::time_point started = Clock::now();
  lanes.put();
  lanes.expect_ran(started);
}

}  // namespace
}  // namespace moesim
