// SPDX-License-Identifier: Apache-2.0
#include "sim/model/group_counts.h"

#include <algorithm>
#include <stdexcept>

namespace moesim {

GroupCounts::GroupCounts(Nesting nesting, CountReading reading, GpuId first)
    : nesting_(std::move(nesting)), reading_(reading), first_(first.value) {
  nesting_.check();
  const auto gpus = static_cast<std::size_t>(nesting_.gpus);
  const std::size_t sources = reading == CountReading::max ? gpus : 1;
  for (int level = 1; level <= nesting_.depth(); ++level) {
    const auto groups = static_cast<std::size_t>(nesting_.groups_at(level));
    LevelCounts& counts = levels_.emplace_back();
    for (int g = 0; g < nesting_.gpus; ++g) {
      counts.group_of.push_back(g / nesting_.group_size(level));
    }
    counts.tokens.assign(sources * groups, 0);
  }
  choices_.assign(sources * gpus, 0);
}

void GroupCounts::add_choices(GpuId source, GpuId target, std::uint32_t choices) {
  choices_[row_of(source) * static_cast<std::size_t>(nesting_.gpus) +
           static_cast<std::size_t>(target.value - first_)] += choices;
}

void GroupCounts::add_touching(GpuId source, int level, int group, std::uint32_t tokens) {
  LevelCounts& counts = levels_[level - 1];
  counts.tokens[row_of(source) * static_cast<std::size_t>(nesting_.groups_at(level)) +
                static_cast<std::size_t>(group)] += tokens;
}

std::vector<std::vector<std::int64_t>> GroupCounts::by_index(int within, int level,
                                                             Copies copies) const {
  const auto size = static_cast<std::size_t>(nesting_.group_size(within));
  if (reading_ == CountReading::mean && size > 1) {
    throw std::logic_error("the mean reading keeps no counts per local index");
  }
  const LevelCounts& counts = at(level);
  const auto groups = static_cast<std::size_t>(nesting_.groups_at(level));
  const bool grouped = copies == Copies::per_group;
  const std::vector<std::uint32_t>& table = grouped ? counts.tokens : choices_;
  const std::size_t columns = grouped ? groups : static_cast<std::size_t>(nesting_.gpus);
  std::vector<std::vector<std::int64_t>> sums(size, std::vector<std::int64_t>(groups));
  for (std::size_t i = 0; i < table.size(); ++i) {
    const std::size_t column = i % columns;
    const auto group = grouped ? column : static_cast<std::size_t>(counts.group_of[column]);
    sums[i / columns % size][group] += table[i];
  }
  return sums;
}

double GroupCounts::rows(int within, int level, Copies copies) const {
  const bool mean = reading_ == CountReading::mean;
  std::int64_t busiest = 0;
  for (const auto& sums : by_index(mean ? nesting_.depth() : within, level, copies)) {
    busiest = std::max(busiest, *std::max_element(sums.begin(), sums.end()));
  }
  const double shared = mean ? nesting_.gpus : nesting_.groups_at(within);
  return static_cast<double>(busiest) * nesting_.groups_at(level) / shared;
}

StageRows GroupCounts::stage_rows(Copies copies) const {
  const int depth = nesting_.depth();
  StageRows result;
  result.flat = rows(0, depth, copies);
  for (int i = 1; i < depth; ++i) {
    result.inter.push_back(rows(i - 1, i, copies));
    result.intra.push_back(rows(i, depth, copies));
  }
  return result;
}

}  // namespace moesim
