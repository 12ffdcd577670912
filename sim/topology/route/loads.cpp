// SPDX-License-Identifier: Apache-2.0
// One pass over the matrix sums units per destination and per (source, entrance); the sums are then
// pushed out of the hosts, through the fabric and into the hosts along the equal-cost next hops.
// Only entrances of members count, as most exchanges join a few hosts of many.
#include "sim/topology/route/loads.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "sim/topology/route/link_sums.h"

namespace moesim {
namespace {

class Loader {
 public:
  Loader(const Routes& routes, std::size_t links, const ByteMatrix& traffic,
         std::span<const GpuId> members)
      : routes_(routes),
        traffic_(traffic),
        members_(members),
        sums_(links),
        inbound_(members.size(), 0),
        entering_(static_cast<std::size_t>(routes.fabric().size())) {
    find_entrances();
    first_in_.assign(entrances_, Load().latency);
  }

  LinkLoads run() {
    const std::vector<int> by_host = members_by_host();
    const auto host_of = [&](int member) { return routes_.host_of(gpu(member)); };
    for (auto first = by_host.begin(); first != by_host.end();) {
      const int host = host_of(*first);
      const auto last =
          std::find_if(first, by_host.end(), [&](int m) { return host_of(m) != host; });
      leave_host(host, {first, last});
      first = last;
    }
    if (crosses_) {
      cross_fabric();
      enter_hosts();
    }
    return sums_.take();
  }

 private:
  using Entries = std::span<const ByteMatrix::Entry>;

  int gpu(int member) const { return members_[static_cast<std::size_t>(member)].value; }

  void find_entrances() {
    for (const GpuId member : members_) {
      const int entrance = routes_.entrance_of(member.value);
      entrance_.push_back(entrance);
      if (entrance >= 0 && (used_.empty() || used_.back() != entrance)) used_.push_back(entrance);
    }
    std::ranges::sort(used_);
    used_.erase(std::ranges::unique(used_).begin(), used_.end());
    for (int& entrance : entrance_) {
      if (entrance < 0) continue;
      entrance = static_cast<int>(std::ranges::lower_bound(used_, entrance) - used_.begin());
    }
    entrances_ = used_.size();
  }

  const Entrance& entrance(std::size_t e) const {
    return routes_.entrances()[static_cast<std::size_t>(used_[e])];
  }

  std::vector<int> members_by_host() const {
    std::vector<int> members(members_.size());
    std::iota(members.begin(), members.end(), 0);
    std::ranges::stable_sort(members, {}, [&](int m) { return routes_.host_of(gpu(m)); });
    return members;
  }

  /// Units for GPUs of other hosts. Everything else works on these sums, so the number of pairs
  /// counts here alone.
  void sum_remote(Entries entries, std::int64_t* sums) {
    const int* entrance = entrance_.data();
    std::int64_t* inbound = inbound_.data();
    for (const ByteMatrix::Entry& e : entries) {
      sums[entrance[e.to.index()]] += e.units;
      inbound[e.to.index()] += e.units;
    }
  }

  void leave_host(int h, std::span<const int> members) {
    const Host& host = routes_.host(h);
    const std::size_t gpus = host.gpus.size();
    remote_.assign(gpus * entrances_, 0);
    local_.assign(gpus * gpus, 0);
    for (const int from : members) {
      const auto g = static_cast<std::size_t>(routes_.local_of(gpu(from)));
      const Entries row = traffic_.row(GpuId(from));
      const auto member = [](const ByteMatrix::Entry& e) { return e.to.value; };
      const auto first = std::ranges::lower_bound(row, members.front(), {}, member);
      const auto last = std::ranges::upper_bound(row, members.back(), {}, member);
      sum_remote({row.begin(), first}, &remote_[g * entrances_]);
      sum_remote({last, row.end()}, &remote_[g * entrances_]);
      for (auto e = first; e != last; ++e) {
        if (e->to.value == from) continue;
        const int there = gpu(e->to.value);
        if (routes_.stays_inside(gpu(from), there)) {
          const auto to = static_cast<std::size_t>(routes_.local_of(there));
          local_[to * gpus + g] += traffic_.bytes(*e).value;
        } else {
          sum_remote({e, e + 1}, &remote_[g * entrances_]);
        }
      }
    }
    stay_inside(host);
    if (std::ranges::all_of(remote_, [](std::int64_t units) { return units == 0; })) return;
    crosses_ = true;
    go_out(h);
  }

