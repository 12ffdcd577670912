// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/training/smooth_max.h"

#include <algorithm>
#include <cmath>

namespace moesim {
namespace {

/// An exponent that few products make, such as HierMoE's 10; 0 for any other.
unsigned whole(double gamma) {
  const bool small = gamma >= 1 && gamma <= 64;
  return small && gamma == std::floor(gamma) ? static_cast<unsigned>(gamma) : 0;
}

}  // namespace

TwoChanges::TwoChanges(Maximum maximum, std::span<const std::int64_t> counts)
    : maximum_(maximum),
      whole_gamma_(whole(maximum.gamma)),
      n_(counts.size()),
      scale_(counts.empty() ? 0 : static_cast<double>(*std::ranges::max_element(counts))) {
  std::vector<double> suffix(n_ + 1);  // joined terms of the entries from i on
  for (std::size_t i = n_; i-- > 0;) suffix[i] = join(term(counts[i]), suffix[i + 1]);
  unchanged_ = finish(suffix[0]);
  others_.resize(n_ * n_);
  double before = 0;
  for (std::size_t i = 0; i < n_; ++i) {
    double between = before;
    for (std::size_t j = i + 1; j < n_; ++j) {
      others_[i * n_ + j] = join(between, suffix[j + 1]);
      between = join(between, term(counts[j]));
    }
    before = join(before, term(counts[i]));
  }
}

double TwoChanges::changed(int i, std::int64_t a, int j, std::int64_t b) const {
  const auto [low, high] = std::minmax(i, j);
  const double others =
      others_[static_cast<std::size_t>(low) * n_ + static_cast<std::size_t>(high)];
  return finish(join(others, join(term(a), term(b))));
}

double TwoChanges::term(std::int64_t count) const {
  const auto x = static_cast<double>(count);
  if (maximum_.kind == MaximumKind::hard || scale_ == 0) return x;
  if (maximum_.kind == MaximumKind::log_sum_exp) return std::exp(maximum_.gamma * (x / scale_ - 1));
  if (whole_gamma_ == 0) return std::pow(x / scale_, maximum_.gamma);
  double power = 1, square = x / scale_;
  for (unsigned bits = whole_gamma_; bits > 0; bits >>= 1U, square *= square) {
    if ((bits & 1U) != 0) power *= square;
  }
  return power;
}

double TwoChanges::join(double a, double b) const {
  return maximum_.kind == MaximumKind::hard ? std::max(a, b) : a + b;
}

double TwoChanges::finish(double joined) const {
  if (maximum_.kind == MaximumKind::hard || scale_ == 0) return joined;
  return scale_ * (maximum_.kind == MaximumKind::smooth ? std::pow(joined, 1 / maximum_.gamma)
                                                        : 1 + std::log(joined) / maximum_.gamma);
}

}  // namespace moesim
