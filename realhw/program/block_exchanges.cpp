// SPDX-License-Identifier: Apache-2.0
// What a tensor group exchanges around the products of a block: rows gathered before the first one,
// sums of rows scattered behind the last one, as sim/planner/iteration/block_ops.h plans them.
#include <stdexcept>

#include "realhw/program/block_kept.h"
#include "sim/model/blocks.h"

namespace moesim {

Place BlockProgram::part_of_group(const RowMatrix& all, std::int64_t part) const {
  return {all.at.buffer, all.at.offset + part * of_group(all.rows) * all.width * float_bytes};
}

/// Each member has the rows of its part, or the sums of them.
void BlockProgram::exchange_parts(RankStep& step, RingKind kind, const RowMatrix& all) {
  const std::vector<GpuId> group = parameters_.tensor_group();
  RingProgram ring(draft_, step);
  ring.add(
      {kind, {group}, [&, this](GpuId owner) {
         const auto part = std::ranges::find(group, owner) - group.begin();
         return std::vector<Segment>{{part_of_group(all, part), of_group(all.rows) * all.width}};
       }});
  ring.finish();
}

RowMatrix BlockProgram::gathered(RankStep& step, const RowMatrix& own) {
  const RowMatrix all = make(step, "gathered", own.rows * held_.tp, own.width);
  step.before.emplace_back(LocalCopy{take(own, step), part_of_group(all, parameters_.share().part),
                                     own.rows * own.width * float_bytes});
  exchange_parts(step, RingKind::all_gather, all);
  check(step, all);
  return all;
}

/// In place.
RowMatrix BlockProgram::scattered(RankStep& step, const RowMatrix& all) {
  take(all, step);
  exchange_parts(step, RingKind::reduce_scatter, all);
  const RowMatrix own{part_of_group(all, parameters_.share().part), of_group(all.rows), all.width,
                      step.op};
  check(step, own);
  return own;
}

void BlockProgram::leave_product(Kept& k, const RowMatrix& product) {
  if (held_.tp > 1) {
    k.partial = product;
  } else {
    forward_.parts.push_back(product);
  }
}

RowMatrix BlockProgram::gradient_of_product(const Kept& k) const {
  return held_.tp > 1 ? k.dout : whole(Pass::backward);
}

void BlockProgram::add_exchange(RankStep& step) {
  const OpKey& key = draft_.op(step).key;
  const int number = key.part / 2;  // of the kernel next to it
  const BlockKind block = block_in(number);
  if (key.part % 2 != 0) return scatter(step, key.layer, block);
  const auto kernels = works(key.layer, block, key.role);
  const auto place = static_cast<std::size_t>(number - part_in(block));
  if (place < kernels.size() && kernels[place] == Work::loss && key.pass == Pass::forward) {
    return exchange_sums_of_loss(step, kept(key.layer, block));
  }
  gather(step, key.layer, block);
}

void BlockProgram::gather(RankStep& step, int layer, BlockKind block) {
  Kept& k = kept(layer, block);
  if (draft_.op(step).key.pass == Pass::forward) {
    k.n = gathered(step, k.n);
    return;
  }
  if (block == BlockKind::embedding) {
    settle(Pass::backward, step);
    record(0, BlockKind::attention, Pass::backward, whole(Pass::backward));
  }
  k.dout = gathered(step, whole(Pass::backward));
}

void BlockProgram::scatter(RankStep& step, int layer, BlockKind block) {
  Kept& k = kept(layer, block);
  if (draft_.op(step).key.pass == Pass::forward) {
    return forward_.parts.push_back(scattered(step, k.partial));
  }
  if (block == BlockKind::moe) {
    if (!k.shared_dn) throw std::runtime_error("there is no gradient of shared experts yet");
    k.shared_dn = scattered(step, *k.shared_dn);
  } else {
    k.dn = scattered(step, k.dn);
  }
}

}  // namespace moesim
