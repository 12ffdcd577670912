// SPDX-License-Identifier: Apache-2.0
// Counters of servers grow until the server starts anew: what a scrape adds is its difference to
// the one before, so the first of several is only where counting begins.
#pragma once

#include <cstdint>
#include <functional>
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
    std::vector<bool> begins = {};  // no scrape before has the series of the sample
  };
  /// Takes a scrape of a rank. The first one of a file continues the scrape before if it repeats
  /// none of its series: a file per layer. If a counter falls, its server has begun anew from 0.
  Counted count(std::optional<std::int64_t> rank, const std::vector<Sample>& samples,
                bool first_of_file);

  /// Keeps the use of a sample of a rank's first scrape: it counts if no other scrape follows.
  void hold(std::optional<std::int64_t> rank, std::function<void()> use) {
    sources_[rank].held.push_back(std::move(use));
  }
  /// Uses what is still held. Returns whether there is any.
  bool use_held();
  /// Whether a file has the series of one before.
  bool repeats_files() const { return repeats_files_; }

 private:
  struct Source {
    std::int64_t scrape = -1;
    std::set<std::string> seen = {};  // series of this scrape
    std::map<std::string, double> last = {};
    std::vector<std::function<void()>> held = {};
  };
  std::map<std::optional<std::int64_t>, Source> sources_;
  bool repeats_files_ = false;
};

}  // namespace moesim
