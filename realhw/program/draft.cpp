// SPDX-License-Identifier: Apache-2.0
#include "realhw/program/draft.h"

#include <utility>

#include "realhw/program/step_order.h"

namespace moesim {
namespace {

constexpr std::size_t word_bits = 64;

}  // namespace

Ancestors::Ancestors(const RankProgram& program) {
  const auto& steps = program.steps;
  step_of_.assign(steps.empty() ? 0 : steps.back().op.index() + 1, -1);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    step_of_[steps[i].op.index()] = static_cast<int>(i);
  }
  for (StepOrder order(steps); !order.done();) {
    for (const std::size_t step : order.take_ready()) {
      order_.push_back(step);
      order.end(step);
    }
  }
  before_.assign(steps.size(), std::vector<std::uint64_t>(steps.size() / word_bits + 1));
  const auto direct = steps_before(steps);
  for (const std::size_t step : order_) {
    auto& bits = before_[step];
    for (const std::size_t earlier : direct[step]) {
      for (std::size_t w = 0; w < bits.size(); ++w) bits[w] |= before_[earlier][w];
      bits[earlier / word_bits] |= std::uint64_t{1} << earlier % word_bits;
    }
  }
}

bool Ancestors::visible(OpId earlier, OpId later) const {
  if (earlier.value < 0 || earlier == later) return true;
  const auto e = static_cast<std::size_t>(step_of_[earlier.index()]);
  const auto l = static_cast<std::size_t>(step_of_[later.index()]);
  return (before_[l][e / word_bits] >> e % word_bits & 1) != 0;
}

BufferId Draft::add_buffer(std::string name, std::int64_t bytes, RowFormat format) {
  program.buffers.push_back({std::move(name), bytes, format});
  return BufferId(static_cast<std::int64_t>(program.buffers.size()) - 1);
}

}  // namespace moesim
