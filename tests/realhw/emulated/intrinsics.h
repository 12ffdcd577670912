// SPDX-License-Identifier: Apache-2.0
// The functions of CUDA's compiler that kernels call.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "tests/realhw/emulated/emulated.h"

inline void __syncthreads() { moesim::emulated::barrier(); }
inline void __syncwarp(unsigned mask = 0xffffffff) { moesim::emulated::warp_barrier(mask); }

namespace moesim::emulated {

inline unsigned lane() { return builtins.thread.x % 32; }

/// Over the lanes of the mask, in ascending order.
template <class T, class Join>
T over_warp(unsigned mask, T value, Join join) {
  const auto given = of_warp(mask, std::bit_cast<std::uint32_t>(value));
  bool any = false;
  T result{};
  for (unsigned i = 0; i < 32; ++i) {
    if ((mask >> i & 1) == 0) continue;
    const T next = std::bit_cast<T>(given[i]);
    result = any ? join(result, next) : next;
    any = true;
  }
  return result;
}

/// Of a lane; one's own if there is none.
template <class T>
T from_lane(unsigned mask, T value, int from, int width) {
  const auto given = of_warp(mask, std::bit_cast<std::uint32_t>(value));
  const int first = static_cast<int>(lane()) / width * width;
  return from < first || from >= first + width
             ? value
             : std::bit_cast<T>(given[static_cast<unsigned>(from)]);
}

}  // namespace moesim::emulated

inline unsigned __ballot_sync(unsigned mask, int flag) {
  const auto flags = moesim::emulated::of_warp(mask, flag != 0 ? 1 : 0);
  unsigned votes = 0;
  for (unsigned lane = 0; lane < 32; ++lane) votes |= (mask >> lane & flags[lane] & 1) << lane;
  return votes;
}
inline int __any_sync(unsigned mask, int flag) { return __ballot_sync(mask, flag) != 0; }
inline int __all_sync(unsigned mask, int flag) { return __ballot_sync(mask, flag) == mask; }
inline int __reduce_add_sync(unsigned mask, int value) {
  return moesim::emulated::over_warp(mask, value, [](int a, int b) { return a + b; });
}
inline int __reduce_max_sync(unsigned mask, int value) {
  return moesim::emulated::over_warp(mask, value, [](int a, int b) { return std::max(a, b); });
}
template <class T>
T __shfl_sync(unsigned mask, T value, int from, int width = 32) {
  const int first = static_cast<int>(moesim::emulated::lane()) / width * width;
  return moesim::emulated::from_lane(mask, value, first + from % width, width);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32) {
  const int lane = static_cast<int>(moesim::emulated::lane());
  return moesim::emulated::from_lane(mask, value, lane - static_cast<int>(by), width);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32) {
  const int lane = static_cast<int>(moesim::emulated::lane());
  return moesim::emulated::from_lane(mask, value, lane + static_cast<int>(by), width);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int by, int width = 32) {
  const int lane = static_cast<int>(moesim::emulated::lane());
  return moesim::emulated::from_lane(mask, value, lane ^ by, width);
}

inline int __popc(unsigned bits) { return std::popcount(bits); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }

namespace moesim::emulated {

/// Returns what was there; no other thread comes between.
template <class T, class Join>
__attribute__((no_sanitize("thread"))) T atomic(T* at, T value, Join join) {
  access_atomic(at, sizeof(T));
  const T before = *at;
  *at = join(before, value);
  return before;
}

}  // namespace moesim::emulated

template <class T>
T atomicAdd(T* at, T value) {
  return moesim::emulated::atomic(at, value, [](T a, T b) { return a + b; });
}
template <class T>
T atomicMin(T* at, T value) {
  return moesim::emulated::atomic(at, value, [](T a, T b) { return b < a ? b : a; });
}
template <class T>
T atomicMax(T* at, T value) {
  return moesim::emulated::atomic(at, value, [](T a, T b) { return a < b ? b : a; });
}
template <class T>
T atomicExch(T* at, T value) {
  return moesim::emulated::atomic(at, value, [](T, T b) { return b; });
}
template <class T>
T atomicCAS(T* at, T expected, T value) {
  return moesim::emulated::atomic(at, value,
                                  [expected](T a, T b) { return a == expected ? b : a; });
}
