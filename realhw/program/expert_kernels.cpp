// SPDX-License-Identifier: Apache-2.0
// The kernels of the experts: which rows each takes next, and the calls that it becomes.
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "realhw/program/expert_program.h"

namespace moesim {

namespace {

constexpr OpType activation_again{OpKind::activation, Role::recompute, Pass::backward};

}  // namespace

struct ExpertProgram::ExpertKernel {
  OpType type;
  void (*add)(ExpertProgram&, RankStep&);
};

bool ExpertProgram::gathers(const OpType& kernel) {
  return kernel == OpType{OpKind::fc1} || kernel == fc2_input_gradient;
}

bool ExpertProgram::add_kernel(RankStep& step, bool padded) {
  using E = ExpertProgram;
  using Kind = GroupedProduct::Kind;
  static const ExpertKernel kernels[] = {
      {{OpKind::fc1},
       [](E& e, RankStep& s) { e.multiply(s, Kind::plain, e.input_.forward, 1, e.h_.forward); }},
      {{OpKind::activation}, [](E& e, RankStep& s) { e.activate(s); }},
      {{OpKind::fc2},
       [](E& e, RankStep& s) { e.multiply(s, Kind::plain, e.activated_.forward, 2, e.output_); }},
      {{OpKind::fc1, Role::recompute, Pass::backward},
       [](E& e, RankStep& s) {
         e.multiply_again(s, {OpKind::fc1}, e.input_.forward, 1, e.h_.forward);
       }},
      {activation_again, [](E& e, RankStep& s) { e.activate_again(s); }},
      {{OpKind::fc2, Role::recompute, Pass::backward},
       [](E& e, RankStep& s) {
         e.multiply_again(s, activation_again, e.activated_.forward, 2, e.output_);
       }},
      {fc2_input_gradient,
       [](E& e, RankStep& s) {
         e.multiply(s, Kind::transposed_b, e.gradient_, 2, e.activated_gradient_);
       }},
      {{OpKind::fc2, Role::wgrad, Pass::backward},
       [](E& e, RankStep& s) { e.add_outer(s, e.activated_, e.gradient_, 2); }},
      {{OpKind::activation, Role::plain, Pass::backward},
       [](E& e, RankStep& s) { e.activate_gradient(s); }},
      {{OpKind::fc1, Role::dgrad, Pass::backward},
       [](E& e, RankStep& s) {
         e.multiply(s, Kind::transposed_b, e.h_gradient_, 1, e.input_gradient_);
       }},
      {{OpKind::fc1, Role::wgrad, Pass::backward},
       [](E& e, RankStep& s) { e.add_outer(s, e.input_, e.h_gradient_, 1); }}};
  const Op& op = draft_.op(step);
  const auto* kernel = std::ranges::find(kernels, op.key.type(), &ExpertKernel::type);
  if (kernel == std::end(kernels)) return false;
  if (padded && gathers(kernel->type)) pad(op.key.pass, step);
  kernel->add(*this, step);
  return true;
}

/// The rows of every slot's share of a GEMM. None for other kernels.
const GroupedGemm* ExpertProgram::gemm_of(const RankStep& step) const {
  const Op& op = draft_.op(step);
  const auto* gemm = std::get_if<GroupedGemm>(&draft_.kernel(step));
  if (gemm != nullptr && gemm->wave) {
    throw std::runtime_error("hardware cannot execute waves of a fused kernel yet");
  }
  if (gemm != nullptr && gemm->m.size() != slots()) {
    throw std::runtime_error(
        fmt::format("{} has {} groups for {} slots", op.label.text(), gemm->m.size(), slots()));
  }
  return gemm;
}

/// A GEMM takes as many rows as the plan says, other kernels all there are. `here`: [slot] rows
/// that may be used.
std::vector<Piece> ExpertProgram::next_pieces(const RankStep& step,
                                              const std::vector<std::int64_t>& here) {
  const Op& op = draft_.op(step);
  const GroupedGemm* gemm = gemm_of(step);
  auto& done = done_[op.key.type()];
  done.resize(slots());
  std::vector<Piece> pieces;
  for (std::size_t s = 0; s < slots(); ++s) {
    const std::int64_t rows = gemm != nullptr ? gemm->m[s] : here[s] - done[s];
    if (rows <= 0) continue;
    if (done[s] + rows > here[s]) {
      throw std::runtime_error(
          fmt::format("{} of expert {} is to compute rows {} to {}, {} are here", op.label.text(),
                      experts_[s].value, done[s], done[s] + rows, here[s]));
    }
    pieces.push_back({s, done[s], rows});
    done[s] += rows;
  }
  return pieces;
}

std::vector<std::int64_t> ExpertProgram::visible(const SlotMatrix& matrix, OpId op) const {
  std::vector<std::int64_t> rows;
  for (std::size_t s = 0; s < slots(); ++s) rows.push_back(matrix.visible(s, op));
  return rows;
}

/// What a kernel has done so far.
std::vector<std::int64_t> ExpertProgram::done(const OpType& kernel) const {
  const auto found = done_.find(kernel);
  return found == done_.end() ? std::vector<std::int64_t>(slots()) : found->second;
}

void ExpertProgram::multiply(RankStep& step, GroupedProduct::Kind kind, const SlotMatrix& a,
                             int matrix, SlotMatrix& c) {
  const auto pieces = next_pieces(step, visible(a, step.op));
  for (const Piece& piece : pieces) c.add(piece.slot, piece.rows, step.op);
  add_product(step, kind, pieces, a, matrix, c);
}

void ExpertProgram::multiply_again(RankStep& step, const OpType& behind, const SlotMatrix& a,
                                   int matrix, const SlotMatrix& c) {
  add_product(step, GroupedProduct::Kind::plain, next_pieces(step, done(behind)), a, matrix, c);
}

void ExpertProgram::add_product(RankStep& step, GroupedProduct::Kind kind,
                                const std::vector<Piece>& pieces, const SlotMatrix& a, int matrix,
                                const SlotMatrix& c) {
  if (pieces.empty()) return;
  GroupedProduct product{kind, c.width(), a.width(), {}};
  for (const Piece& piece : pieces) {
    product.groups.push_back({piece.rows, a.at(piece.slot, piece.first),
                              parameters(piece.slot, matrix), c.at(piece.slot, piece.first)});
  }
  step.before.emplace_back(std::move(product));
  c.check(step, pieces);
}

void ExpertProgram::activate(RankStep& step) {
  const auto pieces = next_pieces(step, visible(h_.forward, step.op));
  for (const Piece& piece : pieces) activated_.forward.add(piece.slot, piece.rows, step.op);
  add_activation(step, pieces);
}

void ExpertProgram::activate_again(RankStep& step) {
  add_activation(step, next_pieces(step, done({OpKind::fc1, Role::recompute, Pass::backward})));
}

void ExpertProgram::add_activation(RankStep& step, const std::vector<Piece>& pieces) {
  if (pieces.empty()) return;
  Activation activation{false, shape_.ffn, shape_.gated, {}};
  for (const Piece& piece : pieces) {
    activation.ranges.push_back({piece.rows,
                                 h_.forward.at(piece.slot, piece.first),
                                 activated_.forward.at(piece.slot, piece.first),
                                 {},
                                 {}});
  }
  step.before.emplace_back(std::move(activation));
  activated_.forward.check(step, pieces);
}

void ExpertProgram::activate_gradient(RankStep& step) {
  const auto pieces = next_pieces(step, visible(activated_gradient_, step.op));
  for (const Piece& piece : pieces) h_gradient_.add(piece.slot, piece.rows, step.op);
  if (pieces.empty()) return;
  Activation activation{true, shape_.ffn, shape_.gated, {}};
  for (const auto& part : parts(pieces)) {
    for (const Piece& piece : part) {
      activation.ranges.push_back({piece.rows,
                                   where(h_, piece),
                                   {},
                                   h_gradient_.at(piece.slot, piece.first),
                                   activated_gradient_.at(piece.slot, piece.first)});
    }
  }
  step.before.emplace_back(std::move(activation));
  h_gradient_.check(step, pieces);
}

/// One call per part: no two groups of a call add to the same gradient.
void ExpertProgram::add_outer(RankStep& step, const Kept& a, const SlotMatrix& b, int matrix) {
  const auto pieces = next_pieces(step, visible(b, step.op));
  FiniteCheck check{step.op, {}};
  for (const Piece& piece : pieces) {
    check.ranges.push_back({parameter_gradient(piece.slot, matrix), elements(matrix)});
  }
  for (const auto& part : parts(pieces)) {
    GroupedProduct product{GroupedProduct::Kind::outer, b.width(), a.forward.width(), {}};
    for (const Piece& piece : part) {
      product.groups.push_back({piece.rows, where(a, piece), b.at(piece.slot, piece.first),
                                parameter_gradient(piece.slot, matrix)});
    }
    step.before.emplace_back(std::move(product));
  }
  if (!pieces.empty()) step.after.emplace_back(std::move(check));
}

std::vector<std::vector<Piece>> ExpertProgram::parts(const std::vector<Piece>& pieces) const {
  std::vector<std::vector<Piece>> parts;
  for (const Piece& piece : pieces) {
    const auto& copied = copied_[piece.slot];
    const auto begin = copied.begin() + piece.first, end = begin + piece.rows;
    std::size_t n = 0;
    for (auto from = begin; from != end; ++n) {
      const auto to = std::find(from, end, *from == 0 ? 1 : 0);
      if (parts.size() <= n) parts.emplace_back();
      parts[n].push_back({piece.slot, from - copied.begin(), to - from});
      from = to;
    }
  }
  return parts;
}

Place ExpertProgram::where(const Kept& kept, const Piece& part) const {
  const bool copied = copied_[part.slot][static_cast<std::size_t>(part.first)] != 0;
  return (copied ? kept.copy : kept.forward).at(part.slot, part.first);
}

}  // namespace moesim
