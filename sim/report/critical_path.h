// SPDX-License-Identifier: Apache-2.0
// The critical path of a timeline: the chain of ops and waits whose lengths add up to the makespan.
// Defined in docs/explain.md.
#pragma once

#include <vector>

#include "sim/plan/plan.h"
#include "sim/plan/timeline.h"
#include "sim/report/continued.h"

namespace moesim {

/// What a segment of the path waited for before it began.
enum class PathWait {
  nothing,  // it is the first of the path
  data,     // of an op that it names (Op::after), on the same GPU
  stream,   // the op before it on the stream of the same GPU had not ended
};
const char* name_of(PathWait wait);

/// A stretch of the path that belongs to one op.
///  - A kernel counts from its start to its end.
///  - An exchange counts from the joining of its slowest participant, `slowest`, to its end on
///    `gpu`. If these differ, `gpu` waited for a straggler, and the path continues with what
///    that one waited for. If participants leave one after the other (`flow`), the ones that
///    `gpu` sends to or receives from count, if they joined before it left.
///  - `idle`: no op of the plan explains why the op began no earlier.
struct PathSegment {
  OpId op;
  GpuId gpu, slowest;
  Interval when;
  PathWait wait = PathWait::nothing;  // of `slowest`
  bool idle = false;
  Seconds waited = {};  // until `slowest` joined an exchange: the mean participant

  Seconds length() const { return when.end - when.start; }
  bool operator==(const PathSegment&) const = default;
};

/// From time zero to the makespan; each segment begins where the one before ends. Ties go to the
/// GPU that the path is on, to data before the stream, then to the lowest id. Segments of no length
/// are left out. In a steady state the path goes through the repeated ops as often as the whole
/// step has them.
std::vector<PathSegment> critical_path(const Plan& plan, const Timeline& timeline,
                                       const Continued* continued = nullptr);

}  // namespace moesim
