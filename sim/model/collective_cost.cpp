// SPDX-License-Identifier: Apache-2.0
#include "sim/model/collective_cost.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "sim/base/error.h"

namespace moesim {
namespace {

/// `bytes` from every rank to each rank of its communicator: those of its group at level `within`
/// with the same local index at level `level`.
CommunicatorTraffic even_exchange(const Nesting& nesting, int copies, int within, int level,
                                  Bytes bytes) {
  const int outer = nesting.group_size(within);
  const int inner = nesting.group_size(level);
  const int ranks = copies * nesting.gpus;
  CommunicatorTraffic communicators;
  std::vector<ByteMatrix::Entry> row;
  for (int c = 0; c < ranks / outer * inner; ++c) {
    const int first = c / inner * outer + c % inner;
    ByteMatrix traffic(bytes);
    for (int s = 0; s < ranks; ++s) {
      row.clear();
      const bool member = s >= first && s < first / outer * outer + outer && s % inner == c % inner;
      for (int to = first; member && to < first / outer * outer + outer; to += inner) {
        row.push_back({GpuId(to), 1});
      }
      traffic.add_row(row);
    }
    communicators.push_back(std::move(traffic));
  }
  return communicators;
}

}  // namespace

void Nesting::check() const {
  bool nested = gpus > 0 && !groups.empty() && groups.front() == 1 && gpus % groups.back() == 0;
  for (std::size_t i = 1; nested && i < groups.size(); ++i) {
    nested = groups[i] > groups[i - 1] && groups[i] % groups[i - 1] == 0;
  }
  if (!nested) {
    throw Error(fmt::format("{} GPUs cannot be cut into nested levels of [{}] groups", gpus,
                            fmt::join(groups, ", ")),
                "the first level is one group; each number is a multiple of the one before and "
                "divides the GPUs");
  }
}

CollectiveCosts fit_collective_costs(const Nesting& nesting, int copies,
                                     const std::function<Seconds(const CommunicatorTraffic&)>& time,
                                     Bytes buffer) {
  nesting.check();
  auto fit = [&](int within, int level) {
    const int ranks = nesting.groups_at(level) / nesting.groups_at(within);
    const Bytes most(std::max<std::int64_t>(buffer.value / ranks, 2));
    const Bytes half(most.value / 2);
    const auto run = [&](Bytes bytes) {
      return time(even_exchange(nesting, copies, within, level, bytes)).value;
    };
    const double twice = run(most), once = run(half);
    const double per_byte = (twice - once) / static_cast<double>((most.value - half.value) * ranks);
    return AlphaBeta{Seconds(twice - per_byte * static_cast<double>(most.value * ranks)), per_byte};
  };
  CollectiveCosts costs;
  costs.nesting = nesting;
  costs.flat = fit(0, nesting.depth());
  for (int i = 1; i < nesting.depth(); ++i) {
    costs.inter.push_back(fit(i - 1, i));
    costs.intra.push_back(fit(i, nesting.depth()));
  }
  return costs;
}

std::vector<Seconds> depth_times(const CollectiveCosts& costs, const StageRows& rows, Bytes row) {
  if (rows.inter.size() != costs.inter.size() || rows.intra.size() != costs.intra.size()) {
    throw std::logic_error("the rows and the costs of a hierarchical all-to-all differ in levels");
  }
  const auto bytes = [&](double n) { return n * static_cast<double>(row.value); };
  std::vector<Seconds> times = {costs.flat.time(bytes(rows.flat))};
  Seconds outer;  // Inter-level-1 up to the level at hand
  for (std::size_t i = 0; i < costs.inter.size(); ++i) {
    outer += costs.inter[i].time(bytes(rows.inter[i]));
    times.push_back(outer + costs.intra[i].time(bytes(rows.intra[i])));
  }
  return times;
}

int best_depth(std::span<const Seconds> times) {
  if (times.size() < 2) return 1;
  const auto best = std::min_element(times.begin() + 1, times.end());
  return times.front() < *best ? 1 : static_cast<int>(best - times.begin()) + 1;
}

}  // namespace moesim
