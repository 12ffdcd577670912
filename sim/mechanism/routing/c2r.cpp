// SPDX-License-Identifier: Apache-2.0
// Collaboration-constrained routing (C2R, NAACL 2025, UNITES-Lab/c2r-moe): a token's other experts
// are among the first partners of its best one.
//
// The authors take the best scores among the partners; traces record only scores of chosen experts.
// Our approximation: choices among the partners stay, each other one becomes the partner that goes
// most with the best expert and is not chosen yet. The profile is the first recorded step in which
// a layer is seen.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/placement/affinity/co_activation.h"
#include "sim/mechanism/routing/rewrite.h"

namespace moesim {
namespace {

class C2R final : public Routing {
 public:
  C2R(const RoutingContext& context, int partners)
      : experts_(context.experts), partners_(partners) {
    const int least = context.model.top_k - 1;
    if (partners_ < least || partners_ > experts_ - 1) {
      throw Error(fmt::format("'routing.partners' of {} is not within {}..{}", partners_, least,
                              experts_ - 1),
                  "top-k minus one up to all other experts");
    }
  }

  RoutedTokens apply(const RecordedRouting& recorded, RoutingChange& change) override {
    ids_.copy(recorded);
    auto known = profiles_.find(recorded.layer);
    if (known == profiles_.end()) {
      const auto co = co_choices(recorded.step.ids(recorded.layer), experts_);
      known = profiles_.emplace(recorded.layer, c2r_partners(co)).first;
    }
    for_each_batch_token(recorded.batch, [&](const BatchToken& token) {
      constrain(recorded, token, known->second);
    });
    ids_.count_change(recorded, change);
    return ids_.view();
  }

 private:
  void constrain(const RecordedRouting& recorded, const BatchToken& token,
                 const Partners& profile) {
    rank_choices(recorded, token.recorded, places_);
    const auto row = ids_.row(token.at);
    const auto& order = profile[row[static_cast<std::size_t>(places_[0])]];
    const auto last = order.begin() + partners_;
    auto next = order.begin();
    for (std::size_t i = 1; i < places_.size(); ++i) {
      auto& id = row[static_cast<std::size_t>(places_[i])];
      if (std::find(order.begin(), last, ExpertId(id)) != last) continue;
      while (std::find(row.begin(), row.end(), next->value) != row.end()) ++next;
      id = static_cast<std::uint16_t>(next->value);
    }
  }

  int experts_;
  int partners_;
  RewrittenIds ids_;
  std::map<int, Partners> profiles_;  // [layer]
  std::vector<int> places_;
};

}  // namespace

// partners: top_t (default: half of the experts, the authors' 30 of 60).
RoutingMaker read_c2r(const YamlMap& params) {
  const auto partners = static_cast<int>(params.integer("partners", {0, 65535}, 0));
  return [=](const RoutingContext& context) {
    return std::make_unique<C2R>(context, partners > 0 ? partners : context.experts / 2);
  };
}

}  // namespace moesim
