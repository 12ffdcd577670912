// SPDX-License-Identifier: Apache-2.0
// Where a number stands among ascending ones.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <ranges>

#include "sim/base/types.h"

namespace moesim {

/// The place of the first of strictly ascending GPUs that is `gpu` or one after it. Without a gap
/// before it, or with one, such as the sender's own in a row, it needs no search, which would wait
/// for memory at every probe.
template <std::ranges::random_access_range Ascending, class Projection = std::identity>
std::size_t place_of(const Ascending& gpus, GpuId gpu, Projection gpu_of = {}) {
  const auto begin = std::ranges::begin(gpus);
  const std::size_t size = std::ranges::size(gpus);
  const auto at = [&](std::size_t place) -> GpuId {
    return std::invoke(gpu_of, begin[static_cast<std::ptrdiff_t>(place)]);
  };
  if (size == 0 || gpu <= at(0)) return 0;
  const std::size_t guess = gpu.index() - at(0).index();
  if (guess >= size && at(size - 1) < gpu) return size;
  for (const std::size_t place : {guess, guess - 1}) {
    if (place < size && at(place) >= gpu && (place == 0 || at(place - 1) < gpu)) return place;
  }
  return static_cast<std::size_t>(std::ranges::lower_bound(gpus, gpu, {}, gpu_of) - begin);
}

}  // namespace moesim
