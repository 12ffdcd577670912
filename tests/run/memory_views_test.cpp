// SPDX-License-Identifier: Apache-2.0
#include "sim/run/memory_views.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moesim {
namespace {

/// Of two GPUs, the second of which is the fuller.
struct TwoPeaks {
  StepMemory memory{MemoryPeaks(2)};
  GpuModels gpus;

  TwoPeaks() {
    for (int gpu : {0, 1}) {
      auto model = std::make_shared<GpuModel>();
      model->memory = Bytes(1000 + gpu);
      gpus.push_back(std::move(model));
      MemoryPeak& peak = memory.peaks[static_cast<std::size_t>(gpu)];
      peak.use.of(MemoryPart::weights) = Bytes(30 + 51 * gpu);
      peak.stage = 3 * gpu;
    }
  }
};

TEST(MemoryViews, TheFullestGpuIsToldWithTheMeanOfAll) {
  const TwoPeaks two;
  const FullestGpu told = fullest_of(two.memory, two.gpus);
  EXPECT_EQ(told.gpu, GpuId(1));
  EXPECT_EQ(told.peak, Bytes(81));
  EXPECT_EQ(told.mean, Bytes(56)) << "55.5 is rounded";
  EXPECT_EQ(told.memory, Bytes(1001));
  EXPECT_THAT(stages_of(two.memory), testing::ElementsAre(0, 3));
}

TEST(MemoryViews, OnlyAGpuThatServesHasACache) {
  TwoPeaks two;
  EXPECT_EQ(peak_of(two.memory, GpuId(0), two.gpus).parts.size(), 8U);
  two.memory.peaks[0].use.of(MemoryPart::cache) = Bytes(1);
  const FullestGpu told = peak_of(two.memory, GpuId(0), two.gpus);
  ASSERT_EQ(told.parts.size(), 9U);
  EXPECT_EQ(told.parts[0], (NamedBytes{"weights", Bytes(30)}));
  EXPECT_EQ(told.parts[8].bytes, Bytes(1));
  EXPECT_EQ(told.peak, Bytes(31));
}

}  // namespace
}  // namespace moesim
