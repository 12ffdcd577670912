// SPDX-License-Identifier: Apache-2.0
// Eight elements of a row at a time, as float32: 16-byte loads and stores if the row is aligned,
// byte by byte if it is not.
#pragma once

#include <cuda_fp8.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "realhw/core/row_codec.h"
#include "realhw/core/row_format.h"

namespace moesim::cuda {

inline constexpr int elements_per_thread = 8;

__device__ inline int element_size(RowFormat format) {
  return format == RowFormat::float32 ? 4 : format == RowFormat::bfloat16 ? 2 : 1;
}

/// Rounds as to_float8 does; in hardware from sm_89 on.
__device__ inline std::uint8_t encode_float8(float value) {
#if __CUDA_ARCH__ >= 890
  return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3);
#else
  return to_float8(value);
#endif
}

/// Any address will do.
template <class T>
__device__ T load_bytes(const std::byte* at) {
  T value;
  memcpy(&value, at, sizeof(T));
  return value;
}

__device__ inline float load_element(const std::byte* at, RowFormat format) {
  switch (format) {
    case RowFormat::float32:
      return load_bytes<float>(at);
    case RowFormat::bfloat16:
      return from_bfloat16(load_bytes<std::uint16_t>(at));
    case RowFormat::float8:
      return from_float8(load_bytes<std::uint8_t>(at));
  }
  return 0;
}

__device__ inline void store_element(std::byte* at, RowFormat format, float value) {
  if (format == RowFormat::float32) {
    memcpy(at, &value, 4);
  } else if (format == RowFormat::bfloat16) {
    const std::uint16_t bits = to_bfloat16(value);
    memcpy(at, &bits, 2);
  } else {
    *at = static_cast<std::byte>(encode_float8(value));
  }
}

/// Whether eight elements at a time are on a vector's boundaries.
__device__ inline bool is_aligned(const std::byte* row, RowFormat format) {
  const std::uintptr_t boundary = format == RowFormat::float8 ? 8 : 16;
  return reinterpret_cast<std::uintptr_t>(row) % boundary == 0;
}

/// Elements `column` to `column + count` of a row; zeros up to eight. The column is a multiple of
/// eight.
__device__ inline void load(const std::byte* row, RowFormat format, std::int64_t column, int count,
                            float (&x)[elements_per_thread]) {
  const std::byte* at = row + column * element_size(format);
  if (count < elements_per_thread || !is_aligned(row, format)) {
#pragma unroll
    for (int i = 0; i < elements_per_thread; ++i) {
      x[i] = i < count ? load_element(at + i * element_size(format), format) : 0.0f;
    }
  } else if (format == RowFormat::float32) {
    const float4 low = reinterpret_cast<const float4*>(at)[0];
    const float4 high = reinterpret_cast<const float4*>(at)[1];
    x[0] = low.x, x[1] = low.y, x[2] = low.z, x[3] = low.w;
    x[4] = high.x, x[5] = high.y, x[6] = high.z, x[7] = high.w;
  } else if (format == RowFormat::bfloat16) {
    const uint4 bits = *reinterpret_cast<const uint4*>(at);
    const std::uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      x[2 * i] = from_bfloat16(static_cast<std::uint16_t>(words[i] & 0xffff));
      x[2 * i + 1] = from_bfloat16(static_cast<std::uint16_t>(words[i] >> 16));
    }
  } else {
    const uint2 bits = *reinterpret_cast<const uint2*>(at);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      x[i] = from_float8(static_cast<std::uint8_t>(bits.x >> (8 * i) & 0xff));
      x[4 + i] = from_float8(static_cast<std::uint8_t>(bits.y >> (8 * i) & 0xff));
    }
  }
}

__device__ inline void store(std::byte* row, RowFormat format, std::int64_t column, int count,
                             const float (&x)[elements_per_thread]) {
  std::byte* at = row + column * element_size(format);
  if (count < elements_per_thread || !is_aligned(row, format)) {
#pragma unroll
    for (int i = 0; i < elements_per_thread; ++i) {
      if (i < count) store_element(at + i * element_size(format), format, x[i]);
    }
  } else if (format == RowFormat::float32) {
    reinterpret_cast<float4*>(at)[0] = make_float4(x[0], x[1], x[2], x[3]);
    reinterpret_cast<float4*>(at)[1] = make_float4(x[4], x[5], x[6], x[7]);
  } else if (format == RowFormat::bfloat16) {
    std::uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      words[i] = static_cast<std::uint32_t>(to_bfloat16(x[2 * i])) |
                 static_cast<std::uint32_t>(to_bfloat16(x[2 * i + 1])) << 16;
    }
    *reinterpret_cast<uint4*>(at) = make_uint4(words[0], words[1], words[2], words[3]);
  } else {
    std::uint32_t words[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      words[i / 4] |= static_cast<std::uint32_t>(encode_float8(x[i])) << (8 * (i % 4));
    }
    *reinterpret_cast<uint2*>(at) = make_uint2(words[0], words[1]);
  }
}

}  // namespace moesim::cuda
