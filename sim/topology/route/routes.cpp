// SPDX-License-Identifier: Apache-2.0
// Finds where traffic enters the host of every GPU, how traffic leaves hosts, and distances in the
// fabric. What looks alike is solved once: GPUs by their entrance, hosts by their attachment.
#include "sim/topology/route/routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "sim/base/error.h"

namespace moesim {
namespace {

/// Steps through all GPUs and vertices of a host, once for each way out of it: a few seconds.
constexpr double most_ways_out = 4e9;

}  // namespace

Routes::Routes(const Topology::Parts& parts)
    : borders_(cut_at_hosts(parts)),
      fabric_(borders_.fabric_vertices, std::move(borders_.fabric_arcs)),
      host_of_(parts.gpus.size()),
      local_of_(parts.gpus.size()),
      entrance_of_(parts.gpus.size(), -1),
      downs_(parts.gpus.size()),
      egresses_(borders_.types.size()) {
  bool crosses = false;
  int with_gpus = 0;
  for (int h = 0; h < hosts(); ++h) {
    int local = 0;
    for (const int gpu : host(h).gpus) {
      host_of_[gpu] = h;
      local_of_[gpu] = local++;
    }
    if (local > 0) ++with_gpus;
    crosses = crosses || with_gpus > 1 || !type(host(h)).connected;
  }
  if (!crosses) return;  // a single host whose GPUs reach each other inside needs no fabric
  find_entrances({});
  find_attachments();
  if (const std::vector<bool> wide = unreached(); !wide.empty()) {
    find_entrances(wide);
    find_attachments();
  }
  check_reachable(parts);
}

bool Routes::stays_inside(int from, int to) const {
  if (host_of(from) != host_of(to)) return false;
  const HostType& t = type(host(host_of(from)));
  const int vertex = t.gpus[local_of(from)];
  return t.distance_to_gpu[local_of(to)][vertex] < unreachable;
}

/// The ends of an entrance are the fabric vertices before the GPU's nearest ports. Several ports
/// behind one vertex are one end; ports that cost more than the cheapest one there carry nothing.
Entrance Routes::entrance_to(int gpu, bool wide) {
  const Host& h = host(host_of(gpu));
  const HostType& t = type(h);
  const auto local = static_cast<std::size_t>(local_of(gpu));
  const auto distance_of = [&](int d) {
    return t.distance_to_gpu[local][static_cast<std::size_t>(t.down[d].vertex)];
  };
  std::map<int, int> levels;  // of distances from ports to the GPU
  for (int d = 0; d < std::ssize(t.down); ++d) {
    if (distance_of(d) < unreachable) levels.emplace(distance_of(d), 0);
  }
  if (!wide && !levels.empty()) levels.erase(std::next(levels.begin()), levels.end());
  int number = 0;
  for (auto& [distance, level] : levels) level = number++;
  const auto key_of = [&](int d) {
    const auto level = levels.find(distance_of(d));
    return std::pair(level == levels.end() ? -1 : level->second, t.down[d].cost);
  };
  std::map<int, Entrance::End> ends;  // by fabric vertex
  for (int d = 0; d < std::ssize(t.down); ++d) {
    const auto [level, cost] = key_of(d);
    if (level < 0) continue;
    const int at = h.down_switch[d];
    Entrance::End& end = ends.try_emplace(at, Entrance::End{at, cost, 0, level}).first->second;
    std::tie(end.level, end.cost) =
        std::min(std::pair(end.level, end.cost), std::pair(level, cost));
  }
  for (int d = 0; d < std::ssize(t.down); ++d) {
    const auto [level, cost] = key_of(d);
    if (level < 0) continue;
    const Port& port = t.down[d];
    Entrance::End& end = ends.at(h.down_switch[d]);
    if (level != end.level || cost != end.cost) continue;
    end.latency = std::max(end.latency, port.latency + t.latency_to_gpu[local][port.vertex]);
    downs_[gpu].push_back({h.down_links[d], port.vertex, end.fabric_vertex});
  }
  Entrance entrance;
  for (const auto& [at, end] : ends) entrance.ends.push_back(end);
  if (ends.size() > 1) entrance.gpu = gpu;
  return entrance;
}

void Routes::find_entrances(const std::vector<bool>& wide) {
  entrances_.clear();
  // Key: the ends, and the GPU itself when there are several of them.
  std::map<std::pair<std::vector<Entrance::End>, int>, int> known;
  std::map<int, std::vector<int>> distances;
  for (std::size_t g = 0; g < host_of_.size(); ++g) {
    const int gpu = static_cast<int>(g);
    downs_[g].clear();
    Entrance entrance = entrance_to(gpu, !wide.empty() && wide[g]);
    if (entrance.ends.empty()) continue;
    const auto [at, fresh] =
        known.try_emplace({entrance.ends, entrance.gpu}, static_cast<int>(entrances_.size()));
    entrance_of_[g] = at->second;
    if (!fresh) continue;
    check_pairs(std::max(entrances_.size(), entrance.ends.size()));
    solve(entrance, distances);
    entrances_.push_back(std::move(entrance));
  }
}

void Routes::check_pairs(std::size_t targets) const {
  const auto sources = static_cast<double>(fabric_.size() + hosts());
  if (static_cast<double>(targets) * sources <= most_route_pairs) return;
  throw Error(fmt::format("the routes of {} GPUs at so many switches are too many to compute",
                          host_of_.size()),
              "fewer nodes, or more of them at one switch");
}

/// A level costs more than any route, so that whoever reaches a nearer port takes that. Ends whose
/// costs would be too large are dropped.
void Routes::add_levels(Entrance& entrance,
                        const std::map<int, std::vector<int>>& distances) const {
  const auto is_near = [](const Entrance::End& end) { return end.level == 0; };
  if (std::ranges::all_of(entrance.ends, is_near)) return;
  int longest = 0;
  const auto count = [&](const std::vector<int>& all, int more) {
    for (const int each : all) {
      if (each < unreachable) longest = std::max(longest, each + more);
    }
  };
  for (const Entrance::End& end : entrance.ends) count(distances.at(end.fabric_vertex), end.cost);
  int way_out = 0;
  std::swap(longest, way_out);
  for (const HostType& t : borders_.types) {
    for (std::size_t p = 0; p < t.up.size(); ++p) count(t.distance_to_port[p], t.up[p].cost);
  }
  const std::int64_t level = std::int64_t{1} + longest + way_out;
  std::erase_if(entrance.ends, [&](const Entrance::End& end) {
    return level * (end.level + 1) >= unreachable - level;
  });
  for (Entrance::End& end : entrance.ends) end.cost += static_cast<int>(level) * end.level;
}

/// Distances from every fabric vertex through the nearest end; `distances` keeps those to single
/// vertices, which entrances share.
void Routes::solve(Entrance& entrance, std::map<int, std::vector<int>>& distances) const {
  entrance.distance.assign(fabric_.size(), unreachable);
  entrance.latency.assign(fabric_.size(), 0);
  for (const Entrance::End& end : entrance.ends) {
    const auto [at, fresh] = distances.try_emplace(end.fabric_vertex);
    if (!fresh) continue;
    check_pairs(distances.size());
    at->second = fabric_.distances_to(end.fabric_vertex);
  }
  add_levels(entrance, distances);
  for (const Entrance::End& end : entrance.ends) {
    const std::vector<int>& to_end = distances.at(end.fabric_vertex);
    for (std::size_t v = 0; v < entrance.distance.size(); ++v) {
      if (to_end[v] == unreachable) continue;
      entrance.distance[v] = std::min(entrance.distance[v], to_end[v] + end.cost);
    }
  }
  for (const Entrance::End& end : entrance.ends) {
    const auto v = static_cast<std::size_t>(end.fabric_vertex);
    if (entrance.distance[v] == end.cost) entrance.latency[v] = end.latency;
  }
  entrance.latency = longest_latency(fabric_, entrance.distance, std::move(entrance.latency));
  entrance.order = farthest_first(entrance.distance);
}

void Routes::find_attachments() {
  attachments_.clear();
  attachment_of_.clear();
  for (auto& of_type : egresses_) of_type.clear();
  std::map<std::pair<int, std::vector<int>>, int> attachments;
  std::map<std::pair<int, std::vector<int>>, int> egresses;
  for (int h = 0; h < hosts(); ++h) {
    const Host& here = host(h);
    const auto [at, fresh] =
        attachments.try_emplace({here.type, here.up_switch}, static_cast<int>(attachments_.size()));
    attachment_of_.push_back(at->second);
    if (!fresh) continue;
    Attachment attachment{here.type, here.up_switch, {}};
    attachment.egress_of.reserve(entrances_.size());
    for (const Entrance& entrance : entrances_) {
      attachment.egress_of.push_back(egress_for(attachment, entrance, egresses));
    }
    attachments_.push_back(std::move(attachment));
  }
}

/// Only differences of the costs behind the ports decide which port is taken, so entrances with
/// equal differences share an egress.
int Routes::egress_for(const Attachment& attachment, const Entrance& entrance,
                       std::map<std::pair<int, std::vector<int>>, int>& known) {
  std::pair<int, std::vector<int>> key{attachment.type, {}};
  int least = unreachable;
  for (const int v : attachment.up_switch) {
    key.second.push_back(entrance.distance[v]);
    least = std::min(least, key.second.back());
  }
  if (least == unreachable) return -1;
  for (int& beyond : key.second) {
    if (beyond < unreachable) beyond -= least;
  }
  auto& of_type = egresses_[attachment.type];
  const auto [at, fresh] = known.try_emplace(key, static_cast<int>(of_type.size()));
  if (fresh) {
    const HostType& type_of_host = borders_.types[attachment.type];
    ways_out_ += static_cast<double>(type_of_host.gpus.size()) * type_of_host.inside.size();
    if (ways_out_ > most_ways_out) {
      throw Error(fmt::format("the ways out of hosts of {} GPUs are too many to compute",
                              type_of_host.gpus.size()),
                  "fewer GPUs in a host, or fewer switches that its NICs are joined to");
    }
    of_type.push_back(egress_toward(type_of_host, key.second));
  }
  return at->second;
}

/// By entrances and hosts, not by pairs of GPUs, because there are millions: a host whose egress to
/// an entrance is complete reaches all GPUs behind it.
template <class Lacks>
void Routes::for_unreachable(Lacks&& lacks) const {
  std::vector<std::vector<int>> gpus_of(entrances_.size());
  for (std::size_t to = 0; to < host_of_.size(); ++to) {
    const int gpu = static_cast<int>(to);
    if (entrance_of(gpu) >= 0) {
      gpus_of[entrance_of(gpu)].push_back(gpu);
      continue;
    }
    for (int from = 0; from < static_cast<int>(host_of_.size()); ++from) {
      if (from != gpu && !stays_inside(from, gpu)) lacks(from, gpu);
    }
  }
  for (std::size_t e = 0; e < entrances_.size(); ++e) {
    for (int h = 0; h < hosts(); ++h) {
      const int number = attachment(h).egress_of[e];
      const Egress* egress = number < 0 ? nullptr : &egresses(host(h).type)[number];
      if (egress != nullptr && egress->complete) continue;
      for (std::size_t g = 0; g < host(h).gpus.size(); ++g) {
        if (egress != nullptr && !egress->exits[g].empty()) continue;
        const int from = host(h).gpus[g];
        for (const int to : gpus_of[e]) {
          if (from != to && !stays_inside(from, to)) lacks(from, to);
        }
      }
    }
  }
}

std::vector<bool> Routes::unreached() const {
  std::vector<bool> gpus;
  for_unreachable([&](int, int to) {
    gpus.resize(host_of_.size());
    gpus[static_cast<std::size_t>(to)] = true;
  });
  return gpus;
}

void Routes::check_reachable(const Topology::Parts& parts) const {
  for_unreachable([&](int from, int to) {
    const auto name = [&](int gpu) { return parts.vertices[parts.gpus[gpu].index()].name; };
    throw Error(fmt::format("{}: {} cannot reach {}", parts.name, name(from), name(to)),
                "GPUs and NICs of other hosts pass nothing on; look at the links out of the one "
                "and into the other");
  });
}

}  // namespace moesim
