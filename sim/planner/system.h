// SPDX-License-Identifier: Apache-2.0
// A published system: a named combination of mechanisms, what models/system/*.yaml describes.
#pragma once

#include <string>
#include <vector>

#include "sim/base/yaml.h"
#include "sim/planner/schedule/schedule.h"
#include "sim/transport/transport.h"

namespace moesim {

/// A mechanism with its parameters.
template <class Interface, class Context>
struct Chosen {
  std::string name;
  Maker<Interface, Context> make;
  bool needs_tokens = false;  // as Mechanism says
  bool replicates = false;    // the same
  bool for_dense_models = false;
  bool divides_experts = false;
  bool needs_host = false;
};

struct SystemSpec {
  std::string name;
  std::string description;
  std::string source;
  Chosen<Routing, RoutingContext> routing;
  Chosen<Placer, PlacementContext> placement;
  Chosen<Dispatch, DispatchContext> dispatch;
  Chosen<Schedule, ScheduleContext> schedule;
  int sms = 0;                // multiprocessors that exchanges of rows take; 0: the transport's
  std::string transport;      // its own, a name or path
  std::string but_placement;  // all of it but the placement, as text: to find its static twin
  PolicySources sources = {};
  Transports transports = {};  // that carry its exchanges; ideal until somebody finds them
};

/// Reads models/system/*.yaml: each kind is a mechanism's name, or {kind: name, parameters ...}.
/// Throws Error with all mistakes.
SystemSpec read_system(const std::string& path, const std::vector<Override>& overrides = {});
SystemSpec parse_system(const std::string& text, const std::string& name,
                        const std::vector<Override>& overrides = {});

/// The largest expert-parallel degree that fits: a divisor of gpus, at most experts.
int default_ep(int gpus, int experts);
/// The same for a system: the whole cluster if its placement replicates experts.
int default_ep(const SystemSpec& system, int gpus, int experts);

}  // namespace moesim
