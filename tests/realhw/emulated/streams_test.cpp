// SPDX-License-Identifier: Apache-2.0
// What the streams of a device ask of CUDA's runtime, which results do not show.
#include <gtest/gtest.h>

#include "realhw/cuda/check.h"
#include "realhw/cuda/cuda_streams.h"
#include "realhw/cuda/device_memory.h"
#include "tests/realhw/emulated/runtime.h"

namespace moesim::cuda {
namespace {

std::size_t streams_made() {
  auto& runtime = emulated::Runtime::get();
  return runtime.locked([&] { return runtime.streams_made(); });
}

/// A GPU has eight hardware queues: a stream that nobody uses would share one with a stream in use.
TEST(EmulatedStreams, AreMadeWhenTheyAreUsed) {
  const std::size_t before = streams_made();
  {
    CudaStreams streams;
    EXPECT_EQ(streams_made() - before, 1u) << "the origin of captures";
    const cudaStream_t ep = streams[Stream::ep];
    EXPECT_EQ(streams_made() - before, 2u);
    EXPECT_EQ(streams[Stream::ep], ep);
    EXPECT_EQ(streams_made() - before, 2u);
  }
  EXPECT_EQ(streams_made(), before);
}

TEST(EmulatedStreams, RunWhatWasCapturedWhenItIsReplayed) {
  CudaStreams streams;
  const DeviceMemory memory(sizeof(int));
  const int& value = *reinterpret_cast<const int*>(memory.data());
  streams.begin_capture();
  check(cudaMemsetAsync(memory.data(), 1, sizeof value, streams[Stream::ep]));
  streams.end_capture();
  EXPECT_NE(value, 0x01010101);
  streams.replay();
  streams.synchronize();
  EXPECT_EQ(value, 0x01010101);
}

}  // namespace
}  // namespace moesim::cuda
