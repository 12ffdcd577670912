// SPDX-License-Identifier: Apache-2.0
#include "realhw/cuda/topk.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

namespace moesim {
namespace {

/// Orders floats by magnitude, as their bits do without the sign. NaN is the largest, so it is kept
/// and shows.
std::uint32_t magnitude(float value) { return std::bit_cast<std::uint32_t>(value) & 0x7fffffff; }

/// One block of one row.
class Block {
 public:
  Block(const TopkShape& shape, std::int64_t number)
      : shape_(shape),
        size_(static_cast<std::int64_t>(size_of(shape.format))),
        at_(topk_block(shape, number)) {}

  /// Keeps the largest differences from the shared values, in the order of their indices; the rest
  /// keeps what is left. Ties go to the lowest index.
  void encode_into(const TopkArrays& arrays) const {
    std::vector<float> x = read(arrays.x), shared = read(arrays.shared);
    for (std::size_t i = 0; i < elements(); ++i) x[i] -= shared[i];
    std::vector<std::size_t> order(elements());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return magnitude(x[a]) > magnitude(x[b]);
    });
    const auto kept = std::min(elements(), static_cast<std::size_t>(shape_.kept));
    std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept));
    std::vector<float> values(static_cast<std::size_t>(shape_.kept));
    for (std::size_t e = 0; e < values.size(); ++e) {
      arrays.indices[at_.entry + static_cast<std::int64_t>(e)] =
          e < kept ? static_cast<std::uint16_t>(order[e]) : no_element;
      if (e < kept) values[e] = std::exchange(x[order[e]], 0.0f);
    }
    encode(shape_.format, values, arrays.values + at_.entry * size_);
    encode(shape_.format, x, arrays.rest + at_.first * size_);
  }

  void decode_into(const TopkArrays& arrays) const {
    std::vector<float> x = read(arrays.shared), values(static_cast<std::size_t>(shape_.kept));
    decode(shape_.format, arrays.values + at_.entry * size_, values);
    for (std::size_t e = 0; e < values.size(); ++e) {
      const std::uint16_t index = arrays.indices[at_.entry + static_cast<std::int64_t>(e)];
      if (index != no_element) x[index] += values[e];
    }
    encode(shape_.format, x, arrays.decoded + at_.first * size_);
  }

 private:
  std::size_t elements() const { return static_cast<std::size_t>(at_.elements); }
  std::vector<float> read(const std::byte* array) const {
    std::vector<float> values(elements());
    decode(shape_.format, array + at_.first * size_, values);
    return values;
  }

  const TopkShape& shape_;
  std::int64_t size_;  // bytes of an element
  TopkBlock at_;
};

template <class Visit>
void for_each_block(const TopkShape& shape, Visit visit) {
  check_shape(shape);
  for (std::int64_t number = 0; number < shape.rows * shape.blocks(); ++number) {
    visit(Block(shape, number));
  }
}

}  // namespace

void check_shape(const TopkShape& shape) {
  const bool format = shape.format != RowFormat::float8;
  const bool block = shape.block > 0 && shape.block <= longest_topk_block;
  const bool kept = shape.kept > 0 && shape.kept <= shape.block;
  if (shape.rows >= 0 && shape.width >= 0 && format && block && kept) return;
  throw std::runtime_error(fmt::format("no top-k shape: {} of blocks of {} {} elements, {} x {}",
                                       shape.kept, shape.block, name_of(shape.format), shape.rows,
                                       shape.width));
}

void topk_encode(const TopkShape& shape, const TopkArrays& arrays) {
  for_each_block(shape, [&](const Block& block) { block.encode_into(arrays); });
}

void topk_decode(const TopkShape& shape, const TopkArrays& arrays) {
  for_each_block(shape, [&](const Block& block) { block.decode_into(arrays); });
}

}  // namespace moesim
