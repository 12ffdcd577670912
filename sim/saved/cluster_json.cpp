// SPDX-License-Identifier: Apache-2.0
#include "sim/saved/cluster_json.h"

#include <fmt/format.h>

#include <map>
#include <stdexcept>

#include "sim/saved/json_numbers.h"
#include "sim/topology/asymptote.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

constexpr int vertex_kinds = 9, tiers = 3;

template <class Enum>
Enum named(const std::string& name, int count) {
  for (int i = 0; i < count; ++i) {
    if (name == name_of(static_cast<Enum>(i))) return static_cast<Enum>(i);
  }
  throw std::invalid_argument(fmt::format("'{}' is not known", name));
}

/// The measured curves of links, each once: links share them.
class Tables {
 public:
  int index_of(const BandwidthTable* table) {
    const auto [at, is_new] = index_.emplace(table, static_cast<int>(json_.size()));
    if (is_new) {
      Json& points = json_.emplace_back(Json::array());
      for (const auto& p : table->points()) points.push_back({p.size.value, p.rate.value});
    }
    return at->second;
  }
  const Json& json() const { return json_; }

 private:
  std::map<const BandwidthTable*, int> index_;
  Json json_ = Json::array();
};

std::vector<std::shared_ptr<const BandwidthTable>> read_tables(const Json& json) {
  std::vector<std::shared_ptr<const BandwidthTable>> tables;
  for (const Json& list : json) {
    std::vector<BandwidthTable::Point> points;
    for (const Json& p : list) {
      points.push_back(
          {Bytes(whole_number<std::int64_t>(p.at(0))), BytesPerSecond(p.at(1).get<double>())});
    }
    tables.push_back(std::make_shared<BandwidthTable>(std::move(points)));
  }
  return tables;
}

Json link_json(const Link& link, Tables& tables) {
  Json json = {{"from", link.from.value},
               {"to", link.to.value},
               {"bytes_per_s", link.bandwidth.value},
               {"latency_s", link.latency.value},
               {"class", link.link_class},
               {"cost", link.cost}};
  if (link.crowded.pairs != 0) {
    json["crowded"] = {link.crowded.from, link.crowded.pairs, link.crowded.bandwidth.value};
  }
  if (link.table) json["table"] = tables.index_of(link.table.get());
  return json;
}

Link read_link(const Json& json, const std::vector<std::shared_ptr<const BandwidthTable>>& tables) {
  Link link{VertexId(whole_number<std::int32_t>(json.at("from"))),
            VertexId(whole_number<std::int32_t>(json.at("to"))),
            BytesPerSecond(json.at("bytes_per_s").get<double>()),
            Seconds(json.at("latency_s").get<double>()),
            whole_number<int>(json.at("class")),
            whole_number<int>(json.at("cost"))};
  if (json.contains("crowded")) {
    const Json& c = json["crowded"];
    link.crowded = {whole_number<std::int64_t>(c.at(0)), whole_number<std::int64_t>(c.at(1)),
                    BytesPerSecond(c.at(2).get<double>())};
  }
  if (json.contains("table")) {
    link.table = tables.at(whole_number<std::size_t>(json["table"]));
    // Files of 0.2.0 have the table's largest rate, and what a crowd leaves of it.
    const double factor = asymptote_of(*link.table) / link.bandwidth;
    link.bandwidth = asymptote_of(*link.table);
    link.crowded.bandwidth = link.crowded.bandwidth * factor;
  }
  return link;
}

}  // namespace

Json cluster_json(const Topology& topology) {
  Json vertices = Json::array(), links = Json::array(), classes = Json::array();
  Json gpus = Json::array(), levels = Json::array();
  for (const Vertex& v : topology.vertices()) {
    vertices.push_back({{"name", v.name}, {"kind", name_of(v.kind)}, {"host", v.host}});
  }
  Tables tables;
  for (const Link& link : topology.links()) links.push_back(link_json(link, tables));
  for (const LinkClass& c : topology.classes()) {
    classes.push_back({{"name", c.name}, {"tier", name_of(c.tier)}});
  }
  for (GpuId g(0); g.value < topology.gpu_count(); ++g.value) {
    gpus.push_back({{"vertex", topology.vertex_of(g).value}, {"model", topology.gpu_model(g)}});
  }
  for (const Level& level : topology.levels()) {
    levels.push_back(
        {{"name", level.name}, {"group_of", level.group_of}, {"groups", level.groups}});
  }
  return {{"name", topology.name()},
          {"exchange_overhead_s", topology.exchange_overhead().value},
          {"peer_overhead_s", topology.peer_overhead().value},
          {"gpus", gpus},
          {"levels", levels},
          {"vertices", vertices},
          {"classes", classes},
          {"tables", tables.json()},
          {"links", links}};
}

Topology read_cluster(const Json& json) {
  Topology::Parts parts;
  parts.name = json.at("name").get<std::string>();
  parts.exchange_overhead = Seconds(json.at("exchange_overhead_s").get<double>());
  parts.peer_overhead = Seconds(json.at("peer_overhead_s").get<double>());
  for (const Json& v : json.at("vertices")) {
    parts.vertices.push_back({v.at("name").get<std::string>(),
                              named<VertexKind>(v.at("kind").get<std::string>(), vertex_kinds),
                              whole_number<int>(v.at("host"))});
  }
  for (const Json& c : json.at("classes")) {
    parts.classes.push_back(
        {c.at("name").get<std::string>(), named<Tier>(c.at("tier").get<std::string>(), tiers)});
  }
  const auto tables = read_tables(json.at("tables"));
  for (const Json& link : json.at("links")) parts.links.push_back(read_link(link, tables));
  for (const Json& g : json.at("gpus")) {
    parts.gpus.emplace_back(whole_number<std::int32_t>(g.at("vertex")));
    parts.gpu_model.push_back(g.at("model").get<std::string>());
  }
  for (const Json& level : json.at("levels")) {
    parts.levels.push_back({level.at("name").get<std::string>(),
                            whole_numbers<int>(level.at("group_of")),
                            whole_number<int>(level.at("groups"))});
  }
  return Topology(std::move(parts));
}

}  // namespace moesim
