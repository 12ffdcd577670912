// SPDX-License-Identifier: Apache-2.0
// Which kernels of a plan are which work of a block.
#include <algorithm>

#include "realhw/program/block_kept.h"

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

}  // namespace moesim
