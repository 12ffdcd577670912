// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/iteration/paged_stash.h"

#include <fmt/format.h>

#include "sim/base/rounding.h"
#include "sim/base/unsuitable.h"

namespace moesim {
namespace {

/// The least figure of two decimals that is large enough.
double enough(std::int64_t rows, double mean) {
  return static_cast<double>(rounded_up(static_cast<double>(rows) / mean * 100)) / 100;
}

}  // namespace

std::int64_t PagedStash::buffer_rows(double mean) const { return rounded_up(rank_capacity * mean); }

std::int64_t PagedStash::stash_rows(double mean) const {
  return paged(rounded_down(factor * mean));
}

void PagedStash::check_buffer(std::int64_t rows, double mean, int layer) const {
  if (rows <= buffer_rows(mean)) return;
  throw Unsuitable(
      fmt::format("a rank's experts get {} rows in layer {}, their buffer has room for "
                  "{} (rank_capacity {:g})",
                  rows, layer, buffer_rows(mean), rank_capacity),
      fmt::format("paged_stash.rank_capacity: {:g} would fit; or "
                  "policy.routing={{kind: rank-capacity, factor: {:g}}}, which drops",
                  enough(rows, mean), rank_capacity));
}

void PagedStash::check_stash(std::int64_t rows, double mean, int stage) const {
  if (rows <= stash_rows(mean)) return;
  throw Unsuitable(
      fmt::format("the paged stash overflows: a GPU of pipeline stage {} keeps {} rows "
                  "in whole pages, it has {} (factor {:g})",
                  stage, rows, stash_rows(mean), factor),
      fmt::format("paged_stash.factor: {:g} would fit", enough(rows, mean)));
}

PagedStash read_paged_stash(const YamlValue& value) {
  const YamlMap map = value.map();
  PagedStash stash;
  stash.rank_capacity = map.number("rank_capacity", {1, 1000}, stash.rank_capacity);
  stash.factor = map.number("factor", {0.01, 1000}, stash.factor);
  stash.page = map.integer("page", {1, 1 << 20}, stash.page);
  return stash;
}

}  // namespace moesim
