// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/max_min.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace moesim {
namespace {

/// So many are near enough in memory.
constexpr std::size_t cached_flows = 8192;

constexpr std::uint32_t never_again = std::numeric_limits<std::uint32_t>::max();

/// A window as a part of what is allowed. Few connected flows are distinguished more exactly,
/// because that costs little. Of many, each weighs less in what its links carry.
double window_of(double flows) {
  constexpr double many_flows = 384, widest = 32;
  return std::min(flows / many_flows, widest);
}

}  // namespace

void MaxMin::add_link(BytesPerSecond bandwidth) {
  links_.push_back({.bandwidth = bandwidth.value, .yield = nullptr, .flows = {}});
  rooms_.push_back({0, 0});
  owed_.push_back(0);
  spare_.push_back(0);
}

void MaxMin::add_link(Yield yield) {
  add_link(BytesPerSecond(0));
  links_.back().yield = std::move(yield);
}

int MaxMin::add_route(std::span<const LinkId> links) {
  route_.push_back(static_cast<std::uint32_t>(hops_.size()));
  for (const LinkId link : links) hops_.push_back(link.value);
  hops_.push_back(-1);
  return static_cast<int>(route_.size()) - 1;
}

MaxMin::Flow MaxMin::start(int route, Bytes bytes, Seconds window, Seconds now) {
  if (free_.empty()) {
    free_.push_back(static_cast<Flow>(flows_.size()));
    flows_.emplace_back();
    near_.emplace_back();
    fixed_.emplace_back();
    came_.emplace_back();
  }
  const Flow id = free_.back();
  free_.pop_back();
  const std::uint32_t first = route_[static_cast<std::size_t>(route)];
  flow_at(id) = {
      static_cast<double>(bytes.value), 0, static_cast<float>(window.value), first, 0, -1};
  fixed_[static_cast<std::size_t>(id)] = 0;
  came_[static_cast<std::size_t>(id)] = now.value;
  keep_near(id, first);
  for (const std::int32_t* hop = &hops_[first]; *hop >= 0; ++hop) {
    link_at(*hop).flows.push_back(id);
    ++link_at(*hop).open;
  }
  Set& set = set_at(join_sets(&hops_[first]));
  set.flows.push_back(id);
  set.fresh.push_back(id);
  return id;
}

void MaxMin::keep_near(Flow flow, std::uint32_t first) {
  NearRoute& near = near_[static_cast<std::size_t>(flow)];
  near.hops.fill(-1);
  const std::int32_t* hop = &hops_[first];
  for (std::size_t i = 0; i + 1 < near.hops.size() && *hop >= 0; ++i) near.hops[i] = *hop++;
  if (*hop >= 0) near.hops[0] = -1;
}

void MaxMin::change(LinkId link) {
  if (link_at(link.value).set >= 0) touch(link_at(link.value).set, true);
}

Seconds MaxMin::due(Seconds now) const {
  double due = std::numeric_limits<double>::infinity();
  for (const std::int32_t number : changed_) {
    const Set& set = sets_[static_cast<std::size_t>(number)];
    due = std::min(due, set.urgent ? now.value : set.filled + set.patience);
  }
  return std::max(now, Seconds(due));
}

std::vector<MaxMin::Batch> MaxMin::settle(Seconds now) {
  std::vector<Batch> batches;
  for (const std::int32_t changed : std::exchange(changed_, {})) {
    set_at(changed).changed = set_at(changed).urgent = false;
    for (const std::int32_t part : parts_of(changed)) {
      fill(set_at(part), now.value);
      catch_up(set_at(part), now.value);
      batches.push_back(batch(part, now.value));
    }
  }
  free_.insert(free_.end(), ended_.rbegin(), ended_.rend());
  ended_.clear();
  return batches;
}

/// The shares that the links of a set have for flows without a rate.
void MaxMin::offer(const Set& set, double now) {
  shares_.clear();
  for (const std::int32_t id : set.links) {
    Link& link = link_at(id);
    owed_[static_cast<std::size_t>(id)] =
        link.filling > 0 ? (link.debt - link.unused * now) / link.filling : 0;
    spare_[static_cast<std::size_t>(id)] =
        rooms_[static_cast<std::size_t>(id)].left * (now - set.filled);
    link.filling = 0;
    link.debt = link.unused = 0;
    if (link.open == 0) continue;
    const double bandwidth = link.yield ? link.yield(link.open).value : link.bandwidth;
    rooms_[static_cast<std::size_t>(id)] = {bandwidth, link.open};
    shares_.push_back({bandwidth / link.open, id});
  }
  std::ranges::make_heap(shares_, Larger());
}

/// Puts a share in the place of the least one, and where it belongs from there.
void MaxMin::sink(Share share) {
  std::size_t place = 0;
  while (2 * place + 1 < shares_.size()) {
    std::size_t less = 2 * place + 1;
    if (less + 1 < shares_.size() && Larger()(shares_[less], shares_[less + 1])) ++less;
    if (!Larger()(share, shares_[less])) break;
    shares_[place] = shares_[less];
    place = less;
  }
  shares_[place] = share;
}

void MaxMin::fill(const Set& set, double now) {
  ++fills_;
  first_end_ = window_ = std::numeric_limits<double>::infinity();
  offer(set, now);
  std::size_t left = set.flows.size() - set.ended;
  while (left > 0 && !shares_.empty()) {
    const Share least = shares_.front();
    const Room& room = rooms_[static_cast<std::size_t>(least.link)];
    const double share = room.left / room.open;
    if (room.open > 0 && share > least.of_flow) {
      sink({share, least.link});
      continue;
    }
    const Share last = shares_.back();
    shares_.pop_back();
    if (!shares_.empty()) sink(last);
    if (room.open == 0) continue;
    fix(least.link, least.of_flow, now);
    left -= static_cast<std::size_t>(link_at(least.link).filling);
  }
}

