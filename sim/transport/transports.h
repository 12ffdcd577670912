// SPDX-License-Identifier: Apache-2.0
// What carries exchanges, for code that hands it on without a look at it.
#pragma once

#include <memory>

namespace moesim {

struct Transport;
using TransportPtr = std::shared_ptr<const Transport>;  // null: ideal

/// What carries a plan's exchanges.
struct Transports {
  TransportPtr tokens;  // of exchanges of tokens and what goes with them
  TransportPtr others;  // of parameters, gradients and activations
  bool operator==(const Transports&) const = default;
};

/// What carries one exchange.
struct Carrier {
  const Transport* transport = nullptr;  // ideal
  bool goes_on = false;                  // it belongs to a kernel that has started
  auto operator<=>(const Carrier&) const = default;
};

}  // namespace moesim
