// SPDX-License-Identifier: Apache-2.0
// Rows of nccl-tests in a table of one's own (CSV), by usual names of its columns.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/base/delimited.h"
#include "sim/base/error.h"
#include "sim/base/lower_case.h"
#include "sim/linkfit/logs/csv.h"

namespace moesim {
namespace {

enum class Column { size, time, algbw, wrong, collective, ranks, hosts };
using Names = std::vector<std::string>;

/// Usual names in lower case, without punctuation.
const std::array<Names, 7> usual_columns = {{
    {"size", "sizeb", "sizebytes", "bytes", "messagesizeb", "messagesizebytes", "msgsize",
     "msgsizebytes"},
    {"time", "timeus", "timems", "times", "latencyus", "latencyms", "avgtimeus", "outofplacetime",
     "outofplacetimeus", "ooptime", "ooptimeus"},
    {"algbw", "algbwgbs", "algbwgbps", "outofplacealgbw", "outofplacealgbwgbs"},
    {"wrong", "nwrong", "outofplacewrong"},
    {"collective", "coll", "op", "operation", "test", "opname"},
    {"ranks", "nranks", "numranks", "worldsize", "gpus", "ngpus", "numgpus"},
    {"hosts", "nodes", "nnodes", "numnodes", "numhosts"},
}};

/// The first column of that kind; empty if there is none.
std::string column_in(const Names& names, Column kind) {
  const Names& usual = usual_columns[static_cast<std::size_t>(kind)];
  const auto at = std::ranges::find_if(names, [&](const std::string& name) {
    return std::ranges::count(usual, letters_and_digits(name)) > 0;
  });
  return at == names.end() ? "" : *at;
}

double seconds_per_unit(const std::string& column) {
  const std::string plain = letters_and_digits(column);
  return plain.ends_with("ms") ? 1e-3 : plain.ends_with("times") ? 1 : 1e-6;
}

/// Throws Error unless size, time and bandwidth agree within rounding.
void check_bandwidth(const Csv& csv, const Csv::Row& row, const TimedExchange& entry,
                     const std::string& column) {
  const double computed = entry.bytes / entry.time.value / 1e9;
  const double printed = csv.number(row, column, 0);
  if (std::abs(printed - computed) <= 0.02 * computed + 0.011) return;
  throw error_in(csv.file(),
                 fmt::format("{} bytes in {:.6g} us are {:.2f} GB/s, but '{}' is {}", entry.bytes,
                             entry.time.value * 1e6, computed, column, printed),
                 "sizes are bytes and times are us, as nccl-tests has them", row.line);
}

/// Throws Error where times without a unit would be those of no link.
void check_unit(const Csv& csv, const Csv::Row& row, const TimedExchange& entry,
                const std::string& column) {
  constexpr double most = 10e12;  // bytes/s
  const double rate = entry.bytes / entry.time.value;
  if (letters_and_digits(column) != "time" || rate <= most) return;
  throw error_in(csv.file(),
                 fmt::format("{} bytes in {:.6g} us are {:.0f} GB/s: '{}' is in another unit",
                             entry.bytes, entry.time.value * 1e6, rate / 1e9, column),
                 "name the column time_us, time_ms or time_s", row.line);
}

void check_right(const Csv& csv, const Csv::Row& row, const std::string& column) {
  if (column.empty() || csv.text(row, column) == "N/A" || csv.number(row, column, 0) == 0) return;
  throw error_in(csv.file(), fmt::format("'{}' is {}", column, csv.text(row, column)),
                 wrong_results_hint, row.line);
}

int count_in(const Csv& csv, const Csv::Row& row, Column kind, std::optional<int> said,
             const char* flag) {
  const std::string column = column_in(csv.names(), kind);
  if (!column.empty()) {
    const double number = csv.number(row, column, 1);
    if (number <= 1 << 24) return static_cast<int>(number);
  }
  if (said) return *said;
  throw error_in(csv.file(), fmt::format("has no column that says how many {} it ran on", flag + 2),
                 fmt::format("{} N says so", flag), csv.first());
}

Collective collective_in_row(const Csv& csv, const Csv::Row& row, const LogChoice& choice) {
  const std::string column = column_in(csv.names(), Column::collective);
  if (column.empty()) {
    if (choice.collective) return *choice.collective;
    throw error_in(csv.file(), "has no column that says which collective it measures",
                   "--collective NAME does", csv.first());
  }
  const auto known = collective_of(csv.text(row, column));
  if (known) return *known;
  throw error_in(csv.file(), fmt::format("unknown collective '{}'", csv.text(row, column)), "",
                 row.line);
}

}  // namespace

bool names_exchange_times(const std::string& line) {
  const char separator = separator_of(line);
  if (separator == '\0') return false;
  const Names names = cells_of(line, separator);
  return !column_in(names, Column::size).empty() && !column_in(names, Column::time).empty();
}

Log read_exchange_times(const Csv& csv, const LogChoice& choice) {
  Log log;
  log.kind = "table of sizes and times";
  const std::string time = column_in(csv.names(), Column::time);
  const std::string size = column_in(csv.names(), Column::size);
  const std::string algbw = column_in(csv.names(), Column::algbw);
  const std::string wrong = column_in(csv.names(), Column::wrong);
  log.checked = !wrong.empty();
  take_rows(
      csv, choice,
      [&](const Csv::Row& row) -> std::optional<TimedExchange> {
        const int ranks = count_in(csv, row, Column::ranks, choice.ranks, "--ranks");
        const bool inside = choice.reach == LinkReach::host;
        const auto said = inside && !choice.hosts ? std::optional<int>(1) : choice.hosts;
        const int hosts = count_in(csv, row, Column::hosts, said, "--hosts");
        check_hosts(ranks, hosts, csv.file(), row.line);
        log.checked = log.checked && csv.text(row, wrong) != "N/A";
        check_right(csv, row, wrong);
        TimedExchange entry{{collective_in_row(csv, row, choice), ranks, hosts},
                            csv.number(row, size, 0),
                            Seconds(csv.number(row, time) * seconds_per_unit(time))};
        if (entry.bytes == 0) return std::nullopt;
        if (!algbw.empty()) check_bandwidth(csv, row, entry, algbw);
        check_unit(csv, row, entry, time);
        return entry;
      },
      log);
  return log;
}

}  // namespace moesim
