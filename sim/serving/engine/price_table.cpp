// SPDX-License-Identifier: Apache-2.0
#include "sim/serving/engine/price_table.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <numeric>

namespace moesim {
namespace {

bool is_context(std::size_t axis) {
  return axis == static_cast<std::size_t>(ShapeAxis::context) ||
         axis == static_cast<std::size_t>(ShapeAxis::prompt_context);
}

/// How much of each of two prices.
void add_share(StepPrice& sum, const StepPrice& price, double share) {
  sum.time += price.time * share;
  for (std::size_t part = 0; part < pass_parts; ++part) {
    sum.parts[part] += price.parts[part] * share;
  }
}

}  // namespace

/// What times hardly bend along has one step per octave: what prompts attend to, and how much
/// fuller the fullest rank is.
int PriceTable::steps_of(std::size_t axis) const {
  const auto of = static_cast<ShapeAxis>(axis);
  const bool bends = of == ShapeAxis::sequences || of == ShapeAxis::context ||
                     of == ShapeAxis::prompt_tokens || of == ShapeAxis::prompts;
  return bends ? options_.per_octave : 1;
}

/// 0, then powers of two with equal steps between them.
double PriceTable::grid_value(std::size_t axis, std::int32_t number) const {
  if (number == 0) return 0;
  const double first = is_context(axis) ? options_.least_context : 1;
  const int steps = steps_of(axis), octave = (number - 1) / steps, step = (number - 1) % steps;
  return std::ldexp(first * (1 + static_cast<double>(step) / steps), octave);
}

/// The largest grid value that is not above.
std::int32_t PriceTable::grid_number(std::size_t axis, double value) const {
  const double first = is_context(axis) ? options_.least_context : 1;
  if (value < first) return 0;
  int octave = 0;
  const double mantissa = 2 * std::frexp(value / first, &octave);
  const int steps = steps_of(axis), step = static_cast<int>((mantissa - 1) * steps);
  return 1 + (octave - 1) * steps + std::min(step, steps - 1);
}

const StepPrice& PriceTable::price_at(const Point& point, std::size_t ranks) {
  const auto [at, is_new] = prices_.try_emplace(point);
  if (is_new) {
    BatchShape shape{};
    for (std::size_t axis = 0; axis < shape_axes; ++axis) {
      shape[axis] = grid_value(axis, point.at[axis]);
    }
    const ServingBatch batch =
        batch_of(shape, {ranks, options_.all_ranks_join}, options_.decode_tokens);
    at->second = exact_.price_of(batch, point.kind, point.splits);
  }
  return at->second;
}

StepPrice PriceTable::interpolated(const BatchShape& shape, std::size_t ranks, const PassKind& kind,
                                   bool splits) {
  Point point{{}, kind, splits};
  std::array<double, shape_axes> rest{};
  for (std::size_t axis = 0; axis < shape_axes; ++axis) {
    point.at[axis] = grid_number(axis, shape[axis]);
    const double below = grid_value(axis, point.at[axis]);
    rest[axis] = (shape[axis] - below) / (grid_value(axis, point.at[axis] + 1) - below);
    if (rest[axis] < 1e-9) rest[axis] = 0;
  }
  std::array<std::size_t, shape_axes> order{};
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return rest[a] > rest[b]; });
  StepPrice price;
  double before = 1;
  for (const std::size_t axis : order) {
    if (before > rest[axis]) {
      add_share(price, price_at(point, ranks), before - rest[axis]);
    }
    before = rest[axis];
    if (before == 0) return price;
    ++point.at[axis];
  }
  add_share(price, price_at(point, ranks), before);
  return price;
}

/// The middle one of each interval; of the first one more, so that short runs have several.
bool PriceTable::checks(std::int64_t pass) const {
  const std::int64_t every = options_.check_every;
  if (every == 0) return false;
  const bool early = pass < every && std::has_single_bit(static_cast<std::uint64_t>(pass));
  return early || pass % every == every / 2;
}

StepPrice PriceTable::price(const ServingBatch& batch, const PassKind& kind) {
  if (exact_passes_ < options_.exact_passes) {
    ++exact_passes_;
    return exact_.price(batch, kind);
  }
  const BatchShape shape = shape_of(batch, options_.decode_tokens);
  StepPrice price = interpolated(shape, batch.ranks.size(), kind, exact_.splits(batch));
  const bool prompts = shape[static_cast<std::size_t>(ShapeAxis::prompt_tokens)] > 0;
  if (checks(asked_[prompts ? 1 : 0]++)) {
    (prompts ? errors_.prompts : errors_.decodes)
        .add(price.time.value, exact_.price(batch, kind).time.value);
  }
  return price;
}

void PriceErrors::add(double of_table, double of_exact) {
  const double error = std::abs(of_table / of_exact - 1);
  *this += {1, error, error, of_table, of_exact};
}

PriceErrors& PriceErrors::operator+=(const PriceErrors& other) {
  checks += other.checks;
  off += other.off;
  most = std::max(most, other.most);
  table += other.table;
  exact += other.exact;
  return *this;
}

PassErrors& PassErrors::operator+=(const PassErrors& other) {
  prompts += other.prompts;
  decodes += other.decodes;
  return *this;
}

}  // namespace moesim
