// SPDX-License-Identifier: Apache-2.0
// The explicit form: every vertex and link of a cluster by name.
#include <fmt/format.h>

#include <map>
#include <set>

#include "sim/topology/cluster_limits.h"
#include "sim/topology/narrow_front.h"
#include "sim/topology/read/spec_reader.h"
#include "sim/topology/route/host_routes.h"

namespace moesim {
namespace {

class ExplicitReader {
 public:
  Topology::Parts read(const YamlMap& map) {
    if (const auto vertices = map.get("vertices")) {
      for (const YamlValue& value : vertices->list()) read_vertex(value.map());
      if (parts_.gpus.empty())
        vertices->error("there are no GPUs", "give some vertices 'kind: gpu'");
    }
    if (const auto tiers = map.find("tiers")) read_tiers(tiers->map());
    if (const auto links = map.get("links")) {
      for (const YamlValue& value : links->list()) read_link(value.map());
    }
    for (const auto& [name, value] : unused_tiers_) {
      value.warning(
          fmt::format("'{}' has no effect: no link has the class '{}'", value.path(), name));
    }
    warn_of_narrow_fronts();
    add_levels();
    parts_.host_memory = nearest_sockets(parts_);
    return std::move(parts_);
  }

 private:
  void read_vertex(const YamlMap& map) {
    const std::vector<std::string> kinds = {"gpu",  "nvswitch", "pcie_switch", "socket", "nic",
                                            "leaf", "spine",    "core",        "router"};
    const int id = static_cast<int>(parts_.vertices.size());
    Vertex vertex{map.string("name"), static_cast<VertexKind>(map.choice("kind", kinds)), -1};
    if (const auto host = map.find("host")) {
      vertex.host =
          hosts_.try_emplace(host->string(), static_cast<int>(hosts_.size())).first->second;
    }
    if (!ids_.try_emplace(vertex.name, id).second) {
      map.value().error(fmt::format("two vertices are named '{}'", vertex.name),
                        "links need to tell them apart");
    }
    names_.push_back(vertex.name);
    values_.push_back(map.value());
    if (map.string("kind", "") == "gpu") {
      if (vertex.host < 0) {
        map.value().error(fmt::format("GPU '{}' has no host", vertex.name), "add 'host', any name");
      };
      parts_.gpus.emplace_back(id);
      parts_.gpu_model.push_back(map.string("gpu"));
    }
    parts_.vertices.push_back(std::move(vertex));
  }

  void read_tiers(const YamlMap& map) {
    for (const std::string& name : map.keys()) {
      tiers_[name] = static_cast<Tier>(map.choice(name, {"host", "fabric", "wan"}));
      if (const auto value = map.find(name)) unused_tiers_.emplace(name, *value);
    }
  }

  int read_end(const YamlMap& map, const std::string& key) {
    const auto value = map.get(key);
    if (!value) return -1;
    const std::string name = value->string();
    const auto at = ids_.find(name);
    if (at != ids_.end()) return at->second;
    // Each is compared with all vertices: the first ones tell what is wrong.
    const std::string close = ++unknown_ends_ <= 20 ? nearest(name, names_) : "";
    value->error(fmt::format("there is no vertex '{}'", name),
                 close.empty() ? "" : fmt::format("did you mean '{}'?", close));
    return -1;
  }

  void read_link(const YamlMap& map) {
    const int from = read_end(map, "from");
    const int to = read_end(map, "to");
    const std::string name = map.string("class");
    const Wire wire = read_wire(map, kind_of(from, to, name));
    Link link{VertexId(from),
              VertexId(to),
              wire.bandwidth,
              wire.latency,
              0,
              static_cast<int>(map.integer("cost", {1, most_link_cost}, 1)),
              wire.crowded,
              wire.table};
    const bool one_way = map.boolean("one_way", false);
    if (from < 0 || to < 0) return;
    if (from == to) return map.value().error("a link must join two vertices");
    link.link_class = class_of(map.value(), name, inside_host(link));
    parts_.links.push_back(link);
    if (one_way) return;
    std::swap(link.from, link.to);
    parts_.links.push_back(link);
  }

