// SPDX-License-Identifier: Apache-2.0
#include "sim/profile/kernel_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <utility>

#include "sim/linkfit/robust.h"
#include "sim/profile/clocks.h"

namespace moesim {
namespace {

/// Sorted intervals without overlaps in which a rank moves data.
std::vector<std::pair<ProfileTicks, ProfileTicks>> moving_times(
    const ProfiledRank& rank, const std::vector<ProfileTicks>& waits) {
  std::vector<std::pair<ProfileTicks, ProfileTicks>> merged;
  for (std::size_t k = 0; k < rank.kernels.size(); ++k) {
    const ProfiledKernel& kernel = rank.kernels[k];
    if (!is_exchange(kernel.kind)) continue;
    const ProfileTicks begin = kernel.start + (waits.empty() ? 0 : waits[k]);
    if (begin < kernel.end()) merged.emplace_back(begin, kernel.end());
  }
  std::ranges::sort(merged);
  std::size_t last = 0;
  for (std::size_t i = 1; i < merged.size(); ++i) {
    if (merged[i].first <= merged[last].second) {
      merged[last].second = std::max(merged[last].second, merged[i].second);
    } else {
      merged[++last] = merged[i];
    }
  }
  if (!merged.empty()) merged.resize(last + 1);
  return merged;
}

/// How much of a kernel's time intervals cover.
ProfileTicks covered(const std::vector<std::pair<ProfileTicks, ProfileTicks>>& intervals,
                     const ProfiledKernel& kernel) {
  auto at = std::ranges::upper_bound(intervals, kernel.start, {},
                                     &std::pair<ProfileTicks, ProfileTicks>::second);
  ProfileTicks sum = 0;
  for (; at != intervals.end() && at->first < kernel.end(); ++at) {
    sum += std::min(at->second, kernel.end()) - std::max(at->first, kernel.start);
  }
  return sum;
}

/// Which table a kernel is in, and its size there: rows of a group, or bytes.
struct TablePlace {
  std::tuple<std::string, std::int64_t, std::int64_t, int, std::int64_t>
      table;  // op n k type groups
  double size = 0;
};

std::optional<TablePlace> place_of(const WorkShape& shape) {
  const std::string op = shape.op ? name_of(*shape.op) : "";
  if (const auto* memory = std::get_if<MemoryBound>(&shape.work)) {
    const auto bytes = static_cast<double>(memory->read.value + memory->written.value);
    if (bytes <= 0) return std::nullopt;
    return TablePlace{{op, 0, 0, -1, 0}, bytes};
  }
  const auto* gemm = std::get_if<GroupedGemm>(&shape.work);
  if (gemm == nullptr) return std::nullopt;
  const std::int64_t rows = std::accumulate(gemm->m.begin(), gemm->m.end(), std::int64_t{0});
  const auto groups = std::ranges::count_if(gemm->m, [](std::int64_t m) { return m > 0; });
  if (groups == 0) return std::nullopt;
  return TablePlace{{op, gemm->n, gemm->k, static_cast<int>(gemm->type), groups},
                    static_cast<double>(rows) / static_cast<double>(groups)};
}

using SizesOfTable = std::vector<std::pair<double, double>>;  // (size, seconds), by size
using TimesByTable = std::map<decltype(TablePlace::table), SizesOfTable>;

TimesByTable times_by_table(const std::vector<ShapeTimes>& times, double slowdown) {
  TimesByTable by_table;
  for (const ShapeTimes& t : times) {
    const auto place = place_of(t.shape);
    const Seconds time = t.time(slowdown);
    if (place && time.value > 0) by_table[place->table].emplace_back(place->size, time.value);
  }
  for (auto& [table, sizes] : by_table) std::ranges::sort(sizes);
  return by_table;
}

/// Means of the sizes within an eighth of an octave.
SizesOfTable merged_sizes(const SizesOfTable& sizes) {
  SizesOfTable merged;
  for (std::size_t i = 0; i < sizes.size();) {
    double size = 0, time = 0;
    std::size_t end = i;
    for (; end < sizes.size() && sizes[end].first <= sizes[i].first * std::exp2(0.125); ++end) {
      size += sizes[end].first;
      time += sizes[end].second;
    }
    const auto count = static_cast<double>(end - i);
    merged.emplace_back(size / count, time / count);
    i = end;
  }
  return merged;
}

/// (intercept, slope) of the least-squares line, which weighs relative errors.
std::pair<double, double> line_through(const SizesOfTable& sizes) {
  double w = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const auto& [size, time] : sizes) {
    const double weight = 1 / (time * time);
    w += weight;
    x += weight * size;
    y += weight * time;
    xx += weight * size * size;
    xy += weight * size * time;
  }
  const double spread = w * xx - x * x;
  if (!(spread > 1e-12 * w * xx)) return {0, y / x};
  const double slope = (w * xy - x * y) / spread;
  const double first = (y - slope * x) / w;
  if (slope <= 0 || first < 0) return {0, y / x};
  return {first, slope};
}

/// Adds halves of the least size and doubles of the largest one, as a line (intercept, slope) has
/// them.
void extend(TimeCurve& curve, std::pair<double, double> line, double least, double most) {
  const auto [first, slope] = line;
  const Seconds quickest = curve.points().begin()->second;
  const double from = curve.points().begin()->first, to = curve.points().rbegin()->first;
  for (double m = from / 2; m >= least; m /= 2) {
    curve.add(std::round(m), std::min(quickest, Seconds(first + slope * m)));
  }
  for (double m = to * 2; m <= most; m *= 2) curve.add(std::round(m), Seconds(first + slope * m));
}

TimeCurve curve_through(const SizesOfTable& sizes) {
  const SizesOfTable merged = merged_sizes(sizes);
  std::vector<double> times;
  for (const auto& [size, time] : merged) times.push_back(time);
  times = ascending(times);
  TimeCurve curve;
  for (std::size_t i = 0; i < merged.size(); ++i) {
    curve.add(std::max(1.0, std::round(merged[i].first)), Seconds(times[i]));
  }
  return curve;
}

/// Smaller batches move fewer bytes; the launch of a kernel shows only far below, and sizes within
/// an octave do not tell it.
TimeCurve memory_curve(const SizesOfTable& sizes) {
  TimeCurve curve = curve_through(sizes);
  const auto& [least, quickest] = *curve.points().begin();
  const bool tells_launch = curve.points().rbegin()->first >= 2 * least;
  const std::pair<double, double> in_proportion{0, quickest.value / least};
  extend(curve, tells_launch ? line_through(sizes) : in_proportion, std::max(1.0, least / 8),
         least);
  return curve;
}

/// One of several groups may have far fewer or more rows than the mean.
TimeCurve product_curve(const SizesOfTable& sizes, bool several_groups) {
  TimeCurve curve = curve_through(sizes);
  const double most = curve.points().rbegin()->first;
  if (several_groups) extend(curve, line_through(sizes), 1, 64 * most);
  return curve;
}

}  // namespace

