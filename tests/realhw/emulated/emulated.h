// SPDX-License-Identifier: Apache-2.0
// What CUDA sources need of a compiler for CPUs. The threads of a block run one after the other;
// those of a kernel with barriers change at every one, in turns of changing order.
#pragma once

#include <cuda_fp8.h>
#include <cuda_runtime_api.h>
#include <vector_functions.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <tuple>

#undef __shared__
#define __shared__ static  // blocks follow each other
#define __launch_bounds__(...)

inline dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace moesim::emulated {

/// Puts work on a stream.
void put(cudaStream_t stream, std::function<void()> work);
/// Runs a kernel's body once per thread of every block.
void run_blocks(dim3 grid, dim3 block, const std::function<void()>& thread);
/// Ends the program unless all threads of the block come to the same barrier.
void barrier();
/// What all threads of the warp have given; all of the block come.
const std::uint32_t* of_warp(std::uint32_t mine);

template <class... Parameters, class... Arguments>
void launch(dim3 grid, dim3 block, std::size_t, cudaStream_t stream, void (*kernel)(Parameters...),
            Arguments... arguments) {
  put(stream, [grid, block, kernel, given = std::tuple<Parameters...>(arguments...)] {
    run_blocks(grid, block, [&] { std::apply(kernel, given); });
  });
}

}  // namespace moesim::emulated

inline void __syncthreads() { moesim::emulated::barrier(); }
inline unsigned __ballot_sync(unsigned, int flag) {
  const std::uint32_t* flags = moesim::emulated::of_warp(flag != 0 ? 1 : 0);
  unsigned votes = 0;
  for (unsigned lane = 0; lane < 32; ++lane) votes |= flags[lane] << lane;
  return votes;
}
inline int __reduce_add_sync(unsigned, int value) {
  const std::uint32_t* values = moesim::emulated::of_warp(static_cast<std::uint32_t>(value));
  std::uint32_t sum = 0;
  for (unsigned lane = 0; lane < 32; ++lane) sum += values[lane];
  return static_cast<int>(sum);
}
inline int __popc(unsigned bits) { return std::popcount(bits); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }
template <class T>
void atomicAdd(T* at, T value) {
  *at += value;
}
template <class T>
void atomicMin(T* at, T value) {
  *at = value < *at ? value : *at;
}
