// SPDX-License-Identifier: Apache-2.0
// Which collective a table is of that does not name it.
#include <algorithm>

#include "sim/linkfit/logs/nccl_test.h"

namespace moesim {
namespace {

/// Bus by algorithm bandwidth, from the row that prints them with the most digits, of which there
/// is one; 0 if it has none.
double bus_factor(const NcclTest& test) {
  const auto best = std::ranges::max_element(test.rows, {}, &NcclRow::algbw);
  return best->algbw > 0 ? best->busbw / best->algbw : 0;
}

/// Sums and the like: bus bandwidths of all-reduces are nearly twice those of send/recv.
std::optional<Collective> of_reductions(const NcclTest& test, int ranks) {
  if (test.marks.rooted) return Collective::reduce;
  if (!test.marks.whole_count) return Collective::reduce_scatter;
  if (ranks == 2) return std::nullopt;  // both have the factor 1
  return bus_factor(test) > 1.15 ? Collective::all_reduce : Collective::sendrecv;
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

}  // namespace moesim
