// SPDX-License-Identifier: Apache-2.0
// Bytes on the fabric, and as they enter their hosts.
#include "sim/topology/route/loader.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "sim/base/ordering.h"

namespace moesim {

MemberEntrances::MemberEntrances(const Routes& routes, std::span<const GpuId> members) {
  for (const GpuId member : members) {
    const int entrance = routes.entrance_of(member.value);
    of_member.push_back(entrance);
    if (entrance >= 0 && (used.empty() || used.back() != entrance)) used.push_back(entrance);
  }
  sort_once(used);
  for (int& entrance : of_member) {
    if (entrance < 0) continue;
    entrance = static_cast<int>(std::ranges::lower_bound(used, entrance) - used.begin());
  }
  constexpr std::size_t long_run = 16;
  same.assign(members.size(), 1);
  std::size_t runs = 1;
  for (std::size_t m = members.size(); m-- > 1;) {
    if (of_member[m] == of_member[m - 1]) {
      same[m - 1] = same[m] + 1;
    } else {
      ++runs;
    }
  }
  in_long_runs = members.size() >= runs * long_run;
}

std::vector<int> members_by_host(const Routes& routes, std::span<const GpuId> members) {
  std::vector<int> by_host(members.size());
  std::iota(by_host.begin(), by_host.end(), 0);
  std::ranges::stable_sort(by_host, {}, [&](int m) {
    return routes.host_of(members[static_cast<std::size_t>(m)].value);
  });
  return by_host;
}

void Loader::cross_fabric() {
  constexpr std::size_t block = 8;
  std::array<std::vector<Load>, block> at;
  for (std::size_t start = 0; start < width_; start += block) {
    const std::size_t count = std::min(block, width_ - start);
    for (auto& loads : at) loads.assign(entering_.size(), {});
    for (std::size_t v = 0; v < entering_.size(); ++v) {
      if (entering_[v].empty()) continue;
      for (std::size_t k = 0; k < count; ++k) at[k][v] = entering_[v][start + k];
    }
    for (std::size_t k = 0; k < count; ++k) {
      cross_fabric(start + k, at[k]);
    }
  }
}

void Loader::cross_fabric(std::size_t e, std::vector<Load>& at) {
  const Entrance& entrance = this->entrance(e);
  if (entrance.gpu >= 0) arrived_.assign(routes_.downs(entrance.gpu).size(), {});
  for (const int v : entrance.order) {
    const auto here = static_cast<std::size_t>(v);
    const Load load = at[here];
    if (load.bytes == 0) continue;
    hops_.clear();
    for (const Arc& arc : routes_.fabric().out(v)) {
      if (entrance.distance[static_cast<std::size_t>(arc.to)] + arc.cost ==
          entrance.distance[here]) {
        hops_.push_back({arc.link, arc.to});
      }
    }
    if (entrance.gpu >= 0) add_down_hops(entrance, v);
    if (hops_.empty()) {  // the only end: enter_hosts takes over
      first_in_[e] = std::min(first_in_[e], load.latency);
      continue;
    }
    Dag::split(load, hops_.size(), [&](std::size_t k, const Load& part) {
      const Dag::Hop& hop = hops_[k];
      if (hop.to < 0) {
        arrived_[static_cast<std::size_t>(-1 - hop.to)] += part;
        return;
      }
      sums_.put(hop.link, part);
      at[static_cast<std::size_t>(hop.to)] += part;
    });
  }
  if (entrance.gpu >= 0) enter_host(entrance.gpu, arrived_);
}

void Loader::add_down_hops(const Entrance& entrance, int v) {
  const auto end = std::ranges::find(entrance.ends, v, &Entrance::End::fabric_vertex);
  if (end == entrance.ends.end() || entrance.distance[static_cast<std::size_t>(v)] != end->cost) {
    return;
  }
  const std::vector<DownHop>& downs = routes_.downs(entrance.gpu);
  for (std::size_t d = 0; d < downs.size(); ++d) {
    if (downs[d].fabric_vertex == v) hops_.push_back({downs[d].link, -1 - static_cast<int>(d)});
  }
  std::ranges::sort(hops_, {}, &Dag::Hop::link);
}

void Loader::enter_hosts() {
  for (std::size_t m = 0; m < members_.size(); ++m) {
    const std::int64_t units = inbound_[m];
    if (units == 0) continue;
    const auto e = static_cast<std::size_t>(entrances_.of_member[m]);
    if (entrance(e).gpu >= 0) continue;
    const int gpu = members_[m].value;
    arrived_.assign(routes_.downs(gpu).size(), {});
    Dag::split({units * traffic_.unit().value, first_in_[e]}, arrived_.size(),
               [&](std::size_t k, const Load& part) { arrived_[k] = part; });
    enter_host(gpu, arrived_);
  }
}

void Loader::enter_host(int gpu, const std::vector<Load>& loads) {
  const Host& host = routes_.host(routes_.host_of(gpu));
  const HostType& type = routes_.type(host);
  at_.assign(static_cast<std::size_t>(type.inside.size()), {});
  const std::vector<DownHop>& downs = routes_.downs(gpu);
  for (std::size_t d = 0; d < downs.size(); ++d) {
    if (downs[d].link >= 0) sums_.put(downs[d].link, loads[d]);
    at_[static_cast<std::size_t>(downs[d].vertex)] += loads[d];
  }
  push(host, type.to_gpu[static_cast<std::size_t>(routes_.local_of(gpu))]);
}

}  // namespace moesim
