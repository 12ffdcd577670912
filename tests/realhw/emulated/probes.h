// SPDX-License-Identifier: Apache-2.0
// Small kernels with every means that CUDA has, right ones and ones with a fault that must be
// found.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace moesim::emulated {

enum class Probe {
  right,
  // Of sum_blocks, which adds up 256 floats of a block in dynamic shared memory:
  no_barrier,     // between the halves of the tree
  not_written,    // shared memory of threads behind the last element
  behind_shared,  // one element behind dynamic shared memory
  divergent,      // a barrier that half of the threads come to
  // Of sum_warps, by shuffles and shared memory of a warp:
  no_warp_barrier,  // between lanes of one warp
  missing_lane,     // a shuffle of all lanes that one does not reach
  // Of scale_rows, elementwise:
  behind_end,    // the last thread reads one element more
  wrong_stride,  // rows are taken for one element longer
  every_block,   // all blocks add to one sum without atomics
  same_element,  // two threads of a block write one element
  misaligned,    // float4 off its boundary
};

/// sums[block] = the sum of the block's 256 floats of `in`; `count` in all.
void launch_sum_blocks(Probe probe, const float* in, std::int64_t count, float* sums,
                       cudaStream_t stream);
/// sums[warp] = the sum of its 32 floats, by shuffles in bfloat16 if `half` is not set, else half.
void launch_sum_warps(Probe probe, const float* in, unsigned warps, float* sums, bool half,
                      cudaStream_t stream);
/// x[row][i] *= factor, and total += 1 for every element.
void launch_scale_rows(Probe probe, float* x, unsigned rows, unsigned width, float factor,
                       unsigned* total, cudaStream_t stream);
/// More threads than a block has.
void launch_too_many(float* x, cudaStream_t stream);

}  // namespace moesim::emulated
