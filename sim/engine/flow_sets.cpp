// SPDX-License-Identifier: Apache-2.0
// Which flows shared links connect (MaxMin::Set).
#include <algorithm>
#include <limits>
#include <utility>

#include "sim/engine/max_min.h"

namespace moesim {
namespace {

constexpr std::uint32_t has_ended = std::numeric_limits<std::uint32_t>::max();

/// Sets of fewer flows are looked at anew whenever they change.
constexpr std::size_t few_flows = 1024;

}  // namespace

std::int32_t MaxMin::new_set() {
  if (free_sets_.empty()) {
    free_sets_.push_back(static_cast<std::int32_t>(sets_.size()));
    sets_.emplace_back();
  }
  const std::int32_t set = free_sets_.back();
  free_sets_.pop_back();
  return set;
}

void MaxMin::touch(std::int32_t set, bool urgent) {
  set_at(set).urgent = set_at(set).urgent || urgent;
  if (!std::exchange(set_at(set).changed, true)) changed_.push_back(set);
}

/// Makes the sets of a route's links one, the largest, and adds links that have none.
std::int32_t MaxMin::join_sets(const std::int32_t* hops) {
  std::int32_t into = -1;
  for (const std::int32_t* hop = hops; *hop >= 0; ++hop) {
    const std::int32_t set = link_at(*hop).set;
    if (set < 0 || set == into) continue;
    if (into < 0 || set_at(set).flows.size() > set_at(into).flows.size()) into = set;
  }
  if (into < 0) into = new_set();
  for (const std::int32_t* hop = hops; *hop >= 0; ++hop) {
    const std::int32_t set = link_at(*hop).set;
    if (set == into) continue;
    Set& whole = set_at(into);
    if (set < 0) {
      link_at(*hop).set = into;
      rooms_[static_cast<std::size_t>(*hop)].left = link_at(*hop).bandwidth;
      whole.links.push_back(*hop);
      continue;
    }
    Set& part = set_at(set);
    for (const std::int32_t link : part.links) link_at(link).set = into;
    whole.links.insert(whole.links.end(), part.links.begin(), part.links.end());
    whole.flows.insert(whole.flows.end(), part.flows.begin(), part.flows.end());
    whole.fresh.insert(whole.fresh.end(), part.fresh.begin(), part.fresh.end());
    whole.ended += part.ended;
    whole.urgent = whole.urgent || part.urgent;
    // Settling it finds nothing to do.
    const bool changed = part.changed;
    part = {};
    part.changed = changed;
    touch(set, false);
  }
  touch(into, false);
  return into;
}

/// Forgets flows that have ended, whose ids are free from then on.
void MaxMin::tidy(Set& set) {
  const auto forget = [this](std::vector<Flow>& flows) {
    std::erase_if(flows,
                  [this](Flow id) { return fixed_[static_cast<std::size_t>(id)] == has_ended; });
  };
  for (const std::int32_t link : set.links) {
    if (link_at(link).flows.size() > static_cast<std::size_t>(link_at(link).open)) {
      forget(link_at(link).flows);
    }
  }
  for (const Flow id : set.flows) {
    if (fixed_[static_cast<std::size_t>(id)] == has_ended) ended_.push_back(id);
  }
  forget(set.flows);
  set.ended = 0;
  set.tree_links = 0;  // ids of its flows may be those of others from now on
}

/// Whether open flows connect all links of a set, each of which has one. Of many flows it looks at
/// few: mostly at those that did so the last time.
bool MaxMin::is_connected(Set& set) {
  const auto is_open = [this](Flow id) {
    return fixed_[static_cast<std::size_t>(id)] != has_ended;
  };
  if (set.tree_links == set.links.size() && std::ranges::all_of(set.tree, is_open)) return true;
  reached_.resize(links_.size());
  ++reaches_;
  const auto find = [this](std::int32_t link) {
    if (std::exchange(reached_[static_cast<std::size_t>(link)], reaches_) == reaches_) return false;
    found_.push_back(link);
    return true;
  };
  found_.clear();
  set.tree.clear();
  find(set.links.front());
  for (std::size_t i = 0; i < found_.size() && found_.size() < set.links.size(); ++i) {
    for (const Flow id : link_at(found_[i]).flows) {
      if (!is_open(id)) continue;
      bool any = false;
      for (const std::int32_t* hop = hops_of(id); *hop >= 0; ++hop) any |= find(*hop);
      if (any) set.tree.push_back(id);
    }
  }
  set.tree_links = found_.size();
  return set.tree_links == set.links.size();
}

/// Flows that come later on links without open ones are of other sets.
void MaxMin::drop_idle_links(Set& set) {
  std::erase_if(set.links, [this](std::int32_t id) {
    Link& link = link_at(id);
    if (link.open > 0) return false;
    link.flows.clear();
    link.set = -1;
    return true;
  });
}

/// The sets that a changed set consists of, once flows have ended; itself if it is one, or large
/// and most of the flows that connected it are still there.
std::vector<std::int32_t> MaxMin::parts_of(std::int32_t number) {
  const std::size_t left = set_at(number).flows.size() - set_at(number).ended;
  set_at(number).connected = std::max(set_at(number).connected, left);
  const bool large = left >= few_flows && 2 * left >= set_at(number).connected;
  if (!large) drop_idle_links(set_at(number));
  if (large || (left > 0 && is_connected(set_at(number)))) {
    if (!large) set_at(number).connected = left;
    if (4 * set_at(number).ended > left) tidy(set_at(number));
    return {number};
  }
  tidy(set_at(number));
  const Set whole = std::exchange(set_at(number), {});
  free_sets_.push_back(number);
  for (const std::int32_t link : whole.links) link_at(link).set = -1;
  std::vector<std::int32_t> parts;
  for (const std::int32_t link : whole.links) {
    if (link_at(link).set >= 0 || link_at(link).open == 0) continue;
    parts.push_back(new_set());
    set_at(parts.back()).filled = whole.filled;
    reach(link, parts.back());
  }
  for (const Flow id : whole.fresh) set_at(link_at(*hops_of(id)).set).fresh.push_back(id);
  return parts;
}

/// Gathers what is connected to a link in an empty set.
void MaxMin::reach(std::int32_t first, std::int32_t number) {
  Set& set = set_at(number);
  set.links.push_back(first);
  link_at(first).set = number;
  for (std::size_t i = 0; i < set.links.size(); ++i) {
    for (const Flow id : link_at(set.links[i]).flows) {
      const std::int32_t* hop = hops_of(id);
      if (*hop == set.links[i]) set.flows.push_back(id);
      for (; *hop >= 0; ++hop) {
        if (std::exchange(link_at(*hop).set, number) != number) set.links.push_back(*hop);
      }
    }
  }
  set.connected = set.flows.size();
}

}  // namespace moesim
