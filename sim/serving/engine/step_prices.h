// SPDX-License-Identifier: Apache-2.0
// What a pass of a serving engine costs: the engine only knows this interface.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "sim/base/types.h"
#include "sim/model/serving_batch.h"

namespace moesim {

/// Where the time of a pass is spent.
enum class PassPart { attention, experts, exchange, wait, other };
inline constexpr std::size_t pass_parts = 5;
inline const std::vector<std::string> pass_part_names = {"attention", "experts", "exchange", "wait",
                                                         "other"};

struct StepPrice {
  Seconds time{};
  std::array<Seconds, pass_parts> parts{};  // of the critical path; all zero: not known
};

class StepPrices {
 public:
  virtual ~StepPrices() = default;
  /// The pass that runs this batch; never called with a batch without tokens. `eager`: no graph
  /// runs it, the host issues each kernel.
  virtual StepPrice price(const ServingBatch& batch, bool eager) = 0;
  /// Whether parts of that batch take turns.
  virtual bool splits(const ServingBatch& /*batch*/) const { return false; }
  /// The same pass where parts take turns, or none do, whatever its batch says.
  virtual StepPrice price_of(const ServingBatch& batch, bool eager, bool /*splits*/) {
    return price(batch, eager);
  }
};

}  // namespace moesim
