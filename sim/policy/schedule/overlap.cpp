// SPDX-License-Identifier: Apache-2.0
// Expert parameters travel on their own lane while tokens are exchanged and computed. With gathers
// launched when the dispatch of the layer before has ended and delayed gradient reduction it is the
// schedule of FSEP (LAER-MoE, arXiv 2602.11686; PKU-DAIR/Hetu-Galvatron, branch laer-moe).
#include "sim/policy/policies.h"

namespace moesim {
namespace {

/// What launches the gather of a layer's parameters.
enum class Launch {
  step,       // the start of the step: all layers queue on the lane in their order
  attention,  // the start of the layer's own attention
  layer,      // the start of the layer before
  dispatch,   // the end of the dispatch of the layer before
};

struct OverlapOptions {
  Launch gather = Launch::dispatch;
  bool delayed_reduce = false;  // until the next layer's gradients have been dispatched
  bool recompute = false;       // experts again before their backward (activation checkpointing)
  bool first_exposed = true;    // nothing hides the first gather of the step
};

class Overlap final : public Schedule {
 public:
  explicit Overlap(OverlapOptions options) : options_(options) {}

  void issue(LayerOps& ops, bool backward) const override {
    for (int layer = 0; layer < ops.layers(); ++layer) ops.migrate(layer, {});
    ops.wait_for_parameters();
    forward(ops);
    if (backward) this->backward(ops);
  }

 private:
  /// Launches a gather, unless the layer's own gate decides what is gathered.
  static void gather(LayerOps& ops, int layer, Pass pass, const Mark& after) {
    if (layer < 0 || layer >= ops.layers()) return;
    if (pass == Pass::forward && ops.decision(layer).after_gate) return;
    ops.gather(layer, pass, after);
  }

  void forward(LayerOps& ops) const {
    const int layers = ops.layers();
    const bool queued = options_.gather == Launch::step;
    for (int layer = 0; layer < (queued ? layers : 1); ++layer) {
      if (options_.gather != Launch::attention) gather(ops, layer, Pass::forward, {});
    }
    if (options_.first_exposed && !queued && layers > 0) ops.wait_for_gather(0, Pass::forward);
    for (int layer = 0; layer < layers; ++layer) {
      const Mark start = ops.mark();
      if (options_.gather == Launch::layer) gather(ops, layer + 1, Pass::forward, start);
      if (options_.gather == Launch::attention) gather(ops, layer, Pass::forward, start);
      ops.attention(layer, Pass::forward);
      ops.before_dispatch(layer, Pass::forward);
      if (ops.decision(layer).after_gate) ops.gather(layer, Pass::forward, ops.mark());
      ops.dispatch(layer, Pass::forward);
      if (options_.gather == Launch::dispatch) gather(ops, layer + 1, Pass::forward, ops.mark());
      ops.experts(layer, Pass::forward);
      ops.combine(layer, Pass::forward);
      ops.after_combine(layer, Pass::forward);
    }
  }

  void backward(LayerOps& ops) const {
    const int last = ops.layers() - 1;
    gather(ops, last, Pass::backward, ops.mark());
    for (int layer = last; layer >= 0; --layer) {
      ops.before_dispatch(layer, Pass::backward);
      ops.dispatch(layer, Pass::backward);
      const Mark dispatched = ops.mark();
      if (options_.delayed_reduce && layer < last) ops.reduce(layer + 1, dispatched);
      gather(ops, layer - 1, Pass::backward, dispatched);
      if (options_.recompute) ops.recompute_experts(layer);
      ops.experts(layer, Pass::backward);
      if (!options_.delayed_reduce) ops.reduce(layer, ops.mark());
      ops.combine(layer, Pass::backward);
      ops.after_combine(layer, Pass::backward);
      ops.attention(layer, Pass::backward);
    }
    if (options_.delayed_reduce && last >= 0) ops.reduce(0, ops.mark());
  }

  OverlapOptions options_;
};

}  // namespace

// gather: what launches it (step, attention, layer, dispatch); reduce: at-once or delayed;
// recompute: none or experts; first: exposed or hidden.
ScheduleMaker read_overlap(const YamlMap& params) {
  OverlapOptions o;
  o.gather =
      static_cast<Launch>(params.choice("gather", {"step", "attention", "layer", "dispatch"}, 3));
  o.delayed_reduce = params.choice("reduce", {"at-once", "delayed"}, 0) == 1;
  o.recompute = params.choice("recompute", {"none", "experts"}, 0) == 1;
  o.first_exposed = params.choice("first", {"exposed", "hidden"}, 0) == 0;
  return [o](const ScheduleContext&) { return std::make_unique<Overlap>(o); };
}

}  // namespace moesim
