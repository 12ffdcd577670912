// SPDX-License-Identifier: Apache-2.0
// What a test measured, by what its log says and what is said of it.
#include <fmt/format.h>

#include <iterator>

#include "sim/base/counted.h"
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
  if (ranks < 2) {
    throw error_in(file, "ran with one rank: nothing crossed a link", "run at least two",
                   test.line);
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

}  // namespace moesim
