// SPDX-License-Identifier: Apache-2.0
// What a test measured, by what its log says and what is said of it; and what the bandwidths of a
// table tell: its collective, and whether times and ranks agree with them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "sim/base/figures.h"
#include "sim/linkfit/logs/formats.h"
#include "sim/linkfit/logs/nccl_test.h"

namespace moesim {
namespace {

Collective collective_in(const NcclTest& test, int ranks, const std::string& file,
                         const LogChoice& choice) {
  if (!test.program.empty()) {
    if (const auto known = collective_of(test.program)) return *known;
    throw error_in(
        file, fmt::format("'{}' is none of the tests whose bytes per link are known", test.program),
        "alltoall, sendrecv, all_gather, reduce_scatter, all_reduce, broadcast, reduce, gather or "
        "scatter",
        test.program_line);
  }
  if (choice.collective) return *choice.collective;
  if (const auto shown = collective_by_figures(test, ranks)) return *shown;
  throw error_in(file, "does not say which collective it measures",
                 "--collective NAME does, for output of older nccl-tests", test.line);
}

int ranks_in(const NcclTest& test, const std::string& file, const LogChoice& choice) {
  if (test.ranks.repeated() && test.rank_tags.size() > 1) {
    const std::string &one = *test.rank_tags.begin(), &other = *std::next(test.rank_tags.begin());
    throw error_in(file,
                   fmt::format("holds lines of {} tests that ran at once, behind '{}' and '{}'",
                               test.rank_tags.size(), one, other),
                   fmt::format("take the lines of one, as grep -F '{}' does; if they were meant to "
                               "be one test, build nccl-tests with MPI=1",
                               one),
                   test.line);
  }
  if (test.ranks.repeated()) {
    throw error_in(file,
                   "lists a rank twice: each process ran a test by itself, and their output mixed",
                   "build nccl-tests with MPI=1, so that the processes find each other", test.line);
  }
  const int ranks = test.ranks.ranks() > 0 ? test.ranks.ranks() : choice.ranks.value_or(0);
  if (ranks == 0) {
    throw error_in(file, "has no lines '#  Rank ...' before its table",
                   "give the whole output, or --ranks N and --hosts N", test.line);
  }
  return ranks;
}

/// Whether the list of ranks has fewer of them: its end is missing.
bool is_cut(const RankPlaces& list, int ranks) { return list.ranks() > 0 && list.ranks() < ranks; }

int hosts_in(const NcclTest& test, int ranks, const std::string& file, const LogChoice& choice) {
  const int listed = is_cut(test.ranks, ranks) ? 0 : test.ranks.hosts().value_or(0);
  int hosts = choice.hosts.value_or(listed);
  // Whoever says that all is inside a domain, or how large it is, needs no hosts.
  const bool inside = choice.reach == LinkReach::host || (choice.domain && *choice.domain >= ranks);
  if (hosts == 0 && inside) hosts = 1;
  if (hosts == 0 && choice.domain && ranks % *choice.domain == 0) hosts = ranks / *choice.domain;
  if (hosts == 0) {
    throw error_in(file,
                   fmt::format("does not say on how many hosts its {} ran", counted(ranks, "rank")),
                   "--hosts says how many, or names them: --hosts 8, --hosts n1,n2", test.line);
  }
  check_hosts(ranks, hosts, file, test.line);
  if (choice.slots && ranks > *choice.slots) {
    throw error_in(file,
                   fmt::format("{} need more than the {} of --hosts", counted(ranks, "rank"),
                               counted(*choice.slots, "slot")),
                   "--hosts names all hosts, as the launcher had them", test.line);
  }
  return hosts;
}

/// Whether --ranks counts ranks that the list lacks. Where bandwidths tell nothing, it may as well
/// choose among tests.
bool adds_ranks(const NcclTest& test, const Setting& listed, const LogChoice& choice, bool only) {
  if (!choice.ranks || *choice.ranks <= listed.ranks) return false;
  Setting said = listed;
  said.ranks = *choice.ranks;
  return figures_fit(test, said) && (only || !figures_fit(test, listed));
}

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

Setting setting_of(const NcclTest& test, const std::string& file, const LogChoice& choice,
                   bool only) {
  if (!test.has_table) {
    throw error_in(file,
                   test.cause.empty() ? "has no line with the columns of nccl-tests"
                                      : fmt::format("ended before its table: {}", test.cause),
                   "give the whole output, its lines with '#' included", test.cause_line);
  }
  if (test.fault) throw *test.fault;
  int ranks = ranks_in(test, file, choice);
  const Collective collective = collective_in(test, ranks, file, choice);
  if (adds_ranks(test, {collective, ranks}, choice, only)) ranks = *choice.ranks;
  if (ranks < 2) {
    check_list(file, {collective, ranks}, test);
    throw error_in(file, "ran with one rank: nothing crossed a link", "run at least two",
                   test.line);
  }
  const int hosts = hosts_in(test, ranks, file, choice);
  const bool as_listed = !is_cut(test.ranks, ranks) && test.ranks.hosts() == hosts;
  return {collective, ranks, hosts, as_listed ? test.ranks.fewest_on_a_host() : 0};
}

std::vector<std::string> notes_on_setting(const NcclTest& test, const Setting& setting) {
  const auto listed = test.ranks.hosts();
  const bool cut = is_cut(test.ranks, setting.ranks);
  std::vector<std::string> notes;
  if (cut) {
    notes.push_back(fmt::format("takes {} as --ranks says; its lines name {}",
                                counted(setting.ranks, "rank"), test.ranks.ranks()));
  }
  if (!cut && listed && *listed != setting.hosts) {
    notes.push_back(fmt::format("takes {} as --hosts says; its ranks name {}",
                                counted(setting.hosts, "host"), *listed));
  }
  if (setting.ranks % setting.hosts != 0 && setting.fewest == 0) {
    notes.push_back(fmt::format("{} do not fill {}: takes one to have {}",
                                counted(setting.ranks, "rank"), counted(setting.hosts, "host"),
                                setting.ranks / setting.hosts));
  }
  return notes;
}

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
