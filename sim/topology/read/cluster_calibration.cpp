// SPDX-License-Identifier: Apache-2.0
#include "sim/topology/read/cluster_calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "sim/topology/asymptote.h"
#include "sim/topology/read/spec_reader.h"

namespace moesim {
namespace {

std::string beside(const std::string& path, const std::string& name) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  return (folder.empty() ? std::filesystem::path(".") : folder) / name;
}

void read_links(const YamlMap& map, const std::string& path, ClusterCalibration& result) {
  for (const std::string& name : map.keys()) {
    const auto file = map.find(name);
    try {
      const std::string table = beside(path, file->string());
      result.links[name] = read_calibration(table);
      result.files.push_back(table);
    } catch (const Error& error) {
      for (const Diagnostic& d : error.diagnostics()) {
        file->error(fmt::format("{}: {}", file->string(), d.message), d.hint);
      }
    }
  }
}

std::string named(const Topology::Parts& parts) {
  std::string names;
  for (const LinkClass& c : parts.classes) names += (names.empty() ? "" : ", ") + c.name;
  return "its classes are " + names;
}

void apply_to(Link& link, const LinkCalibration& measured) {
  if (link.table) return;
  const double factor = measured.nominal ? link.bandwidth / *measured.nominal : 1;
  const double before = link.bandwidth.value;
  link.table = factor == 1
                   ? measured.bandwidth
                   : std::make_shared<const BandwidthTable>(measured.bandwidth->scaled(factor));
  link.bandwidth = asymptote_of(*link.table);
  link.latency = measured.latency;
  link.crowded.bandwidth.value *= link.bandwidth.value / before;
}

}  // namespace

ClusterCalibration read_cluster_calibration(const std::string& path) {
  const auto document = YamlDocument::from_file(path);
  ClusterCalibration result;
  result.files = {path};
  {
    const YamlMap map = document->root().map();
    result.name = map.string("name");
    result.description = map.string("description", "");
    result.source = map.string("source", "");
    const auto links = map.find("links");
    for (auto [key, to] : {std::pair{"exchange_overhead", &result.exchange_overhead},
                           std::pair{"peer_overhead", &result.peer_overhead}}) {
      const auto value = links ? map.get(key) : map.find(key);  // one rank exchanges nothing
      if (value) *to = value->seconds(possible_latency);
    }
    if (links) read_links(links->map(), path, result);
    if (const auto gpus = map.find("gpus")) {
      const YamlMap files = gpus->map();
      for (const std::string& name : files.keys()) {
        result.gpus[name] = beside(path, files.string(name));
      }
    }
    map.find("fit");  // for people
    map.find("provenance");
  }
  document->finish();
  return result;
}

void apply(const ClusterCalibration& calibration, Topology::Parts& parts) {
  if (!calibration.links.empty()) {  // else transports still know more of the links
    if (parts.measured_with.empty()) parts.measured_with = calibration.name;
    parts.exchange_overhead = calibration.exchange_overhead;
    parts.peer_overhead = calibration.peer_overhead;
  }
  for (const auto& [name, measured] : calibration.links) {
    const auto place = std::ranges::find(parts.classes, name, &LinkClass::name);
    if (place == parts.classes.end()) {
      throw Error(fmt::format("'{}' has measured links of class '{}', which {} lacks",
                              calibration.name, name, parts.name),
                  named(parts));
    }
    for (Link& link : parts.links) {
      if (link.link_class == place - parts.classes.begin()) apply_to(link, measured);
    }
  }
  for (const auto& [name, file] : calibration.gpus) {
    if (std::ranges::find(parts.gpu_model, name) == parts.gpu_model.end()) {
      throw Error(fmt::format("'{}' has measured a GPU '{}', which {} lacks", calibration.name,
                              name, parts.name),
                  "calibrate this cluster, or leave 'calibration' out");
    }
  }
  for (std::string& model : parts.gpu_model) {
    if (const auto measured = calibration.gpus.find(model); measured != calibration.gpus.end()) {
      model = measured->second;
    }
  }
}

}  // namespace moesim
