// SPDX-License-Identifier: Apache-2.0
#include "sim/transport/transport.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

namespace moesim {
namespace {

/// The curve moved along the bytes to a link of another bandwidth.
Seconds moved_time(const LinkRates& rates, BytesPerSecond bandwidth, Bytes bytes) {
  if (bandwidth == rates.of) return rates.rates->time(bytes);
  const double same = static_cast<double>(bytes.value) * (rates.of / bandwidth);
  const auto whole = static_cast<std::int64_t>(same);
  const Seconds low = rates.rates->time(Bytes(whole)), high = rates.rates->time(Bytes(whole + 1));
  return low + (high - low) * (same - static_cast<double>(whole));
}

/// [class] the rates that a transport has for links of a topology.
std::vector<std::vector<const LinkRates*>> rates_of(const Transport& transport,
                                                    const Topology& topology) {
  std::vector<std::vector<const LinkRates*>> result(topology.classes().size());
  for (std::size_t c = 0; c < result.size(); ++c) {
    const std::string& link_class = topology.classes()[c].name;
    const std::string network = rated_network(transport, link_class, topology.network());
    for (const LinkRates& rates : transport.links) {
      if (rates.link_class != link_class) continue;
      if (rates.network.empty() || rates.network == network) result[c].push_back(&rates);
    }
  }
  return result;
}

Tier farthest_tier(const Topology& topology, const LinkLoads& loads) {
  Tier tier = Tier::host;
  for (const LinkUse& use : loads.uses) {
    const Link& link = topology.link(use.link);
    tier = std::max(tier, topology.classes()[static_cast<std::size_t>(link.link_class)].tier);
  }
  return tier;
}

/// Rows that a GPU sends to each of its peers on other hosts (`tier` host: to each of its peers),
/// mean over them, the most of any GPU.
double rows_per_peer(const Topology& topology, const GroupTraffic& traffic, Tier tier) {
  struct Sent {
    std::int64_t rows = 0, peers = 0;
  };
  std::vector<Sent> sent(static_cast<std::size_t>(topology.gpu_count()));
  traffic.for_each([&](GpuId from, GpuId to, Bytes bytes) {
    if (from == to) return;
    if (tier != Tier::host && topology.host_of(from) == topology.host_of(to)) return;
    sent[from.index()].rows += bytes.value / traffic.matrix.unit().value;
    ++sent[from.index()].peers;
  });
  double most = 0;
  for (const Sent& one : sent) {
    if (one.peers == 0) continue;
    most = std::max(most, static_cast<double>(one.rows) / static_cast<double>(one.peers));
  }
  return most;
}

/// A group's GPUs in each of its hosts.
std::vector<int> gpus_by_host(const Topology& topology, const GroupTraffic& traffic) {
  std::vector<int> of_host(static_cast<std::size_t>(topology.host_count()));
  for (const GpuId gpu : traffic.members) {
    ++of_host[static_cast<std::size_t>(topology.host_of(gpu))];
  }
  std::erase(of_host, 0);
  return of_host;
}

/// The part of a group's GPUs that a GPU does not share its host with (`tier` host: that are not
/// itself), the most of any GPU.
double part_beyond(const Topology& topology, const GroupTraffic& traffic, Tier tier) {
  const auto all = static_cast<double>(traffic.members.size());
  if (tier == Tier::host) return 1 - 1 / all;
  return 1 - std::ranges::min(gpus_by_host(topology, traffic)) / all;
}

/// "efa" of "efa-v3".
std::string_view family(std::string_view network) { return network.substr(0, network.find('-')); }

/// The measured links between which one of some bandwidth is, the same one if it is below or above
/// all, and how near it is to the faster.
struct Between {
  const LinkRates& slower;
  const LinkRates& faster;
  double near = 0;
};

Between between(const std::vector<const LinkRates*>& rates, BytesPerSecond bandwidth) {
  const auto above =
      std::ranges::find_if(rates, [&](const LinkRates* one) { return one->of >= bandwidth; });
  if (above == rates.end()) return {*rates.back(), *rates.back()};
  if (above == rates.begin() || (*above)->of == bandwidth) return {**above, **above};
  const LinkRates &slower = **(above - 1), &faster = **above;
  return {slower, faster, std::log(bandwidth / slower.of) / std::log(faster.of / slower.of)};
}

/// What each row costs on a link besides its bytes; `peers`: the group's other GPUs in a host.
Seconds per_message(const Between& at, int peers) {
  const auto of = [&](const LinkRates& one) {
    return one.per_message + one.per_message_peer * peers;
  };
  return of(at.slower) + (of(at.faster) - of(at.slower)) * at.near;
}

Seconds time_at(const Between& at, BytesPerSecond bandwidth, Bytes bytes) {
  if (&at.slower == &at.faster) return moved_time(at.slower, bandwidth, bytes);
  const Seconds by_slower = at.slower.rates->time(bytes), by_faster = at.faster.rates->time(bytes);
  return by_slower * std::pow(by_faster / by_slower, at.near);
}

/// What a transport makes of the links of a class, most of which have one bandwidth.
class SlowedLinks {
 public:
  explicit SlowedLinks(std::vector<const LinkRates*> rates) : rates_(std::move(rates)) {}

