// SPDX-License-Identifier: Apache-2.0
#include "sim/import/prometheus_counters.h"

#include <algorithm>

namespace moesim {

PrometheusCounters::Counted PrometheusCounters::count(std::optional<std::int64_t> rank,
                                                      const std::vector<Sample>& samples,
                                                      bool first_of_file) {
  Source& source = sources_[rank];
  const bool repeats = std::ranges::any_of(
      samples, [&](const Sample& sample) { return source.seen.contains(sample.series); });
  if (source.scrape < 0 || !first_of_file || repeats) {
    ++source.scrape;
    source.seen.clear();
    source.held.clear();
  }
  repeats_files_ = repeats_files_ || (first_of_file && repeats);
  std::set<std::string> begun_anew;
  for (const Sample& sample : samples) {
    source.seen.insert(sample.series);
    const auto last = source.last.find(sample.series);
    if (last != source.last.end() && sample.value < last->second) begun_anew.insert(sample.server);
  }
  Counted counted{source.scrape};
  for (const Sample& sample : samples) {
    const auto [series, is_new] = source.last.try_emplace(sample.series, 0);
    double& last = series->second;
    counted.begins.push_back(is_new);
    counted.counts.push_back(sample.value - (begun_anew.contains(sample.server) ? 0 : last));
    last = sample.value;
  }
  return counted;
}

bool PrometheusCounters::use_held() {
  bool any = false;
  for (auto& [rank, source] : sources_) {
    any = any || !source.held.empty();
    for (const auto& use : source.held) use();
    source.held.clear();
  }
  return any;
}

}  // namespace moesim
