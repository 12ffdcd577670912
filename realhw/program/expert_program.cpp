// SPDX-License-Identifier: Apache-2.0
// The rows of the experts: where they are, and how they come and go.
#include "realhw/program/expert_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace moesim {
namespace {

constexpr std::int64_t gradient_bytes = 4;  // float32
constexpr ChoiceId padding(-1);

std::vector<ExpertId> experts_on(const RoutedLayer& routing, GpuId rank) {
  std::vector<ExpertId> experts;
  const SlotId first = routing.placement.first_slot(rank);
  for (int s = 0; s < routing.placement.slots_on(rank); ++s) {
    experts.push_back(routing.placement.expert_in(SlotId(first.value + s)));
  }
  return experts;
}

}  // namespace

void SlotMatrix::add(std::size_t slot, std::int64_t rows, OpId made_by) {
  if (rows == 0) return;
  if (buffer_.value < 0) {
    buffer_ = draft_.add_buffer(name_, first_row_.back() * draft_.row_bytes(width_),
                                draft_.program.matrices);
  }
  const std::int64_t end = this->rows(slot) + rows;
  if (end > first_row_[slot + 1] - first_row_[slot]) {
    throw std::runtime_error("an expert gets more rows than its kernels compute");
  }
  if (!made_[slot].empty() && made_[slot].back().by == made_by) {
    made_[slot].back().end = end;
  } else {
    made_[slot].push_back({end, made_by});
  }
}

std::int64_t SlotMatrix::visible(std::size_t slot, OpId op) const {
  std::int64_t rows = 0;
  for (const Made& made : made_[slot]) {
    if (!draft_.ancestors.visible(made.by, op)) break;
    rows = made.end;
  }
  return rows;
}

void SlotMatrix::check(RankStep& step, const std::vector<Piece>& pieces) const {
  FiniteCheck check{step.op, {}};
  for (const Piece& piece : pieces) {
    check.ranges.push_back({at(piece.slot, piece.first), piece.rows * width_});
  }
  if (!check.ranges.empty()) step.after.emplace_back(std::move(check));
}

ExpertProgram::ExpertProgram(Draft& draft, const RoutedLayer& routing, bool trains)
    : draft_(draft),
      routing_(routing),
      shape_(draft.step.shape),
      experts_(experts_on(routing, draft.program.rank)),
      forward_{SlotChoices(slots()), std::vector<std::int64_t>(slots()), first_rows({OpKind::fc1})},
      backward_{SlotChoices(slots()), std::vector<std::int64_t>(slots()),
                first_rows(fc2_input_gradient)},
      copied_(slots()),
      next_forward_(slots()),
      input_{matrix("input", forward_, shape_.hidden),
             matrix("input, reordered", backward_, shape_.hidden)},
      h_{matrix("h", forward_, shape_.up()), matrix("h, reordered", backward_, shape_.up())},
      activated_{matrix("activated", forward_, shape_.ffn),
                 matrix("activated, reordered", backward_, shape_.ffn)},
      output_(matrix("output", forward_, shape_.hidden)),
      gradient_(matrix("gradient", backward_, shape_.hidden)),
      activated_gradient_(matrix("activated gradient", backward_, shape_.ffn)),
      h_gradient_(matrix("h gradient", backward_, shape_.up())),
      input_gradient_(matrix("input gradient", backward_, shape_.hidden)) {
  if (slots() == 0) return;
  const auto [known, is_new] = draft.experts.try_emplace(routing.number);
  ExpertBuffers& buffers = known->second;
  if (is_new) {
    buffers.experts = experts_;
    place_parameters(buffers);
    if (trains) place_gradients(buffers);
  }
  if (buffers.experts != experts_) {
    throw std::runtime_error(
        fmt::format("layer {} has other experts in microbatch {} than in the first", routing.number,
                    routing.microbatch));
  }
  parameters_ = buffers.parameters;
  gradients_ = buffers.gradients;
}

void ExpertProgram::place_gradients(ExpertBuffers& buffers) {
  buffers.gradients = draft_.add_buffer(
      fmt::format("layer {} parameter gradients", routing_.number),
      static_cast<std::int64_t>(slots()) * (elements(1) + elements(2)) * gradient_bytes,
      RowFormat::float32);
  draft_.program.zeroed.push_back(buffers.gradients);
}

SlotMatrix ExpertProgram::matrix(const char* name, const PassRows& pass, std::int64_t width) {
  return {draft_, fmt::format("{} {}", routing_.name(), name), pass.first_row, width};
}

