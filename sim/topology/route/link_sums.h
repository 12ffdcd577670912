// SPDX-License-Identifier: Apache-2.0
// Adds up what an exchange puts on its links, share by share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/topology/route/routes.h"

namespace moesim {

class LinkSums {
 public:
  /// Sums for so many links, none of them used.
  explicit LinkSums(std::size_t links) : place_(std::exchange(spare(), {})) {
    if (place_.size() < links) place_.resize(links, unused);
  }
  LinkSums(const LinkSums&) = delete;
  LinkSums& operator=(const LinkSums&) = delete;
  ~LinkSums() {
    forget_places();
    spare() = std::move(place_);
  }

  void put(int link, const Load& load) {
    if (load.bytes == 0) return;
    std::int32_t& place = place_[static_cast<std::size_t>(link)];
    if (place == unused) {
      place = static_cast<std::int32_t>(loads_.uses.size());
      loads_.uses.push_back({LinkId(link), Bytes(0), Seconds(0), Seconds(Load().latency)});
    }
    LinkUse& use = loads_.uses[static_cast<std::size_t>(place)];
    use.bytes += Bytes(load.bytes);
    use.first = std::min(use.first, Seconds(load.latency));
  }

  /// So many bytes of the exchange use a route of this latency.
  void note_latency(double seconds, std::int64_t bytes) {
    loads_.latency.value = std::max(loads_.latency.value, seconds);
    waited_ += seconds * static_cast<double>(bytes);
    bytes_ += bytes;
  }

  /// The sums without their times, the links ascending. Leaves nothing behind.
  LinkLoads take() {
    std::vector<LinkUse> ascending;
    ascending.reserve(loads_.uses.size());
    for (const std::size_t place : places_by_link()) ascending.push_back(loads_.uses[place]);
    forget_places();
    loads_.uses = std::move(ascending);
    if (bytes_ > 0) loads_.mean.value = waited_ / static_cast<double>(bytes_);
    return std::move(loads_);
  }

 private:
  static constexpr std::int32_t unused = -1;
  double waited_ = 0;       // latencies x bytes
  std::int64_t bytes_ = 0;  // of all noted routes
  /// Places of nothing, from one exchange to the next: to make a place for every link of a large
  /// cluster takes longer than to price an exchange of few GPUs.
  static std::vector<std::int32_t>& spare() {
    static thread_local std::vector<std::int32_t> places;
    return places;
  }
  std::vector<std::size_t> places_by_link() const {
    constexpr std::size_t few = 16;  // of so many links one is used: sorting takes less than a look
    std::vector<std::size_t> places;
    places.reserve(loads_.uses.size());
    if (loads_.uses.size() > place_.size() / few) {
      for (const std::int32_t place : place_) {
        if (place != unused) places.push_back(static_cast<std::size_t>(place));
      }
      return places;
    }
    constexpr int bits = 32;  // the link above, the place below: uses themselves are large to move
    for (std::size_t place = 0; place < loads_.uses.size(); ++place) {
      places.push_back(loads_.uses[place].link.index() << bits | place);
    }
    std::ranges::sort(places);
    for (std::size_t& place : places) place &= (std::size_t{1} << bits) - 1;
    return places;
  }
  void forget_places() {
    for (const LinkUse& use : loads_.uses) place_[use.link.index()] = unused;
  }

  std::vector<std::int32_t> place_;  // per link, in loads_.uses
  LinkLoads loads_;
};

}  // namespace moesim
