// SPDX-License-Identifier: Apache-2.0
// The critical path for people.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "sim/report/path_report.h"

namespace moesim {
namespace {

/// Indices of the values above 0, the largest first; of equals the lowest.
template <class Values, class Value>
std::vector<std::size_t> by_size(const Values& values, Value value) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::erase_if(order, [&](std::size_t i) { return !(value(values[i]) > Seconds(0)); });
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::size_t i) { return value(values[i]); });
  return order;
}

std::string bound_text(const PathPart& part) {
  const std::string name = longest_name(part.by);
  return fmt::format("{} {:.0f} %", name, 100 * (part.by.at(name) / part.time));
}

}  // namespace

Table path_table(const PathSums& path, double plans) {
  Table table("critical_path", 1, {"on the path", "time", "share", "bound by", "busiest link"});
  for (const std::size_t k : by_size(path.kinds, [](const PathPart& part) { return part.time; })) {
    const PathPart& part = path.kinds[k];
    table.rows.push_back({name_of(static_cast<PathKind>(k)), part.time * (1 / plans),
                          percent_cell(part.time / path.length, 1), bound_text(part),
                          part.links.empty() ? "-" : longest_name(part.links)});
  }
  return table;
}

Table path_gpu_table(const PathSums& path, double plans, std::size_t most) {
  Table table("critical_gpus", 1, {"GPU", "on the path", "share", "others waited"});
  for (const std::size_t g : by_size(path.gpus, [](Seconds time) { return time; })) {
    if (table.rows.size() == most) break;
    table.rows.push_back({std::to_string(g), path.gpus[g] * (1 / plans),
                          percent_cell(path.gpus[g] / path.length, 1),
                          path.waited[g] * (1 / plans)});
  }
  return table;
}

std::string path_text(const PathSums& path) {
  if (!(path.length > Seconds(0))) return "-";
  const auto share = [&](Seconds time) { return 100 * (time / path.length); };
  const PathKind kind = longest_kind(path);
  // The way there and back is one thing to whoever looks for what to change.
  const Seconds tokens = path.of(PathKind::dispatch).time + path.of(PathKind::combine).time;
  if (tokens >= path.of(kind).time) return fmt::format("tokens {:.0f} %", share(tokens));
  return fmt::format("{} {:.0f} %", name_of(kind), share(path.of(kind).time));
}

}  // namespace moesim