/// The flows of a receiver are far apart in memory, so that each would be waited for.
void MaxMin::fetch_ahead(const std::vector<Flow>& flows, std::size_t at) const {
  constexpr std::size_t soon = 16, later = 2 * soon;
  if (at + later < flows.size()) {
    __builtin_prefetch(&fixed_[static_cast<std::size_t>(flows[at + later])], 1);
  }
  if (at + soon >= flows.size()) return;
  const auto next = static_cast<std::size_t>(flows[at + soon]);
  __builtin_prefetch(&flows_[next], 1);
  __builtin_prefetch(&near_[next]);
}

void MaxMin::fix(std::int32_t link, double share, double now) {
  int filling = 0;
  const std::vector<Flow>& flows = link_at(link).flows;
  const bool far = flows_.size() > cached_flows;
  for (std::size_t i = 0; i < flows.size(); ++i) {
    if (far) fetch_ahead(flows, i);
    const Flow id = flows[i];
    std::uint32_t& fixed = fixed_[static_cast<std::size_t>(id)];
    if (fixed >= fills_) continue;
    fixed = fills_;
    State& flow = flow_at(id);
    flow.batch = 0;
    ++filling;
    for (const std::int32_t* hop = hops_of(id); *hop >= 0; ++hop) {
      Room& room = rooms_[static_cast<std::size_t>(*hop)];
      room.left -= share;
      --room.open;
    }
    const double owed = flow.bottleneck < 0 ? 0 : owed_[static_cast<std::size_t>(flow.bottleneck)];
    if (flow.rate != share || owed != 0) {
      const double bytes = flow.rate > 0 ? (flow.end - now) * flow.rate + owed : flow.end;
      flow.end = now + std::max(bytes, 0.0) / share;
      flow.rate = share;
    }
    flow.bottleneck = link;
    first_end_ = std::min(first_end_, flow.end);
    window_ = std::min(window_, static_cast<double>(flow.window));
  }
  link_at(link).filling = filling;
}

/// Flows that have waited for a rate have moved bytes at it meanwhile, for which there was room
/// only where links were not full.
void MaxMin::catch_up(Set& set, double now) {
  for (const Flow id : std::exchange(set.fresh, {})) {
    State& flow = flow_at(id);
    const double waited = std::min(now - came_[static_cast<std::size_t>(id)], flow.end - now);
    if (waited <= 0) continue;
    flow.end -= waited;
    first_end_ = std::min(first_end_, flow.end);
    for (const std::int32_t* hop = hops_of(id); *hop >= 0; ++hop) {
      double& spare = spare_[static_cast<std::size_t>(*hop)];
      const double moved = flow.rate * waited, over = std::min(moved, moved - spare);
      spare = std::max(0.0, spare - moved);
      link_at(*hop).debt += std::max(0.0, over);
    }
  }
}

/// Flows that end within the window, about their mean end, so that what some of them leave unused
/// is what others use too long.
MaxMin::Batch MaxMin::batch(std::int32_t number, double now) {
  Set& set = set_at(number);
  const double window = window_ * window_of(static_cast<double>(set.flows.size() - set.ended));
  Batch batch{Seconds(0), ++batches_, number, {}};
  endings_.clear();
  double late = 0, rates = 0;
  for (const Flow id : set.flows) {
    State& flow = flow_at(id);
    if (flow.rate < 0 || flow.end > first_end_ + window) continue;
    late += (flow.end - first_end_) * flow.rate;
    rates += flow.rate;
    flow.batch = batch.number;
    endings_.push_back({Seconds(flow.end), id});
  }
  std::ranges::sort(endings_, {}, [](const Ending& e) { return std::pair(e.time, e.flow); });
  batch.endings.assign(endings_.begin(), endings_.end());
  batch.time = Seconds(first_end_ + late / rates);
  set.batch = batch.number;
  set.filled = now;
  set.patience = window > window_ ? window / 2 : 0;
  return batch;
}

/// Leaves its links, with account of the bytes that it moves, or does not, until rates change.
void MaxMin::go(Flow id, double end) {
  State& flow = flow_at(id);
  for (const std::int32_t* hop = hops_of(id); *hop >= 0; ++hop) {
    Link& link = link_at(*hop);
    --link.open;
    link.debt += flow.rate * end;
    link.unused += flow.rate;
  }
  --link_at(flow.bottleneck).filling;
  ++set_at(link_at(flow.bottleneck).set).ended;
  flow.batch = 0;
  flow.rate = -1;
  fixed_[static_cast<std::size_t>(id)] = never_again;
}

bool MaxMin::end(const Batch& batch, std::size_t place) {
  const auto [time, id] = batch.endings[place];
  if (flow_at(id).batch != batch.number) return false;
  go(id, time.value);
  return true;
}

std::vector<MaxMin::Ending> MaxMin::leave(const Batch& batch) {
  std::vector<Ending> late;
  late.reserve(batch.endings.size());
  for (const Ending& ending : batch.endings) {
    if (flow_at(ending.flow).batch != batch.number) continue;
    touch(link_at(flow_at(ending.flow).bottleneck).set, true);
    go(ending.flow, ending.time.value);
    late.push_back(ending);
  }
  if (set_at(batch.set).batch == batch.number) touch(batch.set, true);
  return late;
}

}  // namespace moesim
