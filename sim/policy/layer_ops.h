// SPDX-License-Identifier: Apache-2.0
// The ops of MoE layers, forward and backward, from the rows that their dispatch moves. Token
// exchanges are in layer_ops.cpp, kernels in layer_kernels.cpp, parameters in layer_parameters.cpp.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/model/moe_model.h"
#include "sim/plan/plan.h"
#include "sim/policy/dispatch.h"
#include "sim/policy/op_chain.h"
#include "sim/policy/placer.h"

namespace moesim {

/// All that a plan needs to know of one replayed layer.
struct LayerWork {
  explicit LayerWork(LayerDecision d) : decision(std::move(d)) {}
  const Assignment& assignment() const { return decision.assignment; }

  int number = 0;  // model layer number
  const Dispatch* dispatch = nullptr;
  LayerDecision decision;
  std::optional<ParamExchange> gradient_sum;  // over the EP groups, where this step has one
  RowCounts counts;
  std::vector<std::vector<RowMove>> rows;     // [phase], empty unless explicit rows were asked for
  std::vector<std::int64_t> tokens_per_rank;  // [rank]
  std::int64_t attended = 0;  // mean tokens that a token attends to, 0: attention is left out
};

/// Appends ops to a plan, piece by piece in the order that a schedule wants. Compute of a layer on
/// one GPU: attention, gate, shared experts, permute | dispatch | sort, fc1, activation, fc2,
/// reduce | combine | unpermute; backward mirrors it with data and weight gradients. Between the
/// phases of a dispatch every GPU relays what it passes on. Kernels without work are left out; an
/// exchange that would move nothing although its ranks hold tokens throws std::logic_error.
class LayerOps {
 public:
  LayerOps(Plan& plan, const MoeModel& model, const std::vector<LayerWork>& layers);
  int layers() const { return static_cast<int>(layers_.size()); }
  const LayerDecision& decision(int layer) const { return at(layer).decision; }

  /// A whole pass with nothing overlapped: parameters are gathered before the experts, gradients
  /// reduced after the pass, and everything waits for both.
  void forward(int layer);
  void backward(int layer);

  /// The pieces of a pass, in this order (attention comes last in the backward pass).
  void attention(int layer, Pass pass);
  void before_dispatch(int layer, Pass pass);  // gate, shared experts, permute
  void dispatch(int layer, Pass pass);
  void experts(int layer, Pass pass);  // waits for what was gathered for it
  void recompute_experts(int layer);   // their forward again, before their backward
  void combine(int layer, Pass pass);
  void after_combine(int layer, Pass pass);

  /// Expert parameters on the param stream, from `after` on.
  void migrate(int layer, const Mark& after);
  void gather(int layer, Pass pass, const Mark& after);
  /// Gradients to their homes in every EP group, then summed over the groups.
  void reduce(int layer, const Mark& after);
  /// The next compute of every GPU waits for the gather of a layer, or for all parameters that
  /// migrate or are reduced. Nothing waits for sums over the EP groups but the end of the step.
  void wait_for_gather(int layer, Pass pass);
  void wait_for_parameters();
  /// What every GPU has done so far.
  Mark mark() const { return chain_.mark(); }

 private:
  struct Step;  // the layer and pass that ops are being added for
  /// Rows per GPU, local copies included.
  struct RowSums {
    std::vector<std::int64_t> sent, arrived;
  };
  /// Of every phase, and of all that leave the sources and arrive at the experts.
  struct LayerSums {
    std::vector<RowSums> phases;
    std::vector<std::int64_t> packed, delivered;  // [gpu]
  };
  static LayerSums sums_of(const LayerWork& work);
  using Rows = std::vector<std::int64_t>;  // [gpu]
  /// What the experts of every GPU get to do: [gpu].
  struct ExpertWork {
    std::vector<std::vector<std::int64_t>> m;  // [slot] rows
    Rows rows;                                 // their sum
    Rows read;                                 // of those that arrived, that hold a choice
  };
  using KernelOf = std::function<Kernel(GpuId)>;
  struct PhaseTraffic {
    std::vector<ByteMatrix> out, turned;  // [communicator] as it goes out, and turned round
  };
  const LayerWork& at(int layer) const { return layers_[static_cast<std::size_t>(layer)]; }
  Step step(int layer, Pass pass) const;
  ExpertWork expert_work(const Step& s) const;
  void add_planning(const Step& s);
  void add_shared_experts(const Step& s);
  void experts_forward(const Step& s, Role role);
  void experts_backward(const Step& s);
  static Rows times(const Rows& rows, std::int64_t factor);
  /// A kernel on the GPUs that have work for it, labelled by its type unless a label is given.
  void add_compute(const OpKey& key, const KernelOf& kernel_of, std::string label = "");
  void add_memory(const OpKey& key, const Rows& read, const Rows& written,
                  std::int64_t row_elements);
  /// Sets group and work; false when no GPU has any.
  bool set_kernels(Op& op, const KernelOf& kernel_of) const;
  void add_transpose(const Step& s, Stage stage, const Rows& rows);
  void add_exchanges(const Step& s, Stage stage);
  std::vector<std::vector<OpId>> add_relays(const Step& s, Stage stage,
                                            const std::vector<int>& from, int to,
                                            const std::vector<std::vector<OpId>>& done);
  const std::vector<ByteMatrix>& traffic(const Step& s, int phase, bool back);
  std::vector<OpId> add_phase(const Step& s, Stage stage, int phase,
                              const std::vector<std::vector<OpId>>& after);
  std::vector<OpId> add_minimum_times(const Step& s, Stage stage, int phase, const Mark& start,
                                      const std::vector<std::vector<OpId>>& after);
  void add_sides(const Step& s, Stage stage, int phase, bool before);
  std::vector<OpId> add_param_exchanges(OpKey key, Stream stream,
                                        const std::vector<ParamExchange>& exchanges,
                                        const Mark& after);

  const MoeModel& model_;
  const std::vector<LayerWork>& layers_;
  OpChain chain_;
  Group everybody_;
  std::vector<LayerSums> sums_;  // [layer]
  /// By layer and phase, for both passes.
  std::map<std::pair<int, int>, PhaseTraffic> traffic_;
  // [layer] per GPU the ops that the experts of a pass wait for
  std::vector<std::vector<OpId>> gathered_[2];
  std::vector<OpId> parameters_;  // on their way, nobody waits yet
  std::vector<Mark> computed_;    // [layer] the end of its weight gradients
};

}  // namespace moesim
