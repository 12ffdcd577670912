// SPDX-License-Identifier: Apache-2.0
// The one rule of what is lossy: a policy that computes something else than the model does in the
// precision that model or scenario states. Whoever ranks policies asks here.
#pragma once

#include <cstdint>
#include <string>

namespace moesim {

/// How rows are written on the wire, an element of them.
struct RowForm {
  int bits = 0;           // 0: as the model's activations
  std::string name = {};  // "fp8", "8-bit"
  bool operator==(const RowForm&) const = default;
};

/// What one case loses.
struct Loss {
  std::int64_t choices = 0;   // of all tokens, layers and steps
  std::int64_t dropped = 0;   // of these
  std::int64_t replaced = 0;  // of these, by other experts
  RowForm rows = {};          // that they are rounded to below what is stated; 0 bits: they are not
  double compression = 1;     // of the expert weights that compute

  /// Whether it computes something else.
  bool any() const;
  double dropped_part() const;
  double replaced_part() const;
  /// "drops 18 %", "replaces 3 %", "fp8 rows", "compresses 50x", joined by commas; empty if nothing
  /// is lost.
  std::string text() const;
  bool operator==(const Loss&) const = default;
};

}  // namespace moesim
