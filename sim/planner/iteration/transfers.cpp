// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/iteration/transfers.h"

#include <algorithm>
#include <utility>

#include "sim/base/ordering.h"
#include "sim/plan/label.h"
#include "sim/planner/iteration/stage_layers.h"
#include "sim/planner/layer/phase_exchange.h"

namespace moesim {

const Transfers::Way& Transfers::way(int from, int to) {
  const auto [known, is_new] = ways_.try_emplace({from, to});
  Way& way = known->second;
  if (!is_new) return way;
  const StageSpace& sender = stages_[static_cast<std::size_t>(from)];
  const StageSpace& receiver = stages_[static_cast<std::size_t>(to)];
  for (const Group& cell : sender.cells()) {
    const Group sends = sender.gpus()->in_plan(cell), receives = receiver.gpus()->in_plan(cell);
    std::vector<GpuId> both(sends.begin(), sends.end());
    both.insert(both.end(), receives.begin(), receives.end());
    std::ranges::sort(both);
    const Group group(std::move(both));
    ByteMatrix traffic(sender.handed_on());
    for (const GpuId gpu : group) {
      const std::size_t i = sends.member(gpu);
      if (i == sends.size()) {
        traffic.add_row({});
        continue;
      }
      const GpuId partner(static_cast<std::int64_t>(group.member(receives[i])));
      traffic.add_row(std::vector<ByteMatrix::Entry>{{partner, 1}});
    }
    way.moved.groups.push_back(group);
    way.moved.rows.push_back(std::move(traffic));
  }
  way.senders = sender.cells();
  if (joins_on_ != nullptr && way.senders.size() > 1 && asks_the_same(way.moved, *joins_on_)) {
    KnownCollectives collectives;
    way.moved = as_one(way.moved, apart_, collectives);
    way.senders = {sender.everybody()};
  }
  return way;
}

Stream Transfers::stream(int from, int to) const {
  const int last = static_cast<int>(stages_.size()) - 1;
  if (to == from + 1) return from % 2 == 0 ? Stream::pp_down : Stream::pp_down_2;
  if (from == to + 1) return to % 2 == 0 ? Stream::pp_up : Stream::pp_up_2;
  return from == last ? Stream::pp_down_3 : Stream::pp_up_3;
}

void Transfers::send(Plan& plan, int stage, const StageWork& work, Pass way, const Mark& done) {
  const int position = pipeline_.position_of({stage, work.chunk});
  const int next = way == Pass::forward ? position + 1 : position - 1;
  if (next < 0 || next >= pipeline_.positions()) return;
  const int to = pipeline_.place(work.microbatch, next).stage;
  std::vector<OpId> ops = add(plan, stage, to, {work.microbatch, work.chunk}, way, position, done,
                              1 + predicted_by(layers_, way == Pass::forward ? position : next));
  if (to != stage && awaits_sends(pipeline_.shape().kind)) {
    auto& sent = sent_[static_cast<std::size_t>(stage)];
    sent.insert(sent.end(), ops.begin(), ops.end());
  }
  arrivals_[{way, work.microbatch, next}] = std::move(ops);
}

std::vector<OpId> Transfers::take_arrivals(int stage, const StageWork& work, Pass way) {
  const int position = pipeline_.position_of({stage, work.chunk});
  const auto arrived = arrivals_.extract({way, work.microbatch, position});
  return arrived ? std::move(arrived.mapped()) : std::vector<OpId>();
}

std::vector<OpId> Transfers::take_sent(int stage) {
  return std::exchange(sent_[static_cast<std::size_t>(stage)], {});
}

std::vector<OpId> Transfers::add(Plan& plan, int from, int to, WorkCell cell, Pass pass,
                                 int position, const Mark& done, int tensors) {
  std::vector<OpId> ops;
  if (from == to) {
    for (const auto& of_gpu : done) ops.insert(ops.end(), of_gpu.begin(), of_gpu.end());
    sort_once(ops);
    return ops;
  }
  const OpKey key{.kind = OpKind::stage_transfer,
                  .pass = pass,
                  .microbatch = cell.microbatch,
                  .chunk = cell.chunk,
                  .part = position};
  const Way& on = way(from, to);
  for (std::size_t c = 0; c < on.senders.size(); ++c) {
    std::vector<OpId> after = waits_of(on.senders[c], done);
    sort_once(after);
    const ByteMatrix& one = on.moved.rows[c];
    Exchange moves{one.with_unit(Bytes(one.unit().value * tensors)), {}, false};
    moves.collectives = on.moved.collectives;
    ops.push_back(plan.add({type_label(key.type()), key, stream(from, to), on.moved.groups[c],
                            std::move(after), std::move(moves)}));
  }
  return ops;
}

}  // namespace moesim
