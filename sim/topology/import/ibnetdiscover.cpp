// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <sstream>

#include "sim/base/error.h"
#include "sim/topology/import/text_forms.h"

namespace moesim {
namespace {

/// Data rate of a lane, in bytes per second and direction.
struct LaneRate {
  const char* name;
  double rate;
};
constexpr std::array<LaneRate, 8> lane_rates = {{{"SDR", 0.25e9},
                                                 {"DDR", 0.5e9},
                                                 {"QDR", 1e9},
                                                 {"FDR", 1.7e9},
                                                 {"EDR", 3.125e9},
                                                 {"HDR", 6.25e9},
                                                 {"NDR", 12.5e9},
                                                 {"XDR", 25e9}}};

/// "4xHDR" at the end of a line; 0 if it is not there.
BytesPerSecond rate_in(const std::string& line) {
  const std::size_t x = line.rfind('x');
  if (x == std::string::npos || x == 0) return BytesPerSecond(0);
  std::size_t digits = x;
  while (digits > 0 && line[digits - 1] >= '0' && line[digits - 1] <= '9') --digits;
  int lanes = 0;
  std::from_chars(line.data() + digits, line.data() + x, lanes);
  if (lanes < 1 || lanes > 12) return BytesPerSecond(0);
  for (const LaneRate& lane : lane_rates) {
    if (line.compare(x + 1, 3, lane.name) == 0) return BytesPerSecond(lanes * lane.rate);
  }
  return BytesPerSecond(0);
}

/// The n-th text in quotes, from 0; empty if there is none.
std::string quoted_in(const std::string& line, int n) {
  std::size_t at = 0;
  for (;; --n) {
    const std::size_t open = line.find('"', at);
    const std::size_t close = open == std::string::npos ? open : line.find('"', open + 1);
    if (close == std::string::npos) return "";
    if (n == 0) return line.substr(open + 1, close - open - 1);
    at = close + 1;
  }
}

bool is_host_id(const std::string& id) { return id.starts_with("H-"); }

class DiscoveredFabric {
 public:
  void read(const std::string& line) {
    if (line.starts_with("Switch")) {
      current_ = quoted_in(line, 0);
      fabric_.switches[current_];
    } else if (line.starts_with("Ca")) {
      current_.clear();
      hosts_[quoted_in(line, 0)] = host_of_adapter(quoted_in(line, 1));
    } else if (line.starts_with("Rt")) {
      current_.clear();
    } else if (line.starts_with("[") && !current_.empty()) {
      read_port(line);
    }
  }

  /// Adapters have descriptions in blocks of their own; those without are hosts by themselves.
  FabricFacts finish() {
    for (auto& [name, one] : fabric_.switches) {
      for (std::string& host : one.hosts) {
        if (const auto known = hosts_.find(host); known != hosts_.end() && !known->second.empty()) {
          host = known->second;
        }
      }
    }
    return std::move(fabric_);
  }

 private:
  void read_port(const std::string& line) {
    const std::string peer = quoted_in(line, 0);
    if (peer.empty()) return;
    SwitchFacts& one = fabric_.switches[current_];
    const BytesPerSecond rate = rate_in(line);
    if (!is_host_id(peer)) {
      one.switches.push_back(peer);
      one.switch_rate = BytesPerSecond(one.switch_rate.value + rate.value);
      return;
    }
    if (const std::string description = quoted_in(line, 1); !description.empty()) {
      const std::string host = host_of_adapter(description);
      if (host.empty()) return;
      hosts_.try_emplace(peer, host);
    }
    one.hosts.push_back(peer);
    one.host_rate = BytesPerSecond(one.host_rate.value + rate.value);
    if (rate > fabric_.nic_rate) fabric_.nic_rate = rate;
  }

  FabricFacts fabric_;
  std::map<std::string, std::string> hosts_;  // by adapter
  std::string current_;                       // the switch whose ports follow
};

}  // namespace

std::string host_of_adapter(const std::string& description) {
  if (description.find("Aggregation Node") != std::string::npos) return "";
  return description.substr(0, description.find(' '));
}

ClusterFacts infiniband_facts(FabricFacts fabric, const std::string& form,
                              const std::string& name) {
  fabric.network = "infiniband";
  ClusterFacts facts{name, form};
  fabric.is_tree = false;
  std::set<std::string> hosts;
  for (const auto& [id, one] : fabric.switches) hosts.insert(one.hosts.begin(), one.hosts.end());
  if (hosts.empty()) {
    throw error_in(name, "no switch with hosts",
                   fmt::format("the whole output of {}: blocks that begin with Switch", form));
  }
  facts.hosts = static_cast<int>(hosts.size());
  facts.fabric = std::move(fabric);
  return facts;
}

ClusterFacts ibnetdiscover_facts(const std::string& text, const std::string& name) {
  DiscoveredFabric discovered;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) discovered.read(line);
  return infiniband_facts(discovered.finish(), "ibnetdiscover", name);
}

}  // namespace moesim
