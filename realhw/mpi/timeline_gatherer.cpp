// SPDX-License-Identifier: Apache-2.0
#include "realhw/mpi/timeline_gatherer.h"

#include <algorithm>
#include <limits>

#include "sim/plan/check.h"

namespace moesim {

TimelineGatherer::TimelineGatherer(const MpiSession& mpi) : mpi_(mpi), zero_(Clock::now()) {
  constexpr int rounds = 16, tag = 0;
  const auto now = [this] { return std::chrono::duration<double>(Clock::now() - zero_).count(); };
  for (int peer = 1; peer < mpi.ranks(); ++peer) {
    if (mpi.rank() != 0 && mpi.rank() != peer) continue;
    double shortest = std::numeric_limits<double>::max(), offset = 0;
    for (int round = 0; round < rounds; ++round) {
      double there = 0;
      if (mpi.rank() == peer) {
        check(MPI_Recv(nullptr, 0, MPI_BYTE, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        there = now();
        check(MPI_Send(&there, 1, MPI_DOUBLE, 0, tag, MPI_COMM_WORLD));
        continue;
      }
      const double sent = now();
      check(MPI_Send(nullptr, 0, MPI_BYTE, peer, tag, MPI_COMM_WORLD));
      check(MPI_Recv(&there, 1, MPI_DOUBLE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      const double received = now();
      if (received - sent >= shortest) continue;
      shortest = received - sent;
      offset = there - (sent + received) / 2;  // how much the peer's zero is early
    }
    if (mpi.rank() == 0) {
      check(MPI_Send(&offset, 1, MPI_DOUBLE, peer, tag, MPI_COMM_WORLD));
    } else {
      check(MPI_Recv(&offset, 1, MPI_DOUBLE, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
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
  const std::vector<double> all = gather_on_first(mine);
  Timeline timeline;
  if (mpi_.rank() != 0) return timeline;
  double first = std::numeric_limits<double>::max();
  for (std::size_t op = 0; op < plan.ops.size(); ++op) {
    auto& intervals = timeline.ops.emplace_back();
    for (const GpuId gpu : gpus_of(plan.ops[op])) {
      const std::size_t i = gpu.index() * mine.size() + 2 * op;
      intervals.push_back({Seconds(all[i]), Seconds(all[i + 1])});
      first = std::min(first, all[i]);
    }
  }
  for (auto& intervals : timeline.ops) {
    for (Interval& interval : intervals) {
      interval.start -= Seconds(first);
      interval.end -= Seconds(first);
      timeline.makespan = std::max(timeline.makespan, interval.end);
    }
  }
  return timeline;
}

}  // namespace moesim