  void stay_inside(const Host& host) {
    const HostType& type = routes_.type(host);
    const std::size_t gpus = host.gpus.size();
    for (std::size_t to = 0; to < gpus; ++to) {
      at_.assign(static_cast<std::size_t>(type.inside.size()), {});
      bool any = false;
      for (std::size_t from = 0; from < gpus; ++from) {
        const std::int64_t bytes = local_[to * gpus + from];
        if (bytes == 0) continue;
        const auto vertex = static_cast<std::size_t>(type.gpus[from]);
        any = true;
        at_[vertex] = {bytes, type.latency_to_gpu[to][vertex]};
        sums_.note_latency(at_[vertex].latency);
      }
      if (any) push(host, type.to_gpu[to]);
    }
  }

  /// Pushes what lies in at_ along a DAG of the host.
  void push(const Host& host, const Dag& dag) {
    dag.push(at_, [&](int link, const Load& load) {
      sums_.put(host.out_links[static_cast<std::size_t>(link)], load);
    });
  }

  /// Sends remote_ to the host's ports and notes what enters the fabric where. Where no GPU has a
  /// choice of ports, entrances with the same path out share one push.
  void go_out(int h) {
    const Host& host = routes_.host(h);
    const Attachment& attachment = routes_.attachment(h);
    const std::vector<Egress>& egresses = routes_.egresses(host.type);
    for (const int v : host.fabric_up) {
      entering_[static_cast<std::size_t>(v)].resize(entrances_);
    }
    const std::size_t gpus = host.gpus.size();
    leaving_.assign(egresses.size() * gpus, {});
    choosing_.assign(gpus * entrances_, {});
    for (std::size_t g = 0; g < gpus; ++g) {
      for (std::size_t e = 0; e < entrances_; ++e) {
        const std::int64_t units = remote_[g * entrances_ + e];
        if (units == 0) continue;
        const auto number = static_cast<std::size_t>(egress_of(attachment, e));
        const Egress& egress = egresses[number];
        Load load{units * traffic_.unit().value};
        for (const Egress::Exit& exit : egress.exits[g]) {
          const int v = host.up_switch[static_cast<std::size_t>(exit.port)];
          const double latency = exit.latency + entrance(e).latency[static_cast<std::size_t>(v)];
          sums_.note_latency(latency);
          load.latency = std::min(load.latency, latency);
        }
        if (!egress.single) {
          choosing_[g * entrances_ + e] = load;
          continue;
        }
        leaving_[number * gpus + g] += load;
        const auto port = static_cast<std::size_t>(egress.exits[g].front().port);
        entering_[static_cast<std::size_t>(host.up_switch[port])][e] += load;
      }
    }
    for (std::size_t n = 0; n < egresses.size(); ++n) {
      if (egresses[n].single) push_out(host, egresses[n], &leaving_[n * gpus], 1);
    }
    for (std::size_t e = 0; e < entrances_; ++e) {
      if (egress_of(attachment, e) < 0) continue;
      const Egress& egress = egresses[static_cast<std::size_t>(egress_of(attachment, e))];
      if (egress.single) continue;
      if (!push_out(host, egress, &choosing_[e], entrances_)) continue;
      const HostType& type = routes_.type(host);
      for (std::size_t p = 0; p < type.up.size(); ++p) {
        entering_[static_cast<std::size_t>(host.up_switch[p])][e] += through_port_[p];
      }
    }
  }

