// SPDX-License-Identifier: Apache-2.0
// Arrays of a top-k shape in host memory.
#pragma once

#include <cmath>
#include <random>
#include <vector>

#include "realhw/cuda/topk.h"

namespace moesim {

inline TopkShape random_topk_shape(std::mt19937& random) {
  const auto below = [&](unsigned n) { return static_cast<int>(random() % n); };
  TopkShape shape;
  shape.rows = below(5);
  shape.width = below(3000);
  shape.block = 1 + below(below(2) == 0 ? 64 : 1500);
  shape.kept = 1 + below(static_cast<unsigned>(shape.block));
  shape.format = below(2) == 0 ? RowFormat::float32 : RowFormat::bfloat16;
  return shape;
}

struct TopkCase {
  using Bytes = std::vector<std::byte>;
  /// Random numbers that differ from each other by design.
  TopkCase(const TopkShape& s, unsigned seed) : shape(s) {
    const auto size = size_of(s.format);
    const auto elements = static_cast<std::size_t>(s.rows * s.width);
    for (Bytes* array : {&x, &shared, &rest, &decoded}) array->resize(elements * size);
    values.resize(static_cast<std::size_t>(s.entries()) * size);
    indices.assign(static_cast<std::size_t>(s.entries()), 12345);
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> numbers(elements);
    for (Bytes* array : {&x, &shared}) {
      for (float& number : numbers) number = normal(random);
      set(*array, numbers);
    }
  }

  void set(Bytes& array, const std::vector<float>& numbers) {
    moesim::encode(shape.format, numbers, array.data());
  }
  std::vector<float> get(const Bytes& array) const {
    std::vector<float> numbers(array.size() / size_of(shape.format));
    moesim::decode(shape.format, array.data(), numbers);
    return numbers;
  }
  TopkArrays arrays() {
    return {shared.data(), x.data(), values.data(), indices.data(), rest.data(), decoded.data()};
  }
  void encode() { topk_encode(shape, arrays()); }
  void decode() { topk_decode(shape, arrays()); }

  TopkShape shape;
  Bytes x, shared, values, rest, decoded;
  std::vector<std::uint16_t> indices;
};

}  // namespace moesim
