// SPDX-License-Identifier: Apache-2.0
#include "sim/topology/bandwidth_table.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace moesim {

BandwidthTable::BandwidthTable(std::vector<Point> points) : points_(std::move(points)) {
  if (points_.empty()) throw std::invalid_argument("a bandwidth table without points");
  for (std::size_t i = 0; i < points_.size(); ++i) {
    const Point& point = points_[i];
    const bool sound = point.size > Bytes(0) && point.rate.value > 0;
    if (!sound ||
        (i > 0 && (point.size <= points_[i - 1].size || point.time() < points_[i - 1].time()))) {
      throw std::invalid_argument("a bandwidth table whose sizes or times do not ascend");
    }
    most_ = std::max(most_, point.rate);
  }
}

BandwidthTable BandwidthTable::scaled(double factor) const {
  std::vector<Point> points = points_;
  for (std::size_t i = 0; i < points.size(); ++i) {
    double& rate = points[i].rate.value;
    rate *= factor;
    // Rounding must not make equal times descend.
    while (i > 0 && points[i].time() < points[i - 1].time()) rate = std::nextafter(rate, 0.0);
  }
  return BandwidthTable(std::move(points));
}

BytesPerSecond BandwidthTable::most_up_to(Bytes size) const {
  if (size <= points_.front().size) return points_.front().rate;
  // Between two points rates only rise or only fall.
  BytesPerSecond most(static_cast<double>(size.value) / time(size).value);
  for (const Point& point : points_) {
    if (point.size > size) break;
    most = std::max(most, point.rate);
  }
  return most;
}

Seconds BandwidthTable::time(Bytes size) const {
  const auto above = std::ranges::upper_bound(points_, size, {}, &Point::size);
  if (above == points_.begin()) return size / points_.front().rate;
  const Point& low = *(above - 1);
  if (above == points_.end()) return size / low.rate;
  const double part = static_cast<double>((size - low.size).value) /
                      static_cast<double>((above->size - low.size).value);
  return low.time() + (above->time() - low.time()) * part;
}

}  // namespace moesim
