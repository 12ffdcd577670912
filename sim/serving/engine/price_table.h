// SPDX-License-Identifier: Apache-2.0
// Prices that are reused: exact ones at the points of a grid, and between them by interpolation.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "sim/serving/engine/batch_shape.h"
#include "sim/serving/engine/step_prices.h"

namespace moesim {

struct PriceTableOptions {
  std::int64_t decode_tokens = 1;  // of a sequence per decode pass: 1 + drafts
  int per_octave = 2;              // grid values per power of two of tokens and contexts
  double least_context = 64;       // below it the only grid value is 0
  /// Passes; of one in so many, and of passes 1, 2, 4 ... before, the exact price is computed, too.
  /// 0: never.
  std::int64_t check_every = 256;
};

/// How far the table was from the exact prices where both were computed, relative to these.
struct PriceErrors {
  std::int64_t checks = 0;
  double mean = 0, most = 0;  // of |table / exact - 1|
  double sum = 0;             // of all times together, with its sign
};

/// A pass is priced as a mixture of at most seven grid points around its shape (linear on the
/// simplices of Kuhn's triangulation: as many points as axes and one); each point is priced once,
/// by a batch whose ranks are alike but for the fullest. What that leaves out: which contexts are
/// on which rank, and whose tokens they are.
class PriceTable : public StepPrices {
 public:
  PriceTable(StepPrices& exact, const PriceTableOptions& options)
      : exact_(exact), options_(options) {}

  StepPrice price(const ServingBatch& batch) override;
  PriceErrors errors() const;
  std::int64_t points() const { return static_cast<std::int64_t>(prices_.size()); }
  std::int64_t asked() const { return asked_; }

 private:
  bool checks(std::int64_t pass) const;
  /// The number of a grid value on each axis.
  using Point = std::array<std::int32_t, shape_axes>;
  int steps_of(std::size_t axis) const;
  double grid_value(std::size_t axis, std::int32_t number) const;
  std::int32_t grid_number(std::size_t axis, double value) const;
  const StepPrice& price_at(const Point& point, std::size_t ranks);
  StepPrice interpolated(const ServingBatch& batch);

  StepPrices& exact_;
  PriceTableOptions options_;
  std::map<Point, StepPrice> prices_;
  std::int64_t asked_ = 0;
  std::vector<std::array<double, 2>> checked_;  // table, exact (s)
};

}  // namespace moesim
