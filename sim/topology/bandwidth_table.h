// SPDX-License-Identifier: Apache-2.0
// A measured curve: what a link yields by the bytes that one exchange puts on it. Protocols and
// start-up make small exchanges slower than one bandwidth and one latency can say.
#pragma once

#include <vector>

#include "sim/base/types.h"

namespace moesim {

class BandwidthTable {
 public:
  struct Point {
    Bytes size;  // > 0
    BytesPerSecond rate;
    Seconds time() const { return size / rate; }
    bool operator==(const Point&) const = default;
  };

  /// Throws std::invalid_argument unless there are points, their sizes ascend, and none takes less
  /// time than the one before.
  explicit BandwidthTable(std::vector<Point> points);

  /// Between two points time is linear in the size; below the first and above the last point their
  /// rates hold.
  Seconds time(Bytes size) const;
  /// Every rate times `factor` (> 0), as if the link were so much faster.
  BandwidthTable scaled(double factor) const;
  BytesPerSecond most() const { return most_; }  // the largest rate of a point
  /// The largest rate of an exchange of at most `size` (> 0).
  BytesPerSecond most_up_to(Bytes size) const;
  const std::vector<Point>& points() const { return points_; }

 private:
  std::vector<Point> points_;
  BytesPerSecond most_;
};

}  // namespace moesim
