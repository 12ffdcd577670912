// SPDX-License-Identifier: Apache-2.0
// What the critical path consists of: by kind of work, by what binds it, by layer and by GPU.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "sim/model/gpu_model.h"
#include "sim/plan/priced.h"
#include "sim/report/critical_path.h"

namespace moesim {

/// What an op of the path is for. `migration`: experts that change places, which `weights` leaves
/// out; `host`: planning, reading counts, and ops
/// that were not issued yet; `idle`: PathSegment::idle.
enum class PathKind {
  attention,
  experts,
  moe_other,
  dense,
  optimizer,
  dispatch,
  combine,
  tensor,
  context,
  weights,
  migration,
  gradients,
  offload,
  stage_transfer,
  host,
  idle,
};
inline constexpr int path_kind_count = static_cast<int>(PathKind::idle) + 1;
const char* name_of(PathKind kind);
PathKind path_kind_of(const Op& op);

/// Time by what binds it: `compute`, `memory` and `launch` of kernels, `contention` (a kernel
/// during an exchange that slows it), `host`, `idle`, `minimum time`; of exchanges `overhead`,
/// `latency`, the class of the busiest link, and `shared CLASS`: what others on the link cost.
using TimeByResource = std::map<std::string, Seconds>;

/// The path within one kind of work.
struct PathPart {
  Seconds time;
  TimeByResource by;
  std::map<std::string, Seconds> links;  // by the busiest link of an exchange, "node0.nic0 -> leaf"
  bool operator==(const PathPart&) const = default;
};

/// Sums over the paths of some plans.
struct PathSums {
  Seconds length;
  std::array<PathPart, path_kind_count> kinds{};
  std::map<int, Seconds> layers = {};  // by model layer number; -1: none
  std::vector<Seconds> gpus = {};      // [GPU] an exchange counts for the last to join it
  std::vector<Seconds> waited = {};    // [GPU] PathSegment::waited of exchanges it joined last
  std::int64_t segments = 0;

  const PathPart& of(PathKind kind) const { return kinds[static_cast<std::size_t>(kind)]; }
  /// The part of the length that a kind takes; 0 of an empty path.
  double share(PathKind kind) const { return length > Seconds(0) ? of(kind).time / length : 0; }
  void add(const PathSums& other);
  bool operator==(const PathSums&) const = default;
};

/// Sums over the path of one timeline of the plan on these GPUs.
PathSums path_sums(const std::vector<PathSegment>& path, const PricedPlan& plan,
                   const GpuModels& gpus);

/// The kind and the resource with most time: the first of equals.
PathKind longest_kind(const PathSums& path);
TimeByResource resources_of(const PathSums& path);  // of all kinds together
std::string longest_name(const TimeByResource& times);

}  // namespace moesim