/// Every slot has room for the rows that a GEMM computes, and for the rows that chose it.
std::vector<std::int64_t> ExpertProgram::first_rows(const OpType& kernel) const {
  std::vector<std::int64_t> chosen(slots()), computed(slots());
  for (ChoiceId choice(0); choice.index() < routing_.slot.size(); ++choice.value) {
    if (routing_.dropped(choice) || routing_.gpu_of(choice) != draft_.program.rank) continue;
    ++chosen[slot_of(choice)];
  }
  for (const RankStep& step : draft_.program.steps) {
    const Op& op = draft_.op(step);
    if (!routing_.is_of(op.key) || op.key.stage != Stage::experts || op.key.type() != kernel) {
      continue;
    }
    const auto* gemm = std::get_if<GroupedGemm>(&draft_.kernel(step));
    if (gemm == nullptr || gemm->m.size() != slots()) continue;  // told when it is compiled
    for (std::size_t s = 0; s < slots(); ++s) computed[s] += gemm->m[s];
  }
  std::vector<std::int64_t> first = {0};
  for (std::size_t s = 0; s < slots(); ++s) {
    first.push_back(first.back() + std::max(chosen[s], computed[s]));
  }
  return first;
}

void ExpertProgram::place_parameters(ExpertBuffers& buffers) {
  buffers.parameters = parameters_ = draft_.add_buffer(
      fmt::format("layer {} parameters", routing_.number),
      draft_.row_bytes(static_cast<std::int64_t>(slots()) * (elements(1) + elements(2))),
      draft_.program.matrices);
  for (std::size_t s = 0; s < slots(); ++s) {
    ExpertWeights weights(shape_, routing_.number, experts_[s]);
    draft_.program.initial.push_back({parameters(s, 1), std::move(weights.w1)});
    draft_.program.initial.push_back({parameters(s, 2), std::move(weights.w2)});
  }
}

std::int64_t ExpertProgram::elements(int matrix) const {
  return shape_.hidden * (matrix == 1 ? shape_.up() : shape_.ffn);
}

Place ExpertProgram::parameters(std::size_t slot, int matrix) const {
  const auto before = static_cast<std::int64_t>(slot) * (elements(1) + elements(2));
  return {parameters_, draft_.row_bytes(before + (matrix == 1 ? 0 : elements(1)))};
}

Place ExpertProgram::parameter_gradient(std::size_t slot, int matrix) const {
  const auto before = static_cast<std::int64_t>(slot) * (elements(1) + elements(2));
  return {gradients_, (before + (matrix == 1 ? 0 : elements(1))) * gradient_bytes};
}

std::vector<SlotGradients> ExpertProgram::gradients() const {
  std::vector<SlotGradients> list;
  for (std::size_t s = 0; gradients_.value >= 0 && s < slots(); ++s) {
    list.push_back({experts_[s], parameter_gradient(s, 1), parameter_gradient(s, 2)});
  }
  return list;
}

std::size_t ExpertProgram::slot_of(ChoiceId choice) const {
  const SlotId first = routing_.placement.first_slot(draft_.program.rank);
  return static_cast<std::size_t>(routing_.slot[choice.index()].value - first.value);
}

void ExpertProgram::add_rows(Pass pass, const std::vector<ChoiceRow>& rows, RankStep& step) {
  std::vector<std::vector<ChoiceRow>> by_slot(slots());
  for (const ChoiceRow& row : rows) by_slot[slot_of(row.choice)].push_back(row);
  add_slot_rows(pass, by_slot, step);
}

void ExpertProgram::pad(Pass pass, RankStep& step) {
  const GroupedGemm* gemm = gemm_of(step);
  const auto& done = done_[draft_.op(step).key.type()];
  std::vector<std::vector<ChoiceRow>> by_slot(slots());
  for (std::size_t s = 0; s < slots(); ++s) {
    const std::int64_t wanted = (done.empty() ? 0 : done[s]) + gemm->m[s];
    const auto here = static_cast<std::int64_t>(rows_of(pass).choices[s].size());
    if (wanted > here) by_slot[s].resize(static_cast<std::size_t>(wanted - here), {padding, {}});
  }
  add_slot_rows(pass, by_slot, step);
}

