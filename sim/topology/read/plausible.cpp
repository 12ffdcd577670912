// SPDX-License-Identifier: Apache-2.0
#include "sim/topology/read/plausible.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/base/lower_case.h"
#include "sim/base/units.h"
#include "sim/topology/narrow_front.h"

namespace moesim {
namespace {

struct Plausible {
  const char* what;
  double least, most;             // bytes per second and direction
  const char *slowest, *fastest;  // whose these are; no one's: below it units are mistyped
  Seconds longest;                // latency of one link
};

/// By LinkKind. Bandwidths are those of data sheets. Latencies leave room for fitted ones, which
/// hold overheads of software, and for TCP.
constexpr std::array<Plausible, 6> plausible = {{
    {"NVLink", 1e9, 900e9, nullptr, "NVLink 5, 1.8 TB/s both ways together", Seconds(1e-3)},
    {"PCIe", 0.25e9, 128e9, "one stream of PCIe 1.0", "PCIe 6.0 x16, 64 GT/s", Seconds(1e-3)},
    {"a link between sockets", 1e9, 450e9, nullptr, "NVLink-C2C, 900 GB/s both ways together",
     Seconds(1e-3)},
    {"a NIC", 12.5e6, 100e9, "100 Mbit/s Ethernet", "800 Gbit/s, ConnectX-8", Seconds(10e-3)},
    {"a link between switches", 12.5e6, 14.4e12, "100 Mbit/s Ethernet",
     "all 144 ports of a Quantum-X800", Seconds(10e-3)},
    {"a WAN link", 125e3, 60e12, "1 Mbit/s", "480 Tbit/s, the submarine cable Anjana",
     Seconds(0.3)},  // more than a hop over a geostationary satellite
}};

/// Links of a GPU by its data sheet: bytes per second and direction.
struct DataSheet {
  const char* gpu;  // a part of its name between dashes
  double nvlink, pcie;
};
constexpr std::array<DataSheet, 11> data_sheets = {{{"v100", 150e9, 16e9},
                                                    {"a100", 300e9, 32e9},
                                                    {"a800", 200e9, 32e9},
                                                    {"a6000", 56.25e9, 32e9},
                                                    {"h100", 450e9, 64e9},
                                                    {"h800", 200e9, 64e9},
                                                    {"h20", 450e9, 64e9},
                                                    {"h200", 450e9, 64e9},
                                                    {"b200", 900e9, 64e9},
                                                    {"b300", 900e9, 128e9},
                                                    {"gb200", 900e9, 64e9}}};

const DataSheet* data_sheet_of(const std::string& gpu) {
  const std::string parts = "-" + gpu + "-";
  for (const DataSheet& sheet : data_sheets) {
    if (parts.find(fmt::format("-{}-", sheet.gpu)) != std::string::npos) return &sheet;
  }
  return nullptr;
}

/// Launching and joining an exchange takes 10 to 100 us (topologies/*.yaml).
constexpr Seconds longest_overhead{10e-3};

const Plausible& ends_of(LinkKind kind) { return plausible[static_cast<std::size_t>(kind)]; }

std::string stated(const YamlValue& value, const std::string& quantity) {
  return fmt::format("'{}' is {}", value.path(), quantity);
}

void warn_of_bandwidth(const YamlValue& value, BytesPerSecond bandwidth, const Plausible& range) {
  if (bandwidth.value > range.most) {
    const BytesPerSecond as_bits(bandwidth.value / 8);
    value.warning(fmt::format("{}: {} has at most {} ({})", stated(value, to_string(bandwidth)),
                              range.what, to_string(BytesPerSecond(range.most)), range.fastest),
                  as_bits.value <= range.most
                      ? fmt::format("were bits meant? those would be {}", to_string(as_bits))
                      : "");
  } else if (bandwidth.value < range.least) {
    value.warning(fmt::format("{}: {} has at least {}{}", stated(value, to_string(bandwidth)),
                              range.what, to_string(BytesPerSecond(range.least)),
                              range.slowest == nullptr ? "" : fmt::format(" ({})", range.slowest)));
  }
}

}  // namespace

BytesPerSecond most_of_nvlink(const std::string& gpu) {
  std::string name = lower_case(gpu);
  std::ranges::replace(name, ' ', '-');
  const DataSheet* sheet = data_sheet_of(name);
  return BytesPerSecond(sheet == nullptr ? ends_of(LinkKind::nvlink).most : sheet->nvlink);
}

BytesPerSecond most_of_nics() { return BytesPerSecond(ends_of(LinkKind::nic).most); }

void warn_if_long(const YamlValue& value, Seconds latency, LinkKind kind) {
  const Plausible& range = ends_of(kind);
  if (latency <= range.longest) return;
  value.warning(fmt::format("{}: {} takes at most {}", stated(value, to_string(latency)),
                            range.what, to_string(range.longest)));
}

void warn_if_long_overhead(const YamlValue& value, Seconds overhead) {
  if (overhead <= longest_overhead) return;
  value.warning(fmt::format("{}: at most {} are plausible", stated(value, to_string(overhead)),
                            to_string(longest_overhead)));
}

void warn_implausible(const YamlMap& map, const Wire& wire, LinkKind kind) {
  const auto bandwidth = map.find("bandwidth");
  if (bandwidth && map.good({"bandwidth"}))
    warn_of_bandwidth(*bandwidth, wire.bandwidth, ends_of(kind));
  const auto latency = map.find("latency");
  if (latency && map.good({"latency"})) warn_if_long(*latency, wire.latency, kind);
}

void warn_if_doubled(const YamlMap& map, BytesPerSecond bandwidth, const std::string& gpu,
                     LinkKind kind) {
  const DataSheet* sheet = data_sheet_of(gpu);
  const auto value = map.find("bandwidth");
  if (sheet == nullptr || !value || !map.good({"bandwidth"})) return;
  const BytesPerSecond one_way(kind == LinkKind::nvlink ? sheet->nvlink : sheet->pcie);
  const double times = bandwidth / one_way;
  if (times < 1.9 || times > 2.1) return;
  value->warning(
      fmt::format("{}: {} of {} has {} each way by its data sheet",
                  stated(*value, to_string(bandwidth)), ends_of(kind).what, gpu,
                  to_string(one_way)),
      fmt::format("{} is both ways together, a 'bandwidth' is that of one", to_string(bandwidth)));
}

void warn_of_narrow_front(const YamlMap& nics, const NodeSpec& node) {
  // A NIC without a PCIe tree hangs at each of its GPUs by a link of its own.
  const int links = node.pcie.sockets == 0 ? std::max(1, node.gpus / node.nics) : 1;
  const int together = node.shares_ports() ? node.nics / node.gpus : 1;
  const BytesPerSecond front(node.pcie.link.bandwidth.value * links);
  const auto bandwidth = nics.find("bandwidth");
  if (node.nic.bandwidth.value * together <= front.value) return;
  (bandwidth ? *bandwidth : nics.value())
      .warning(narrow_front(node.nic.bandwidth, front, together),
               "a faster 'pcie', or leave 'pcie' out: then NICs get what they have");
}

}  // namespace moesim