  int egress_of(const Attachment& attachment, std::size_t e) const {
    return attachment.egress_of[static_cast<std::size_t>(used_[e])];
  }

  /// Pushes load[g * stride] from every GPU g; through_port_ says what left by which port.
  bool push_out(const Host& host, const Egress& egress, const Load* load, std::size_t stride) {
    const HostType& type = routes_.type(host);
    at_.assign(static_cast<std::size_t>(type.inside.size()), {});
    bool any = false;
    for (std::size_t g = 0; g < host.gpus.size(); ++g) {
      at_[static_cast<std::size_t>(type.gpus[g])] = load[g * stride];
      any = any || load[g * stride].bytes != 0;
    }
    if (!any) return false;
    through_port_.assign(type.up.size(), {});
    egress.dag.push(at_, [&](int link, const Load& part) {
      sums_.put(host.out_links[static_cast<std::size_t>(link)], part);
      if (egress.single) return;
      for (std::size_t p = 0; p < type.up.size(); ++p) {
        if (type.up[p].link == link) through_port_[p] += part;
      }
    });
    return true;
  }

  /// Takes the entrances in blocks, so that a row of entering_ is read a cache line at a time.
  void cross_fabric() {
    constexpr std::size_t block = 8;
    std::array<std::vector<Load>, block> at;
    for (std::size_t start = 0; start < entrances_; start += block) {
      const std::size_t count = std::min(block, entrances_ - start);
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

  /// Sends what lies at the fabric's vertices to one entrance, from the farthest vertex on.
  void cross_fabric(std::size_t e, std::vector<Load>& at) {
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

  /// Adds the links from a fabric vertex straight into the host, as hops to -1 - their number.
  void add_down_hops(const Entrance& entrance, int v) {
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

  /// GPUs entered from one fabric vertex: all that is bound for them comes from there.
  void enter_hosts() {
    for (std::size_t m = 0; m < members_.size(); ++m) {
      const std::int64_t units = inbound_[m];
      if (units == 0) continue;
      const auto e = static_cast<std::size_t>(entrance_[m]);
      if (entrance(e).gpu >= 0) continue;
      const int gpu = members_[m].value;
      arrived_.assign(routes_.downs(gpu).size(), {});
      Dag::split({units * traffic_.unit().value, first_in_[e]}, arrived_.size(),
                 [&](std::size_t k, const Load& part) { arrived_[k] = part; });
      enter_host(gpu, arrived_);
    }
  }

  /// loads[d] comes by the GPU's d-th path in.
  void enter_host(int gpu, const std::vector<Load>& loads) {
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

  const Routes& routes_;
  const ByteMatrix& traffic_;
  std::span<const GpuId> members_;
  std::vector<int> used_;      // the entrances of members, ascending; others below are places here
  std::size_t entrances_ = 0;  // how many
  std::vector<int> entrance_;  // per member, -1: nothing outside its host needs to reach it
  LinkSums sums_;
  bool crosses_ = false;                     // whether anything leaves its host
  std::vector<std::int64_t> inbound_;        // units per member from outside its host
  std::vector<std::vector<Load>> entering_;  // per fabric vertex and entrance
  std::vector<double> first_in_;             // per entrance the least latency of a route

  // Reused by the steps above.
  std::vector<std::int64_t> remote_;  // units per GPU of the host and entrance
  std::vector<std::int64_t> local_;   // bytes per destination and source GPU of the host
  std::vector<Load> leaving_;         // per path out and GPU of the host
  std::vector<Load> choosing_;        // per GPU of the host and entrance, where there is a choice
  std::vector<Load> at_, through_port_, arrived_;
  std::vector<Dag::Hop> hops_;
};

}  // namespace

LinkLoads link_loads(const Routes& routes, std::size_t links, const ByteMatrix& traffic,
                     std::span<const GpuId> members) {
  return Loader(routes, links, traffic, members).run();
}

}  // namespace moesim
