// SPDX-License-Identifier: Apache-2.0
#include "sim/report/moved_bytes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "sim/base/id_vector.h"

namespace moesim {
namespace {

/// How far the units of a matrix go among a group, whichever way.
struct Reached {
  std::int64_t same_gpu = 0, same_host = 0, other_host = 0;
};

Reached reached(const ByteMatrix& matrix, const Group& group, const Topology& topology) {
  std::map<int, std::vector<GpuId>> of_host;  // members
  for (const GpuId member : ids<GpuId>(std::ssize(group))) {
    of_host[topology.host_of(group[member.index()])].push_back(member);
  }
  Reached units;
  for (const auto& [host, members] : of_host) {
    for (const GpuId from : members) {
      const ByteMatrix::Row row = matrix.row(from);
      std::int64_t inside = 0;
      for (const GpuId to : members) inside += row.units(to);
      const std::int64_t kept = row.units(from);
      units.same_gpu += kept;
      units.same_host += inside - kept;
      units.other_host += row.total() - inside;
    }
  }
  return units;
}

/// Where an exchange's bytes go, and a check that they appear on the tiers they need and no other.
Traffic traffic_of(const Op& op, const Reached& units, std::span<const ExchangePrice> prices,
                   const Topology& topology) {
  const std::int64_t unit = op.exchange()->traffic.unit().value;
  Traffic traffic{Bytes(units.same_gpu * unit),
                  Bytes(units.same_host * unit),
                  Bytes(units.other_host * unit),
                  {}};
  traffic.link_class.assign(topology.classes().size(), 0);
  const std::vector<Link>& links = topology.links();
  for (const ExchangePrice& price : prices) {
    for (const LinkUse& use : price->loads.uses) {
      const int link_class = links[use.link.index()].link_class;
      traffic.link_class[static_cast<std::size_t>(link_class)] += use.bytes.value;
    }
  }
  std::int64_t outer = 0;
  for (std::size_t c = 0; c < traffic.link_class.size(); ++c) {
    if (topology.classes()[c].tier != Tier::host) outer += traffic.link_class[c];
  }
  if (outer < traffic.other_host.value) {
    throw std::logic_error(fmt::format("{}: {} bytes leave their host, the fabric carries {}",
                                       op.label.text(), traffic.other_host.value, outer));
  }
  if (outer > 0 && traffic.other_host.value == 0) {
    throw std::logic_error(
        fmt::format("{}: nothing leaves its host, yet the fabric carries {} "
                    "bytes: a host's GPUs are not joined inside it",
                    op.label.text(), outer));
  }
  return traffic;
}

}  // namespace

void MovedBytes::add(OpId exchange, int times) {
  const Op& op = plan_.plan()[exchange];
  const Moved once{exchange, op.key.layer, carries_tokens(op.stream),
                   op.key.stage == Stage::migrate, times};
  std::vector<Moved>& moved = moved_[plan_.price_of(exchange)];
  const auto known = std::ranges::find_if(moved, [&](const Moved& m) {
    return m.layer == once.layer && m.tokens == once.tokens && m.migrates == once.migrates;
  });
  known == moved.end() ? moved.push_back(once) : static_cast<void>(known->times += times);
}

void MovedBytes::add_to(std::map<int, LayerMetrics>& layers) {
  // Exchanges there and back, forward and backward share a matrix.
  std::map<std::pair<const void*, Group>, Reached> known;
  const Topology& topology = plan_.topology();
  for (std::vector<Moved>& of_price : moved_) {
    for (const Moved& moved : std::exchange(of_price, {})) {
      const Op& op = plan_.plan()[moved.first];
      const ByteMatrix& matrix = op.exchange()->traffic;
      const auto [units, fresh] = known.try_emplace({matrix.identity().first, op.members()});
      if (fresh) units->second = reached(matrix, op.members(), topology);
      const std::span<const ExchangePrice> prices = plan_.prices_of(moved.first);
      LayerMetrics& layer = layers[moved.layer];
      (moved.tokens ? layer.traffic : layer.parameter_traffic)
          .add(traffic_of(op, units->second, prices, topology), moved.times);
      if (moved.migrates) layer.migrated += matrix.off_diagonal() * moved.times;
      layer.link_bytes.resize(topology.links().size());
      for (const ExchangePrice& price : prices) {
        for (const LinkUse& use : price->loads.uses) {
          layer.link_bytes[use.link.index()] += use.bytes.value * moved.times;
        }
      }
    }
  }
}

}  // namespace moesim
