// SPDX-License-Identifier: Apache-2.0
// A topology file: generated from nodes, fabrics and data centers, or explicit.
#include "sim/topology/reader.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <utility>

#include "sim/base/figures.h"
#include "sim/base/files.h"
#include "sim/base/pasted_text.h"
#include "sim/topology/generate/builder.h"
#include "sim/topology/read/cluster_calibration.h"
#include "sim/topology/read/connections_reader.h"
#include "sim/topology/read/cost_reader.h"
#include "sim/topology/read/foreign.h"
#include "sim/topology/read/spec_reader.h"

namespace moesim {
namespace {

/// Returns how many data centers there are; of alike ones only one is in `sites`.
int read_sites(const YamlMap& map, std::vector<SiteSpec>& sites) {
  const auto centers = map.find("data_centers");
  if (centers && centers->is_list()) {
    const std::vector<YamlValue> list = centers->list();
    for (const YamlValue& value : list) sites.push_back(read_site(value.map(), list.size() == 1));
    if (sites.empty())
      centers->error("'data_centers' is empty", "a number, or a list of {nodes, node, fabric}");
    return static_cast<int>(sites.size());
  }
  const auto count = centers ? centers->integer({1, 100'000}) : 1;
  sites.push_back(read_site(map, count == 1));
  return static_cast<int>(count);
}

Seconds read_overhead(const YamlMap& map, const std::string& key) {
  const auto value = map.find(key);
  if (!value) return Seconds(0);
  const Seconds overhead = value->seconds(possible_latency);
  warn_if_long_overhead(*value, overhead);
  return overhead;
}

/// Reads data centers, as read_sites does, and what joins them.
int read_generated(const YamlMap& map, const ClusterLimits& limits, ClusterSpec& spec) {
  const int sites = read_sites(map, spec.sites);
  if (sites > 1) {
    if (const auto wan = map.find("wan")) {
      spec.wan = read_wan(wan->map(), sites);
    } else if (const auto centers = map.get("data_centers")) {
      centers->error("nothing joins the data centers", "add 'wan'");
    }
  } else {
    warn_without_effect(map, "wan", "there is one data center");
  }
  std::int64_t gpus = 0;
  for (const SiteSpec& site : spec.sites) {
    for (const NodeGroup& group : site.groups) gpus += std::int64_t{group.count} * group.node.gpus;
  }
  if (spec.sites.size() == 1) gpus *= sites;
  if (gpus > limits.gpus) {
    map.value().error(fmt::format("the cluster has {}, at most {} are possible",
                                  counted(gpus, "GPU"), limits.gpus),
                      "fewer nodes or data centers");
  }
  return sites;
}

/// What was measured of the whole cluster, by a name or a path.
std::optional<ClusterCalibration> find_calibration(const YamlValue& name) {
  const std::string hint = "the NAME.calib.yaml that `moesim-hw calibrate` wrote";
  const std::string text = name.string();
  std::string path;
  try {
    path = calibration_file(name);
  } catch (const Error& error) {
    name.error(error.diagnostics().front().message, hint);
    return std::nullopt;
  }
  try {
    ClusterCalibration calibration = read_cluster_calibration(path);
    for (const std::string& file : calibration.files) name.note_file(file);
    return calibration;
  } catch (const Error& error) {
    for (const Diagnostic& d : error.diagnostics()) {
      const std::string place = d.line > 0 ? fmt::format("{}:{}", text, d.line) : text;
      name.error(fmt::format("{}: {}", place, d.message), d.hint.empty() ? hint : d.hint);
    }
    return std::nullopt;
  }
}

void apply(YamlDocument& document, const YamlValue& place, const ClusterCalibration& calibration,
           Topology::Parts& parts) {
  try {
    apply(calibration, parts);
  } catch (const Error& error) {
    for (const Diagnostic& d : error.diagnostics()) place.error(d.message, d.hint);
    document.finish();
  }
}

/// What `make()` makes of the file as a whole; what is wrong with it is reported at `place`.
template <class Make>
auto made_at(YamlDocument& document, const YamlValue& place, Make make) {
  try {
    return make();
  } catch (const Error& error) {
    for (const Diagnostic& d : error.diagnostics()) place.error(d.message, d.hint);
    document.finish();
    throw;
  }
}

TopologyFile topology_of(YamlDocument& document, const ClusterLimits& limits) {
  const YamlValue root = document.root();
  YamlValue place = root;
  ClusterSpec spec;
  Topology::Parts parts;
  GpuCosts costs;
  int sites = 0;  // of a generated cluster
  std::optional<YamlValue> calibrated, connections;
  std::optional<ClusterCalibration> calibration;
  {
    const YamlMap map = root.map();
    spec.name = map.string("name", std::filesystem::path(document.file()).stem().string());
    map.string("description", "");
    map.string("source", "");
    spec.exchange_overhead = read_overhead(map, "exchange_overhead");
    spec.peer_overhead = read_overhead(map, "peer_overhead");
    spec.network = map.string("network", "");
    spec.measured_with = map.string("measured_with", "");
    costs = read_costs(map);
    connections = map.find("connections");
    calibrated = map.find("calibration");
    if (calibrated) calibration = find_calibration(*calibrated);
    if (!map.find("vertices")) {
      sites = read_generated(map, limits, spec);
    } else {
      parts = read_explicit(map);
      if (const auto links = map.find("links")) place = *links;
      parts.name = spec.name;
      parts.exchange_overhead = spec.exchange_overhead;
      parts.peer_overhead = spec.peer_overhead;
    }
  }
  document.finish();
  if (sites > 0) {
    if (spec.sites.size() == 1) spec.sites.assign(sites, SiteSpec(spec.sites.front()));
    parts = made_at(document, root, [&] { return build_cluster(spec, limits); });
  }
  std::shared_ptr<const Connections> stated;
  if (connections) {
    stated = std::make_shared<const Connections>(
        read_connections(connections->map(), parts.classes, parts.links));
    document.finish();
  }
  parts.network = spec.network;
  parts.measured_with = spec.measured_with;
  if (calibration) apply(document, *calibrated, *calibration, parts);
  Topology topology = made_at(document, place, [&] { return Topology(std::move(parts)); });
  return {std::move(topology),   document.warnings(), root.json(), std::move(stated), costs,
          document.noted_files()};
}

/// Whether a line begins with a key of topologies.
bool has_own_key(const std::string& text) {
  const std::string lines = "\n" + text;
  return std::ranges::any_of(std::array{"\nnodes:", "\nnode:", "\nsites:", "\nvertices:"},
                             [&](const char* key) { return lines.find(key) != lines.npos; });
}

/// A description by others gets a hint in place of all the keys that it lacks.
void refuse_foreign(const std::string& path) {
  if (!is_there(path) || is_folder(path)) return;
  const std::string text = as_printed(read_file(path));
  const ForeignForm form = foreign_form(text);
  if (form == ForeignForm::none && !has_own_key(text)) refuse_other_outputs(text, path);
  if (form == ForeignForm::none) return;
  throw error_in(path, fmt::format("{}, not a topology", name_of(form)),
                 fmt::format("moesim topology import {} -o cluster.yaml", path));
}

}  // namespace

TopologyFile read_topology(const std::string& path, const std::vector<Override>& overrides,
                           const ClusterLimits& limits) {
  try {
    return topology_of(*YamlDocument::from_file(path, overrides), limits);
  } catch (const Error&) {
    refuse_foreign(path);
    throw;
  }
}

TopologyFile parse_topology(const std::string& text, const std::string& name,
                            const std::vector<Override>& overrides, const ClusterLimits& limits) {
  return topology_of(*YamlDocument::from_text(text, name, overrides), limits);
}

}  // namespace moesim
