// SPDX-License-Identifier: Apache-2.0
// A GPU as a device: its memory, streams, marks and captures.
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

/// Two ops on two streams, the second waiting for the first, which sleeps.
struct TwoStreams {
  TwoStreams() {
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
    gpu.mark(0, Stream::compute);
    gpu.run(twins.program.steps[0].before[0], Stream::compute);
    gpu.run(twins.program.steps[1].before[0], Stream::compute);
    gpu.mark(1, Stream::compute);
    gpu.wait(1, Stream::ep);
    gpu.mark(2, Stream::ep);
    gpu.run(twins.program.steps[2].before[0], Stream::ep);
    gpu.mark(3, Stream::ep);
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

TEST(CudaDevice, StreamsWaitForMarks) {
  TwoStreams streams;
  for (int run = 0; run < 2; ++run) {
    streams.twins.gpu->reset(true);
    streams.twins.gpu->start_clock();
    const Clock::time_point started = Clock::now();
    streams.put();
    EXPECT_FALSE(streams.twins.gpu->passed(1));
    streams.expect_ran(started);
  }
}

TEST(CudaDevice, ReplaysWhatWasCaptured) {
  TwoStreams streams;
  GpuDevice& gpu = *streams.twins.gpu;
  gpu.reset(true);
  gpu.start_clock();
  const Clock::time_point first = Clock::now();
  streams.put();
  streams.expect_ran(first);
  gpu.begin_capture();
  streams.put();
  gpu.end_capture();
  for (int run = 0; run < 3; ++run) {
    gpu.reset(true);
    gpu.start_clock();
    for (std::size_t mark = 0; mark < 4; ++mark) EXPECT_FALSE(gpu.passed(mark));
    const Clock::time_point started = Clock::now();
    gpu.replay();
    EXPECT_FALSE(gpu.passed(1)) << "a mark of an earlier run";
    streams.expect_ran(started);
  }
}

TEST(CudaDevice, ForgetsACaptureThatFailed) {
  TwoStreams streams;
  streams.twins.gpu->begin_capture();
  streams.put();
  streams.twins.gpu->drop_capture();
  EXPECT_THROW(streams.twins.gpu->replay(), std::runtime_error);
  streams.twins.gpu->reset(true);
  streams.twins.gpu->start_clock();
  const Clock::time_point started = Clock::now();
  streams.put();
  streams.expect_ran(started);
}

}  // namespace
}  // namespace moesim
