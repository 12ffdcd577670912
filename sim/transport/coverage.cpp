// SPDX-License-Identifier: Apache-2.0
#include "sim/transport/coverage.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/base/units.h"

namespace moesim {
namespace {

/// The classes that make the rate of an exchange; switches behind them rarely do.
bool matters(const LinkClass& c) {
  return c.name == "nvlink" || c.name == "nic" || c.tier == Tier::wan;
}

/// Links of one class of the topology, by the first of them.
const Link* first_of(const Topology& topology, std::size_t link_class) {
  const auto found =
      std::ranges::find(topology.links(), static_cast<int>(link_class), &Link::link_class);
  return found == topology.links().end() ? nullptr : &*found;
}

bool is_near(BytesPerSecond a, BytesPerSecond b) { return std::abs(std::log(a / b)) < 0.05; }

/// Text for one class of links, without its name.
std::string class_text(const Transport& transport, const Topology& topology, const LinkClass& c,
                       const Link& link) {
  if (link.table) return "as measured";
  const std::string network = rated_network(transport, c.name, topology.network());
  if (network != topology.network()) {
    return fmt::format("assumed as on {} ({} not measured)", network, topology.network());
  }
  std::vector<std::string> from;
  bool of_class = false;
  for (const LinkRates& rates : transport.links) {
    if (rates.link_class != c.name) continue;
    of_class = true;
    if (!rates.network.empty() && rates.network != network) continue;
    if (is_near(rates.of, link.bandwidth)) return rates.assumed ? "assumed" : "calibrated";
    from.push_back(to_string(rates.of));
  }
  if (!from.empty()) {
    return fmt::format("of {} from measurements at {}", to_string(link.bandwidth),
                       fmt::join(from, " and "));
  }
  return fmt::format("by data sheet ({})", of_class ? "no network is stated" : "not measured");
}

/// Whether a transport has rates of these links that are fit to be counted.
template <class Counts>
bool has_rates_of(const Transport& transport, const Topology& topology, const LinkClass& c,
                  const Counts& counts) {
  return std::ranges::any_of(transport.links, [&](const LinkRates& rates) {
    return rates.link_class == c.name && counts(rates) &&
           (rates.network.empty() || rates.network == topology.network());
  });
}

/// The classes of links between GPUs of which it has none; NICs only between hosts.
template <class Counts>
std::vector<std::size_t> classes_without(const Transport* transport, const Topology& topology,
                                         const Counts& counts) {
  std::vector<std::size_t> result;
  if (!topology.measured_with().empty()) return result;
  for (std::size_t c = 0; c < topology.classes().size(); ++c) {
    const LinkClass& link_class = topology.classes()[c];
    const Link* link = first_of(topology, c);
    if (!matters(link_class) || link == nullptr || link->table) continue;
    if (link_class.name != "nvlink" && topology.host_count() == 1) continue;
    if (transport != nullptr && has_rates_of(*transport, topology, link_class, counts)) continue;
    result.push_back(c);
  }
  return result;
}

}  // namespace

std::vector<std::string> unmeasured_links(const Transport* transport, const Topology& topology) {
  std::vector<std::string> result;
  const auto measured = [](const LinkRates& rates) { return !rates.assumed; };
  for (const std::size_t c : classes_without(transport, topology, measured)) {
    const std::string& name = topology.classes()[c].name;
    result.push_back(name == "nvlink" || topology.network().empty()
                         ? name
                         : fmt::format("{} ({})", name, topology.network()));
  }
  return result;
}

std::vector<std::size_t> classes_by_data_sheet(const Transport* transport,
                                               const Topology& topology) {
  return classes_without(transport, topology, [](const LinkRates&) { return true; });
}

std::string coverage_of(const Transport& transport, const Topology& topology) {
  if (transport.ideal()) return "";
  if (!topology.measured_with().empty()) {
    return fmt::format("links and overheads as measured with {}", topology.measured_with());
  }
  std::string text, last;
  for (std::size_t c = 0; c < topology.classes().size(); ++c) {
    const LinkClass& link_class = topology.classes()[c];
    const Link* link = first_of(topology, c);
    if (!matters(link_class) || link == nullptr) continue;
    const std::string known = class_text(transport, topology, link_class, *link);
    if (!last.empty() && known != last) text += " " + last;
    text += fmt::format("{}{}", last.empty() ? "" : ", ", link_class.name);
    last = known;
  }
  return last.empty() ? text : text + " " + last;
}

}  // namespace moesim
