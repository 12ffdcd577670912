// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/label.h"

#include <vector>

namespace moesim {
namespace {

constexpr Pass both_passes[] = {Pass::forward, Pass::backward};

std::vector<Label> labels_of_all_types() {
  std::vector<Label> labels;
  for (int kind = 0; kind < op_kind_count; ++kind) {
    for (int role = 0; role < role_count; ++role) {
      for (const Pass pass : both_passes) {
        labels.emplace_back(name_of({static_cast<OpKind>(kind), static_cast<Role>(role), pass}));
      }
    }
  }
  return labels;
}

}  // namespace

const Label& type_label(const OpType& type) {
  static const std::vector<Label> labels = labels_of_all_types();
  const auto at = [](auto value) { return static_cast<std::size_t>(value); };
  const std::size_t of_kind = at(type.kind) * role_count + at(type.role);
  return labels.at(of_kind * std::size(both_passes) + at(type.pass));
}

}  // namespace moesim
