// SPDX-License-Identifier: Apache-2.0
// Every kernel on a GPU against the CPU. Exits with 77 if there is no GPU.
#include <gtest/gtest.h>

#include <cstdio>

#include "realhw/cuda/cuda_device.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (moesim::count_gpus() == 0) {
    std::printf("skipped, no GPU: %s\n", moesim::why_no_gpus().c_str());
    return 77;
  }
  return RUN_ALL_TESTS();
}
