// SPDX-License-Identifier: Apache-2.0
// What a pass of a serving engine costs: the engine only knows this interface.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
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

/// Which recorded step tokens choose as in.
struct RecordedStep {
  std::int64_t number = 0;  // among those of the run
  /// So many had begun with it. Steps that are played again count again in the second round, and no
  /// more in later ones.
  std::int64_t begun = 0;
};

/// What a pass is next to its batch.
struct PassKind {
  bool eager = false;         // no graph runs it: the host issues each kernel
  std::int64_t step = 0;      // RecordedStep::number of its tokens
  std::int64_t balanced = 0;  // experts are where a balancer puts them that has seen so many begin
  auto operator<=>(const PassKind&) const = default;
};

/// What a new placement of experts takes.
struct Rebalancing {
  Seconds stall{};     // by which a pass is longer
  bool moved = false;  // some expert is elsewhere
};

class StepPrices {
 public:
  virtual ~StepPrices() = default;
  /// The pass that runs this batch; never called with a batch without tokens.
  virtual StepPrice price(const ServingBatch& batch, const PassKind& kind) = 0;
  /// Whether parts of that batch take turns.
  virtual bool splits(const ServingBatch& /*batch*/) const { return false; }
  /// The same pass where parts take turns, or none do, whatever its batch says.
  virtual StepPrice price_of(const ServingBatch& batch, const PassKind& kind, bool /*splits*/) {
    return price(batch, kind);
  }
  /// That which the tokens of a request are of.
  virtual RecordedStep step_of(std::int64_t /*request*/) const { return {}; }
  /// Of a pass in which experts move, by PassKind::balanced before and after.
  virtual Rebalancing moving(std::int64_t /*before*/, std::int64_t /*after*/) { return {}; }
};

}  // namespace moesim
