// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/hybrid/domains.h"

#include <fmt/format.h>

#include <utility>

#include "sim/base/error.h"

namespace moesim {
ExpertDomains::ExpertDomains(std::vector<DomainLevel> levels, DomainMatch match)
    : levels_(std::move(levels)), match_(match), stride_(levels_.size()) {
  if (levels_.empty()) throw Error("expert domains need a level or more");
  for (std::size_t l = levels_.size(); l-- > 0;) {
    const auto [workers, domain] = levels_[l];
    if (workers < 1 || domain < 1 || workers % domain != 0) {
      throw Error(
          fmt::format("level {}: domains of {} do not divide {} workers", l, domain, workers));
    }
    stride_[l] = gpus_;
    gpus_ *= workers;
  }
}

int ExpertDomains::coordinate(GpuId gpu, int level) const {
  const auto l = static_cast<std::size_t>(level);
  return gpu.value / stride_[l] % levels_[l].workers;
}

GpuId ExpertDomains::moved(GpuId gpu, int level, int to) const {
  return GpuId(gpu.value + (to - coordinate(gpu, level)) * stride_[level]);
}

DomainRelation ExpertDomains::relation(GpuId m, GpuId n, int level) const {
  for (int l = match_ == DomainMatch::all ? 0 : level + 1; l < levels(); ++l) {
    if (l != level && coordinate(m, l) != coordinate(n, l)) return DomainRelation::none;
  }
  const int size = levels_[level].domain;
  const int a = coordinate(m, level), b = coordinate(n, level);
  const bool same_domain = a / size == b / size, same_offset = a % size == b % size;
  if (same_domain && !same_offset) return DomainRelation::all_gather;
  if (!same_domain && same_offset) return DomainRelation::all_to_all;
  return DomainRelation::none;
}

GpuId ExpertDomains::hop(GpuId at, GpuId home, int level) const {
  const int size = levels_[level].domain;
  const int domain = coordinate(home, level) / size;
  return moved(at, level, domain * size + coordinate(at, level) % size);
}

GpuId ExpertDomains::serving(GpuId source, GpuId home) const {
  if (match_ == DomainMatch::finer) {
    if (holds(source, home, levels())) return source;
    int level = levels() - 1;
    while (coordinate(source, level) == coordinate(home, level)) --level;
    const int size = levels_[level].domain;
    const int first = coordinate(home, level) / size * size;
    return moved(home, level, first + coordinate(source, level) % size);
  }
  for (int level = 0; level < levels(); ++level) source = hop(source, home, level);
  return source;
}

bool ExpertDomains::holds(GpuId gpu, GpuId from, int level) const {
  if (gpu == from) return true;
  if (match_ == DomainMatch::finer) {
    for (int l = 0; l < level; ++l) {
      if (relation(gpu, from, l) == DomainRelation::all_gather) return true;
    }
    return false;
  }
  for (int l = 0; l < levels(); ++l) {  // same domain before `level`, same worker after
    const int size = l < level ? levels_[l].domain : 1;
    if (coordinate(gpu, l) / size != coordinate(from, l) / size) return false;
  }
  return true;
}

SlotTable ExpertDomains::gathered_before(const SlotTable& home, int level) const {
  if (static_cast<int>(home.size()) != gpus_) {
    throw Error(fmt::format("experts of {} GPUs for domains of {}", home.size(), gpus_));
  }
  SlotTable held(home.size());
  for (int gpu = 0; gpu < gpus_; ++gpu) {
    for (int from = 0; from < gpus_; ++from) {
      if (!holds(GpuId(gpu), GpuId(from), level)) continue;
      const auto& experts = home[from];
      auto& list = held[gpu];
      list.insert(list.end(), experts.begin(), experts.end());
    }
  }
  return held;
}

SlotTable ExpertDomains::gathered(const SlotTable& home) const {
  return gathered_before(home, levels());
}

LevelExchanges ExpertDomains::gather_exchanges(const SlotTable& home, Bytes expert) const {
  LevelExchanges exchanges;
  for (int level = 0; level < levels(); ++level) {
    const SlotTable held = match_ == DomainMatch::all ? gathered_before(home, level) : home;
    ByteMatrix matrix(expert);
    std::vector<std::uint32_t> row(home.size());
    for (int m = 0; m < gpus_; ++m) {
      for (int n = 0; n < gpus_; ++n) {
        const bool sends = relation(GpuId(m), GpuId(n), level) == DomainRelation::all_gather;
        const auto experts = held[m].size();
        row[n] = sends ? static_cast<std::uint32_t>(experts) : 0;
      }
      matrix.add_dense_row(row);
    }
    exchanges.push_back(std::move(matrix));
  }
  return exchanges;
}

LevelExchanges ExpertDomains::reduce_exchanges(const SlotTable& home, Bytes gradient) const {
  const LevelExchanges gathers = gather_exchanges(home, gradient);
  LevelExchanges exchanges;
  for (std::size_t l = gathers.size(); l-- > 0;) exchanges.push_back(gathers[l].transposed());
  return exchanges;
}

}  // namespace moesim
