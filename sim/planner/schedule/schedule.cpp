// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/schedule/schedule.h"

namespace moesim {

const std::vector<ScheduleMechanism>& schedule_mechanisms() {
  static const std::vector<ScheduleMechanism> table = {
      {"sequential", "one layer after the other, forward then backward, no overlap",
       read_sequential},
      {"overlap", "expert parameters travel while tokens are exchanged and computed (FSEP)",
       read_overlap},
  };
  return table;
}

void LayerPass::route() const {
  ops_.before_dispatch(layer_, pass_);
  at(Point::routed);
}

void LayerPass::dispatch() const {
  ops_.dispatch(layer_, pass_);
  at(Point::dispatched);
}

void LayerPass::experts() const {
  ops_.experts(layer_, pass_);
  at(Point::computed);
}

void LayerPass::join() const {
  ops_.after_combine(layer_, pass_);
  at(Point::combined);
}

void issue_migrations(LayerOps& ops) {
  for (int layer = 0; layer < ops.layers(); ++layer) ops.migrate(layer, {});
  ops.wait_for_parameters();
}

void issue_step(const Schedule& schedule, LayerOps& ops, bool backward) {
  issue_migrations(ops);
  const int last = ops.layers() - 1;
  const auto visit = [&](int layer, Pass pass) {
    const LayerPass at(schedule, ops, layer, pass);
    at.begin();
    if (pass == Pass::forward) at.attention();
    at.route();
    at.dispatch();
    at.experts();
    at.combine();
    at.join();
    if (pass == Pass::backward) at.attention();
  };
  if (last < 0) return;
  schedule.at(Point::pass_begins, ops, 0, Pass::forward);
  for (int layer = 0; layer <= last; ++layer) visit(layer, Pass::forward);
  schedule.at(Point::pass_ends, ops, last, Pass::forward);
  if (!backward) return;
  schedule.at(Point::pass_begins, ops, last, Pass::backward);
  for (int layer = last; layer >= 0; --layer) visit(layer, Pass::backward);
  schedule.at(Point::pass_ends, ops, 0, Pass::backward);
}

}  // namespace moesim
