// SPDX-License-Identifier: Apache-2.0
// The routes of a cluster: inside hosts, out of them, through the fabric, into them.
#pragma once

#include <map>
#include <vector>

#include "sim/topology/route/hosts.h"

namespace moesim {

/// Distances and latencies are kept from every switch to every entrance, and every host is checked
/// against each: of more pairs they take minutes and gigabytes. Rails of 16,000 nodes have 8e7.
inline constexpr double most_route_pairs = 1 << 27;

/// How traffic leaves a host for destinations that the host cannot tell apart: next hops up to its
/// ports.
struct Egress {
  struct Exit {
    int port;        // index into HostType::up
    double latency;  // largest one from the GPU to behind the port
  };
  Dag dag;
  std::vector<std::vector<Exit>> exits;  // per GPU of the host; empty if there is no path out
  bool single = true;                    // no GPU has more than one exit
  bool complete = true;                  // every GPU has one
};

/// GPUs that the fabric treats alike, because their traffic leaves it at the same vertices: the
/// fabric is solved once per entrance instead of once per GPU. A GPU that can be entered from
/// several switches has an entrance of its own.
struct Entrance {
  struct End {
    int fabric_vertex;
    int cost;
    double latency;  // largest one from there to the GPU
    int level = 0;   // how many ports are nearer, counted by their distances from the GPU
    auto operator<=>(const End&) const = default;
  };
  std::vector<End> ends;
  int gpu = -1;                 // the only GPU of an entrance with several ends
  std::vector<int> distance;    // per fabric vertex
  std::vector<int> order;       // fabric vertices that reach an end, farthest first
  std::vector<double> latency;  // per fabric vertex, to the GPU
};

/// Hosts of one type at the same switches: their traffic leaves by the same ports.
struct Attachment {
  int type = 0;
  std::vector<int> up_switch;
  std::vector<int> egress_of;  // per entrance an index into the type's egresses, -1: no path
};

/// A link by which one GPU is entered.
struct DownHop {
  int link;    // -1: none, a direct link is counted at its sender
  int vertex;  // counted within the host
  int fabric_vertex;
};

class Routes {
 public:
  /// Throws Error when two GPUs cannot reach each other.
  explicit Routes(const Topology::Parts& parts);

  const Host& host(int h) const { return borders_.hosts[static_cast<std::size_t>(h)]; }
  int hosts() const { return static_cast<int>(borders_.hosts.size()); }
  const HostType& type(const Host& h) const {
    return borders_.types[static_cast<std::size_t>(h.type)];
  }
  const Digraph& fabric() const { return fabric_; }
  int host_of(int gpu) const { return host_of_[static_cast<std::size_t>(gpu)]; }
  int local_of(int gpu) const { return local_of_[static_cast<std::size_t>(gpu)]; }
  /// -1 for GPUs that nothing outside their host needs to reach.
  int entrance_of(int gpu) const { return entrance_of_[static_cast<std::size_t>(gpu)]; }
  const std::vector<Entrance>& entrances() const { return entrances_; }
  const std::vector<DownHop>& downs(int gpu) const { return downs_[static_cast<std::size_t>(gpu)]; }
  const Attachment& attachment(int h) const {
    return attachments_[static_cast<std::size_t>(attachment_of_[static_cast<std::size_t>(h)])];
  }
  const std::vector<Egress>& egresses(int type) const {
    return egresses_[static_cast<std::size_t>(type)];
  }
  /// Whether a pair of GPUs communicates inside its host.
  bool stays_inside(int from, int to) const;

 private:
  /// `wide`: GPUs that hosts cannot reach by their nearest ports. The entrances of these have all
  /// ports, and whoever reaches a nearer one takes that. Empty: none.
  void find_entrances(const std::vector<bool>& wide);
  Entrance entrance_to(int gpu, bool wide);
  /// Throws Error if distances to so many targets are too many.
  void check_pairs(std::size_t targets) const;
  void find_attachments();
  /// Calls lacks(from, to) for all pairs of GPUs without a route.
  template <class Lacks>
  void for_unreachable(Lacks&& lacks) const;
  /// [GPU] whether some other one does not reach it; empty: none.
  std::vector<bool> unreached() const;
  void check_reachable(const Topology::Parts& parts) const;
  void add_levels(Entrance& entrance, const std::map<int, std::vector<int>>& distances) const;
  void solve(Entrance& entrance, std::map<int, std::vector<int>>& distances) const;
  int egress_for(const Attachment& attachment, const Entrance& entrance,
                 std::map<std::pair<int, std::vector<int>>, int>& known);

  Borders borders_;
  Digraph fabric_;
  std::vector<int> host_of_, local_of_, entrance_of_;
  std::vector<std::vector<DownHop>> downs_;
  std::vector<Entrance> entrances_;
  std::vector<Attachment> attachments_;
  std::vector<int> attachment_of_;
  std::vector<std::vector<Egress>> egresses_;  // per type
  double ways_out_ = 0;                        // GPUs x vertices of their hosts, summed
};

/// Next hops out of a host; beyond[p] is the cost of the rest of the route behind port p.
Egress egress_toward(const HostType& type, const std::vector<int>& beyond);

}  // namespace moesim
