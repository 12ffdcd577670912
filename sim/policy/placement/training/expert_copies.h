// SPDX-License-Identifier: Apache-2.0
// Experts with one home in every expert-parallel run, and copies of some of them for one step.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/balance/training/owners.h"
#include "sim/policy/placer.h"

namespace moesim {

/// How one expert's parameters reach many GPUs; gradients come back the same way.
enum class Broadcast {
  direct,   // its home sends to every GPU
  by_node,  // once to each other node, there from the GPU that received; one phase after the other
  chain     // every GPU sends on to the next: the bytes cross each link once, pipelined
};

/// Names as they appear in YAML, in the order of Broadcast.
inline const std::vector<std::string> broadcast_names = {"direct", "by-node", "chain"};

/// The exchanges, one or two, that bring parameters from homes to copies; `copies` lists one
/// transfer per copy, all from the expert's home. By node, of a node's n GPUs that get expert e the
/// (e mod n)-th receives it. Empty when nothing leaves its GPU.
std::vector<ParamExchange> broadcast(const std::string& name,
                                     std::span<const ExpertTransfer> copies,
                                     const Topology& topology, Broadcast how);
/// The same in reverse, summing on the way: `copies` lists one transfer per copy, all to the home.
std::vector<ParamExchange> reduction(const std::string& name,
                                     std::span<const ExpertTransfer> copies,
                                     const Topology& topology, Broadcast how);

/// Bytes by sender and receiver, what stays on its GPU left out; O(transfers + gpus) memory.
ByteMatrix off_gpu_traffic(std::span<const ExpertTransfer> transfers, int gpus);

/// The same transfers between ranks `first` and on.
std::vector<ExpertTransfer> from_rank(std::vector<ExpertTransfer> transfers, int first);

/// One run's step, in the run's own ranks: homes are the first slots of every GPU.
struct StepCopies {
  SlotTable table;
  std::vector<ExpertTransfer> gather;  // parameters, home to copies
  std::vector<ExpertTransfer> reduce;  // gradients, copies to home
};

/// What a layer moves for its copies, and where they are.
struct CopyOptions {
  Broadcast how = Broadcast::direct;
  bool release = false;  // copies are dropped after the forward and fetched again for the backward
};

/// The decision for runs of `ep` ranks: parameters gathered, gradients reduced, and the memory of
/// homes and copies. Without `assignment` a rank uses its own copy of an expert, else the home.
LayerDecision with_copies(const PlacementContext& context, const SlotTable& homes,
                          std::span<const StepCopies> runs, const CopyOptions& options);
LayerDecision with_copies(const PlacementContext& context, const SlotTable& homes,
                          std::span<const StepCopies> runs, const CopyOptions& options,
                          Assignment assignment);

/// The slots of all runs, one after the other.
SlotTable joined(std::span<const StepCopies> runs);

/// The rows of one run of `ep` ranks.
SlotTable run_of(const SlotTable& table, int first, int ep);

/// Parameters and gradients of one expert.
Bytes weight_bytes(const PlacementContext& context);
Bytes gradient_bytes(const PlacementContext& context);

}  // namespace moesim
