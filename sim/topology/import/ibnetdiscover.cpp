// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/base/units.h"
#include "sim/topology/import/text_forms.h"

namespace moesim {
namespace {

/// Data rate of a lane, in bytes per second and direction.
constexpr std::array<std::pair<const char*, double>, 8> lane_rates = {{{"SDR", 0.25e9},
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
  for (const auto& [name, rate] : lane_rates) {
    if (line.compare(x + 1, 3, name) == 0) return BytesPerSecond(lanes * rate);
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
      adapters_.insert(quoted_in(line, 0));
      describe(quoted_in(line, 0), quoted_in(line, 1));
    } else if (line.starts_with("Rt")) {
      current_.clear();
    } else if (line.starts_with("[") && !current_.empty()) {
      read_port(line);
    }
  }

  /// Adapters have descriptions in blocks of their own; those without are hosts by themselves.
  ClusterFacts finish(const std::string& file) {
    for (auto& [name, one] : fabric_.switches) {
      for (std::string& host : one.hosts) host = host_of(host);
    }
    std::set<std::string> named;  // by a switch
    for (HostLink& link : links_) {
      if (!adapters_.contains(link.host)) named.insert(link.host);
      const auto product = products_.find(link.host);
      if (product != products_.end()) link.product = product->second;
      link.host = host_of(link.host);
    }
    ClusterFacts facts = infiniband_facts(std::move(fabric_), links_, "ibnetdiscover", file);
    if (!named.empty()) {
      facts.left_out.push_back(fmt::format("that {} {} named but not described: is it whole?",
                                           counted(std::ssize(named), "adapter"),
                                           named.size() == 1 ? "is" : "are"));
    }
    return facts;
  }

 private:
  std::string host_of(const std::string& adapter) const {
    const auto known = hosts_.find(adapter);
    return known == hosts_.end() || known->second.empty() ? adapter : known->second;
  }

  void describe(const std::string& adapter, const std::string& description) {
    if (is_product(description)) {
      products_[adapter] = description;
    } else {
      hosts_.try_emplace(adapter, host_of_adapter(description));
    }
  }

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
      if (host_of_adapter(description).empty()) return;
      describe(peer, description);
    }
    one.hosts.push_back(peer);
    links_.push_back({peer, rate});
  }

  FabricFacts fabric_;
  std::vector<HostLink> links_;                  // by adapter
  std::set<std::string> adapters_;               // that have a block
  std::map<std::string, std::string> hosts_;     // by adapter
  std::map<std::string, std::string> products_;  // what adapters without a host are
  std::string current_;                          // the switch whose ports follow
};

}  // namespace

ClusterFacts ibnetdiscover_facts(const std::string& text, const std::string& name) {
  DiscoveredFabric discovered;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) discovered.read(line);
  return discovered.finish(name);
}

}  // namespace moesim
