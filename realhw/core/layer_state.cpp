// SPDX-License-Identifier: Apache-2.0
#include "realhw/core/layer_state.h"

#include <algorithm>
#include <stdexcept>

#include "realhw/core/numbers.h"
#include "sim/plan/check.h"

namespace moesim {
namespace {

template <class Visit>
void for_each_kept(Choices choices, Visit visit) {
  for (const auto k : choice_list(choices)) visit(k.value);
}

}  // namespace

LayerState::LayerState(const Plan& plan, const RoutedLayer& routing, const ExpertShape& shape,
                       GpuId rank)
    : routing_(routing),
      shape_(shape),
      rank_(rank),
      forward_(routing.tokens(), static_cast<int>(shape.hidden)),
      backward_(routing.tokens(), static_cast<int>(shape.hidden)),
      vector_(static_cast<std::size_t>(shape.hidden)) {
  forward_.brought_by.assign(routing.slot.size(), OpId(-1));
  backward_.brought_by = forward_.brought_by;
  for (OpId id(0); id.index() < plan.ops.size(); ++id.value) {
    const Op& op = plan[id];
    if (op.exchange() == nullptr || op.layer != routing.number) continue;
    if (!carries_tokens(op.lane) || op.stage != Stage::dispatch) continue;
    padded_ |= op.exchange()->padded;
    for (const RowMove& row : op.exchange()->rows) {
      if (row.to != rank) continue;
      for_each_kept(row.choices, [&](int k) {
        rows(op.pass).brought_by[routing.choice(row.token, k).index()] = id;
      });
    }
  }
  const SlotId first = routing.placement.first_slot(rank);
  for (int s = 0; s < routing.placement.slots_on(rank); ++s) {
    slots_.emplace_back(shape, routing.number,
                        routing.placement.expert_in(SlotId(first.value + s)));
  }
}

void LayerState::start(Pass pass) {
  PassRows& rows = this->rows(pass);
  rows.out.clear();
  rows.back.clear();
  rows.ready.clear();
  for (TokenId token(0); token.value < routing_.tokens(); ++token.value) {
    if (routing_.source[token.index()] != rank_) continue;
    pass == Pass::forward ? fill_token(routing_.number, token, vector_)
                          : fill_output_gradient(routing_.number, token, vector_);
    rows.out.add(token, routing_.kept[token.index()], vector_);
    for_each_kept(routing_.kept[token.index()], [&](int k) {
      const ChoiceId choice = routing_.choice(token, k);
      if (routing_.gpu_of(choice) != rank_) return;
      if (rows.brought_by[choice.index()].value < 0) rows.ready.push_back(choice);
    });
  }
}

void LayerState::reset() {
  start(Pass::forward);
  start(Pass::backward);
  for (ExpertSlot& slot : slots_) slot.reset();
}

void LayerState::take(const Op& op, const RowMove& row, std::span<float> values) {
  const std::lock_guard lock(rows_mutex_);
  PassRows& rows = this->rows(op.pass);
  op.stage == Stage::dispatch ? rows.out.take_copy(row.token, row.choices, values)
                              : rows.back.take_sum(row.token, row.choices, values);
}

void LayerState::store(OpId id, const Op& op, const RowMove& row, std::span<const float> values) {
  const std::lock_guard lock(rows_mutex_);
  PassRows& rows = this->rows(op.pass);
  if (op.stage == Stage::combine) {
    if (row.choices != 0) rows.back.add(row.token, row.choices, values);
    return;
  }
  rows.out.add(row.token, row.choices, values);
  for_each_kept(row.choices, [&](int k) {
    const ChoiceId choice = routing_.choice(row.token, k);
    if (routing_.gpu_of(choice) == rank_ && rows.brought_by[choice.index()] == id) {
      rows.ready.push_back(choice);
    }
  });
}

void LayerState::gather(Pass pass) {
  const std::lock_guard lock(rows_mutex_);
  PassRows& rows = this->rows(pass);
  std::sort(rows.ready.begin(), rows.ready.end());
  for (const ChoiceId choice : rows.ready) {
    const TokenId token = routing_.token_of(choice);
    const Choices bit = Choices{1} << (choice.value % routing_.top_k);
    rows.out.take_copy(token, bit, vector_);
    if (pass == Pass::forward) {
      slot_of(choice).add_input(choice, vector_);
    } else {
      slot_of(choice).add_gradient(choice, vector_, routing_.weight[choice.index()]);
    }
  }
  rows.ready.clear();
}

void LayerState::release(Pass pass) {
  const std::lock_guard lock(rows_mutex_);
  const auto keep = [&](ChoiceId choice, std::span<const float> row) {
    const float weight = pass == Pass::forward ? routing_.weight[choice.index()] : 1.0f;
    std::transform(row.begin(), row.end(), vector_.begin(), [&](float v) { return weight * v; });
    rows(pass).back.add(routing_.token_of(choice), Choices{1} << (choice.value % routing_.top_k),
                        vector_);
  };
  for (ExpertSlot& slot : slots_) {
    pass == Pass::forward ? slot.take_outputs(keep) : slot.take_input_gradients(keep);
  }
}

bool LayerState::run_expert_kernel(const Op& op) {
  using SlotKernel = void (*)(ExpertSlot&, std::int64_t m, bool padded);
  struct Named {
    const char* name;
    SlotKernel run;
  };
  static const Named kernels[] = {
      {"fc1", [](ExpertSlot& s, std::int64_t m, bool padded) { s.fc1(m, padded); }},
      {"activation", [](ExpertSlot& s, std::int64_t, bool) { s.activation(); }},
      {"fc2", [](ExpertSlot& s, std::int64_t m, bool) { s.fc2(m); }},
      {"fc1-recompute", [](ExpertSlot& s, std::int64_t m, bool) { s.fc1_again(m); }},
      {"activation-recompute", [](ExpertSlot& s, std::int64_t, bool) { s.activation_again(); }},
      {"fc2-recompute", [](ExpertSlot& s, std::int64_t m, bool) { s.fc2_again(m); }},
      {"fc2-dgrad", [](ExpertSlot& s, std::int64_t m, bool padded) { s.fc2_dgrad(m, padded); }},
      {"fc2-wgrad", [](ExpertSlot& s, std::int64_t m, bool) { s.fc2_wgrad(m); }},
      {"activation-grad", [](ExpertSlot& s, std::int64_t, bool) { s.activation_gradient(); }},
      {"fc1-dgrad", [](ExpertSlot& s, std::int64_t m, bool) { s.fc1_dgrad(m); }},
      {"fc1-wgrad", [](ExpertSlot& s, std::int64_t m, bool) { s.fc1_wgrad(m); }}};
  const auto named = std::find_if(std::begin(kernels), std::end(kernels),
                                  [&](const Named& k) { return op.name == k.name; });
  if (named == std::end(kernels)) return false;
  if (op.name == "fc1" || op.name == "fc2-dgrad") gather(op.pass);  // what no kernel has yet
  const auto* gemm = std::get_if<GroupedGemm>(&op.compute()->kernel);
  for (std::size_t s = 0; s < slots_.size(); ++s) {
    named->run(slots_[s], gemm != nullptr ? gemm->m[s] : 0, padded_);
  }
  return true;
}

}  // namespace moesim
