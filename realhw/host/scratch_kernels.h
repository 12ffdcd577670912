// SPDX-License-Identifier: Apache-2.0
// Kernels whose results nobody needs: they do as much work as the plan says, on data of no meaning.
#pragma once

#include <vector>

#include "sim/model/kernel.h"

namespace moesim {

class ScratchKernels {
 public:
  /// Multiplies matrices of the shapes, or reads and writes as many bytes. Host work is left to the
  /// caller, who knows the time.
  void run(const Kernel& kernel);

 private:
  void multiply_groups(const GroupedGemm& gemm);
  void move_bytes(const MemoryBound& kernel);

  std::vector<float> a_, b_, c_;
  std::vector<char> read_, written_;
};

}  // namespace moesim
