// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/routing/rewrite.h"

#include <algorithm>
#include <numeric>

namespace moesim {

void RewrittenIds::copy(const RecordedRouting& recorded) {
  const IdRows ids = recorded.step.ids(recorded.layer);
  top_k_ = ids.top_k();
  batch_ = {recorded.batch.step, {}};
  std::int64_t tokens = 0;
  for (const auto& runs : recorded.batch.ranks) {
    const TokenRun all{tokens, tokens_of(runs)};
    batch_.ranks.push_back({all});
    tokens += all.count;
  }
  ids_.resize(static_cast<std::size_t>(tokens * top_k_));
  for_each_batch_token(recorded.batch, [&](const BatchToken& token) {
    const auto to = row(token.at);
    for (int k = 0; k < top_k_; ++k) {
      to[static_cast<std::size_t>(k)] = static_cast<std::uint16_t>(ids.at(token.recorded, k));
    }
  });
}

void RewrittenIds::count_change(const RecordedRouting& recorded, RoutingChange& change) {
  const IdRows ids = recorded.step.ids(recorded.layer);
  for_each_batch_token(recorded.batch, [&](const BatchToken& token) {
    for (const std::uint16_t id : row(token.at)) {
      if (id == IdRows::dropped) {
        ++change.dropped_choices;
        continue;
      }
      bool recorded_too = false;
      for (int k = 0; k < top_k_ && !recorded_too; ++k) {
        recorded_too = ids.at(token.recorded, k) == id;
      }
      change.replaced_choices += recorded_too ? 0 : 1;
    }
  });
}

void rank_choices(const RecordedRouting& recorded, std::int64_t token, std::vector<int>& places) {
  places.resize(static_cast<std::size_t>(recorded.step.ids(recorded.layer).top_k()));
  std::iota(places.begin(), places.end(), 0);
  if (!recorded.step.has_weights()) return;
  std::stable_sort(places.begin(), places.end(), [&](int a, int b) {
    return recorded.step.weight(recorded.layer, token, a) >
           recorded.step.weight(recorded.layer, token, b);
  });
}

std::vector<ExpertId> most_chosen(const RecordedRouting& recorded, int experts) {
  const IdRows ids = recorded.step.ids(recorded.layer);
  std::vector<std::int64_t> load(static_cast<std::size_t>(experts));
  for_each_batch_token(recorded.batch, [&](const BatchToken& token) {
    for (int k = 0; k < ids.top_k(); ++k) {
      ++load[static_cast<std::size_t>(ids.at(token.recorded, k))];
    }
  });
  std::vector<ExpertId> order;
  for (int e = 0; e < experts; ++e) order.emplace_back(e);
  std::stable_sort(order.begin(), order.end(),
                   [&](ExpertId a, ExpertId b) { return load[a.index()] > load[b.index()]; });
  return order;
}

}  // namespace moesim
