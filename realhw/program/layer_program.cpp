// SPDX-License-Identifier: Apache-2.0
#include "realhw/program/layer_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "realhw/core/numbers.h"
#include "sim/plan/check.h"

namespace moesim {
namespace {

/// Ends compiling: the plan has the op before what brings it the row, or brings it nothing.
[[noreturn]] void absent(TokenId token, Choices choices, const char* what) {
  throw std::runtime_error(
      fmt::format("{} of token {} choices {}", what, token.value, list_text(choice_list(choices))));
}

template <class Visit>
void for_each_choice(const RoutedLayer& routing, TokenId token, Choices choices, Visit visit) {
  for (int k = 0; k < routing.top_k; ++k) {
    if ((choices >> k & 1) != 0) visit(routing.choice(token, k));
  }
}

Choices bit_of(const RoutedLayer& routing, ChoiceId choice) {
  return Choices{1} << choice.value % routing.top_k;
}

bool has_backward(const Plan& plan, int layer) {
  return std::any_of(plan.ops.begin(), plan.ops.end(), [&](const Op& op) {
    return op.key.layer == layer && op.key.pass == Pass::backward && op.key.stage != Stage::other;
  });
}

}  // namespace

Choices HeldRows::held(TokenId token, OpId op) const {
  Choices all = 0;
  for (const HeldRow& row : rows(token)) all |= usable(row, op) ? row.choices : 0;
  return all;
}

Place HeldRows::take_copy(TokenId token, Choices choices, OpId op) {
  auto& rows = rows_[token.index()];
  const auto from = std::find_if(rows.begin(), rows.end(), [&](const HeldRow& row) {
    return usable(row, op) && (choices == 0 || (row.choices & choices) != 0);
  });
  if (from == rows.end() || (choices & ~held(token, op)) != 0) {
    absent(token, choices, "there is no row");
  }
  const Place place = from->value.from;
  // Copies are equal, so whichever rows have the choices give them away.
  for (HeldRow& row : rows) row.choices &= usable(row, op) ? ~choices : row.choices;
  return place;
}

void HeldRows::take_sum(TokenId token, Choices choices, OpId op,
                        std::vector<RowSums::Term>& terms) {
  if (!has(token, choices, op)) absent(token, choices, "there is no result");
  std::erase_if(rows_[token.index()], [&](const HeldRow& row) {
    if ((row.choices & choices) == 0 || !usable(row, op)) return false;
    if ((row.choices & ~choices) != 0) absent(token, row.choices, "a sum cannot be split:");
    terms.push_back(row.value);
    return true;
  });
}

LayerProgram::LayerProgram(Draft& draft, const RoutedLayer& routing)
    : draft_(draft),
      routing_(routing),
      forward_(draft.ancestors, routing.tokens()),
      backward_(draft.ancestors, routing.tokens()),
      experts_(draft, routing, has_backward(draft.step.plan, routing.number)) {
  if (!draft.step.iteration) {
    place_tokens(Pass::forward);
    if (has_backward(draft.step.plan, routing.number)) place_tokens(Pass::backward);
  }
  read_exchanges();
}

std::vector<TokenId> LayerProgram::own_tokens() const {
  std::vector<TokenId> tokens;
  for (TokenId token(0); token.value < routing_.tokens(); ++token.value) {
    if (routing_.source[token.index()] == draft_.program.rank) tokens.push_back(token);
  }
  return tokens;
}

void LayerProgram::enter(Pass pass, Place first, OpId made_by) {
  for (const TokenId token : own_tokens()) {
    rows(pass).out.add(token, {routing_.kept[token.index()], {first}, made_by});
    first.offset += draft_.row_bytes(draft_.step.shape.hidden);
  }
}

std::vector<TokenResult> LayerProgram::take_sums(Pass pass, OpId op) {
  HeldRows& back = rows(pass).back;
  take_unreleased(pass, &op);
  std::vector<TokenResult> list;
  for (const TokenId token : own_tokens()) {
    TokenResult& result = list.emplace_back(TokenResult{token, routing_.kept[token.index()], {}});
    back.take_sum(token, result.choices, op, result.terms);
  }
  return list;
}

/// Results that no kernel hands to the way back.
void LayerProgram::take_unreleased(Pass pass, const OpId* op) {
  for (const ChoiceRow& result : experts_.take_results(pass, op)) {
    const float weight = pass == Pass::forward ? routing_.weight[result.choice.index()] : 1.0f;
    rows(pass).back.add(routing_.token_of(result.choice),
                        {bit_of(routing_, result.choice), {result.at, weight}, OpId(-1)});
  }
}

void LayerProgram::place_tokens(Pass pass) {
  const bool forward = pass == Pass::forward;
  const std::int64_t hidden = draft_.step.shape.hidden;
  const GpuId rank = draft_.program.rank;
  const auto count = std::count(routing_.source.begin(), routing_.source.end(), rank);
  if (count == 0) return;
  const BufferId buffer = draft_.add_buffer(
      fmt::format("layer {} {}", routing_.number, forward ? "tokens" : "output gradients"),
      draft_.row_bytes(hidden) * count, draft_.program.matrices);
  InitialValues values{{buffer, 0}, std::vector<float>(static_cast<std::size_t>(count * hidden))};
  std::int64_t row = 0;
  for (TokenId token(0); token.value < routing_.tokens(); ++token.value) {
    if (routing_.source[token.index()] != rank) continue;
    const std::span<float> vector(values.values.data() + row * hidden,
                                  static_cast<std::size_t>(hidden));
    forward ? fill_token(routing_.number, token, vector)
            : fill_output_gradient(routing_.number, token, vector);
    const Place at{buffer, draft_.row_bytes(hidden) * row++};
    rows(pass).out.add(token, {routing_.kept[token.index()], {at}, OpId(-1)});
  }
  draft_.program.initial.push_back(std::move(values));
}

void LayerProgram::read_exchanges() {
  const GpuId rank = draft_.program.rank;
  std::vector<OpId> brought_by[2];
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    brought_by[static_cast<int>(pass)].assign(routing_.slot.size(), OpId(-1));
    rows(pass).taken_by.assign(routing_.slot.size(), -1);
  }
  std::int64_t number = 0;  // of a row on the way back
  for (const RankStep& step : draft_.program.steps) {
    const Op& op = draft_.op(step);
    if (op.exchange() == nullptr || !routing_.is_of(op.key) || !carries_tokens(op.stream)) {
      continue;
    }
    padded_ |= op.key.stage == Stage::dispatch && op.exchange()->padded;
    auto& brought = brought_by[static_cast<int>(op.key.pass)];
    auto& taken = rows(op.key.pass).taken_by;
    for (const RowMove& row : op.exchange()->rows) {
      if (op.key.stage == Stage::dispatch && row.to == rank) {
        for_each_choice(routing_, row.token, row.choices,
                        [&](ChoiceId choice) { brought[choice.index()] = step.op; });
      }
      if (op.key.stage != Stage::combine || row.from != rank) continue;
      for_each_choice(routing_, row.token, row.choices, [&](ChoiceId choice) {
        if (taken[choice.index()] < 0) taken[choice.index()] = number;
      });
      ++number;
    }
  }
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    for (ChoiceId choice(0); choice.index() < routing_.slot.size(); ++choice.value) {
      if (routing_.dropped(choice) || routing_.gpu_of(choice) != rank) continue;
      const OpId by = brought_by[static_cast<int>(pass)][choice.index()];
      const bool own = routing_.source[routing_.token_of(choice).index()] == rank;
      if (own || by.value >= 0) rows(pass).expected.push_back({choice, by});
    }
  }
}

