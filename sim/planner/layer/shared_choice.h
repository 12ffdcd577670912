// SPDX-License-Identifier: Apache-2.0
// The shared expert as one more choice of every token.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/mechanism/routing.h"

namespace moesim {

/// Adds to the choices of a layer's tokens that of the expert behind the last one.
class SharedChoice {
 public:
  /// `experts`: routed ones, 0 .. experts - 1.
  explicit SharedChoice(int experts) : shared_(static_cast<std::uint16_t>(experts)) {}
  /// The same tokens with top_k + 1 choices, the added one last, as ids of 2 bytes. The result
  /// stays valid until the next call.
  RoutedTokens add_to(const RoutedTokens& tokens);

 private:
  std::uint16_t shared_;
  std::vector<std::uint16_t> ids_;  // [token][k]
  Batch batch_;                     // one run per rank
};

}  // namespace moesim
