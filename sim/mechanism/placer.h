// SPDX-License-Identifier: Apache-2.0
// Placement mechanisms: which GPUs hold which experts in a step, who uses which replica, and what
// getting there moves.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sim/mechanism/ep_groups.h"
#include "sim/mechanism/loads.h"
#include "sim/mechanism/placement/migration.h"
#include "sim/model/moe_model.h"
#include "sim/plan/assignment.h"
#include "sim/plan/plan.h"
#include "sim/trace/batches.h"

namespace moesim {

/// When a planner is asked. An engine says itself when experts move: its planner sees whole
/// recorded steps, plans when it is told, and decides on passes in between.
enum class Moment {
  step,       // one after the other: it plans when it is due, and remembers the step
  seen,       // it only remembers the step
  rebalance,  // it plans from what it remembers, whenever it did so last
  between     // slots stay, and nothing is remembered
};

/// One layer of one step, its gate just computed.
struct LayerRoutingNow {
  int step = 0;   // its number, of an iteration's microbatches the same
  int layer = 0;  // index into the replayed layers
  const Batch& batch;
  IdRows ids;               // of the batch's runs, after a routing that comes before placements
  const LoadMatrix& loads;  // empty for planners that say they do not look
  /// Whether experts may change places before it. Within an iteration they may not: gradients of
  /// earlier microbatches are where they are.
  bool begins_iteration = true;
  Moment moment = Moment::step;
};

/// Expert parameters or their gradients on their way: one exchange of all GPUs on the param stream,
/// between kernels that make and use what is sent.
struct ParamExchange {
  std::string name;                  // "restore", "migrate" ...
  ByteMatrix traffic;                // gpus x gpus
  std::vector<MemoryBound> encode;   // [gpu] before it, on the copy stream; empty: none
  std::vector<MemoryBound> decode;   // [gpu] after it
  std::vector<HostWork> loads = {};  // [gpu] after it, from the memory of its host; empty: none
};

/// Bytes that training keeps per expert parameter in addition to its weight; 0 when only forward is
/// run.
struct TrainingState {
  int gradient = 2;    // bf16
  int optimizer = 12;  // fp32 master weight and two moments (Adam)
};

/// Bytes of expert state on one GPU for one layer.
struct ExpertMemory {
  Bytes weights, gradients, optimizer;  // all the time
  Bytes gathered;                       // weights and gradients while the layer computes
  Bytes resident() const { return weights + gradients + optimizer; }
};

/// The state of whole experts in all slots of every GPU.
std::vector<ExpertMemory> whole_experts(const Placement& placement, const MoeModel& model,
                                        const TrainingState& state);

/// Where the gradients of an expert are whole in an EP group once the group's own `reduce` has
/// ended.
enum class GradientLayout {
  homes,    // on one GPU: that of `gradient_homes`, else of the expert's first slot in the group
  sharded,  // every rank of the group holds an equal part of every expert (FSEP)
  summed    // nowhere: `reduce` has summed them over all EP groups already (FSDP)
};

/// What a layer's experts are and move in one step. Exchanges of one list follow each other.
struct LayerDecision {
  explicit LayerDecision(Assignment a) : assignment(std::move(a)) {}

  Assignment assignment;
  bool planned = false;                     // slots were decided anew, from loads
  std::vector<ParamExchange> migrate;       // once, before the step
  std::vector<ParamExchange> gather;        // before the experts of the forward pass
  std::vector<ParamExchange> regather;      // before those of the backward pass
  std::vector<ParamExchange> reduce;        // gradients, after the experts of the backward pass
  bool after_gate = false;                  // what is gathered depends on this step's gate
  Migration migration = Migration::blocks;  // who waits for `migrate`
  Seconds planning;                         // of the host for this layer and step
  bool planning_blocks = false;             // the layer waits for it
  std::vector<ExpertMemory> memory;         // [gpu]; empty: whole experts in all slots
  GradientLayout gradients = GradientLayout::homes;
  SlotTable gradient_homes;    // [gpu] experts whose gradients it holds; empty: by first slots
  bool shared_routed = false;  // slots hold the shared expert, too: the one behind the last

  /// It comes after a step in which experts moved: experts that the whole step waits for, or that
  /// move behind several, are where they go.
  void settle() {
    if (migration == Migration::overlapped) return;
    migrate.clear();
    planning = {};
  }
  /// Routing is known before the pass: nothing waits for the gate, or for planning.
  void known_ahead() { after_gate = planning_blocks = false; }
};

/// What a planner may know when it is made; it may keep the reference.
struct PlacementContext {
  EpGroups groups;  // each exchanges tokens by itself
  const MoeModel& model;
  int experts = 0;
  int layers = 0;  // replayed layers
  bool backward = true;
  TrainingState state = {};
  int first_step = 0;  // the simulated steps, or iterations
  int steps = 0;
  /// The loads of any step and layer, past or future, by microbatch: for oracles only.
  std::function<std::vector<LoadMatrix>(int step, int layer)> recorded;
  std::vector<int> numbers = {};  // [replayed layer] its number in the model
  std::string who = "placement";  // the policy, for messages
  bool told = false;              // when to plan: moments other than `step` come
  bool warmed = false;            // a warm-up comes before first_step, in the slots of then

  /// Whether routing follows from token ids: it is known before the pass (hash_layers).
  bool knows_routing(int layer) const {
    const auto index = static_cast<std::size_t>(layer);
    return (index < numbers.size() ? numbers[index] : layer) < model.hash_layers;
  }
};

/// The nodes of EP groups. Throws Unsuitable unless all hosts have equally many consecutive GPUs,
/// and EP groups are whole hosts or parts of one.
GroupNodes group_nodes(const PlacementContext& context);

/// Something that a planner decides from the loads of earlier steps, over and over.
struct FirstPlan {
  std::string done = "planned";  // as in "it never planned"
  int after = 1;                 // so many steps, the first time; 0: within the first step
};

class Placer {
 public:
  virtual ~Placer() = default;
  /// Called once per step and layer, in the order of the steps. A planner remembers what it needs
  /// of earlier calls; of `now` it may use only what the real system knows when it decides: the
  /// slots of a planner that does not react depend only on earlier calls.
  virtual LayerDecision decide(const LayerRoutingNow& now) = 0;
  /// Whether slots depend on the routing of the very step (shadowing, oracles).
  virtual bool reacts() const { return false; }
  /// Whether it looks at routing at all.
  virtual bool looks() const { return true; }
  /// Whether it may be told when to plan, because slots stay as they are between two plans.
  virtual bool may_be_told() const { return false; }
  /// Adds to a decision of a planner that is told what a layer's experts move if they were where
  /// another such planner, of the same policy, has them.
  virtual void move_from(const Placer& /*before*/, int /*layer*/, LayerDecision&) const {}
  /// Whether the shared expert is one more choice of every token, of the expert behind the last
  /// one. If so, `now` has that choice, last of each token, and its loads.
  virtual bool routes_shared() const { return false; }
  /// By how much expert weights are compressed before they compute: 1 leaves them as they are.
  virtual double compression() const { return 1; }
  /// When it first decides from loads; nothing if it never does.
  virtual std::vector<FirstPlan> first_plans() const {
    if (!looks()) return {};
    return {{.after = reacts() ? 0 : 1}};
  }
  /// Why no loads whatever change what it plans, as a sentence whose subject is the policy; empty
  /// if they do, or if it does not plan from loads.
  virtual std::string forced() const { return ""; }
  /// What it does otherwise than it was asked, as sentences whose subject is the policy.
  virtual std::vector<std::string> notes() const { return {}; }
};

}  // namespace moesim