void LayerProgram::take(const RankStep& step, const RowMove& row,
                        std::vector<RowSums::Term>& terms) {
  const Op& op = draft_.op(step);
  if (op.key.stage == Stage::dispatch) {
    terms.push_back({rows(op.key.pass).out.take_copy(row.token, row.choices, step.op)});
  } else {
    HeldRows& back = rows(op.key.pass).back;
    // Without a kernel of their own, sums of results are made as rows leave.
    if (!back.has(row.token, row.choices, step.op)) take_unreleased(op.key.pass, &step.op);
    back.take_sum(row.token, row.choices, step.op, terms);
  }
}

void LayerProgram::store(const RankStep& step, const RowMove& row, Place at) {
  const Op& op = draft_.op(step);
  if (op.key.stage == Stage::dispatch) {
    rows(op.key.pass).out.add(row.token, {row.choices, {at}, step.op});
  } else if (row.choices != 0) {
    rows(op.key.pass).back.add(row.token, {row.choices, {at}, step.op});
  }
}

bool LayerProgram::add_kernel(RankStep& step) {
  const Op& op = draft_.op(step);
  if (op.key.stage == Stage::experts) {
    if (ExpertProgram::gathers(op.key.type())) gather(step);  // what no kernel has yet
    return experts_.add_kernel(step, padded_);
  }
  // Kernels between arrived rows and experts' rows: gradients go the same ways, mirrored.
  if (op.key.kind != OpKind::sort && op.key.kind != OpKind::reduce) return false;
  const bool forward = op.key.pass == Pass::forward;
  const bool inwards = forward == (op.key.kind == OpKind::sort);
  inwards ? gather(step) : release(step);
  return true;
}

