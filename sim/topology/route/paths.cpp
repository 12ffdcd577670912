// SPDX-License-Identifier: Apache-2.0
// Follows the same next hops as loads do, for one pair.
#include "sim/topology/route/paths.h"

#include <algorithm>

namespace moesim {
namespace {

/// Depth first over host, fabric and host again; the order of links makes the order of paths.
class Walker {
 public:
  Walker(const Routes& routes, int from, int to)
      : routes_(routes),
        from_(from),
        to_(to),
        source_(routes.host(routes.host_of(from))),
        target_(routes.host(routes.host_of(to))) {}

  std::vector<Path> run() {
    const int vertex = routes_.type(source_).gpus[routes_.local_of(from_)];
    if (routes_.stays_inside(from_, to_)) {
      inside(vertex, 1);
    } else {
      entrance_ = &routes_.entrances()[routes_.entrance_of(to_)];
      const Attachment& attachment = routes_.attachment(routes_.host_of(from_));
      const int number = attachment.egress_of[routes_.entrance_of(to_)];
      egress_ = &routes_.egresses(source_.type)[number];
      leaving(vertex, 1);
    }
    return std::move(paths_);
  }

 private:
  static std::span<const Dag::Hop> hops_at(const Dag& dag, int vertex) {
    const auto at = std::ranges::find(dag.order, vertex);
    if (at == dag.order.end()) return {};
    const auto i = static_cast<std::size_t>(at - dag.order.begin());
    return {dag.hops.data() + dag.first[i], dag.hops.data() + dag.first[i + 1]};
  }

  /// Takes a link (-1: none), continues, and takes it back.
  template <class Next>
  void take(int link, Next&& next) {
    if (link >= 0) links_.push_back(LinkId(link));
    next();
    if (link >= 0) links_.pop_back();
  }

  /// The last part: inside the target's host to the GPU.
  void inside(int vertex, double share) {
    const auto local = static_cast<std::size_t>(routes_.local_of(to_));
    const HostType& type = routes_.type(target_);
    if (vertex == type.gpus[local]) {
      paths_.push_back({links_, share});
      return;
    }
    const auto hops = hops_at(type.to_gpu[local], vertex);
    for (const Dag::Hop& hop : hops) {
      take(target_.out_links[hop.link],
           [&] { inside(hop.to, share / static_cast<double>(hops.size())); });
    }
  }

  /// The first part: inside the source's host and out of it.
  void leaving(int vertex, double share) {
    const auto hops = hops_at(egress_->dag, vertex);
    const double part = share / static_cast<double>(hops.size());
    for (const Dag::Hop& hop : hops) {
      take(source_.out_links[hop.link], [&] {
        if (hop.to >= 0) {
          leaving(hop.to, part);
        } else {
          const auto& up = routes_.type(source_).up;
          const auto port = std::ranges::find(up, hop.link, &Port::link) - up.begin();
          crossing(source_.up_switch[port], part);
        }
      });
    }
  }

  struct Way {
    int link;
    int fabric_vertex;
    int host_vertex;  // -1 unless the way enters the host
  };

  void crossing(int v, double share) {
    std::vector<Way> ways;
    const int here = entrance_->distance[v];
    for (const Arc& arc : routes_.fabric().out(v)) {
      if (entrance_->distance[arc.to] + arc.cost == here) {
        ways.push_back({arc.link, arc.to, -1});
      }
    }
    const auto end = std::ranges::find(entrance_->ends, v, &Entrance::End::fabric_vertex);
    if (end != entrance_->ends.end() && end->cost == here) {
      for (const DownHop& down : routes_.downs(to_)) {
        if (down.fabric_vertex == v) ways.push_back({down.link, v, down.vertex});
      }
    }
    std::ranges::sort(ways, {}, &Way::link);
    for (const Way& way : ways) {
      const double part = share / static_cast<double>(ways.size());
      take(way.link, [&] {
        if (way.host_vertex >= 0) {
          inside(way.host_vertex, part);
        } else {
          crossing(way.fabric_vertex, part);
        }
      });
    }
  }

  const Routes& routes_;
  int from_, to_;
  const Host& source_;
  const Host& target_;
  const Entrance* entrance_ = nullptr;
  const Egress* egress_ = nullptr;
  std::vector<LinkId> links_;
  std::vector<Path> paths_;
};

}  // namespace

std::vector<Path> all_paths(const Routes& routes, int from, int to) {
  return Walker(routes, from, to).run();
}

}  // namespace moesim
