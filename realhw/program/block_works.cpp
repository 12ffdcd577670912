// SPDX-License-Identifier: Apache-2.0
// The kernels of a plan as works of a block. A tensor group divides embedding and loss, the blocks
// that know words. It gathers rows before the first product of a block and scatters sums of rows
// behind the last one, as sim/planner/iteration/block_ops.h plans them.
#include <algorithm>
#include <stdexcept>

#include "realhw/program/block_kept.h"
#include "sim/model/blocks.h"

namespace moesim {

bool BlockProgram::computes(const OpKey& key) {
  switch (key.kind) {
    case OpKind::embedding:
    case OpKind::norm:
    case OpKind::attention_projections:
    case OpKind::attention_scores:
    case OpKind::attention_output:
    case OpKind::dense_fc1:
    case OpKind::dense_activation:
    case OpKind::dense_fc2:
    case OpKind::head:
    case OpKind::loss:
    case OpKind::shared_fc1:
    case OpKind::shared_fc2:
      return true;
    default:
      return false;
  }
}

OpKind BlockProgram::kind_of(Work work) {
  switch (work) {
    case Work::residual:
    case Work::norm:
      return OpKind::norm;
    case Work::projections:
    case Work::head_norms:
    case Work::rotary:
      return OpKind::attention_projections;
    case Work::scores:
      return OpKind::attention_scores;
    case Work::output:
      return OpKind::attention_output;
    case Work::fc1:
      return OpKind::dense_fc1;
    case Work::activation:
      return OpKind::dense_activation;
    case Work::fc2:
      return OpKind::dense_fc2;
    case Work::look_up:
      return OpKind::embedding;
    case Work::head:
      return OpKind::head;
    case Work::loss:
      return OpKind::loss;
  }
  return OpKind::other;
}

/// The kernels of a block in launch order, as sim/model/blocks.h makes them: gradients come in the
/// reverse order, a weight gradient for every product.
std::vector<BlockProgram::Work> BlockProgram::works(int layer, BlockKind block, Role role) const {
  std::vector<Work> list;
  switch (block) {
    case BlockKind::embedding:
      list = {Work::look_up};
      break;
    case BlockKind::attention:
      if (layer > 0) list.push_back(Work::residual);
      list.insert(list.end(), {Work::norm, Work::projections});
      if (held_.model.attention->shape->qk_norm) list.push_back(Work::head_norms);
      list.insert(list.end(), {Work::rotary, Work::scores, Work::output});
      break;
    case BlockKind::dense_ffn:
      list = {Work::residual, Work::norm, Work::fc1, Work::activation, Work::fc2};
      break;
    case BlockKind::moe:
      list = {Work::residual, Work::norm};
      break;
    case BlockKind::head:
      list = {Work::residual, Work::norm, Work::head, Work::loss};
      break;
    case BlockKind::mamba:
    case BlockKind::mtp:
      break;
  }
  if (role == Role::plain) return list;
  std::ranges::reverse(list);
  if (role != Role::wgrad) return list;
  std::erase_if(list, [](Work work) {
    return work != Work::projections && work != Work::output && work != Work::fc1 &&
           work != Work::fc2 && work != Work::head;
  });
  return list;
}

std::int64_t BlockProgram::word(std::int64_t row) const {
  return word_at(held_.model.vocabulary, microbatch_, parameters_.replica(), row);
}

std::int64_t BlockProgram::own_word(std::int64_t row) const {
  const std::int64_t words = of_group(held_.model.vocabulary);
  const std::int64_t own = word(row) - parameters_.share().part * words;
  return own < words ? std::max<std::int64_t>(own, -1) : -1;
}

void BlockProgram::add_loss(RankStep& step, Kept& k, bool gradient) {
  const std::int64_t words = of_group(held_.model.vocabulary), rows = held_.rows();
  std::vector<std::int64_t> labels;
  for (std::int64_t row = 0; row < rows; ++row) labels.push_back(own_word(row + 1));
  if (gradient) {
    k.dh = make(step, "gradient of the logits", rows, words);
    const auto weight =
        static_cast<float>(1.0 / static_cast<double>(rows * held_.replicas() * held_.microbatches));
    step.before.emplace_back(CrossEntropy{
        true, words, std::move(labels), weight, {}, take(k.shares, step), {}, k.dh.at});
    return check(step, k.dh);
  }
  k.shares = make(step, "shares", rows, words);
  k.losses = make(step, "losses", rows, 1);
  const Place logits = take(k.h, step), shares = k.shares.at, losses = k.losses.at;
  if (held_.tp == 1) {
    step.before.emplace_back(
        CrossEntropy{false, words, std::move(labels), 1, logits, shares, losses, {}});
  } else {
    step.before.emplace_back(DividedEntropy{true, words, std::move(labels), held_.tp, logits,
                                            take(k.sums, step), shares, losses});
  }
  draft_.program.iteration->losses.push_back({microbatch_, k.losses.at});
  check(step, k.shares);
}

/// Words of other ranks are rows of zeros.
void BlockProgram::look_up(RankStep& step, DenseBuffers& held, const RowMatrix& to) {
  const Place table = take(held, held.weight(DenseTensorId::embedding), step);
  RowSums sums{to.width, {}, {0}, {}};
  for (std::int64_t row = 0; row < to.rows; ++row) {
    sums.to.push_back({to.at.buffer, to.at.offset + row * to.width * float_bytes});
    const std::int64_t at = own_word(row);
    if (at >= 0) sums.terms.push_back({{table.buffer, table.offset + at * to.width * float_bytes}});
    sums.first.push_back(static_cast<std::uint32_t>(sums.terms.size()));
  }
  step.before.emplace_back(std::move(sums));
  check(step, to);
}

/// What the first layer, which adds up nothing by itself, leaves is added up here, if not before it
/// was gathered.
void BlockProgram::add_embedding_gradient(RankStep& step, DenseBuffers& held) {
  if (held_.tp == 1) {
    settle(Pass::backward, step);
    record(0, BlockKind::attention, Pass::backward, whole(Pass::backward));
  }
  const RowMatrix dx = gradient_of_product(kept(0, BlockKind::embedding));
  const Place table = held.gradient(DenseTensorId::embedding), from = take(dx, step);
  AddValues call;
  for (std::int64_t row = 0; row < dx.rows; ++row) {
    const std::int64_t at = own_word(row);
    if (at < 0) continue;
    call.ranges.push_back({{from.buffer, from.offset + row * dx.width * float_bytes},
                           {table.buffer, table.offset + at * dx.width * float_bytes},
                           dx.width});
  }
  step.before.emplace_back(std::move(call));
  held.ops.added.push_back(step.op);
}

void BlockProgram::exchange_sums_of_loss(RankStep& step, Kept& k) {
  k.sums = make(step, "sums of the loss", k.h.rows * held_.tp, entropy_sums);
  std::vector<std::int64_t> labels;
  for (std::int64_t row = 0; row < k.h.rows; ++row) labels.push_back(own_word(row + 1));
  step.before.emplace_back(DividedEntropy{false,
                                          k.h.width,
                                          std::move(labels),
                                          held_.tp,
                                          take(k.h, step),
                                          part_of_group(k.sums, parameters_.share().part),
                                          {},
                                          {}});
  exchange_parts(step, RingKind::all_gather, k.sums);
  check(step, k.sums);
}

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
