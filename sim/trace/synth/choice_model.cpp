// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/synth/choice_model.h"

#include <algorithm>
#include <numeric>

namespace moesim {
namespace {

/// Draws that may hit an expert which is chosen already, before an exact draw over the others takes
/// over. Both draw the same distribution; the exact one takes time in proportion to the experts.
constexpr int patience = 32;

}  // namespace

void normalise(std::vector<double>& weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& w : weights) w /= sum;
}

ChoiceSampler::ChoiceSampler(ChoiceModel model)
    : model_(std::move(model)),
      popularity_(model_.popularity),
      chosen_(model_.popularity.size()),
      gate_weights_(std::max<std::size_t>(1, model_.partners.size())) {
  if (model_.groups > 1) {
    gate_.emplace(static_cast<int>(chosen_.size()), model_.top_k, model_.groups,
                  model_.kept_groups);
  }
  for (const auto& row : model_.partners) partners_.emplace_back(row);
}

void ChoiceSampler::next(std::vector<int>& row, Random& random) {
  if (model_.stickiness > 0) {
    std::erase_if(row, [&](int) { return random.uniform() >= model_.stickiness; });
  } else {
    row.clear();
  }
  const bool kept = !row.empty();
  const bool needs_anchor = model_.groups == 1 || model_.affinity > 0;
  int anchor = -1;
  if (kept) {
    anchor = row[random.below(static_cast<std::uint32_t>(row.size()))];
  } else if (needs_anchor) {
    anchor = popularity_.draw(random);
  }
  // A gate limits its groups by all choices together, so it makes them all, the first included.
  if (gate_) return gate_->choose(row, gate_weights(anchor), random);
  if (!kept) row.push_back(anchor);
  choose(row, anchor, random);
}

void ChoiceSampler::choose(std::vector<int>& row, int anchor, Random& random) {
  for (const int e : row) chosen_[e] = 1;
  while (static_cast<int>(row.size()) < model_.top_k) {
    int expert = draw(anchor, random);
    for (int i = 0; i < patience && chosen_[expert]; ++i) {
      expert = draw(anchor, random);
    }
    if (chosen_[expert]) expert = draw_exactly(anchor, random);
    chosen_[expert] = 1;
    row.push_back(expert);
  }
  for (const int e : row) chosen_[e] = 0;
}

const std::vector<double>& ChoiceSampler::partners_of(int anchor) const {
  return model_.partners[model_.partner_row[anchor]];
}

double ChoiceSampler::weight(int expert, int anchor) const {
  const auto e = static_cast<std::size_t>(expert);
  if (model_.affinity == 0) return model_.popularity[e];
  return (1 - model_.affinity) * model_.popularity[e] + model_.affinity * partners_of(anchor)[e];
}

int ChoiceSampler::draw(int anchor, Random& random) const {
  if (model_.affinity > 0 && random.uniform() < model_.affinity) {
    return partners_[model_.partner_row[anchor]].draw(random);
  }
  return popularity_.draw(random);
}

/// One draw over the experts that are not chosen. If none of them has any weight, by popularity,
/// and if none is popular, evenly: a row is always full.
int ChoiceSampler::draw_exactly(int anchor, Random& random) const {
  const auto try_draw = [&](auto weight_of) {
    double sum = 0;
    for (std::size_t e = 0; e < chosen_.size(); ++e) {
      if (!chosen_[e]) sum += weight_of(static_cast<int>(e));
    }
    if (sum <= 0) return -1;
    double left = random.uniform() * sum;
    int last = -1;  // rounding may leave a rest behind the last expert: it goes there
    for (std::size_t e = 0; e < chosen_.size(); ++e) {
      const double w = chosen_[e] ? 0 : weight_of(static_cast<int>(e));
      if (w <= 0) continue;
      last = static_cast<int>(e);
      if ((left -= w) < 0) break;
    }
    return last;
  };
  int expert = try_draw([&](int e) { return weight(e, anchor); });
  if (expert < 0) {
    expert = try_draw([&](int e) { return model_.popularity[e]; });
  }
  return expert >= 0 ? expert : try_draw([](int) { return 1.0; });
}

const GroupGate::Weights& ChoiceSampler::gate_weights(int anchor) {
  const bool alike = model_.affinity == 0;
  auto& ready = gate_weights_[alike ? 0 : static_cast<std::size_t>(model_.partner_row[anchor])];
  if (ready.weight.empty()) {
    std::vector<double> weights;
    const auto experts = static_cast<double>(chosen_.size());
    for (std::size_t e = 0; e < chosen_.size(); ++e) {
      weights.push_back(weight(static_cast<int>(e), anchor) * experts);
    }
    ready = gate_->ready(std::move(weights));
  }
  return ready;
}

}  // namespace moesim
