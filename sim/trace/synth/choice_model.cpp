// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/synth/choice_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace moesim {
namespace {

/// Draws that may hit a chosen expert before the exact draw over the rest takes over.
constexpr int kPatience = 32;

/// Scores by the machine's own exp and log are nearer than this to the portable ones, by far:
/// what differs by more is decided by them, several times as fast.
constexpr double kUncertain = 1e-12;

}  // namespace

void normalise(std::vector<double>& weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& w : weights) w /= sum;
}

ChoiceSampler::ChoiceSampler(ChoiceModel model)
    : model_(std::move(model)),
      popularity_(model_.popularity),
      chosen_(model_.popularity.size()),
      uniform_(model_.popularity.size()),
      weight_(model_.popularity.size()),
      score_(model_.popularity.size()) {
  for (const auto& row : model_.partners) partners_.emplace_back(row);
}

void ChoiceSampler::next(std::vector<int>& row, Random& random) {
  if (model_.stickiness > 0)
    std::erase_if(row, [&](int) { return random.uniform() >= model_.stickiness; });
  else
    row.clear();
  const bool kept = !row.empty();
  const bool needs_anchor = model_.groups == 1 || model_.affinity > 0;
  int anchor = -1;
  if (kept)
    anchor = row[random.below(static_cast<std::uint32_t>(row.size()))];
  else if (needs_anchor)
    anchor = popularity_.draw(random);
  if (model_.groups > 1) return choose_by_groups(row, anchor, random);
  if (!kept) row.push_back(anchor);
  choose(row, anchor, random);
}

void ChoiceSampler::choose(std::vector<int>& row, int anchor, Random& random) {
  for (const int e : row) chosen_[static_cast<std::size_t>(e)] = 1;
  while (static_cast<int>(row.size()) < model_.top_k) {
    int expert = draw(anchor, random);
    for (int i = 0; i < kPatience && chosen_[static_cast<std::size_t>(expert)]; ++i)
      expert = draw(anchor, random);
    if (chosen_[static_cast<std::size_t>(expert)]) expert = draw_exactly(anchor, random);
    chosen_[static_cast<std::size_t>(expert)] = 1;
    row.push_back(expert);
  }
  for (const int e : row) chosen_[static_cast<std::size_t>(e)] = 0;
}

const std::vector<double>& ChoiceSampler::partners_of(int anchor) const {
  return model_
      .partners[static_cast<std::size_t>(model_.partner_row[static_cast<std::size_t>(anchor)])];
}

double ChoiceSampler::weight(int expert, int anchor) const {
  const auto e = static_cast<std::size_t>(expert);
  if (model_.affinity == 0) return model_.popularity[e];
  return (1 - model_.affinity) * model_.popularity[e] + model_.affinity * partners_of(anchor)[e];
}

int ChoiceSampler::draw(int anchor, Random& random) const {
  if (model_.affinity > 0 && random.uniform() < model_.affinity)
    return partners_[static_cast<std::size_t>(model_.partner_row[static_cast<std::size_t>(anchor)])]
        .draw(random);
  return popularity_.draw(random);
}

int ChoiceSampler::draw_exactly(int anchor, Random& random) const {
  const auto try_draw = [&](auto weight_of) {
    double sum = 0;
    for (std::size_t e = 0; e < chosen_.size(); ++e)
      if (!chosen_[e]) sum += weight_of(static_cast<int>(e));
    if (sum <= 0) return -1;
    double left = random.uniform() * sum;
    int last = -1;
    for (std::size_t e = 0; e < chosen_.size(); ++e) {
      const double w = chosen_[e] ? 0 : weight_of(static_cast<int>(e));
      if (w <= 0) continue;
      last = static_cast<int>(e);
      if ((left -= w) < 0) break;
    }
    return last;
  };
  int expert = try_draw([&](int e) { return weight(e, anchor); });
  if (expert < 0)
    expert = try_draw([&](int e) { return model_.popularity[static_cast<std::size_t>(e)]; });
  return expert >= 0 ? expert : try_draw([](int) { return 1.0; });
}

void ChoiceSampler::choose_by_groups(std::vector<int>& row, int anchor, Random& random) {
  const auto experts = static_cast<double>(score_.size());
  for (std::size_t e = 0; e < score_.size(); ++e) {
    uniform_[e] = random.uniform();
    weight_[e] = weight(static_cast<int>(e), anchor) * experts;
  }
  const std::vector<int> kept = row;
  score(kept, [](double x, double y) { return std::exp(y * std::log(x)); });
  if (take_best(row) > kUncertain) return;
  score(kept, portable_pow);
  take_best(row);
}

template <class Pow>
void ChoiceSampler::score(const std::vector<int>& kept, Pow pow) {
  for (std::size_t e = 0; e < score_.size(); ++e) {
    const double u = uniform_[e], w = weight_[e];
    score_[e] = w == 1 ? u : w > 0 && u > 0 ? pow(u, 1 / w) : 0;
  }
  for (const int e : kept) score_[static_cast<std::size_t>(e)] += 1;  // before all others
}

double ChoiceSampler::take_best(std::vector<int>& row) {
  const int size = static_cast<int>(score_.size()) / model_.groups;
  const int counted = std::max(1, model_.top_k / model_.kept_groups);
  best_.resize(static_cast<std::size_t>(counted));
  ranked_.clear();  // negative score, group: ties to the lowest group
  for (int g = 0; g < model_.groups; ++g) {
    const auto first = score_.begin() + g * size;
    std::partial_sort_copy(first, first + size, best_.begin(), best_.end(), std::greater<>());
    ranked_.emplace_back(-std::accumulate(best_.begin(), best_.end(), 0.0), g);
  }
  std::sort(ranked_.begin(), ranked_.end());
  double nearest = 1;  // to another outcome
  const auto last = ranked_.begin() + model_.kept_groups;
  if (last != ranked_.end()) nearest = last->first - (last - 1)->first;

  allowed_.clear();
  for (auto group = ranked_.begin(); group != last; ++group) {
    for (int e = group->second * size; e < (group->second + 1) * size; ++e)
      allowed_.emplace_back(-score_[static_cast<std::size_t>(e)], e);
  }
  const auto ordered = std::min(std::ssize(allowed_), std::ptrdiff_t{model_.top_k} + 1);
  std::partial_sort(allowed_.begin(), allowed_.begin() + ordered, allowed_.end());
  row.clear();
  for (std::ptrdiff_t k = 0; k < ordered; ++k) {
    const auto at = allowed_.begin() + k;
    if (k > 0) nearest = std::min(nearest, at->first - (at - 1)->first);
    if (k < model_.top_k) row.push_back(at->second);
  }
  return nearest;
}

}  // namespace moesim
