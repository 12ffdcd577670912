// SPDX-License-Identifier: Apache-2.0
#include "sim/model/collective_cost.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace moesim {
namespace {

constexpr Range possible_ranks{1, 1 << 20};

AlphaBeta alpha_beta(const YamlMap& map, const std::string& key) {
  const auto value = map.get(key);
  if (!value) return {};
  const YamlMap line = value->map();
  return {line.seconds("alpha"), line.seconds("per_byte").value};
}

void read_levels(const YamlMap& map, CollectiveCosts& costs) {
  const auto levels = map.get("levels");
  if (!levels) return;
  for (const YamlValue& item : levels->list()) {
    const YamlMap level = item.map();
    const int outer = costs.nesting.groups.back();
    const auto groups = static_cast<int>(level.integer("groups", possible_ranks));
    if (level.good({"groups"}) && map.good({"gpus"}) &&
        (groups <= outer || groups % outer != 0 || costs.nesting.gpus % groups != 0)) {
      level.find("groups")->error(
          fmt::format("{} groups do not nest in the {} of the level above and {} GPUs", groups,
                      outer, costs.nesting.gpus),
          "levels go outside-in; each number is a multiple of the one before and divides 'gpus'");
    }
    costs.nesting.groups.push_back(groups > 0 ? groups : outer);
    costs.inter.push_back(alpha_beta(level, "inter"));
    costs.intra.push_back(alpha_beta(level, "intra"));
  }
}

CollectiveCosts read_costs(YamlDocument& doc) {
  const YamlMap map = doc.root().map();
  CollectiveCosts costs;
  costs.name = map.string("name");
  costs.description = map.string("description", "");
  costs.source = map.string("source");
  costs.nesting.gpus = static_cast<int>(map.integer("gpus", possible_ranks));
  costs.flat = alpha_beta(map, "flat");
  read_levels(map, costs);
  doc.finish();
  return costs;
}

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

CollectiveCosts read_collective_costs(const std::string& path,
                                      const std::vector<Override>& overrides) {
  return read_costs(*YamlDocument::from_file(path, overrides));
}

CollectiveCosts parse_collective_costs(const std::string& text, const std::string& name,
                                       const std::vector<Override>& overrides) {
  return read_costs(*YamlDocument::from_text(text, name, overrides));
}

CollectiveCosts on_nodes(const CollectiveCosts& costs, int nodes) {
  const int all = costs.nesting.depth() > 1 ? costs.nesting.groups[1] : 1;
  if (nodes < 1 || nodes > all) {
    throw Error(fmt::format("collective costs '{}' are known for 1 to {} nodes, not for {}",
                            costs.name, all, nodes));
  }
  CollectiveCosts part = costs;
  if (nodes == all) return part;
  part.nesting.gpus = costs.nesting.gpus / all * nodes;
  for (std::size_t i = 1; i < costs.nesting.groups.size(); ++i) {
    part.nesting.groups[i] = costs.nesting.groups[i] / all * nodes;
  }
  if (nodes == 1) {
    part.flat = costs.intra.front();
    part.nesting.groups.erase(part.nesting.groups.begin());
    part.inter.erase(part.inter.begin());
    part.intra.erase(part.intra.begin());
    return part;
  }
  const double scale = (1 - 1.0 / nodes) / (1 - 1.0 / all);
  part.flat.seconds_per_byte *= scale;
  part.inter.front().seconds_per_byte *= scale;
  return part;
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
  costs.name = "fitted";
  costs.source = "fitted to exchanges of the simulated network";
  costs.nesting = nesting;
  costs.flat = fit(0, nesting.depth());
  for (int i = 1; i < nesting.depth(); ++i) {
    costs.inter.push_back(fit(i - 1, i));
    costs.intra.push_back(fit(i, nesting.depth()));
  }
  return costs;
}

}  // namespace moesim
