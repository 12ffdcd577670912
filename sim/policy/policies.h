// SPDX-License-Identifier: Apache-2.0
// The one table of mechanisms. A new mechanism is one .cpp file, its line here and in policies.cpp.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sim/base/yaml.h"
#include "sim/policy/dispatch.h"
#include "sim/policy/placer.h"
#include "sim/policy/routing.h"
#include "sim/policy/schedule.h"

namespace moesim {

/// Makes a mechanism, whose parameters it holds, once cluster and model are known.
template <class Interface, class Context>
using Maker = std::function<std::unique_ptr<Interface>(const Context&)>;

/// A mechanism of one of the four kinds, with what `moesim list` says of it.
template <class Interface, class Context>
struct Mechanism {
  const char* name;
  const char* description;
  /// Reads its parameters, each with a default; the reader is their schema.
  Maker<Interface, Context> (*read)(const YamlMap& params);
  /// It looks at which experts a token has together, which traces of counts do not know.
  bool needs_tokens = false;
  /// Of a dispatch: what carries its exchanges unless its policy says otherwise.
  const char* transport = "nccl-p2p";
  /// Of a placement: experts have replicas within an EP group, so that it may have more ranks than
  /// there are experts; unless `ep` is stated it is the whole cluster.
  bool replicates = false;
};

using RoutingMechanism = Mechanism<Routing, RoutingContext>;
using PlacementMechanism = Mechanism<Placer, PlacementContext>;
using DispatchMechanism = Mechanism<Dispatch, DispatchContext>;
using ScheduleMechanism = Mechanism<Schedule, ScheduleContext>;

using RoutingMaker = Maker<Routing, RoutingContext>;
using PlacementMaker = Maker<Placer, PlacementContext>;
using DispatchMaker = Maker<Dispatch, DispatchContext>;
using ScheduleMaker = Maker<Schedule, ScheduleContext>;

const std::vector<RoutingMechanism>& routing_mechanisms();
const std::vector<PlacementMechanism>& placement_mechanisms();
const std::vector<DispatchMechanism>& dispatch_mechanisms();
const std::vector<ScheduleMechanism>& schedule_mechanisms();

RoutingMaker read_identity(const YamlMap& params);
RoutingMaker read_capacity_routing(const YamlMap& params);
RoutingMaker read_group_limited(const YamlMap& params);
RoutingMaker read_node_limited(const YamlMap& params);
RoutingMaker read_gpu_limited(const YamlMap& params);
RoutingMaker read_occult_prune(const YamlMap& params);
RoutingMaker read_in_turn(const YamlMap& params);
RoutingMaker read_c2r(const YamlMap& params);
PlacementMaker read_contiguous(const YamlMap& params);
PlacementMaker read_expert_swap(const YamlMap& params);
PlacementMaker read_smart_moe(const YamlMap& params);
PlacementMaker read_shadowing(const YamlMap& params);
PlacementMaker read_pro_prophet(const YamlMap& params);
PlacementMaker read_hecate(const YamlMap& params);
PlacementMaker read_janus(const YamlMap& params);
PlacementMaker read_fsep(const YamlMap& params);
PlacementMaker read_fsdp_ep(const YamlMap& params);
PlacementMaker read_static_best(const YamlMap& params);
PlacementMaker read_clairvoyant(const YamlMap& params);
PlacementMaker read_hybridep_placement(const YamlMap& params);
PlacementMaker read_occult(const YamlMap& params);
PlacementMaker read_exflow(const YamlMap& params);
PlacementMaker read_moetuner(const YamlMap& params);
PlacementMaker read_dynamic_grouping(const YamlMap& params);
PlacementMaker read_eplb(const YamlMap& params);
PlacementMaker read_lplb(const YamlMap& params);
PlacementMaker read_trt_llm(const YamlMap& params);
PlacementMaker read_vllm(const YamlMap& params);
PlacementMaker read_sglang(const YamlMap& params);
PlacementMaker read_llep(const YamlMap& params);
PlacementMaker read_predictive(const YamlMap& params);
PlacementMaker read_lazarus(const YamlMap& params);
PlacementMaker read_grace(const YamlMap& params);
DispatchMaker read_alltoall(const YamlMap& params);
DispatchMaker read_dedup(const YamlMap& params);
DispatchMaker read_hierarchical(const YamlMap& params);
DispatchMaker read_two_hop(const YamlMap& params);
DispatchMaker read_padded(const YamlMap& params);
DispatchMaker read_tutel(const YamlMap& params);
DispatchMaker read_deepep_normal(const YamlMap& params);
DispatchMaker read_deepep_low_latency(const YamlMap& params);
DispatchMaker read_deepep_v2(const YamlMap& params);
DispatchMaker read_hybrid_ep(const YamlMap& params);
DispatchMaker read_nvlink_one_sided(const YamlMap& params);
DispatchMaker read_all_gather(const YamlMap& params);
DispatchMaker read_fastmoe(const YamlMap& params);
DispatchMaker read_schemoe_pipe(const YamlMap& params);
DispatchMaker read_hybridep_dispatch(const YamlMap& params);
ScheduleMaker read_sequential(const YamlMap& params);
ScheduleMaker read_overlap(const YamlMap& params);

}  // namespace moesim
