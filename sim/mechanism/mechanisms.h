// SPDX-License-Identifier: Apache-2.0
// The tables of routings, dispatches and placements: each is the table.cpp of its folder.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sim/base/yaml.h"
#include "sim/mechanism/dispatch.h"
#include "sim/mechanism/placer.h"
#include "sim/mechanism/routing.h"

namespace moesim {

/// Makes a mechanism, whose parameters it holds, once cluster and model are known.
template <class Interface, class Context>
using Maker = std::function<std::unique_ptr<Interface>(const Context&)>;

/// What a policy is made of besides the text of its own file.
struct PolicySources {
  std::string from;                        // the policy's file: others are found next to it
  std::vector<std::string> files = {};     // that its mechanisms have read
  std::vector<std::string> commands = {};  // of the user's, that its mechanisms run
};

/// A mechanism, with what `moesim list` says of it.
template <class Interface, class Context>
struct Mechanism {
  const char* name;
  const char* description;
  /// Reads its parameters, each with a default; the reader is their schema.
  Maker<Interface, Context> (*read)(const YamlMap& params);
  /// It looks at which experts a token has together, which traces of counts do not know.
  bool needs_tokens = false;
  /// For a dispatch: what carries its exchanges unless its policy says otherwise.
  const char* transport = "nccl-p2p";
  /// For a placement: experts have replicas within an EP group, so that it may have more ranks than
  /// there are experts; unless `ep` is stated it is the whole cluster.
  bool replicates = false;
  /// In place of `read`, for mechanisms that read other files or run a command: adds them.
  Maker<Interface, Context> (*read_with)(const YamlMap& params, PolicySources& sources) = nullptr;
  /// For a placement: it is for models without experts, and no other is.
  bool for_dense_models = false;
  /// For a placement: an EP group may keep less than the whole state of its experts, as it shares
  /// them among all groups or compresses them.
  bool divides_experts = false;
  /// For a dispatch: the host waits until its kernels have counted rows, so that no CUDA graph of a
  /// serving pass can hold them.
  bool needs_host = false;
};

using RoutingMechanism = Mechanism<Routing, RoutingContext>;
using PlacementMechanism = Mechanism<Placer, PlacementContext>;
using DispatchMechanism = Mechanism<Dispatch, DispatchContext>;

using RoutingMaker = Maker<Routing, RoutingContext>;
using PlacementMaker = Maker<Placer, PlacementContext>;
using DispatchMaker = Maker<Dispatch, DispatchContext>;

const std::vector<RoutingMechanism>& routing_mechanisms();
const std::vector<PlacementMechanism>& placement_mechanisms();
const std::vector<DispatchMechanism>& dispatch_mechanisms();

}  // namespace moesim
