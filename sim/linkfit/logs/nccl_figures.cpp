// SPDX-License-Identifier: Apache-2.0
// What the bandwidths of a table tell: its collective, and whether times and ranks agree with them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/counted.h"
#include "sim/linkfit/logs/nccl_test.h"

namespace moesim {
namespace {

/// The row that prints bandwidths with the most digits, of which there is one.
const NcclRow& finest_row(const NcclTest& test) {
  return *std::ranges::max_element(test.rows, {}, &NcclRow::algbw);
}

/// Bus by algorithm bandwidth as printed; 0 if the table has none.
double bus_factor(const NcclTest& test) {
  const NcclRow& finest = finest_row(test);
  return finest.algbw > 0 ? finest.busbw / finest.algbw : 0;
}

/// The same by the collective and its ranks.
double bus_factor(const Setting& setting) {
  return link_bytes_per_byte({setting.collective, setting.ranks, 1}, LinkReach::host);
}

/// Sums and the like: bus bandwidths of all-reduces are nearly twice those of send/recv.
std::optional<Collective> of_reductions(const NcclTest& test, int ranks) {
  if (test.marks.rooted) return Collective::reduce;
  if (!test.marks.whole_count) return Collective::reduce_scatter;
  if (ranks == 2) return std::nullopt;  // both have the factor 1
  return bus_factor(test) > 1.15 ? Collective::all_reduce : Collective::sendrecv;
}

/// The ranks of a collective whose bus bandwidth is so many times its algorithm bandwidth; 0 if
/// any number has this factor.
double ranks_of_factor(Collective collective, double factor) {
  const double part = collective == Collective::all_reduce ? factor / 2 : factor;
  return factor == 1 || part >= 1 ? 0 : 1 / (1 - part);
}

}  // namespace

std::optional<Collective> collective_by_figures(const NcclTest& test, int ranks) {
  const NcclMarks& marks = test.marks;
  if (test.rows.empty() || bus_factor(test) == 0) return std::nullopt;
  if (marks.reduces) return of_reductions(test, ranks);
  if (marks.rooted) {
    return marks.whole_count ? std::optional(Collective::broadcast) : std::nullopt;
  }
  // Before 2.13 all-gathers had no column for it, and all-to-alls had nothing in theirs.
  if (!marks.redop_column) return Collective::all_gather;
  if (marks.blank_redop) return Collective::alltoall;
  // The results of an all-to-all in place are never checked.
  if (!marks.checked) return std::nullopt;
  return marks.checked_in_place ? Collective::all_gather : Collective::alltoall;
}

void check_row(const std::string& file, const Setting& setting, const NcclRow& row) {
  if (!(row.microseconds > 0 && std::isfinite(row.microseconds))) {
    throw error_in(file, "a time is not above 0", "run more iterations (-n)", row.line);
  }
  // Times are printed with 3 to 7 digits, bandwidths with 2 decimals.
  const double algbw = row.size / row.microseconds / 1e3;
  const auto agree = [](double printed, double computed) {
    return std::abs(printed - computed) <= 0.02 * computed + 0.011;
  };
  const char* hint =
      "columns are size (B), time (us), algbw and busbw (GB/s) as nccl-tests has them";
  if (!agree(row.algbw, algbw)) {
    throw error_in(file,
                   fmt::format("{} bytes in {} us are {:.2f} GB/s, but algbw is {}", row.size,
                               row.microseconds, algbw, row.algbw),
                   hint, row.line);
  }
  const double busbw = algbw * bus_factor(setting);
  if (!agree(row.busbw, busbw)) {
    throw error_in(
        file,
        fmt::format("algbw {} of {} with {} is a busbw of {:.2f}, not {}", row.algbw,
                    name_of(setting.collective), counted(setting.ranks, "rank"), busbw, row.busbw),
        hint, row.line);
  }
}

bool figures_fit(const NcclTest& test, const Setting& setting) {
  if (test.rows.empty() || bus_factor(test) == 0) return true;
  const NcclRow& finest = finest_row(test);
  const double factor = bus_factor(setting);
  constexpr double printed = 0.006, digits = 2e-4;  // two decimals, or fewer of many digits
  return std::abs(finest.busbw - finest.algbw * factor) <=
         printed * (1 + factor) + digits * finest.busbw;
}

void check_list(const std::string& file, const Setting& setting, const NcclTest& test) {
  if (test.ranks.ranks() != setting.ranks || figures_fit(test, setting)) return;
  Setting ran = setting;
  ran.ranks = static_cast<int>(
      std::lround(std::min(1e6, ranks_of_factor(setting.collective, bus_factor(test)))));
  if (ran.ranks <= setting.ranks || !figures_fit(test, ran)) return;
  const NcclRow& finest = finest_row(test);
  throw error_in(
      file,
      fmt::format("algbw {} and busbw {} are not of {}, but of some {}: the list of "
                  "ranks is cut",
                  finest.algbw, finest.busbw, counted(setting.ranks, "rank"), ran.ranks),
      fmt::format("give all lines '#  Rank ...', or --ranks {} and --hosts N", ran.ranks),
      test.line);
}

void check_ranks(const std::string& file, const Setting& setting, const NcclTest& test) {
  if (const std::string groups = test.ranks.unlike_groups(); !groups.empty()) {
    throw error_in(file, fmt::format("ran in groups that are not alike: {}", groups),
                   "split the ranks into equal groups, and give all lines '#  Rank ...'",
                   test.line);
  }
  if (figures_fit(test, setting)) return;
  const NcclRow& finest = finest_row(test);
  const double ran = ranks_of_factor(setting.collective, bus_factor(test));
  throw error_in(file,
                 fmt::format("algbw {} and busbw {} are not of {}{}", finest.algbw, finest.busbw,
                             counted(setting.ranks, "rank"),
                             ran > 1 ? fmt::format(", but of some {:.0f}", ran) : ""),
                 "give all lines '#  Rank ...', or none of them, --ranks N and --hosts N",
                 finest.line);
}

}  // namespace moesim