Seconds ShapeTimes::time(double slowdown) const {
  return Seconds(!alone.empty() ? upper_median(alone) : upper_median(next_to) / slowdown);
}

std::vector<ShapeTimes> shape_times(const Profile& profile) {
  std::vector<ShapeTimes> all;
  const auto waits = waits_of(profile);
  for (std::size_t r = 0; r < profile.ranks.size(); ++r) {
    const ProfiledRank& rank = profile.ranks[r];
    const auto moving = moving_times(rank, waits[r]);
    std::vector<ShapeTimes> of_rank(rank.shapes.size());
    for (const ProfiledKernel& kernel : rank.kernels) {
      if (kernel.shape < 0 || kernel.length <= 0 || is_exchange(kernel.kind)) continue;
      ShapeTimes& times = of_rank[static_cast<std::size_t>(kernel.shape)];
      const ProfileTicks during = covered(moving, kernel);
      if (during == 0) times.alone.push_back(seconds_of(kernel.length).value);
      if (during * 10 >= kernel.length * 9) {
        times.next_to.push_back(seconds_of(kernel.length).value);
      }
    }
    for (std::size_t s = 0; s < of_rank.size(); ++s) {
      if (of_rank[s].alone.empty() && of_rank[s].next_to.empty()) continue;
      of_rank[s].shape = rank.shapes[s];
      all.push_back(std::move(of_rank[s]));
    }
  }
  return all;
}