/// Rows in the order of tokens and choices.
void LayerProgram::gather(RankStep& step) {
  const Pass pass = draft_.op(step).key.pass;
  PassRows& rows = this->rows(pass);
  std::vector<ChoiceRow> gathered;
  std::erase_if(rows.expected, [&](const Expected& expected) {
    if (!draft_.ancestors.visible(expected.brought_by, step.op)) return false;
    const TokenId token = routing_.token_of(expected.choice);
    const Choices bit = bit_of(routing_, expected.choice);
    gathered.push_back({expected.choice, rows.out.take_copy(token, bit, step.op)});
    return true;
  });
  experts_.add_rows(pass, gathered, step);
}

/// Hands results to the way back, times the gate weight in the forward pass; results that leave in
/// one row are added up at once.
void LayerProgram::release(RankStep& step) {
  const Pass pass = draft_.op(step).key.pass;
  const std::int64_t hidden = draft_.step.shape.hidden;
  std::map<std::pair<TokenId, std::int64_t>, std::vector<ChoiceRow>> leaving;
  for (const ChoiceRow& result : experts_.take_results(pass, &step.op)) {
    const std::int64_t row = rows(pass).taken_by[result.choice.index()];
    leaving[{routing_.token_of(result.choice), row}].push_back(result);
  }
  if (leaving.empty()) return;
  const auto count = static_cast<std::int64_t>(leaving.size());
  const BufferId buffer =
      draft_.add_buffer(fmt::format("op {} results", step.op.value),
                        count * draft_.row_bytes(hidden), draft_.program.matrices);
  RowSums sums{hidden, {}, {0}, {}};
  for (const auto& [key, parts] : leaving) {
    Choices choices = 0;
    for (const ChoiceRow& part : parts) {
      choices |= bit_of(routing_, part.choice);
      const float weight = pass == Pass::forward ? routing_.weight[part.choice.index()] : 1.0f;
      sums.terms.push_back({part.at, weight});
    }
    const Place at{buffer, static_cast<std::int64_t>(sums.to.size()) * draft_.row_bytes(hidden)};
    sums.to.push_back(at);
    sums.first.push_back(static_cast<std::uint32_t>(sums.terms.size()));
    rows(pass).back.add(key.first, {choices, {at}, step.op});
  }
  step.before.emplace_back(std::move(sums));
  step.after.emplace_back(FiniteCheck{step.op, {{{buffer, 0}, count * hidden}}});
}

LayerResults LayerProgram::results() {
  return {results(Pass::forward), results(Pass::backward), experts_.gradients()};
}

std::vector<TokenResult> LayerProgram::results(Pass pass) {
  take_unreleased(pass, nullptr);
  std::vector<TokenResult> list;
  for (const TokenId token : own_tokens()) {
    TokenResult& result = list.emplace_back(TokenResult{token, 0, {}});
    for (const HeldRow& row : rows(pass).back.rows(token)) {
      result.choices |= row.choices;
      result.terms.push_back(row.value);
    }
  }
  return list;
}

}  // namespace moesim
