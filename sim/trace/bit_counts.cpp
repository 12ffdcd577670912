// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/bit_counts.h"

namespace moesim {
namespace {

constexpr std::uint64_t low_bit_of_bytes = 0x0101010101010101U;

/// A full adder per position: the sum stays in `low`, the carry is returned.
std::uint64_t add_bits(std::uint64_t& low, std::uint64_t a, std::uint64_t b) {
  const std::uint64_t half = low ^ a;
  const std::uint64_t carry = (low & a) | (half & b);
  low = half ^ b;
  return carry;
}

}  // namespace

void BitCounts::add(std::span<const std::uint64_t> words) {
  const std::uint64_t* w = words.data();
  const std::uint64_t* const end = w + words.size() / block * block;
  std::uint64_t ones = ones_, twos = twos_, fours = fours_, eights = eights_;
  for (; w != end; w += block) {
    const auto four = [&](std::size_t i) {
      const std::uint64_t a = add_bits(ones, w[i], w[i + 1]);
      const std::uint64_t b = add_bits(ones, w[i + 2], w[i + 3]);
      return add_bits(twos, a, b);
    };
    const auto eight = [&](std::size_t i) {
      const std::uint64_t a = four(i);
      const std::uint64_t b = four(i + 4);
      return add_bits(fours, a, b);
    };
    const std::uint64_t a = eight(0);
    const std::uint64_t b = eight(8);
    const std::uint64_t sixteens = add_bits(eights, a, b);
    for (std::size_t j = 0; j < bytes_.size(); ++j) bytes_[j] += sixteens >> j & low_bit_of_bytes;
    if (++carried_ == 255) empty_bytes();
  }
  ones_ = ones, twos_ = twos, fours_ = fours, eights_ = eights;
  for (; w != words.data() + words.size(); ++w) spread(*w, 1, counts_.size());
}

void BitCounts::finish(std::span<std::uint32_t> counts) {
  spread(ones_, 1, counts.size());
  spread(twos_, 2, counts.size());
  spread(fours_, 4, counts.size());
  spread(eights_, 8, counts.size());
  empty_bytes();
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += counts_[i];
  *this = BitCounts();
}

void BitCounts::spread(std::uint64_t bits, std::uint32_t weight, std::size_t positions) {
  for (std::uint32_t& count : std::span(counts_).first(positions)) {
    count += (bits & 1) != 0 ? weight : 0;
    bits >>= 1;
  }
}

void BitCounts::empty_bytes() {
  for (std::size_t j = 0; j < bytes_.size(); ++j) {
    for (std::size_t i = 0; i < 8; ++i) {
      counts_[8 * i + j] += static_cast<std::uint32_t>(block * (bytes_[j] >> 8 * i & 0xff));
    }
    bytes_[j] = 0;
  }
  carried_ = 0;
}

}  // namespace moesim
