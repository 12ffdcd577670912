// SPDX-License-Identifier: Apache-2.0
#include "realhw/host/scratch_kernels.h"

#include <algorithm>
#include <cstring>

#include "realhw/core/gemm.h"

namespace moesim {
namespace {

/// Larger than caches, so that bytes really move.
constexpr std::int64_t window = std::int64_t{64} << 20;

void grow(std::vector<float>& values, std::int64_t size) {
  if (static_cast<std::int64_t>(values.size()) < size) {
    values.resize(static_cast<std::size_t>(size), 0.5f);
  }
}

}  // namespace

void ScratchKernels::run(const Kernel& kernel) {
  if (const auto* gemm = std::get_if<GroupedGemm>(&kernel)) multiply_groups(*gemm);
  if (const auto* memory = std::get_if<MemoryBound>(&kernel)) move_bytes(*memory);
}

void ScratchKernels::multiply_groups(const GroupedGemm& gemm) {
  const std::int64_t most = gemm.m.empty() ? 0 : *std::max_element(gemm.m.begin(), gemm.m.end());
  grow(a_, most * gemm.k);
  grow(b_, gemm.k * gemm.n);
  grow(c_, most * gemm.n);
  for (const std::int64_t m : gemm.m) multiply(m, gemm.n, gemm.k, a_.data(), b_.data(), c_.data());
}

void ScratchKernels::move_bytes(const MemoryBound& kernel) {
  const std::int64_t most = std::max(kernel.read.value, kernel.written.value);
  const auto size = static_cast<std::size_t>(std::min(most, window));
  if (read_.size() < size) read_.resize(size, 1);
  if (written_.size() < size) written_.resize(size, 1);
  for (std::int64_t at = 0; at < most; at += window) {
    const auto rest = [&](std::int64_t bytes) {
      return static_cast<std::size_t>(std::clamp(bytes - at, std::int64_t{0}, window));
    };
    const std::size_t in = rest(kernel.read.value), out = rest(kernel.written.value);
    std::memcpy(written_.data(), read_.data(), std::min(in, out));
    if (out > in) std::memset(written_.data() + in, 1, out - in);
    // A sum that the compiler must keep.
    volatile int sum = 0;
    for (std::size_t i = out; i < in; i += 64) sum = sum + read_[i];
  }
}

}  // namespace moesim
