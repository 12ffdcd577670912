// SPDX-License-Identifier: Apache-2.0
// The ops of MoE layers, forward and backward, from the rows that their dispatch moves. Token
// exchanges are in layer_ops.cpp, kernels in layer_kernels.cpp, parameters in layer_parameters.cpp.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/model/gemm_types.h"
#include "sim/model/moe_model.h"
#include "sim/model/recompute.h"
#include "sim/plan/plan.h"
#include "sim/planner/layer/op_chain.h"
#include "sim/planner/layer/replayed_layer.h"

namespace moesim {

/// What the experts of a stage's GPUs keep from the forward to the backward pass is copied to a
/// stash when they have ended, and back before their backward: the schedule of Megatron-LM's paged
/// stash (02f11f65, paged_stash.py).
struct StashCopies {
  Bytes row;                      // of what is kept of a row
  std::vector<OpId> newest = {};  // copies to the stash that the next experts wait for
  Mark ended = {};                // the newest experts; copies back start behind them
};

/// Appends ops to a plan, piece by piece in the order that a schedule wants. Compute of a layer on
/// one GPU: attention, gate, shared experts, permute | dispatch (in engines next to shared experts
/// of few tokens) | sort, fc1, activation, fc2, reduce | combine | unpermute; backward mirrors it
/// with data and weight gradients. Between the phases of a dispatch every GPU relays what it passes
/// on. Kernels without work are left out; an exchange that would move nothing although its ranks
/// hold tokens throws std::logic_error.
class LayerOps {
 public:
  /// Which of the iteration's work the ops belong to, whether weight gradients wait until they are
  /// asked for, and what the backward pass computes again.
  struct Cell {
    int microbatch = 0;
    int chunk = 0;
    bool weight_gradients_apart = false;
    std::optional<GemmTypes> gemm_types = {};  // of products with weights; default: the weights'
    Recompute recompute = {};
    /// GPUs in all of a tensor group; else each has tokens of its own. If they do, they compute the
    /// gate of all tokens and a part of the shared experts each, and sum what they have of a layer.
    int replicas_of_tokens = 1;
    /// Engines exchange nothing within a group of one GPU; training frameworks call their
    /// libraries.
    bool serves = false;
    StashCopies* stash = nullptr;  // if there is one, which must outlive it
    /// Rows go to GPUs that only compute experts: results have connections of their own.
    bool apart = false;
    bool activation_fused = false;  // into the products of experts
  };
  /// All of these must outlive it.
  LayerOps(OpChain& chain, const MoeModel& model, std::vector<ReplayedLayer>& layers)
      : LayerOps(chain, model, layers, Cell()) {}
  LayerOps(OpChain& chain, const MoeModel& model, std::vector<ReplayedLayer>& layers, Cell cell);
  int layers() const { return static_cast<int>(layers_.size()); }
  const LayerDecision& decision(int layer) const { return at(layer).work().decision; }

  /// The pieces of a pass, in this order (attention comes last in the backward pass).
  void attention(int layer, Pass pass);
  void before_dispatch(int layer, Pass pass);  // gate, shared experts, permute
  void dispatch(int layer, Pass pass);
  void experts(int layer, Pass pass);  // waits for what was gathered for it
  /// The next experts wait for these ops, too.
  void experts_await(std::vector<OpId> ops) { experts_await_ = std::move(ops); }
  /// Their forward again, before their backward, unless it has run again.
  void recompute_experts(int layer);
  void combine(int layer, Pass pass);
  void after_combine(int layer, Pass pass);
  /// From the gate to the combine, or attention, once more: in the backward pass, before the
  /// layer's own. Nobody plans again, and what was gathered for it serves the gradients, too.
  void recompute(int layer);
  void recompute_attention(int layer);
  /// The weight gradients of a backward pass that left them out: of the experts, of the layers next
  /// to them, of attention.
  void expert_weight_gradients(int layer);
  void other_weight_gradients(int layer);
  void attention_weight_gradients(int layer);

