// SPDX-License-Identifier: Apache-2.0
// The recorded choices as they are.
#include "sim/mechanism/mechanisms.h"

namespace moesim {
namespace {

class Identity final : public Routing {
 public:
  RoutedTokens apply(const RecordedRouting& recorded, RoutingChange&) override {
    return {recorded.batch, recorded.step.ids(recorded.layer)};
  }
};

}  // namespace

RoutingMaker read_identity(const YamlMap&) {
  return [](const RoutingContext&) { return std::make_unique<Identity>(); };
}

}  // namespace moesim
