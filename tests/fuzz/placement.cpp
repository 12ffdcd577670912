// SPDX-License-Identifier: Apache-2.0
// Placement files: what is read of one has a slot for every expert.
#include "sim/mechanism/placement/given/placement_file.h"
#include "tests/fuzz/target.h"

namespace moesim::fuzz {
namespace {

constexpr int experts = 4, ranks = 2;

void read_and_place(std::string_view bytes) {
  const PlacementFile file = parse_placement(std::string(bytes), "a");
  MoeModel model;
  model.name = "four";
  model.layers = 4;
  model.moe_layers = {1, 2, 3};
  model.experts = experts;
  for (const SlotTable& table : slots_in(file, model, model.moe_layers, ranks).tables) {
    require(table.size() == ranks, "slots are not those of the ranks");
    Placement(experts, table);  // throws unless every expert has one
  }
}

}  // namespace

const Target placement_target{"placement", read_and_place};

}  // namespace moesim::fuzz