SlowDown kernel_slowdown(const std::vector<ShapeTimes>& times) {
  std::vector<double> ratios;
  for (const ShapeTimes& t : times) {
    if (t.alone.empty() || t.next_to.empty()) continue;
    ratios.push_back(upper_median(t.next_to) / upper_median(t.alone));
  }
  if (ratios.empty()) return {};
  return {std::max(1.0, upper_median(ratios)), static_cast<int>(ratios.size())};
}

KernelTables tables_of(const std::vector<ShapeTimes>& times, double slowdown) {
  KernelTables tables;
  for (const auto& [place, sizes] : times_by_table(times, slowdown)) {
    const auto& [op, n, k, type, groups] = place;
    const auto of_op = find_op_type(op);
    if (type < 0) {
      tables.memory_bound.push_back({of_op, memory_curve(sizes)});
      continue;
    }
    const DataType of_type = static_cast<DataType>(type);
    if (tables.gemm.empty() || tables.gemm.back().op != of_op || tables.gemm.back().n != n ||
        tables.gemm.back().k != k || tables.gemm.back().type != of_type) {
      tables.gemm.push_back({of_op, n, k, of_type, {}});
    }
    tables.gemm.back().groups.emplace(static_cast<double>(groups),
                                      product_curve(sizes, groups > 1));
  }
  return tables;
}

TableErrors held_out_errors(const std::vector<ShapeTimes>& times, double slowdown, int every) {
  std::vector<double> errors;
  for (const auto& [place, sizes] : times_by_table(times, slowdown)) {
    const SizesOfTable merged = merged_sizes(sizes);
    for (int turn = 0; turn < every; ++turn) {
      TimeCurve rest;
      for (std::size_t i = 0; i < merged.size(); ++i) {
        const bool end = i == 0 || i + 1 == merged.size();
        if (end || static_cast<int>(i) % every != turn) {
          rest.add(merged[i].first, Seconds(merged[i].second));
        }
      }
      for (std::size_t i = 1; i + 1 < merged.size(); ++i) {
        if (static_cast<int>(i) % every != turn) continue;
        errors.push_back(std::abs(rest.at(merged[i].first).value / merged[i].second - 1));
      }
    }
  }
  if (errors.empty()) return {};
  return {static_cast<int>(errors.size()), upper_median(errors), *std::ranges::max_element(errors)};
}

std::map<DataType, KeptRate> kept_rates(const std::vector<ShapeTimes>& times, double slowdown,
                                        const GpuModel& gpu, bool attention) {
  std::map<DataType, std::vector<double>> ratios;
  for (const ShapeTimes& t : times) {
    const bool is_attention = std::holds_alternative<FusedAttention>(t.shape.work);
    const auto type = type_of(t.shape.work);
    const Seconds measured = t.time(slowdown);
    if (!type || is_attention != attention || measured < Seconds(20e-6)) continue;
    if (!gpu.peak.contains(*type)) continue;
    // Weight gradients also move main gradients, which the model's own kernels do not.
    const OpType op = t.shape.op.value_or(OpType{});
    if (op.role == Role::wgrad) continue;
    // A kernel's launch takes as long, whatever part of its rates it keeps.
    const Roofline* const roofline = gpu.fitted.find(t.shape.work);
    const Seconds launch = roofline != nullptr ? roofline->launch : gpu.launch_overhead;
    if (measured <= launch) continue;
    ratios[*type].push_back((gpu.time(t.shape.work, op) - launch).value /
                            (measured - launch).value);
  }
  std::map<DataType, KeptRate> kept;
  for (const auto& [type, of] : ratios)
    kept[type] = {upper_median(of), static_cast<int>(of.size())};
  return kept;
}

}  // namespace moesim
