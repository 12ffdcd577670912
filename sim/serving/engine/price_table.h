// SPDX-License-Identifier: Apache-2.0
// Prices that are reused: exact ones at the points of a grid, and between them by interpolation.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <map>

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
  bool all_ranks_join = true;  // those without work compute one token
  /// The first passes, which are not reused: short runs have no more, and would price about as many
  /// points.
  std::int64_t exact_passes = 0;
};

/// How far the table was from the exact prices where both were computed, relative to these.
struct PriceErrors {
  std::int64_t checks = 0;
  double off = 0, most = 0;     // of |table / exact - 1|: sum and largest
  double table = 0, exact = 0;  // sums of times, s

  void add(double of_table, double of_exact);
  PriceErrors& operator+=(const PriceErrors& other);
  double mean() const { return checks > 0 ? off / static_cast<double>(checks) : 0; }
  /// Of all times together, with its sign.
  double of_sum() const { return checks > 0 ? table / exact - 1 : 0; }
};

/// Of passes with prompts, and of the others: a run has far fewer of the former.
struct PassErrors {
  PriceErrors prompts, decodes;

  PassErrors& operator+=(const PassErrors& other);
  PriceErrors all() const { return PriceErrors(prompts) += decodes; }
  /// The mean of the kind that is further off.
  double worse_mean() const { return std::max(prompts.mean(), decodes.mean()); }
};

/// A pass is priced as a mixture of at most eight grid points around its shape (linear on the
/// simplices of Kuhn's triangulation: as many points as axes and one); each point is priced once,
/// by a batch whose ranks are alike but for the fullest. Points of passes of unlike kinds are not
/// mixed, nor are those of passes whose parts take turns and of others. What that leaves out: which
/// contexts are on which rank, and whose tokens of a recorded step they are.
class PriceTable : public StepPrices {
 public:
  PriceTable(StepPrices& exact, const PriceTableOptions& options)
      : exact_(exact), options_(options) {}

  StepPrice price(const ServingBatch& batch, const PassKind& kind) override;
  RecordedStep step_of(std::int64_t request) const override { return exact_.step_of(request); }
  Rebalancing moving(std::int64_t before, std::int64_t after) override {
    return exact_.moving(before, after);
  }
  const PassErrors& errors() const { return errors_; }
  /// Exact prices that were asked for, without checks.
  std::int64_t points() const { return std::ssize(prices_) + exact_passes_; }
  std::int64_t asked() const { return asked_[0] + asked_[1]; }

 private:
  bool checks(std::int64_t pass) const;
  /// The number of a grid value on each axis, of passes of one kind.
  struct Point {
    std::array<std::int32_t, shape_axes> at{};
    PassKind kind;
    bool splits = false;  // their parts take turns
    auto operator<=>(const Point&) const = default;
  };
  int steps_of(std::size_t axis) const;
  double grid_value(std::size_t axis, std::int32_t number) const;
  std::int32_t grid_number(std::size_t axis, double value) const;
  const StepPrice& price_at(const Point& point, std::size_t ranks);
  StepPrice interpolated(const BatchShape& shape, std::size_t ranks, const PassKind& kind,
                         bool splits);

  StepPrices& exact_;
  PriceTableOptions options_;
  std::map<Point, StepPrice> prices_;
  std::array<std::int64_t, 2> asked_{};  // passes without prompts, and with some
  std::int64_t exact_passes_ = 0;        // that were priced as such
  PassErrors errors_;
};

}  // namespace moesim
