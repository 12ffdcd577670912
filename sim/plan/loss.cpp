// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/loss.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace moesim {
namespace {

double fraction_of(std::int64_t some, std::int64_t all) {
  return all > 0 ? static_cast<double>(some) / static_cast<double>(all) : 0;
}

/// "18 %"; what is there is never called 0 %.
std::string in_percent(double fraction) {
  return fraction < 0.005 ? "<1 %" : fmt::format("{:.0f} %", 100 * fraction);
}

}  // namespace

bool Loss::any() const { return dropped > 0 || replaced > 0 || rows.bits > 0 || compression > 1; }

double Loss::dropped_part() const { return fraction_of(dropped, choices); }
double Loss::replaced_part() const { return fraction_of(replaced, choices); }

std::string Loss::text() const {
  std::vector<std::string> words;
  if (dropped > 0) words.push_back("drops " + in_percent(dropped_part()));
  if (replaced > 0) words.push_back("replaces " + in_percent(replaced_part()));
  if (rows.bits > 0) words.push_back(rows.name + " rows");
  if (compression > 1) words.push_back(fmt::format("compresses {:g}x", compression));
  return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace moesim