void ExpertProgram::add_slot_rows(Pass pass, const std::vector<std::vector<ChoiceRow>>& by_slot,
                                  RankStep& step) {
  const bool forward = pass == Pass::forward;
  SlotMatrix& matrix = forward ? input_.forward : gradient_;
  RowSums sums{shape_.hidden, {}, {0}, {}};
  std::vector<Piece> added;
  for (std::size_t s = 0; s < slots(); ++s) {
    if (by_slot[s].empty()) continue;
    auto& choices = rows_of(pass).choices[s];
    added.push_back({s, matrix.rows(s), static_cast<std::int64_t>(by_slot[s].size())});
    matrix.add(s, added.back().rows, step.op);
    for (const ChoiceRow& row : by_slot[s]) {
      sums.to.push_back(matrix.at(s, static_cast<std::int64_t>(choices.size())));
      choices.push_back(row.choice);
      if (row.choice != padding) {
        sums.terms.push_back({row.at, forward ? 1.0f : routing_.weight[row.choice.index()]});
      }
      sums.first.push_back(static_cast<std::uint32_t>(sums.terms.size()));
    }
  }
  if (added.empty()) return;
  step.before.emplace_back(std::move(sums));
  matrix.check(step, added);
  if (!forward) find_kept_rows(added, step);
}

/// Rows of a slot that come as they did in the forward pass stay where they were.
void ExpertProgram::find_kept_rows(const std::vector<Piece>& added, RankStep& step) {
  std::vector<Piece> moved;
  std::vector<std::vector<std::int64_t>> from(slots());
  for (const Piece& piece : added) {
    auto& rows = from[piece.slot];
    bool in_place = true;
    for (std::int64_t i = piece.first; i < piece.first + piece.rows; ++i) {
      rows.push_back(forward_row(piece.slot, i, step.op));
      in_place = in_place && rows.back() == i;
    }
    copied_[piece.slot].resize(static_cast<std::size_t>(piece.first + piece.rows), !in_place);
    if (!in_place) moved.push_back(piece);
  }
  for (Kept* kept : {&input_, &h_, &activated_}) copy_rows(*kept, moved, from, step);
}

/// Where the forward pass has the row of backward row i; below 0: nowhere, it is padding.
std::int64_t ExpertProgram::forward_row(std::size_t slot, std::int64_t i, OpId op) {
  const auto& rows = forward_.choices[slot];
  const auto count = static_cast<std::int64_t>(rows.size());
  const ChoiceId choice = backward_.choices[slot][static_cast<std::size_t>(i)];
  const auto lies = [&](std::int64_t at) {
    return at < count && rows[static_cast<std::size_t>(at)] == choice;
  };
  std::int64_t at = lies(i) ? i : next_forward_[slot];
  if (!lies(at)) {
    if (choice == padding) return -1;
    at = std::find(rows.begin(), rows.end(), choice) - rows.begin();
  }
  next_forward_[slot] = at + 1;
  if (at >= activated_.forward.visible(slot, op)) {
    throw std::runtime_error(fmt::format("expert {} gets the gradient of a row that it never had",
                                         experts_[slot].value));
  }
  return at;
}

void ExpertProgram::copy_rows(Kept& kept, const std::vector<Piece>& pieces,
                              const std::vector<std::vector<std::int64_t>>& from, RankStep& step) {
  RowSums sums{kept.forward.width(), {}, {0}, {}};
  for (const Piece& piece : pieces) {
    const std::size_t s = piece.slot;
    kept.copy.add_until(s, piece.first + piece.rows, step.op);
    for (std::int64_t i = 0; i < piece.rows; ++i) {
      const std::int64_t row = from[s][static_cast<std::size_t>(i)];
      sums.to.push_back(kept.copy.at(s, piece.first + i));
      if (row >= 0) sums.terms.push_back({kept.forward.at(s, row)});
      sums.first.push_back(static_cast<std::uint32_t>(sums.terms.size()));
    }
  }
  if (!sums.to.empty()) step.before.emplace_back(std::move(sums));
}

std::vector<ChoiceRow> ExpertProgram::take_results(Pass pass, const OpId* op) {
  const SlotMatrix& results = pass == Pass::forward ? output_ : input_gradient_;
  PassRows& rows = rows_of(pass);
  std::vector<ChoiceRow> list;
  for (std::size_t s = 0; s < slots(); ++s) {
    const std::int64_t end = op != nullptr ? results.visible(s, *op) : results.rows(s);
    for (std::int64_t& i = rows.taken[s]; i < end; ++i) {
      const ChoiceId choice = rows.choices[s][static_cast<std::size_t>(i)];
      if (choice != padding) list.push_back({choice, results.at(s, i)});
    }
  }
  return list;
}

}  // namespace moesim