  /// Expert parameters on the param stream, from `after` on.
  void migrate(int layer, const Mark& after);
  /// Once per pass, whoever asks first.
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
  using RowSums = RowTable::Sums;
  using Rows = std::vector<std::int64_t>;  // [gpu]
  using ExpertWork = ReplayedLayer::ExpertWork;
  using KernelOf = ReplayedLayer::KernelOf;
  ReplayedLayer& at(int layer) const { return layers_[static_cast<std::size_t>(layer)]; }
  Step step(int layer, Pass pass) const;
  /// The chunks of a layer, each on a chain of its own from begin_chunks on; the whole layer if
  /// there are none.
  std::vector<Step> chunk_steps(const Step& whole);
  void begin_chunks(int layer);
  /// Whether chunks begin with the last product of the experts.
  bool chunks_results(int layer) const {
    return !at(layer).chunks().empty() && at(layer).chunks().front().work().of_results;
  }
  void join_chunks();
  DataType gemm_type(GemmPart part, const Step& s, Role role) const;
  /// Inner width of the shared experts on one GPU.
  std::int64_t shared_width() const {
    const std::int64_t all = std::int64_t{1} * model_.shared_experts * model_.shared_ffn;
    return (all + cell_.replicas_of_tokens - 1) / cell_.replicas_of_tokens;
  }
  /// Whether this runs again by itself, not as a part of all that does.
  bool runs_again(RecomputeModule module) const;
  void add_before_dispatch(const Step& s);
  void add_after_combine(const Step& s);
  void add_planning(const Step& s);
  /// The roles of the backward pass as it goes, unless weight gradients are apart.
  std::span<const Role> backward_roles() const;
  void add_attention(const Step& s, std::span<const Role> roles);
  void add_shared_experts(const Step& s, std::span<const Role> roles);
  bool has_shared_experts(const Step& s) const;
  /// k -> n of all tokens of a GPU.
  KernelOf shared_gemm(const Step& s, std::int64_t n, std::int64_t k,
                       Role role = Role::plain) const;
  bool runs_shared_behind_dispatch(const Step& s) const;
  void add_shared_behind_dispatch(const Step& s);
  void add_gate(const Step& s, std::span<const Role> roles);
  /// The projection into the latent, or out of it, if the model has one; forward, and gradients.
  void add_latent(const Step& s, OpKind kind);
  void add_latent_gradients(const Step& s, OpKind kind, std::span<const Role> roles);
  /// `alone`: without what brings rows to the experts and takes them away.
  void experts_forward(const Step& s, bool alone);
  /// Up to the activation, and from the last product on.
  void add_experts_inner(const Step& s, bool alone);
  void add_experts_results(const Step& s, bool alone);
  bool arranges(const Step& s) const;
  GroupedGemm expert_product(const Step& s, const ExpertWork& work, GpuId gpu, std::int64_t n,
                             std::int64_t k, bool first, Role role) const;
  void add_activation(const Step& s, const ExpertWork& work);
  /// Copies what a layer keeps; returns the copies.
  std::vector<OpId> add_stash(const Step& s, const Mark& after);
  void load_stashed(int layer);
  std::vector<OpId> stash_waits(int layer, Pass pass);
  void end_experts(int layer, Pass pass);
  void experts_backward(const Step& s);
  void add_fc1_gradients(const Step& s, const ExpertWork& work, std::span<const Role> roles);
  void add_fc2_gradients(const Step& s, const ExpertWork& work, std::span<const Role> roles);
  static Rows times(const Rows& rows, std::int64_t factor);
  /// A kernel on the GPUs that have work for it, labelled by its type unless a label is given.
  void add_compute(const Step& s, const OpKey& key, const KernelOf& kernel_of,
                   std::string label = "");
  void add_memory(const Step& s, const OpKey& key, const Rows& read, const Rows& written,
                  std::int64_t row_elements);
  /// Sets group and work; false when no GPU has any.
  bool set_kernels(const Step& s, Op& op, const KernelOf& kernel_of) const;
  /// A kernel that reads and writes whole rows.
  void add_row_kernel(const Step& s, OpKind kind, Stage stage, const Rows& read,
                      const Rows& written);
  void add_transpose(const Step& s, Stage stage, const Rows& rows) {
    add_row_kernel(s, OpKind::transpose, stage, rows, rows);
  }
  /// Encodes or decodes rows if they travel coded.
  void add_codec(const Step& s, OpKind kind, Stage stage, const Rows& rows);
  void add_exchanges(const Step& s, Stage stage);
  Mark add_tensor_exchanges(const Step& s, Stage stage);
  Mark add_relays(const Step& s, Stage stage, const std::vector<int>& from, int to,
                  const std::vector<std::vector<OpId>>& done);
  Stream stream_of(const PhaseShape& phase, bool back) const {
    if (!back || !cell_.apart) return phase.stream;
    return phase.stream == Stream::ep ? Stream::ep_2 : Stream::ep;
  }
  std::vector<OpId> add_phase(const Step& s, Stage stage, int phase, const Mark& after);
  std::vector<OpId> add_minimum_times(const Step& s, Stage stage, int phase, const Mark& start,
                                      const Mark& after);
  void add_sides(const Step& s, Stage stage, int phase, bool before);
  std::vector<OpId> add_param_exchanges(const Step& s, OpKey key, Stream stream,
                                        const std::vector<ParamExchange>& exchanges,
                                        const Mark& after);

  const MoeModel& model_;
  std::vector<ReplayedLayer>& layers_;
  OpChain& chain_;
  std::vector<OpChain> chunk_chains_;  // of the layer at work
  Cell cell_;
  Group everybody_;
  // [layer] per GPU the ops that the experts of a pass wait for
  std::vector<std::vector<OpId>> gathered_[2];
  std::vector<bool> gathers_[2];     // [layer] whether the gather of a pass has been launched
  std::vector<bool> experts_again_;  // [layer] whether their forward has run again
  std::vector<OpId> parameters_;     // on their way, nobody waits yet
  std::vector<Mark> computed_;       // [layer] the end of its weight gradients
  std::vector<OpId> experts_await_;
  std::vector<std::vector<OpId>> loaded_;  // [layer] copies that came back from the stash
};

/// The ops of MoE layers by themselves, in one microbatch on all GPUs of the plan.
struct StepOps {
  /// All of these must outlive it.
  template <class Layers>
  StepOps(Plan& plan, const MoeModel& model, const Layers& layers, LayerOps::Cell cell = {})
      : replayed(layers.begin(), layers.end()), chain(plan), ops(chain, model, replayed, cell) {}
  StepOps(const StepOps&) = delete;

  std::vector<ReplayedLayer> replayed;
  OpChain chain;
  LayerOps ops;
};

}  // namespace moesim