  /// `bytes`: of the exchange, or of the kernel that it is a part of.
  void slow(LinkUse& use, const Link& link, Bytes bytes, Bytes row, int peers) {
    if (rates_.empty() || link.table) return;
    if (!at_ || bandwidth_ != link.bandwidth) {
      at_.emplace(between(rates_, bandwidth_ = link.bandwidth));
      per_message_ = per_message(*at_, peers);
    }
    const Seconds ideal = use.time;
    const double factor = time_at(*at_, link.bandwidth, bytes) / (bytes / link.bandwidth);
    use.time = ideal * factor + per_message_ * (use.bytes / row);
    use.part *= ideal / use.time;
  }

 private:
  std::vector<const LinkRates*> rates_;
  // Of the newest link.
  BytesPerSecond bandwidth_;
  std::optional<Between> at_;
  Seconds per_message_;
};

}  // namespace

bool Transport::ideal() const {
  return !start_up && !host && !combine && !fused && sms == 0 && links.empty() &&
         per_row == TierTimes{} && others.empty();
}

std::string rated_network(const Transport& transport, const std::string& link_class,
                          const std::string& network) {
  if (network.empty()) return network;
  std::string_view before, oldest, infiniband, first;
  for (const LinkRates& rates : transport.links) {
    const std::string_view other = rates.network;
    if (rates.link_class != link_class || other.empty()) continue;
    if (other == network) return network;
    if (first.empty() || other < first) first = other;
    if (other == "infiniband") infiniband = other;
    if (family(other) != family(network)) continue;
    if (oldest.empty() || other < oldest) oldest = other;
    if (other < network && other > before) before = other;
  }
  for (const std::string_view kin : {before, oldest, infiniband, first}) {
    if (!kin.empty()) return std::string(kin);
  }
  return network;
}

Seconds time_on(const std::vector<const LinkRates*>& rates, BytesPerSecond bandwidth, Bytes bytes) {
  return time_at(between(rates, bandwidth), bandwidth, bytes);
}

void carry(const Transport& transport, bool goes_on, const Topology& topology,
           const GroupTraffic& traffic, std::span<const std::int64_t> kernel_bytes,
           LinkLoads& loads) {
  if (!topology.measured_with().empty() || traffic.matrix.ranks() == 1) return;
  const Tier tier = farthest_tier(topology, loads);
  if (goes_on || traffic.rounds == 0) {
    loads.overhead = Seconds(0);
  } else if (transport.start_up) {
    loads.overhead = transport.start_up->of(tier);
    if (transport.first_row > BytesPerSecond(0)) {
      loads.overhead += traffic.matrix.unit() / transport.first_row;
    }
    const Seconds per_peer = transport.per_peer.of(tier);
    if (per_peer > Seconds(0)) {
      loads.overhead += std::max(per_peer, topology.peer_overhead()) * most_peers(traffic.matrix);
    }
    loads.overhead = loads.overhead * topology.overhead_factor();
  }
  const bool starts = !goes_on && traffic.rounds > 0;
  const Seconds per_row = transport.per_row.of(tier), flags = transport.flags.of(tier);
  Seconds sent(0);
  if (per_row > Seconds(0)) sent = per_row * rows_per_peer(topology, traffic, tier);
  if (flags > Seconds(0) && starts) {
    sent = std::max(sent, flags * part_beyond(topology, traffic, tier));
  }
  loads.overhead += sent;
  std::vector<SlowedLinks> classes;
  for (auto& rates : rates_of(transport, topology)) classes.emplace_back(std::move(rates));
  const bool by_peers = std::ranges::any_of(
      transport.links, [](const LinkRates& one) { return one.per_message_peer > Seconds(0); });
  const int peers = by_peers ? std::ranges::max(gpus_by_host(topology, traffic)) - 1 : 0;
  for (LinkUse& use : loads.uses) {
    const Link& link = topology.link(use.link);
    const auto of_class = static_cast<std::size_t>(link.link_class);
    const Bytes bytes = kernel_bytes.empty() ? use.bytes : Bytes(kernel_bytes[use.link.index()]);
    classes[of_class].slow(use, link, bytes, traffic.matrix.unit(), peers);
  }
}

}  // namespace moesim
