// SPDX-License-Identifier: Apache-2.0
// What the two tools that print InfiniBand fabrics have in common.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/base/units.h"
#include "sim/topology/import/text_forms.h"

namespace moesim {
namespace {

/// Both ends of a link between switches describe it.
void check_whole(const FabricFacts& fabric, const std::string& form, const std::string& name) {
  const auto links_of = [&](const std::string& from, const std::string& to) {
    const auto& all = fabric.switches.at(from).switches;
    return std::ranges::count(all, to);
  };
  const std::string hint = fmt::format("the whole output of {}: this seems to be cut", form);
  for (const auto& [id, one] : fabric.switches) {
    for (const std::string& peer : std::set(one.switches.begin(), one.switches.end())) {
      if (!fabric.switches.contains(peer)) {
        throw error_in(
            name, fmt::format("switch '{}' has links to '{}', which is not described", id, peer),
            hint);
      }
      if (links_of(id, peer) == links_of(peer, id)) continue;
      throw error_in(name,
                     fmt::format("switch '{}' has {} to '{}', which has {} back", id,
                                 counted(links_of(id, peer), "link"), peer, links_of(peer, id)),
                     hint);
    }
  }
}

/// NICs of a topology are alike: the rate that most links have, of several such the fastest.
void set_rate(const std::vector<HostLink>& links, FabricFacts& fabric, ClusterFacts& facts) {
  std::map<double, int> count_of;
  for (const HostLink& link : links) {
    if (link.rate.value > 0) ++count_of[link.rate.value];
  }
  int most = 0;
  for (const auto& [rate, count] : count_of) {
    if (count < most) continue;
    most = count;
    fabric.nic_rate = BytesPerSecond(rate);
  }
  for (auto& [id, one] : fabric.switches) {
    one.host_rate = BytesPerSecond(fabric.nic_rate.value * static_cast<double>(one.hosts.size()));
  }
  std::vector<HostLink> others;
  std::ranges::copy_if(links, std::back_inserter(others), [&](const HostLink& link) {
    return link.rate.value > 0 && link.rate != fabric.nic_rate;
  });
  if (others.empty()) return;
  facts.left_out.push_back(
      fmt::format("that {} of {} links to hosts {} not {}, such as {} of {}", others.size(),
                  links.size(), others.size() == 1 ? "is" : "are", to_string(fabric.nic_rate),
                  to_string(others.front().rate), others.front().host));
}

/// Links of a host that has as many as most links' hosts have.
int usual_links(const std::map<std::string, int>& links_of) {
  std::map<int, int> links_by_count;
  for (const auto& [host, count] : links_of) links_by_count[count] += count;
  int usual = 0, most = 0;
  for (const auto& [count, all] : links_by_count) {
    if (all < most) continue;
    most = all;
    usual = count;
  }
  return usual;
}

/// Adapters without the name of a host may be as many hosts, or some of one.
void check_products(const std::vector<HostLink>& links, int usual, const std::string& form,
                    const std::string& name) {
  std::set<std::string> adapters;
  for (const HostLink& link : links) {
    if (!link.product.empty()) adapters.insert(link.host);
  }
  if (adapters.empty() || static_cast<int>(adapters.size()) < usual) return;
  const auto first =
      std::ranges::find_if(links, [](const HostLink& l) { return !l.product.empty(); });
  throw error_in(name,
                 fmt::format("{} not say whose {}, such as '{}'",
                             counted(std::ssize(adapters), "adapter") +
                                 (adapters.size() == 1 ? " does" : " do"),
                             adapters.size() == 1 ? "it is" : "they are", first->product),
                 fmt::format("{} --node-name-map FILE, with lines such as 0x1070fd0300000000 "
                             "\"node01 mlx5_0\"",
                             form));
}

/// Takes hosts with less than half of the usual links off, such as those of storage, and switches
/// that have only such hosts and are above no others.
void leave_small_hosts_out(const std::map<std::string, int>& links_of, int usual,
                           FabricFacts& fabric, std::vector<HostLink>& links, ClusterFacts& facts) {
  std::set<std::string> small;
  for (const auto& [host, count] : links_of) {
    if (2 * count < usual) small.insert(host);
  }
  if (small.empty()) return;
  std::erase_if(links, [&](const HostLink& link) { return small.contains(link.host); });
  std::set<std::string> emptied;
  for (auto& [id, one] : fabric.switches) {
    const auto erased =
        std::erase_if(one.hosts, [&](const std::string& host) { return small.contains(host); });
    if (erased > 0 && one.hosts.empty()) emptied.insert(id);
  }
  std::erase_if(emptied, [&](const std::string& id) {
    return std::ranges::any_of(fabric.switches.at(id).switches, [&](const std::string& peer) {
      return !fabric.switches.at(peer).hosts.empty();
    });
  });
  for (const std::string& id : emptied) fabric.switches.erase(id);
  for (auto& [id, one] : fabric.switches) {
    std::erase_if(one.switches, [&](const std::string& peer) { return emptied.contains(peer); });
  }
  constexpr std::size_t most_named = 8;
  std::vector<std::string> names(small.begin(), small.end());
  const bool more = names.size() > most_named;
  if (more) names.resize(most_named);
  facts.left_out.push_back(fmt::format("{} with few links, others have {}: {}{}",
                                       counted(std::ssize(small), "host"), usual,
                                       fmt::join(names, ", "), more ? ", ..." : ""));
}

}  // namespace

bool is_product(const std::string& description) {
  const bool number = description.starts_with("MT") && description.size() > 5 &&
                      description.find_first_not_of("0123456789", 2) == description.find(' ') &&
                      description.find(' ') >= 6;
  return (number || description.find("Mellanox Technologies") != std::string::npos) &&
         description.find("Aggregation Node") == std::string::npos;
}

std::string host_of_adapter(const std::string& description) {
  if (description.find("Aggregation Node") != std::string::npos) return "";
  return description.substr(0, description.find(' '));
}

ClusterFacts infiniband_facts(FabricFacts fabric, std::vector<HostLink> links,
                              const std::string& form, const std::string& name) {
  fabric.network = "infiniband";
  ClusterFacts facts{name, form};
  fabric.is_tree = false;
  check_whole(fabric, form, name);
  std::map<std::string, int> links_of, of_named;
  for (const HostLink& link : links) {
    ++links_of[link.host];
    if (link.product.empty()) ++of_named[link.host];
  }
  check_products(links, usual_links(of_named), form, name);
  leave_small_hosts_out(links_of, usual_links(links_of), fabric, links, facts);
  set_rate(links, fabric, facts);
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

}  // namespace moesim
