// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/data_sheets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "sim/sweep/candidates.h"

namespace moesim {
namespace {

std::set<std::string> both(const std::set<std::string>& a, const std::set<std::string>& b) {
  std::set<std::string> all;
  std::ranges::set_intersection(a, b, std::inserter(all, all.end()));
  return all;
}

}  // namespace

DataSheets::DataSheets(const std::map<std::int64_t, SweepRow>& rows,
                       const std::vector<std::int64_t>& ids) {
  std::set<std::string> by_sheet, of_transport;
  for (const std::int64_t id : ids) {
    by_sheet.merge(links_by(rows.at(id), "data sheet"));
    of_transport.merge(links_by(rows.at(id), "transport"));
  }
  contested_ = both(by_sheet, of_transport);
}

std::string DataSheets::links(const SweepRow& row) const {
  return fmt::format("{}", fmt::join(both(links_by(row, "data sheet"), contested_), ", "));
}

}  // namespace moesim
