// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/loads.h"

#include <algorithm>

namespace moesim {

std::vector<std::int64_t> LoadMatrix::per_expert() const {
  std::vector<std::int64_t> sums(experts_);
  for (int source = 0; source < sources_; ++source) {
    const auto counts = row(GpuId(source));
    for (std::size_t e = 0; e < counts.size(); ++e) sums[e] += counts[e];
  }
  return sums;
}

LoadMatrix LoadMatrix::totals() const {
  LoadMatrix row(1, experts_);
  row.counts_ = per_expert();
  return row;
}

LoadMatrix LoadMatrix::rows(GpuId first, int count) const {
  LoadMatrix part;
  part.sources_ = count;
  part.experts_ = experts_;
  const auto from = counts_.begin() + static_cast<std::ptrdiff_t>(index(first, ExpertId(0)));
  part.counts_.assign(from, from + std::ptrdiff_t{count} * experts_);
  return part;
}

LoadMatrix& LoadMatrix::operator+=(const LoadMatrix& other) {
  for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  return *this;
}

}  // namespace moesim
