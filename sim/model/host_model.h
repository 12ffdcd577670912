// SPDX-License-Identifier: Apache-2.0
// The host of a GPU: what its CPU takes to issue kernels and collective calls, and which of them
// CUDA graphs issue at once.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/base/enum_set.h"
#include "sim/base/types.h"
#include "sim/model/blocks.h"
#include "sim/model/kernel.h"
#include "sim/model/op_kind.h"

namespace moesim {

class YamlValue;

/// Parts of a layer that CUDA graphs capture, in Megatron-Core's words (--cuda-graph-modules).
enum class GraphModule {
  attn,            // attention with its norm and residual
  mamba,           // a Mamba mixer with its norm and residual
  mlp,             // dense FFN with its norm and residual
  moe,             // MoE layer with its norm, dispatch and combine: its shapes must not vary
  moe_router,      // norm, router and shared experts of a MoE layer
  moe_preprocess,  // and what sorts its tokens before the dispatch
  full_iteration   // everything
};
const std::vector<std::string>& graph_module_names();  // by number

using GraphModules = EnumSet<GraphModule>;

/// What the host does for an op that is run eagerly.
struct HostCalls {
  int kernels = 0;      // launches
  int modules = 0;      // of the framework, whose forward or backward it is
  int collectives = 0;  // calls of a communication library
  bool operator==(const HostCalls&) const = default;
};

/// Returns the calls of an op on one GPU; null: an exchange. `grouped`: one kernel computes the
/// products of all experts. docs/host.md has the table and what it was counted from.
HostCalls host_calls(const OpType& op, const Kernel* kernel, bool grouped = false);

/// Kernels of an op, the products of all its groups counted as one.
int kernels_of(const OpType& op, const Kernel& kernel);

/// Whether the op is a part of what these modules capture. `block`: that it belongs to, if its kind
/// is in several.
bool captured(const GraphModules& graphs, const OpType& op, std::optional<BlockKind> block);

/// Times of the CPU that issues a GPU's work. All zero: the host is never behind its GPU.
struct HostModel {
  Seconds per_kernel;      // launch with its way through the framework
  Seconds per_module;      // besides, per forward or backward of a module
  Seconds per_collective;  // per collective call, in place of per_kernel
  Seconds per_graph;       // per launch of a captured graph
  bool grouped = false;    // products of a GPU's experts are one launch
  bool assumed = false;    // nobody stated these times: by software, on the CPUs that it ran on
  GraphModules graphs;
  /// The host waits for the end of these ops on its GPU before it issues the next one. Host work on
  /// the stream of kernels, such as reading tokens per expert, is always waited for.
  std::vector<OpKind> waits_for;

  bool takes_time() const;
  HostModel slower(double factor) const;  // all times, which are then no longer assumed
  Seconds time(const HostCalls& calls) const;
  std::string text() const;  // "10 us per kernel, ..."
  bool operator==(const HostModel&) const = default;
};

/// {per_kernel, per_module, per_collective, per_graph, graphs, waits_for}, each optional: what is
/// not stated is as in `absent`, but calls of collectives and launches of graphs take one kernel's
/// and one module's time. "none": a host that takes no time.
HostModel read_host_model(const YamlValue& value, const HostModel& absent = {});

}  // namespace moesim
