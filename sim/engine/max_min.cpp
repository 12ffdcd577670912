// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/max_min.h"

#include <algorithm>
#include <limits>

namespace moesim {
namespace {

/// Sets of fewer connected flows are distinguished more exactly, because that costs little there.
constexpr double many_flows = 1024;

}  // namespace

void MaxMin::add_link(BytesPerSecond bandwidth) {
  links_.push_back({bandwidth.value, nullptr, {}});
  rooms_.push_back({0, 0});
}

void MaxMin::add_link(Yield yield) {
  links_.push_back({0, std::move(yield), {}});
  rooms_.push_back({0, 0});
}

int MaxMin::add_route(std::span<const LinkId> links) {
  route_.push_back(static_cast<std::uint32_t>(hops_.size()));
  for (const LinkId link : links) hops_.push_back(link.value);
  hops_.push_back(-1);
  return static_cast<int>(route_.size()) - 1;
}

MaxMin::Flow MaxMin::start(int route, Bytes bytes, Seconds window) {
  if (free_.empty()) {
    free_.push_back(static_cast<Flow>(flows_.size()));
    flows_.emplace_back();
  }
  const Flow id = free_.back();
  free_.pop_back();
  const std::uint32_t first = route_[static_cast<std::size_t>(route)];
  flows_[static_cast<std::size_t>(id)] = {
      static_cast<double>(bytes.value), 0, static_cast<float>(window.value), first, 0, 0};
  for (const std::int32_t* hop = &hops_[first]; *hop >= 0; ++hop) {
    links_[static_cast<std::size_t>(*hop)].flows.push_back(id);
    touch(*hop);
  }
  return id;
}

void MaxMin::change(LinkId link) { touch(link.value); }

void MaxMin::touch(std::int32_t link) {
  if (!std::exchange(links_[static_cast<std::size_t>(link)].changed, true)) {
    changed_.push_back(link);
  }
}

std::vector<MaxMin::Flow> MaxMin::end(const Batch& batch) {
  std::vector<Flow> ended;
  for (const Flow id : batch.flows) {
    State& flow = flows_[static_cast<std::size_t>(id)];
    if (flow.batch != batch.number) continue;
    flow.batch = 0;
    flow.rate = -1;
    ended.push_back(id);
    for (const std::int32_t* hop = &hops_[flow.hops]; *hop >= 0; ++hop) touch(*hop);
  }
  ended_.insert(ended_.end(), ended.begin(), ended.end());
  return ended;
}

std::vector<MaxMin::Batch> MaxMin::settle(Seconds now) {
  std::vector<Batch> batches;
  ++settles_;
  for (const std::int32_t link : changed_) {
    links_[static_cast<std::size_t>(link)].changed = false;
    if (links_[static_cast<std::size_t>(link)].seen == settles_) continue;
    reach(link);
    if (near_flows_.empty()) continue;
    fill(now.value);
    batches.push_back(batch());
  }
  changed_.clear();
  free_.insert(free_.end(), ended_.rbegin(), ended_.rend());
  ended_.clear();
  return batches;
}

/// Gathers what is connected to a link, without the flows that have ended.
void MaxMin::reach(std::int32_t link) {
  near_links_.assign(1, link);
  near_flows_.clear();
  links_[static_cast<std::size_t>(link)].seen = settles_;
  for (std::size_t i = 0; i < near_links_.size(); ++i) {
    auto& here = links_[static_cast<std::size_t>(near_links_[i])].flows;
    std::size_t kept = 0;
    for (const Flow id : here) {
      State& flow = flows_[static_cast<std::size_t>(id)];
      if (flow.rate < 0) continue;
      here[kept++] = id;
      if (flow.stamp == 2 * settles_) continue;
      flow.stamp = 2 * settles_;
      near_flows_.push_back(id);
      for (const std::int32_t* hop = &hops_[flow.hops]; *hop >= 0; ++hop) {
        Link& there = links_[static_cast<std::size_t>(*hop)];
        if (std::exchange(there.seen, settles_) != settles_) near_links_.push_back(*hop);
      }
    }
    here.resize(kept);
  }
}

void MaxMin::fill(double now) {
  first_end_ = window_ = std::numeric_limits<double>::infinity();
  shares_.clear();
  for (const std::int32_t id : near_links_) {
    const Link& link = links_[static_cast<std::size_t>(id)];
    const auto open = static_cast<int>(link.flows.size());
    if (open == 0) continue;
    const double bandwidth = link.yield ? link.yield(open).value : link.bandwidth;
    rooms_[static_cast<std::size_t>(id)] = {bandwidth, open};
    shares_.push_back({bandwidth / open, id});
  }
  std::ranges::make_heap(shares_, larger);
  while (!shares_.empty()) {
    std::ranges::pop_heap(shares_, larger);
    Share& least = shares_.back();
    const Room& room = rooms_[static_cast<std::size_t>(least.link)];
    const double share = room.left / room.open;
    if (room.open > 0 && share > least.of_flow) {
      least.of_flow = share;
      std::ranges::push_heap(shares_, larger);
      continue;
    }
    const Share filled = least;
    shares_.pop_back();
    if (room.open > 0) fix(filled.link, filled.of_flow, now);
  }
}

void MaxMin::fix(std::int32_t link, double share, double now) {
  const std::uint32_t fixed = 2 * settles_ + 1;
  for (const Flow id : links_[static_cast<std::size_t>(link)].flows) {
    State& flow = flows_[static_cast<std::size_t>(id)];
    if (flow.stamp == fixed) continue;
    flow.stamp = fixed;
    flow.batch = 0;
    for (const std::int32_t* hop = &hops_[flow.hops]; *hop >= 0; ++hop) {
      Room& room = rooms_[static_cast<std::size_t>(*hop)];
      room.left -= share;
      --room.open;
    }
    if (flow.rate != share) {
      const double bytes = flow.rate > 0 ? (flow.end - now) * flow.rate : flow.end;
      flow.end = now + std::max(bytes, 0.0) / share;
      flow.rate = share;
    }
    first_end_ = std::min(first_end_, flow.end);
    window_ = std::min(window_, static_cast<double>(flow.window));
  }
}

/// Flows that end within the window, in its middle: some of them end early for that and some late,
/// so that bytes are neither gained nor lost.
MaxMin::Batch MaxMin::batch() {
  const auto flows = static_cast<double>(near_flows_.size());
  const double window = window_ * std::min(1.0, flows / many_flows);
  Batch batch{Seconds(0), ++batches_, {}};
  double last = first_end_;
  for (const Flow id : near_flows_) {
    State& flow = flows_[static_cast<std::size_t>(id)];
    if (flow.end > first_end_ + window) continue;
    last = std::max(last, flow.end);
    flow.batch = batch.number;
    batch.flows.push_back(id);
  }
  std::ranges::sort(batch.flows);
  batch.time = Seconds(first_end_ + (last - first_end_) / 2);
  return batch;
}

}  // namespace moesim
