// SPDX-License-Identifier: Apache-2.0
#include "realhw/measure/measured_timeline.h"

#include <fmt/format.h>

namespace moesim {

MeasuredTimeline::MeasuredTimeline(const std::string& path, const Topology& cluster, bool named)
    : cluster_(cluster),
      named_(named),
      file_(path),
      events_([this](std::string_view text) { file_.write(text); }) {
  file_.write(start_of_events(MOESIM_RELEASE, "measured: all ranks, repeats of median length"));
}

void MeasuredTimeline::begin(const std::string& policy) {
  std::vector<GpuId> ranks;
  for (int g = 0; g < cluster_.gpu_count(); ++g) ranks.emplace_back(g);
  const int first_process = policies_++ * (cluster_.gpu_count() + 1);
  policy_.emplace(events_, TimelineCase{named_ ? policy : "", first_process, std::move(ranks)},
                  cluster_);
}

void MeasuredTimeline::add(const Plan& plan, const Timeline& timeline, int number) {
  policy_->add(PricedPlan(plan, cluster_), timeline, fmt::format("step {}", number));
}

void MeasuredTimeline::finish() {
  events_.flush();
  file_.write(end_of_events);
  file_.finish();
}

}  // namespace moesim
