// SPDX-License-Identifier: Apache-2.0
// Counters of servers grow until the server starts anew: what a scrape adds is its difference to
// the one before.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace moesim {

/// Remembers the counters of all files of an import.
class PrometheusCounters {
 public:
  struct Sample {
    std::string series;  // all labels
    std::string server;  // the labels that its layers and experts have in common
    double value = 0;
  };
  /// A scrape's number, from 0 on, and what each of its samples has counted since the one before.
  struct Counted {
    std::int64_t scrape = 0;
    std::vector<double> counts = {};
  };
  /// Takes a scrape of a rank. The first one of a file continues the scrape before if it repeats
  /// none of its series: a file per layer. If a counter falls, its server has begun anew from 0.
  Counted count(std::optional<std::int64_t> rank, const std::vector<Sample>& samples,
                bool first_of_file);

 private:
  struct Source {
    std::int64_t scrape = -1;
    std::set<std::string> seen = {};  // series of this scrape
    std::map<std::string, double> last = {};
  };
  std::map<std::optional<std::int64_t>, Source> sources_;
};

}  // namespace moesim
