// SPDX-License-Identifier: Apache-2.0
// Every kernel on a GPU against the CPU. Exits with 77 if there is no GPU.
#include <gtest/gtest.h>

#include <cstdio>

#include "realhw/cuda/cuda_device.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (const auto gpus = moesim::find_gpus(); gpus.count == 0) {
    std::printf("skipped, no GPU: %s\n", gpus.why_none.c_str());
    return 77;
  }
  return RUN_ALL_TESTS();
}
