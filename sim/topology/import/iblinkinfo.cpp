// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <map>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/read_number.h"
#include "sim/topology/import/smi_text.h"
#include "sim/topology/import/text_forms.h"

namespace moesim {
namespace {

/// Signals of a lane per second, and bytes of data.
constexpr std::array<std::pair<double, double>, 8> signal_rates = {{{212.5, 25e9},
                                                                    {106.25, 12.5e9},
                                                                    {53.125, 6.25e9},
                                                                    {25.78125, 3.125e9},
                                                                    {14.0625, 1.7e9},
                                                                    {10, 1e9},
                                                                    {5, 0.5e9},
                                                                    {2.5, 0.25e9}}};

/// "4X      25.78125 Gbps Active/  LinkUp"; 0 for a port that is down.
BytesPerSecond rate_of_link(const std::string& link) {
  const auto words = smi_words(link);
  if (words.size() < 3 || words[0].back() != 'X' || words[2] != "Gbps") return BytesPerSecond(0);
  const int lanes = parse_integer<int>(words[0].substr(0, words[0].size() - 1)).value_or(0);
  std::istringstream number(words[1]);
  double signal = 0;
  number >> signal;
  for (const auto& [least, data] : signal_rates) {
    if (signal >= least && lanes >= 1 && lanes <= 12) return BytesPerSecond(lanes * data);
  }
  return BytesPerSecond(0);
}

/// Ports of a switch have the lids of it and of what is at their other ends.
struct LinkOfPort {
  std::string lid, peer_lid, peer;
  BytesPerSecond rate;
};

/// "  3  1[  ] ==( 4X 25.78125 Gbps Active/  LinkUp)==>  1  1[  ] "gpu-0 HCA-1" ( )".
LinkOfPort link_in(const std::string& line) {
  const std::size_t open = line.find("==("), close = line.find(")==>");
  if (open == line.npos || close == line.npos || close < open) return {};
  const auto from = smi_words(line.substr(0, open)), to = smi_words(line.substr(close + 4));
  const std::size_t quote = line.find('"', close);
  const std::size_t end = quote == line.npos ? quote : line.find('"', quote + 1);
  if (from.empty() || to.empty() || end == line.npos || end == quote + 1) return {};
  return {from[0], to[0], line.substr(quote + 1, end - quote - 1),
          rate_of_link(line.substr(open + 3, close - open - 3))};
}

/// A line of `iblinkinfo -l`, which begins with the guid and name of the port's node and has the
/// peer's guid, without these.
std::string without_guids(const std::string& line) {
  const std::size_t close = line.find('"', line.find('"') + 1), arrow = line.find(")==>");
  if (close == line.npos || arrow == line.npos || close > arrow) return "";
  const std::size_t peer = line.find_first_not_of(' ', arrow + 4);
  if (peer == line.npos || line.compare(peer, 2, "0x") != 0) return "";
  const std::size_t lid = line.find(' ', peer);
  return line.substr(close + 1, arrow + 4 - close - 1) + line.substr(std::min(lid, line.size()));
}

/// Nodes of `iblinkinfo -l` that have several lines are switches: a port of a host has one.
std::map<std::string, int> lines_of_nodes(const std::string& text) {
  std::map<std::string, int> lines_of;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("0x")) ++lines_of[line.substr(0, line.find(' '))];
  }
  return lines_of;
}

}  // namespace

ClusterFacts iblinkinfo_facts(const std::string& text, const std::string& name) {
  std::vector<LinkOfPort> links;
  FabricFacts fabric;
  std::istringstream lines(text);
  bool at_switch = false;
  const auto ports_of = lines_of_nodes(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("0x")) {
      at_switch = ports_of.at(line.substr(0, line.find(' '))) > 1;
      line = without_guids(line);
      if (line.empty()) continue;
    }
    if (line.find("==(") == line.npos) at_switch = line.starts_with("Switch");
    const LinkOfPort link = at_switch ? link_in(line) : LinkOfPort();
    if (link.peer.empty()) continue;
    links.push_back(link);
    fabric.switches[link.lid];
  }
  std::vector<HostLink> to_hosts;
  std::set<std::string> lids;
  for (const LinkOfPort& link : links) {
    SwitchFacts& one = fabric.switches[link.lid];
    const bool product = is_product(link.peer);
    const std::string host = product ? "lid " + link.peer_lid : host_of_adapter(link.peer);
    if (fabric.switches.contains(link.peer_lid)) {
      one.switches.push_back(link.peer_lid);
      one.switch_rate = BytesPerSecond(one.switch_rate.value + link.rate.value);
    } else if (!host.empty()) {
      one.hosts.push_back(host);
      to_hosts.push_back({host, link.rate, product ? link.peer : ""});
      // A port of a host has one link and a lid of its own, all ports of a switch have one lid.
      if (!lids.insert(link.peer_lid).second) {
        throw error_in(name, fmt::format("'{}' has several links, but is not described", link.peer),
                       "the whole output of iblinkinfo: this seems to be cut");
      }
    }
  }
  return infiniband_facts(std::move(fabric), to_hosts, "iblinkinfo", name);
}

}  // namespace moesim