  const Vertex& vertex(int id) const { return parts_.vertices[id]; }

  bool inside_host(const Link& link) const {
    return same_host(vertex(link.from.value), vertex(link.to.value));
  }
  static bool same_host(const Vertex& a, const Vertex& b) {
    return a.host >= 0 && a.host == b.host;
  }

  /// By what it joins; an end that is not known (below 0) is anything.
  LinkKind kind_of(int from, int to, const std::string& class_name) const {
    if (from < 0 || to < 0) return LinkKind::fabric;
    const Vertex &a = vertex(from), &b = vertex(to);
    const auto joins = [&](VertexKind kind) { return a.kind == kind || b.kind == kind; };
    if (!same_host(a, b)) {
      const auto tier = tiers_.find(class_name);
      if (tier != tiers_.end() && tier->second == Tier::wan) return LinkKind::wan;
      return joins(VertexKind::nic) ? LinkKind::nic : LinkKind::fabric;
    }
    if (a.kind == VertexKind::socket && b.kind == VertexKind::socket) return LinkKind::socket;
    // Two switches may stand for anything inside a host.
    if (a.kind == VertexKind::pcie_switch && b.kind == a.kind) return LinkKind::fabric;
    const bool pcie = joins(VertexKind::socket) || joins(VertexKind::pcie_switch);
    return pcie || joins(VertexKind::nic) ? LinkKind::pcie : LinkKind::nvlink;
  }

  /// Warns of NICs that are faster than what joins them to their host.
  void warn_of_narrow_fronts() const {
    std::vector<BytesPerSecond> inside(values_.size()), outside(values_.size());
    for (const Link& link : parts_.links) {
      (inside_host(link) ? inside : outside)[link.from.index()] += link.bandwidth;
    }
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (parts_.vertices[i].kind != VertexKind::nic) continue;
      if (inside[i].value == 0 || outside[i] <= inside[i]) continue;
      values_[i].warning(narrow_front(outside[i], inside[i]));
    }
  }

  /// A class has one tier: host inside a host, else what 'tiers' says, else fabric.
  int class_of(const YamlValue& value, const std::string& name, bool inside) {
    unused_tiers_.erase(name);
    const auto given = tiers_.find(name);
    const Tier tier = given != tiers_.end() ? given->second : inside ? Tier::host : Tier::fabric;
    const int c = classes_.try_emplace(name, std::ssize(parts_.classes)).first->second;
    if (c == std::ssize(parts_.classes)) parts_.classes.push_back({name, tier});
    if (inside != (tier == Tier::host) || parts_.classes[c].tier != tier) {
      value.error(fmt::format("class '{}' has links both inside a host and outside", name),
                  "give links of another tier another class");
    }
    return c;
  }

  /// The hosts, if the GPUs of each are consecutive ranks.
  void add_levels() {
    const auto size = parts_.gpus.size();
    parts_.levels.push_back({"cluster", std::vector<int>(size, 0), 1});
    Level level{"node", {}, 0};
    std::set<int> seen;
    for (std::size_t i = 0; i < size; ++i) {
      const int host = parts_.vertices[parts_.gpus[i].index()].host;
      const bool next = i == 0 || host != parts_.vertices[parts_.gpus[i - 1].index()].host;
      if (next && !seen.insert(host).second) return;
      if (next) ++level.groups;
      level.group_of.push_back(level.groups - 1);
    }
    if (level.groups > 1) parts_.levels.push_back(std::move(level));
  }

  Topology::Parts parts_;
  std::map<std::string, int> ids_, hosts_, classes_;
  int unknown_ends_ = 0;  // of links
  std::vector<std::string> names_;
  std::vector<YamlValue> values_;  // of the vertices
  std::map<std::string, Tier> tiers_;
  std::map<std::string, YamlValue> unused_tiers_;
};

}  // namespace

Topology::Parts read_explicit(const YamlMap& map) { return ExplicitReader().read(map); }

}  // namespace moesim
