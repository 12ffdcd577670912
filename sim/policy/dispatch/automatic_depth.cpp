// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/dispatch/automatic_depth.h"

#include <utility>

#include "sim/policy/depth_model.h"

namespace moesim {
namespace {

class AutomaticDepth final : public Dispatch {
 public:
  AutomaticDepth(DepthModel model, std::vector<std::unique_ptr<Dispatch>> by_depth)
      : model_(std::move(model)), by_depth_(std::move(by_depth)) {}

  const Dispatch& choose(const LayerTokens& tokens) const override {
    return *by_depth_[static_cast<std::size_t>(model_.best(tokens) - 1)];
  }

  // What follows is asked of the chosen dispatch; the flat one answers for all of them.
  int phases() const override { return by_depth_[0]->phases(); }
  std::string phase_name(int phase) const override { return by_depth_[0]->phase_name(phase); }
  const Communicators& communicators(int phase) const override {
    return by_depth_[0]->communicators(phase);
  }
  RowCounts count(const LayerTokens& tokens) const override { return choose(tokens).count(tokens); }
  std::vector<std::vector<RowMove>> rows(const LayerTokens& tokens) const override {
    return choose(tokens).rows(tokens);
  }

 private:
  DepthModel model_;
  std::vector<std::unique_ptr<Dispatch>> by_depth_;  // [d - 1]
};

}  // namespace

std::unique_ptr<Dispatch> automatic_depth(const DispatchContext& context,
                                          const Hierarchy& hierarchy, bool dedup,
                                          CountReading reading,
                                          std::vector<std::unique_ptr<Dispatch>> by_depth) {
  return std::make_unique<AutomaticDepth>(
      DepthModel(context.topology,
                 nesting_of(context.topology, hierarchy, context.ep,
                            "'dispatch.depth' cannot be automatic"),
                 dedup ? Copies::per_group : Copies::per_choice, reading,
                 context.model.row_bytes()),
      std::move(by_depth));
}

}  // namespace moesim
