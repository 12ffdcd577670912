// SPDX-License-Identifier: Apache-2.0
// Every token takes the experts that follow those of the token before it: the fake balanced gate of
// NVIDIA-NeMo/Automodel (36044ad3, components/moe/layers.py).
#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/routing/rewrite.h"

namespace moesim {
namespace {

/// Token t has the experts (t x top_k + i) mod experts. So the choices of a token are on few GPUs.
class InTurn final : public Routing {
 public:
  explicit InTurn(int experts) : experts_(experts) {}
  RoutedTokens apply(const RecordedRouting& recorded, RoutingChange& change) override {
    ids_.copy(recorded);
    for_each_batch_token(recorded.batch, [&](const BatchToken& token) {
      const auto row = ids_.row(token.at);
      const auto top_k = static_cast<std::int64_t>(row.size());
      for (std::int64_t i = 0; i < top_k; ++i) {
        row[static_cast<std::size_t>(i)] =
            static_cast<std::uint16_t>((token.recorded * top_k + i) % experts_);
      }
    });
    ids_.count_change(recorded, change);
    return ids_.view();
  }

 private:
  std::int64_t experts_;
  RewrittenIds ids_;
};

}  // namespace

RoutingMaker read_in_turn(const YamlMap&) {
  return [](const RoutingContext& context) { return std::make_unique<InTurn>(context.experts); };
}

}  // namespace moesim
