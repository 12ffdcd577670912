// SPDX-License-Identifier: Apache-2.0
// Expert parameters travel on their own stream while tokens are exchanged and computed. With
// gathers launched when the dispatch of the layer before has ended and delayed gradient reduction
// it is the schedule of FSEP (LAER-MoE, arXiv 2602.11686; PKU-DAIR/Hetu-Galvatron, branch
// laer-moe).
#include "sim/planner/schedule/schedule.h"

namespace moesim {
namespace {

/// What launches the gather of a layer's parameters. "The layer before" is the one that the pass
/// visits before; the gradients of a layer's combine are dispatched, those of its attention last.
enum class Launch {
  step,       // the start of the pass: all layers queue on the stream in their order
  attention,  // forward: the start of the layer's own attention; backward: of that before
  layer,      // the start of the layer before
  dispatch,   // the end of the dispatch of the layer before
};

struct OverlapOptions {
  Launch gather = Launch::dispatch;
  bool delayed_reduce = false;  // until the next layer's gradients have been dispatched
  bool recompute = false;       // experts again before their backward (activation checkpointing)
  bool first_exposed = true;    // nothing hides the first gather of the step
};

class OverlapSchedule final : public Schedule {
 public:
  explicit OverlapSchedule(OverlapOptions options) : options_(options) {}

  void at(Point point, LayerOps& ops, int layer, Pass pass) const override {
    pass == Pass::forward ? forward(point, ops, layer) : backward(point, ops, layer);
  }

 private:
  /// Launches a gather, unless the layer's own gate decides what is gathered.
  static void gather(LayerOps& ops, int layer, Pass pass, const Mark& after) {
    if (layer < 0 || layer >= ops.layers()) return;
    if (pass == Pass::forward && ops.decision(layer).after_gate) return;
    ops.gather(layer, pass, after);
  }
  bool launched_by(Launch launch) const { return options_.gather == launch; }

  void forward(Point point, LayerOps& ops, int layer) const {
    if (point == Point::pass_begins) {
      for (int l = 0; l < (launched_by(Launch::step) ? ops.layers() : 1); ++l) {
        if (!launched_by(Launch::attention)) gather(ops, l, Pass::forward, {});
      }
      if (options_.first_exposed) ops.wait_for_gather(0, Pass::forward);
    } else if (point == Point::layer_begins) {
      if (launched_by(Launch::layer)) gather(ops, layer + 1, Pass::forward, ops.mark());
      if (launched_by(Launch::attention)) gather(ops, layer, Pass::forward, ops.mark());
    } else if (point == Point::routed) {
      if (ops.decision(layer).after_gate) ops.gather(layer, Pass::forward, ops.mark());
    } else if (point == Point::dispatched) {
      if (launched_by(Launch::dispatch)) gather(ops, layer + 1, Pass::forward, ops.mark());
    }
  }

  /// Upstream's first gather of the backward pass has no event to wait for; ours starts when the
  /// forward pass has ended, as the host is not modelled. A delayed reduction goes before the next
  /// gather: both wait for the same and share the stream.
  void backward(Point point, LayerOps& ops, int layer) const {
    const auto gather_next = [&](Launch launch) {
      if (launched_by(launch)) gather(ops, layer - 1, Pass::backward, ops.mark());
    };
    if (point == Point::pass_begins) {
      for (int l = layer; l >= (launched_by(Launch::step) ? 0 : layer); --l) {
        gather(ops, l, Pass::backward, ops.mark());
      }
    } else if (point == Point::layer_begins) {
      gather_next(Launch::layer);
    } else if (point == Point::dispatched) {
      if (options_.delayed_reduce && layer + 1 < ops.layers()) ops.reduce(layer + 1, ops.mark());
      gather_next(Launch::dispatch);
      if (options_.recompute) ops.recompute_experts(layer);
    } else if (point == Point::computed) {
      if (!options_.delayed_reduce) ops.reduce(layer, ops.mark());
    } else if (point == Point::combined) {
      gather_next(Launch::attention);
    } else if (point == Point::pass_ends) {
      if (options_.delayed_reduce) ops.reduce(layer, ops.mark());
    }
  }

  OverlapOptions options_;
};

}  // namespace

// gather: what launches it (step, attention, layer, dispatch); reduce: at-once or delayed;
// recompute: none or experts; first: exposed (default) or hidden, for gather: layer and dispatch.
ScheduleMaker read_overlap(const YamlMap& params) {
  OverlapOptions o;
  o.gather =
      static_cast<Launch>(params.choice("gather", {"step", "attention", "layer", "dispatch"}, 3));
  o.delayed_reduce = params.choice("reduce", {"at-once", "delayed"}, 0) == 1;
  o.recompute = params.choice("recompute", {"none", "experts"}, 0) == 1;
  const bool before = o.gather == Launch::layer || o.gather == Launch::dispatch;
  o.first_exposed = params.choice("first", {"exposed", "hidden"}, 0) == 0 && before;
  if (const auto first = params.find("first"); first && !before) {
    first->error("'schedule.first' has no effect: every layer's gather is launched alike",
                 "say gather: layer or dispatch, or leave 'first' out");
  }
  return [o](const ScheduleContext&) { return std::make_unique<OverlapSchedule>(o); };
}

}  // namespace moesim
