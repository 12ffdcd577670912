// SPDX-License-Identifier: Apache-2.0
// The placement of dense models, whose plans have no layer to ask it for.
#include <fmt/format.h>

#include <stdexcept>

#include "sim/base/figures.h"
#include "sim/base/unsuitable.h"
#include "sim/mechanism/mechanisms.h"

namespace moesim {
namespace {

class NoExperts final : public Placer {
 public:
  LayerDecision decide(const LayerRoutingNow&) override {
    throw std::logic_error("a dense model has no experts to place");
  }
  bool looks() const override { return false; }
};

}  // namespace

PlacementMaker read_no_placement(const YamlMap&) {
  return [](const PlacementContext& context) {
    if (context.experts > 0) {
      throw Unsuitable(fmt::format("'none' places nothing, and the model '{}' has {}",
                                   context.model.name, counted(context.experts, "expert")),
                       "a placement of experts: moesim list mechanisms");
    }
    return std::make_unique<NoExperts>();
  };
}

}  // namespace moesim
