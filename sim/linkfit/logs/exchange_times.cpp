// SPDX-License-Identifier: Apache-2.0
// Rows of nccl-tests in a table of one's own (CSV), by usual names of its columns.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/base/delimited.h"
#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/base/lower_case.h"
#include "sim/linkfit/logs/csv.h"

namespace moesim {
namespace {

enum class Column {
  size,
  time,
  algbw,
  busbw,
  wrong,
  collective,
  ranks,
  hosts,
  in_place,  // whether the row is
  gpus_of_rank,
  ranks_of_host,
  in_place_time,
  in_place_algbw,
  in_place_busbw,
  in_place_wrong
};
using Names = std::vector<std::string>;

/// Usual names in lower case, without punctuation.
const std::array<Names, 15> usual_columns = {{
    {"size", "sizeb", "sizebytes", "bytes", "messagesizeb", "messagesizebytes", "msgsize",
     "msgsizebytes"},
    {"time", "timeus", "timems", "times", "latencyus", "latencyms", "avgtimeus", "outofplacetime",
     "outofplacetimeus", "ooptime", "ooptimeus"},
    {"algbw", "algbwgbs", "algbwgbps", "outofplacealgbw", "outofplacealgbwgbs"},
    {"busbw", "busbwgbs", "busbwgbps", "outofplacebusbw", "outofplacebusbwgbs"},
    {"wrong", "nwrong", "outofplacewrong"},
    {"collective", "coll", "op", "operation", "test", "opname"},
    {"ranks", "nranks", "numranks", "worldsize", "gpus", "ngpus", "numgpus"},
    {"hosts", "nodes", "nnodes", "numnodes", "numhosts"},
    {"inplace", "isinplace"},
    {"gpusperrank"},
    {"rankspernode", "ranksperhost"},
    {"inplacetime", "inplacetimeus", "iptime", "iptimeus"},
    {"inplacealgbw", "inplacealgbwgbs"},
    {"inplacebusbw", "inplacebusbwgbs"},
    {"inplacewrong"},
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

/// Throws Error unless the two bandwidths are of so many ranks.
void check_ranks(const Csv& csv, const Csv::Row& row, const TimedExchange& entry,
                 const std::string& column) {
  if (column.empty() || entry.setting.ranks < 2) return;
  const double algbw = entry.bytes / entry.time.value / 1e9;
  const double factor =
      link_bytes_per_byte({entry.setting.collective, entry.setting.ranks, 1}, LinkReach::host);
  const double printed = csv.number(row, column, 0), computed = algbw * factor;
  if (std::abs(printed - computed) <= 0.02 * computed + 0.011) return;
  throw error_in(csv.file(),
                 fmt::format("algbw {:.2f} of {} with {} is a '{}' of {:.2f}, not {}", algbw,
                             name_of(entry.setting.collective),
                             counted(entry.setting.ranks, "rank"), column, computed, printed),
                 "ranks are those of one exchange, not of several groups", row.line);
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

int ranks_in(const Csv& csv, const Csv::Row& row, const LogChoice& choice) {
  const int ranks = count_in(csv, row, Column::ranks, choice.ranks, "--ranks");
  if (column_in(csv.names(), Column::gpus_of_rank).empty()) return ranks;
  return ranks * count_in(csv, row, Column::gpus_of_rank, 1, "--ranks");
}

int hosts_in(const Csv& csv, const Csv::Row& row, int ranks, const LogChoice& choice) {
  const bool inside = choice.reach == LinkReach::host || choice.domain >= ranks;
  const auto said = inside && !choice.hosts ? std::optional<int>(1) : choice.hosts;
  // Without MPI rccl-tests have one process, so one host.
  if (csv.has("numCycle") && csv.has("gpus")) return said.value_or(1);
  const bool of_rccl = !column_in(csv.names(), Column::ranks_of_host).empty();
  if (of_rccl && said) return *said;
  const int hosts = count_in(csv, row, Column::hosts, said, "--hosts");
  constexpr int most_gpus = 8;
  if (of_rccl && hosts == 1 && ranks > most_gpus) {
    throw error_in(csv.file(),
                   fmt::format("says one node of {}, which rccl-tests say of any number of nodes",
                               counted(ranks, "rank")),
                   "--hosts N says how many there were", row.line);
  }
  return hosts;
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

namespace {

/// The columns of the chosen half.
struct Chosen {
  std::string time, algbw, busbw, wrong;
  std::string place = {};  // says whether a row is in place; empty: columns do
};

/// Whether the row was measured in place.
bool is_in_place(const Csv& csv, const Csv::Row& row, const std::string& column) {
  const std::string text = lower_case(csv.text(row, column));
  for (const char* no : {"0", "false", "no", "n"}) {
    if (text == no) return false;
  }
  for (const char* yes : {"1", "true", "yes", "y"}) {
    if (text == yes) return true;
  }
  throw error_in(csv.file(), fmt::format("'{}' is '{}', neither 0 nor 1", column, text), "",
                 row.line);
}

/// Throws Error if no row is as chosen.
void check_places(const Csv& csv, const std::string& column, bool in_place) {
  int rows = 0;
  for (int line = csv.first() + 1; line <= csv.size(); ++line) {
    if (csv.is_rule(line)) continue;
    if (is_in_place(csv, csv.row(line), column) == in_place) return;
    ++rows;
  }
  if (rows == 0) return;
  throw error_in(csv.file(), in_place ? "has no in-place times" : "has only in-place times",
                 in_place ? "leave out --in-place" : "--in-place takes them");
}

Chosen chosen_columns(const Csv& csv, bool in_place) {
  const auto column = [&](Column kind) { return column_in(csv.names(), kind); };
  const std::string place = column(Column::in_place);
  if (!place.empty()) check_places(csv, place, in_place);
  if (in_place && place.empty()) {
    if (column(Column::in_place_time).empty()) {
      throw error_in(csv.file(), "has no in-place times", "leave out --in-place");
    }
    return {column(Column::in_place_time), column(Column::in_place_algbw),
            column(Column::in_place_busbw), column(Column::in_place_wrong)};
  }
  return {column(Column::time), column(Column::algbw), column(Column::busbw), column(Column::wrong),
          place};
}

}  // namespace

Log read_exchange_times(const Csv& csv, const LogChoice& choice) {
  Log log;
  log.kind = "table of sizes and times";
  const std::string size = column_in(csv.names(), Column::size);
  const auto& [time, algbw, busbw, wrong, place] = chosen_columns(csv, choice.in_place);
  log.checked = !wrong.empty();
  const auto read = [&](const Csv::Row& row) -> std::optional<TimedExchange> {
    if (!place.empty() && is_in_place(csv, row, place) != choice.in_place) return std::nullopt;
    const int ranks = ranks_in(csv, row, choice);
    const int hosts = hosts_in(csv, row, ranks, choice);
    check_hosts(ranks, hosts, csv.file(), row.line);
    log.checked = log.checked && csv.text(row, wrong) != "N/A";
    check_right(csv, row, wrong);
    TimedExchange entry{{collective_in_row(csv, row, choice), ranks, hosts},
                        csv.number(row, size, 0),
                        Seconds(csv.number(row, time) * seconds_per_unit(time))};
    if (entry.bytes == 0) return std::nullopt;
    if (!algbw.empty()) check_bandwidth(csv, row, entry, algbw);
    if (!algbw.empty()) check_ranks(csv, row, entry, busbw);
    check_unit(csv, row, entry, time);
    return entry;
  };
  LogChoice of_rows = choice;
  of_rows.in_place = false;  // they are chosen
  take_rows(csv, of_rows, read, log);
  return log;
}

}  // namespace moesim
