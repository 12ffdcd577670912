// SPDX-License-Identifier: Apache-2.0
#include "sim/topology/read/calibration_reader.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "sim/base/data_files.h"
#include "sim/base/files.h"
#include "sim/base/units.h"
#include "sim/topology/read/spec_reader.h"

namespace moesim {
namespace {

LinkCalibration read_links(YamlDocument& document) {
  LinkCalibration result;
  {
    const YamlMap map = document.root().map();
    std::filesystem::path stem = std::filesystem::path(document.file()).stem();
    if (stem.extension() == ".calib") stem = stem.stem();
    result.name = map.string("name", stem.string());
    result.description = map.string("description", "");
    result.source = map.string("source", "");
    result.latency = read_latency(map);
    if (const auto table = map.get("bandwidth")) result.bandwidth = read_bandwidth_table(*table);
    if (const auto nominal = map.find("nominal"))
      result.nominal = nominal->bandwidth(possible_bandwidth);
    map.find("fit");  // for people
    map.find("provenance");
  }
  document.finish();
  return result;
}

}  // namespace

std::shared_ptr<const BandwidthTable> read_bandwidth_table(const YamlValue& value) {
  std::vector<BandwidthTable::Point> points;
  bool sound = true;
  for (const YamlValue& item : value.list()) {
    const YamlMap map = item.map();
    const auto size = map.get("size");
    const auto rate = map.get("rate");
    const BandwidthTable::Point point{
        size ? size->bytes({1, 1e18}) : Bytes(1),
        rate ? rate->bandwidth(possible_bandwidth) : BytesPerSecond(1)};
    if (!size || !rate || !map.good({"size", "rate"})) {  // an item that is not a map has neither
      sound = false;
    } else if (!points.empty() && point.size <= points.back().size) {
      size->error(fmt::format("sizes ascend, but {} follows {}", to_string(point.size),
                              to_string(points.back().size)),
                  "sort the list, each size once");
      sound = false;
    } else if (!points.empty() && point.time() < points.back().time()) {
      rate->error(fmt::format("{} would take less time than {}", to_string(point.size),
                              to_string(points.back().size)),
                  "a rate may grow no faster than the size");
      sound = false;
    }
    points.push_back(point);
  }
  if (points.empty()) {
    value.error("'bandwidth' has no points", "a list of {size: 1 MiB, rate: 20 GB/s}");
    return nullptr;
  }
  return sound ? std::make_shared<const BandwidthTable>(std::move(points)) : nullptr;
}

std::string calibration_file(const YamlValue& name) {
  const std::string text = name.string();
  if (text.find('/') != std::string::npos || text.ends_with(".yaml")) {
    return data_file("topologies", text, name.file());
  }
  const auto next_to = std::filesystem::path(name.file()).replace_filename(text + ".calib.yaml");
  if (is_regular_file(next_to.string())) return next_to.string();
  return data_file("topologies", text + ".calib", name.file());
}

LinkCalibration read_calibration(const std::string& path) {
  return read_links(*YamlDocument::from_file(path));
}

}  // namespace moesim
