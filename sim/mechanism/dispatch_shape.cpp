// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/dispatch_shape.h"

#include <algorithm>
#include <utility>

namespace moesim {
namespace {

std::size_t wire_index(Stage stage, Pass pass) {
  return (stage == Stage::combine ? 2u : 0u) + (pass == Pass::backward ? 1u : 0u);
}

}  // namespace

DispatchShape::DispatchShape(const MoeModel& model) {
  for (WireFormat& format : wires) format.row = model.row_bytes();
}

PhaseShape& DispatchShape::add(std::string name, Communicators communicators) {
  return phases.emplace_back(PhaseShape{std::move(name), std::move(communicators), size() - 1});
}

WireFormat& DispatchShape::wire(Stage stage, Pass pass) { return wires[wire_index(stage, pass)]; }

const WireFormat& DispatchShape::wire(Stage stage, Pass pass) const {
  return wires[wire_index(stage, pass)];
}

PhaseOrder::PhaseOrder(const DispatchShape& shape) : continued_by(shape.phases.size()) {
  for (int phase = 0; phase < shape.size(); ++phase) {
    const int before = shape.phase(phase).previous;
    (before < 0 ? first : continued_by[static_cast<std::size_t>(before)]).push_back(phase);
  }
}

std::size_t PhaseOrder::most_hops(const std::vector<int>& phases) const {
  std::size_t most = 0;
  for (const int phase : phases) {
    most = std::max(most, 1 + most_hops(continued_by[static_cast<std::size_t>(phase)]));
  }
  return most;
}

}  // namespace moesim
