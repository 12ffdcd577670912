// SPDX-License-Identifier: Apache-2.0
// The schema of a node: its GPUs, NVLink, PCIe tree and NICs.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "sim/base/units.h"
#include "sim/topology/asymptote.h"
#include "sim/topology/read/calibration_reader.h"
#include "sim/topology/read/spec_reader.h"

namespace moesim {

BytesPerSecond read_bandwidth(const YamlMap& map) {
  const auto value = map.get("bandwidth");
  return value ? value->bandwidth(possible_bandwidth) : BytesPerSecond(1);
}

Seconds read_latency(const YamlMap& map) {
  const auto value = map.get("latency");
  return value ? value->seconds(possible_latency) : Seconds(0);
}

namespace {

Crowding read_crowding(const YamlValue& value, BytesPerSecond bandwidth, bool known) {
  constexpr Range count{1, 1e9};
  const YamlMap map = value.map();
  const Crowding crowded{map.integer("from", count, 1), map.integer("pairs", count),
                         read_bandwidth(map)};
  if (map.good({"from", "pairs"}) && crowded.pairs <= crowded.from) {
    map.value().error(fmt::format("a link crowded from {} pairs on cannot be so at {} already",
                                  crowded.from, crowded.pairs),
                      "pairs: more than 'from'");
  }
  if (known && map.good({"bandwidth"}) && crowded.bandwidth > bandwidth) {
    map.find("bandwidth")
        ->error(fmt::format("a crowded link cannot be faster than the {} it has otherwise",
                            to_string(bandwidth)),
                "swap the two bandwidths");
  }
  return crowded;
}

void use(Wire& wire, std::shared_ptr<const BandwidthTable> table) {
  wire.bandwidth = table ? asymptote_of(*table) : BytesPerSecond(1);
  wire.table = std::move(table);
}

Wire read_plain(const YamlMap& map) {
  Wire wire;
  const auto value = map.find("bandwidth");
  if (value && value->is_list()) {
    use(wire, read_bandwidth_table(*value));
  } else {
    wire.bandwidth = read_bandwidth(map);
  }
  wire.latency = read_latency(map);
  return wire;
}

/// The table as if the measured link had this bandwidth by its data sheet.
std::shared_ptr<const BandwidthTable> scaled_to(const YamlValue& bandwidth,
                                                const LinkCalibration& calibration) {
  if (bandwidth.is_list()) {
    bandwidth.error("there are a 'calibration' and a table of bandwidths",
                    "leave one of them out, or give the bandwidth that the table scales to");
    return calibration.bandwidth;
  }
  const BytesPerSecond wanted = bandwidth.bandwidth(possible_bandwidth);
  if (!calibration.nominal) {
    bandwidth.error(
        fmt::format("'{}' does not say of what bandwidth its link was", calibration.name),
        "leave 'bandwidth' out, or add 'nominal' to the calibration (moesim calibrate --nominal)");
    return calibration.bandwidth;
  }
  return std::make_shared<const BandwidthTable>(
      calibration.bandwidth->scaled(wanted / *calibration.nominal));
}

/// Tables begin where their times stand out of the fixed time, which is in the measured latency.
void warn_of_small_latency(const YamlValue& value, Seconds stated,
                           const LinkCalibration& measured) {
  constexpr double much = 4;
  if (measured.latency.value <= much * stated.value) return;
  value.warning(
      fmt::format("'{}' is {}, in place of the {} of '{}': small exchanges take less "
                  "than was measured",
                  value.path(), to_string(stated), to_string(measured.latency), measured.name),
      "leave 'latency' out: the calibration has it");
}

Wire read_calibrated(const YamlMap& map, const YamlValue& name) {
  Wire wire{BytesPerSecond(1), Seconds(0)};
  const auto bandwidth = map.find("bandwidth");
  std::string path;
  try {
    path = calibration_file(name);
  } catch (const Error& error) {
    name.error(
        error.diagnostics().front().message,
        "the file that `moesim calibrate` wrote, or the name of a topologies/NAME.calib.yaml");
    return wire;
  }
  const LinkCalibration calibration = read_calibration(path);
  name.note_file(path);
  use(wire, bandwidth ? scaled_to(*bandwidth, calibration) : calibration.bandwidth);
  const auto latency = map.find("latency");
  wire.latency = latency ? latency->seconds(possible_latency) : calibration.latency;
  if (latency && map.good({"latency"})) warn_of_small_latency(*latency, wire.latency, calibration);
  return wire;
}

}  // namespace

Wire read_wire(const YamlMap& map, LinkKind kind) {
  const auto calibration = map.find("calibration");
  Wire wire = calibration ? read_calibrated(map, *calibration) : read_plain(map);
  if (const auto crowded = map.find("crowded")) {
    wire.crowded = read_crowding(*crowded, wire.bandwidth, map.good({"bandwidth"}));
  }
  warn_implausible(map, wire, kind);
  return wire;
}

void warn_without_effect(const YamlMap& map, const std::string& key, const std::string& why) {
  if (const auto value = map.find(key)) {
    value->warning(fmt::format("'{}' has no effect: {}", value->path(), why));
  }
}

namespace {

void read_nvlink(const YamlMap& map, NodeSpec& node) {
  const std::vector<std::string> kinds = {"switch", "pairs", "mesh"};
  node.nvlink = static_cast<NvlinkKind>(map.choice("kind", kinds) + 1);
  node.nvlink_wire = read_wire(map, LinkKind::nvlink);
  if (node.nvlink == NvlinkKind::pairs && node.gpus % 2 != 0) {
    map.value().error(fmt::format("{} GPUs make no NVLink pairs", node.gpus),
                      "an even number of GPUs, or nvlink of kind switch or mesh");
  }
}

void read_pcie(const YamlMap& map, NodeSpec& node) {
  const bool all_to_all =
      node.nvlink == NvlinkKind::behind_switch || node.nvlink == NvlinkKind::mesh;
  PcieSpec& pcie = node.pcie;
  pcie.stated = true;
  pcie.link = read_wire(map, LinkKind::pcie);
  pcie.sockets = static_cast<int>(map.integer("sockets", {1, 64}, all_to_all ? 0 : 1));
  if (pcie.sockets == 0) {
    warn_without_effect(map, "switches", "without 'sockets' NICs hang directly at their GPUs");
  } else {
    pcie.switches = static_cast<int>(map.integer("switches", {0, 64}, 0));
  }
  if (pcie.sockets > 1) {
    if (const auto socket = map.get("socket_link")) {
      pcie.socket = read_wire(socket->map(), LinkKind::socket);
    }
  } else {
    warn_without_effect(map, "socket_link", "there is one socket");
  }
  const int places = pcie.sockets * std::max(1, pcie.switches);
  if (places > 0 && node.gpus % places != 0) {
    map.value().error(fmt::format("{} GPUs cannot be shared out evenly to {} {}", node.gpus, places,
                                  pcie.switches > 0 ? "PCIe switches" : "sockets"),
                      "a number of GPUs that it divides");
  }
}

/// NVLink of a single GPU joins nothing, but NICs are at the GPU unless `pcie` says how many
/// sockets there are.
void warn_of_one_gpu(const YamlValue& nvlink, const NodeSpec& node,
                     const std::optional<YamlValue>& pcie) {
  const bool places_nics = pcie && node.nvlink != NvlinkKind::pairs && node.nics > 0 &&
                           pcie->is_map() && !pcie->map().find("sockets");
  const std::string what = fmt::format("'{}' ", nvlink.path());
  if (places_nics) {
    nvlink.warning(what + "joins nothing: a node has one GPU; it only keeps NICs at the GPU",
                   "'sockets: 0' in 'pcie' says that without it");
  } else {
    nvlink.warning(what + "has no effect: a node has one GPU");
  }
}

bool divides(int a, int b) { return b > 0 && a % b == 0; }

void read_nics(const YamlMap& map, NodeSpec& node) {
  node.nics = static_cast<int>(map.integer("count", {1, 4096}));
  node.nic = read_wire(map, LinkKind::nic);
  const PcieSpec& pcie = node.pcie;
  const bool fits = pcie.sockets == 0
                        ? divides(node.nics, node.gpus) || divides(node.gpus, node.nics)
                        : node.nics == 1 || divides(node.nics, pcie.sockets);
  if (fits) return;
  map.value().error(
      pcie.sockets == 0
          ? fmt::format("{} NICs cannot be shared evenly by {} GPUs", node.nics, node.gpus)
          : fmt::format("{} NICs cannot be shared out evenly to {} sockets", node.nics,
                        pcie.sockets),
      "a count that divides or is a multiple");
}

}  // namespace

NodeSpec read_node(const YamlMap& map) {
  NodeSpec node;
  node.gpu = map.string("gpu");
  node.gpus = static_cast<int>(map.integer("gpus", {1, 4096}));
  if (const auto nvlink = map.find("nvlink")) read_nvlink(nvlink->map(), node);
  const auto pcie = map.find("pcie");
  if (pcie) read_pcie(pcie->map(), node);
  if (const auto nvlink = map.find("nvlink"); nvlink && map.good({"gpu"})) {
    warn_if_doubled(nvlink->map(), node.nvlink_wire.bandwidth, node.gpu, LinkKind::nvlink);
  }
  if (pcie && map.good({"gpu"})) {
    warn_if_doubled(pcie->map(), node.pcie.link.bandwidth, node.gpu, LinkKind::pcie);
  }
  if (const auto c2c = map.find("c2c")) node.c2c = read_wire(c2c->map(), LinkKind::socket);
  const auto nics = map.find("nics");
  if (nics) read_nics(nics->map(), node);
  if (nics && pcie && nics->map().good({"bandwidth", "count"}) &&
      pcie->map().good({"bandwidth", "sockets"})) {
    warn_of_narrow_front(nics->map(), node);
  }
  if (const auto nvlink = map.find("nvlink"); nvlink && node.gpus == 1) {
    warn_of_one_gpu(*nvlink, node, pcie);
  }
  const bool tree = node.nvlink == NvlinkKind::none || node.nvlink == NvlinkKind::pairs;
  if (!pcie && tree && node.gpus > 1 && !(node.nvlink == NvlinkKind::pairs && node.gpus == 2)) {
    map.value().error("nothing joins the GPUs of the node",
                      "add 'pcie', or 'nvlink' of kind switch or mesh");
  } else if (!pcie && nics && node.nics > 0) {
    node.pcie.link = {node.nic.bandwidth, Seconds(0)};
  } else if (pcie && node.pcie.sockets == 0 && !nics) {
    pcie->warning("'" + pcie->path() +
                  "' has no effect: NVLink joins the GPUs and there are no NICs");
  }
  return node;
}

}  // namespace moesim
