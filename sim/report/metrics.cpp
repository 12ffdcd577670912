// SPDX-License-Identifier: Apache-2.0
#include "sim/report/metrics.h"

#include <algorithm>
#include <numeric>

#include "sim/report/sums.h"

namespace moesim {

void Traffic::add(const Traffic& other, std::int64_t times) {
  same_gpu += other.same_gpu * times;
  same_host += other.same_host * times;
  other_host += other.other_host * times;
  link_class.resize(std::max(link_class.size(), other.link_class.size()));
  for (std::size_t c = 0; c < other.link_class.size(); ++c) {
    link_class[c] += other.link_class[c] * times;
  }
}

void LayerMetrics::add(const LayerMetrics& other) {
  forward += other.forward;
  backward += other.backward;
  compute += other.compute;
  communication += other.communication;
  parameters += other.parameters;
  gradients += other.gradients;
  exposed += other.exposed;
  load_max_over_mean.add(other.load_max_over_mean);
  add_to(link_bytes, other.link_bytes);
  traffic.add(other.traffic);
  parameter_traffic.add(other.parameter_traffic);
  migrated += other.migrated;
}

void IterationFigures::add(const IterationTimes& other, double load) {
  const double before = static_cast<double>(count) / (count + 1), now = 1 - before;
  const auto mean = [&](Seconds& a, Seconds b) { a = a * before + b * now; };
  mean(times.iteration, other.iteration);
  for (std::size_t p = 0; p < times.parts.size(); ++p) mean(times.parts[p], other.parts[p]);
  mean(times.slowest_compute, other.slowest_compute);
  mean(times.overlapped, other.overlapped);
  mean(times.busiest, other.busiest);
  load_max_over_mean = load_max_over_mean * before + load * now;
  ++count;
}

Seconds RunMetrics::mean_step() const {
  if (iteration) return iteration->times.iteration;
  const Seconds sum = std::accumulate(steps.begin(), steps.end(), Seconds(0));
  return steps.empty() ? sum : sum * (1.0 / static_cast<double>(steps.size()));
}

Seconds RunMetrics::time_of_steps() const {
  return mean_step() * static_cast<double>(steps.size());
}

std::optional<PeakLink> peak_link(const std::vector<std::int64_t>& link_bytes, Seconds time,
                                  const Topology& topology) {
  std::optional<std::size_t> peak;
  Seconds most;
  for (std::size_t l = 0; l < link_bytes.size(); ++l) {
    const Seconds alone = Bytes(link_bytes[l]) / topology.links()[l].bandwidth;
    if (alone > most) most = alone, peak = l;  // ties: the lowest id stays
  }
  if (!peak) return std::nullopt;
  return PeakLink{topology.links()[*peak], Bytes(link_bytes[*peak]), most / time};
}

}  // namespace moesim
