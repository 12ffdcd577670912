// SPDX-License-Identifier: Apache-2.0
#include "sim/report/path_sums.h"

#include <algorithm>

#include "sim/plan/phases.h"
#include "sim/report/iteration_metrics.h"
#include "sim/report/names.h"
#include "sim/report/sums.h"

namespace moesim {
namespace {

PathKind kind_of_part(IterationPart part) {
  switch (part) {
    case IterationPart::attention:
      return PathKind::attention;
    case IterationPart::experts:
      return PathKind::experts;
    case IterationPart::dense:
      return PathKind::dense;
    case IterationPart::optimizer:
      return PathKind::optimizer;
    case IterationPart::tensor:
      return PathKind::tensor;
    case IterationPart::context:
      return PathKind::context;
    case IterationPart::weights:
      return PathKind::weights;
    case IterationPart::gradients:
      return PathKind::gradients;
    case IterationPart::offload:
      return PathKind::offload;
    case IterationPart::bubble:
      return PathKind::stage_transfer;
    case IterationPart::host:
      return PathKind::host;
    case IterationPart::tokens:
    case IterationPart::waiting:
    case IterationPart::moe_other:
      break;
  }
  return PathKind::moe_other;
}

/// Takes up to `most` from what is left of a segment, and a rest that is rounding.
Seconds taken(Seconds& left, Seconds most) {
  constexpr double rounding = 1e-9;
  const Seconds part = most * (1 + rounding) >= left ? left : std::max(Seconds(0), most);
  left -= part;
  return part;
}

void add_time(TimeByResource& by, const std::string& name, Seconds time) {
  if (time > Seconds(0)) by[name] += time;
}

/// The link that an exchange by itself loads longest, the lowest id of several; null: none.
const LinkUse* busiest(const LinkLoads& loads) {
  const auto most = std::ranges::max_element(loads.uses, {}, &LinkUse::time);
  return most == loads.uses.end() ? nullptr : &*most;
}

void add_exchange(PathPart& part, const PricedExchange& price, const Topology& topology,
                  Seconds left) {
  add_time(part.by, "overhead", taken(left, price.alone.overhead));
  add_time(part.by, "latency", taken(left, price.alone.latency));
  const LinkUse* link = busiest(price.loads);
  if (link == nullptr) return add_time(part.by, "overhead", left);
  const int link_class = topology.links()[link->link.index()].link_class;
  const std::string& name = topology.classes()[static_cast<std::size_t>(link_class)].name;
  add_time(part.links, link_name(topology, link->link), left);
  add_time(part.by, name, taken(left, price.alone.transfer));
  add_time(part.by, "shared " + name, left);
}

void add_kernel(PathPart& part, const Op& op, GpuId id, const GpuModel& gpu, Seconds left) {
  if (is_minimum_time(op)) return add_time(part.by, "minimum time", left);
  if (op.key.kind == OpKind::stash) return add_time(part.by, "stash", left);
  const Kernel& kernel = op.kernels()->of(op.group.member(id));
  if (std::holds_alternative<HostWork>(kernel)) return add_time(part.by, "host", left);
  const auto type = type_of(kernel);
  const bool rated = !type || gpu.peak.contains(*type);  // else all that it has is a measured table
  const auto bound = rated ? gpu.bound(kernel, op.key.type()) : KernelBound::compute;
  add_time(part.by, name_of(bound), taken(left, gpu.time(kernel, op.key.type())));
  add_time(part.by, "contention", left);
}

}  // namespace

const char* name_of(PathKind kind) {
  static constexpr std::array<const char*, path_kind_count> names = {
      "attention", "experts",        "moe other", "dense",   "optimizer", "dispatch",
      "combine",   "tensor",         "context",   "weights", "migration", "gradients",
      "offload",   "stage transfer", "host",      "idle"};
  return names.at(static_cast<std::size_t>(kind));
}

PathKind path_kind_of(const Op& op) {
  const OpKind kind = op.key.kind;
  if (kind == OpKind::planning || kind == OpKind::host_read) return PathKind::host;
  if (op.key.stage == Stage::migrate) return PathKind::migration;
  const bool tokens = op.exchange() != nullptr && carries_tokens(op.stream);
  if (!tokens && !is_minimum_time(op)) return kind_of_part(part_of(op));
  return op.key.stage == Stage::combine ? PathKind::combine : PathKind::dispatch;
}

void PathSums::add(const PathSums& other) {
  const auto add_all = [](auto& to, const auto& from) {
    for (const auto& [key, time] : from) to[key] += time;
  };
  length += other.length;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    kinds[k].time += other.kinds[k].time;
    add_all(kinds[k].by, other.kinds[k].by);
    add_all(kinds[k].links, other.kinds[k].links);
  }
  add_all(layers, other.layers);
  add_to(gpus, other.gpus);
  add_to(waited, other.waited);
  segments += other.segments;
}

PathSums path_sums(const std::vector<PathSegment>& path, const PricedPlan& priced,
                   const GpuModels& gpus) {
  PathSums sums;
  sums.gpus.resize(gpus.size());
  sums.waited.resize(gpus.size());
  for (const PathSegment& segment : path) {
    const Op& op = priced.plan()[segment.op];
    const Seconds time = segment.length();
    // What no op explains is the host that had not issued it, if hosts take time.
    const bool host = segment.idle && gpus[segment.gpu.index()]->host.takes_time();
    const PathKind idle = host ? PathKind::host : PathKind::idle;
    const PathKind kind = segment.idle ? idle : path_kind_of(op);
    PathPart& part = sums.kinds[static_cast<std::size_t>(kind)];
    part.time += time;
    sums.length += time;
    sums.layers[op.key.layer] += time;
    sums.gpus[segment.slowest.index()] += time;
    sums.waited[segment.slowest.index()] += segment.waited;
    ++sums.segments;
    if (segment.idle) {
      add_time(part.by, name_of(idle), time);
    } else if (op.exchange() != nullptr) {
      const auto in =
          static_cast<std::size_t>(op.place_of(op.group.member(segment.gpu)).collective);
      add_exchange(part, *priced.prices_of(segment.op)[in], priced.topology(), time);
    } else {
      add_kernel(part, op, segment.gpu, *gpus[segment.gpu.index()], time);
    }
  }
  return sums;
}

PathKind longest_kind(const PathSums& path) {
  const auto most = std::ranges::max_element(path.kinds, {}, &PathPart::time);
  return static_cast<PathKind>(most - path.kinds.begin());
}

TimeByResource resources_of(const PathSums& path) {
  TimeByResource all;
  for (const PathPart& part : path.kinds) {
    for (const auto& [name, time] : part.by) all[name] += time;
  }
  return all;
}

std::string longest_name(const TimeByResource& times) {
  const auto most =
      std::ranges::max_element(times, {}, [](const auto& entry) { return entry.second; });
  return most == times.end() ? "" : most->first;
}

}  // namespace moesim
