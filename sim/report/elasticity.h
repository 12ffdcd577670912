// SPDX-License-Identifier: Apache-2.0
// What a resource is worth: the time of the same plan when it is a little larger.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "sim/print/table.h"

namespace moesim {

/// The plan simulated once more with one resource changed: rates of `factor`, times of 1 /
/// `factor`.
struct Elasticity {
  std::string resource;  // "nic.bandwidth"
  double factor = 1;     // how many times as good
  Seconds before, after;

  double change() const { return after / before - 1; }  // of the time
  bool operator==(const Elasticity&) const = default;
};

/// One line per resource, the largest effect first; those without any are named below.
Printout elasticity_table(const std::vector<Elasticity>& list);

nlohmann::ordered_json elasticities_json(const std::vector<Elasticity>& list);

}  // namespace moesim
