// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/affinity/co_activation.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/error.h"
#include "sim/base/id_vector.h"

namespace moesim {
namespace {

/// Calls f with the ids of the rows in the width they have.
template <class F>
void with_ids(const IdRows& rows, F&& f) {
  const auto count = static_cast<std::size_t>(rows.tokens() * rows.top_k());
  if (rows.width() == 1) {
    f(std::span(static_cast<const std::uint8_t*>(rows.data()), count));
  } else {
    f(std::span(static_cast<const std::uint16_t*>(rows.data()), count));
  }
}

void check_ids(const IdRows& rows, int experts) {
  with_ids(rows, [&](auto ids) {
    const auto largest = std::max_element(ids.begin(), ids.end());
    if (largest != ids.end() && *largest >= experts) {
      throw Error(fmt::format("expert {} of {} experts", *largest, experts));
    }
  });
}

}  // namespace

PairMatrix PairMatrix::transposed() const {
  PairMatrix result(experts_);
  for (const ExpertId a : ids<ExpertId>(experts_)) {
    for (const ExpertId b : ids<ExpertId>(experts_)) result.at(b, a) = at(a, b);
  }
  return result;
}

PairMatrix& PairMatrix::operator+=(const PairMatrix& other) {
  if (experts_ != other.experts_) {
    throw Error(fmt::format("counts of {} and {} experts", experts_, other.experts_));
  }
  for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  return *this;
}

PairMatrix co_choices(const IdRows& rows, int experts) {
  check_ids(rows, experts);
  PairMatrix pairs(experts);
  const auto n = static_cast<std::size_t>(experts), top_k = static_cast<std::size_t>(rows.top_k());
  const auto counts = pairs.values();
  with_ids(rows, [&](auto ids) {
    for (std::size_t t = 0; t < ids.size(); t += top_k) {
      for (std::size_t a = t; a < t + top_k; ++a) {
        for (std::size_t b = a + 1; b < t + top_k; ++b) ++counts[ids[a] * n + ids[b]];
      }
    }
  });
  for (std::size_t a = 0; a < n; ++a) {  // each pair was counted in one of its two orders
    counts[a * n + a] = 0;
    for (std::size_t b = a + 1; b < n; ++b) {
      counts[a * n + b] = counts[b * n + a] = counts[a * n + b] + counts[b * n + a];
    }
  }
  return pairs;
}

SlotTable table_of(std::span<const GpuId> gpu_of, int gpus) {
  SlotTable table(gpus);
  for (const ExpertId e : ids_of<ExpertId>(gpu_of)) table[gpu_of[e.index()].index()].push_back(e);
  return table;
}

Partners c2r_partners(const PairMatrix& co) {
  Partners partners;
  for (const ExpertId self : ids<ExpertId>(co.experts())) {
    std::vector<ExpertId> order;
    for (const ExpertId e : ids<ExpertId>(co.experts())) {
      if (e != self) order.push_back(e);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](ExpertId a, ExpertId b) { return co.at(self, a) > co.at(self, b); });
    order.push_back(self);
    partners.push_back(std::move(order));
  }
  return partners;
}

}  // namespace moesim
