// SPDX-License-Identifier: Apache-2.0
// The one table of mechanisms. A new mechanism is one .cpp file, its line here and in policies.cpp.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/policy/dispatch.h"
#include "sim/policy/placer.h"
#include "sim/policy/routing.h"
#include "sim/policy/schedule.h"

namespace moesim {

std::unique_ptr<Routing> make_identity();
std::unique_ptr<Placer> make_contiguous(const PlacementContext& context);
std::unique_ptr<Dispatch> make_alltoall(const DispatchContext& context);
std::unique_ptr<Dispatch> make_dedup(const DispatchContext& context);
std::unique_ptr<Schedule> make_sequential();

/// A mechanism of one of the four kinds, with what `moesim list` says of it.
template <class Factory>
struct Mechanism {
  const char* name;
  const char* description;
  Factory make;
};

using RoutingMechanism = Mechanism<std::unique_ptr<Routing> (*)()>;
using PlacementMechanism = Mechanism<std::unique_ptr<Placer> (*)(const PlacementContext&)>;
using DispatchMechanism = Mechanism<std::unique_ptr<Dispatch> (*)(const DispatchContext&)>;
using ScheduleMechanism = Mechanism<std::unique_ptr<Schedule> (*)()>;

const std::vector<RoutingMechanism>& routing_mechanisms();
const std::vector<PlacementMechanism>& placement_mechanisms();
const std::vector<DispatchMechanism>& dispatch_mechanisms();
const std::vector<ScheduleMechanism>& schedule_mechanisms();

}  // namespace moesim
