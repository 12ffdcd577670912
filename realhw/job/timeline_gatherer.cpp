// SPDX-License-Identifier: Apache-2.0
#include "realhw/job/timeline_gatherer.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "sim/plan/check.h"

namespace moesim {

TimelineGatherer::TimelineGatherer(Job& job) : job_(job), zero_(Clock::now()) {
  constexpr int rounds = 16;
  const auto now = [this] { return std::chrono::duration<double>(Clock::now() - zero_).count(); };
  const auto send = [&](int to, double value) {
    job.send(to, std::string(reinterpret_cast<const char*>(&value), sizeof value));
  };
  const auto receive = [&](int from) {
    double value = 0;
    std::memcpy(&value, job.receive(from).data(), sizeof value);
    return value;
  };
  for (int peer = 1; peer < job.ranks(); ++peer) {
    if (job.rank() != 0 && job.rank() != peer) continue;
    double shortest = std::numeric_limits<double>::max(), offset = 0;
    for (int round = 0; round < rounds; ++round) {
      if (job.rank() == peer) {
        receive(0);
        send(0, now());
        continue;
      }
      const double sent = now();
      send(peer, sent);
      const double there = receive(peer), received = now();
      if (received - sent >= shortest) continue;
      shortest = received - sent;
      offset = there - (sent + received) / 2;  // how much the peer's zero is early
    }
    if (job.rank() == 0) {
      send(peer, offset);
    } else {
      offset = receive(0);
      zero_ += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(offset));
    }
  }
}

Timeline TimelineGatherer::gather(const Plan& plan, const std::vector<Stamp>& stamps) const {
  std::vector<double> mine;
  for (const Stamp& stamp : stamps) {
    const bool ran = stamp.start <= stamp.end;
    for (const Clock::time_point at : {stamp.start, stamp.end}) {
      mine.push_back(ran ? std::chrono::duration<double>(at - zero_).count() : 0);
    }
  }
  const std::vector<double> all = gather_on_first(job_, mine);
  Timeline timeline;
  if (job_.rank() != 0) return timeline;
  const auto start_of = [&](std::size_t op, GpuId gpu) {
    return &all[gpu.index() * mine.size() + 2 * op];
  };
  double first = std::numeric_limits<double>::max();
  for (std::size_t op = 0; op < plan.ops.size(); ++op) {
    for (const GpuId gpu : plan.ops[op].group) first = std::min(first, *start_of(op, gpu));
  }
  for (std::size_t op = 0; op < plan.ops.size(); ++op) {
    std::vector<Interval> intervals;
    for (const GpuId gpu : plan.ops[op].group) {
      const double* times = start_of(op, gpu);
      intervals.push_back({Seconds(times[0] - first), Seconds(times[1] - first)});
      timeline.makespan = std::max(timeline.makespan, intervals.back().end);
    }
    timeline.ops.add_row(intervals);
  }
  return timeline;
}

}  // namespace moesim
