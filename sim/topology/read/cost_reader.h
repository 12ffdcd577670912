// SPDX-License-Identifier: Apache-2.0
// The keys `price` and `power` of a topology file.
#pragma once

#include "sim/base/yaml.h"
#include "sim/topology/gpu_costs.h"

namespace moesim {

/// `price: 2.5 $/h` and `power: 700 W`, each of one GPU; both may be absent.
GpuCosts read_costs(const YamlMap& map);

}  // namespace moesim
