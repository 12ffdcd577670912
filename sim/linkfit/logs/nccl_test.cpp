// SPDX-License-Identifier: Apache-2.0
// From what a log says of its tests to the times of one setting.
#include "sim/linkfit/logs/nccl_test.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "sim/base/figures.h"
#include "sim/linkfit/logs/formats.h"

namespace moesim {
namespace {

/// GPUs of a rack that NVLink joins although each tray of four has a host name (NVIDIA GB200 NVL72
/// and GB300 NVL72).
constexpr int rack_domain = 72;

bool in_racks(const std::string& gpu) {
  return gpu.find("GB200") != std::string::npos || gpu.find("GB300") != std::string::npos;
}

/// GPUs that are also sold without NVLink between hosts, or whose racks are not known.
bool may_be_in_racks(const std::string& gpu) {
  constexpr std::array<const char*, 4> names = {"GH200", "VR200", "VR300", "Rubin"};
  return in_racks(gpu) || std::ranges::any_of(names, [&](const char* name) {
           return gpu.find(name) != std::string::npos;
         });
}

/// Why the choice leaves the setting out; empty when it does not.
std::string mismatch(const Setting& setting, const LogChoice& choice) {
  if (choice.collective && *choice.collective != setting.collective) {
    return fmt::format("holds {}, not {}", name_of(setting.collective),
                       name_of(*choice.collective));
  }
  if (choice.ranks && *choice.ranks != setting.ranks) {
    return fmt::format("is of {} ranks, not of {}", setting.ranks, *choice.ranks);
  }
  return "";
}

/// "after 12 rows: line 57 says '...'".
std::string ending(const NcclTest& test) {
  std::string why = "the summary of nccl-tests is missing";
  if (!test.cause.empty()) {
    why = fmt::format("line {} says '{}'", test.cause_line, test.cause);
  } else if (test.cut_line != 0) {
    why = fmt::format("line {} is cut in the middle of a row", test.cut_line);
  }
  return fmt::format("after {}: {}", counted(std::ssize(test.rows), "row"), why);
}

/// Adds what a test measured to the log of its setting.
void take(const NcclTest& test, const Setting& setting, const LinkShare& share, bool named,
          const std::string& file, const std::string& place, Log& log) {
  check_list(file, setting, test);
  for (const NcclRow& row : test.rows) {
    if (row.size == 0) continue;
    check_row(file, setting, row);
    share.add(row.size, Seconds(row.microseconds * 1e-6), log);
  }
  check_ranks(file, setting, test);
  if (!test.ended) log.notes.push_back(place + "ends early, " + ending(test));
  for (const std::string& note : test.notes) log.notes.push_back(place + note);
  for (const std::string& note : notes_on_setting(test, setting)) log.notes.push_back(place + note);
  if (test.program.empty() && !named) {
    log.notes.push_back(fmt::format("{}names no collective: {} by its columns and bandwidths",
                                    place, name_of(setting.collective)));
  }
  log.checked = log.checked && test.checked;
  if (log.gpu.empty()) log.gpu = test.gpu;
  if (log.library.empty()) log.library = test.library;
  if (log.date.empty()) log.date = test.date;
}

/// A test that the choice allows.
struct Taken {
  const NcclTest* test;
  Setting setting;
};

struct Selection {
  std::vector<Taken> taken;
  std::vector<std::string> others;  // settings that the choice leaves out
  std::vector<std::string> notes;   // tests that cannot be taken
  std::optional<Error> refused;     // the first of these, of tests with tables if there are any
  std::string mismatch;             // the first
};

Selection select(const std::vector<NcclTest>& tests, const std::string& file,
                 const LogChoice& choice) {
  Selection result;
  bool tables = false;  // of a refused test
  for (const NcclTest& test : tests) {
    try {
      const Setting setting = setting_of(test, file, choice, tests.size() == 1);
      const std::string why = mismatch(setting, choice);
      if (why.empty()) {
        result.taken.push_back({&test, setting});
      } else {
        if (result.others.empty()) result.mismatch = why;
        result.others.push_back(fmt::format("{} (line {})", label(setting), test.line));
      }
    } catch (const Error& e) {
      if (!result.refused || (test.has_table && !tables)) result.refused = e;
      tables = tables || test.has_table;
      result.notes.push_back(fmt::format("leaves out the test of line {}: {}", test.line,
                                         e.diagnostics().front().message));
    }
  }
  return result;
}

/// Throws Error when nothing is taken.
void check_some(const Selection& all, const std::string& file) {
  if (!all.taken.empty()) return;
  if (all.others.size() == 1 && !all.refused) throw error_in(file, all.mismatch);
  if (all.others.empty() && all.refused) throw *all.refused;
  throw error_in(file, "holds nothing of what is chosen",
                 fmt::format("it has {}", fmt::join(all.others, "; ")));
}

/// How much a setting tells of links, most first: whether it can be fitted, whether it reaches as
/// far as is asked for, how much its collective is what MoE layers send, GPUs, hosts.
std::tuple<bool, bool, int, int, int> worth(const Taken& one, const LogChoice& choice) {
  static const std::vector<Collective> likest = {Collective::alltoall, Collective::sendrecv,
                                                 Collective::all_gather, Collective::reduce_scatter,
                                                 Collective::all_reduce};
  const auto at = std::ranges::find(likest, one.setting.collective);
  const auto measures = [&](const NcclRow& row) { return row.size > 0; };
  const auto sizes = std::ranges::count_if(one.test->rows, measures);
  const LinkReach reach = one.setting.hosts == 1 ? LinkReach::host : LinkReach::fabric;
  return {sizes > 1, choice.reach.value_or(reach) == reach, static_cast<int>(likest.end() - at),
          one.setting.ranks, one.setting.hosts};
}

/// Of tests of several settings, leaves those of one, and says so.
void take_one_setting(Selection& all, const LogChoice& choice) {
  const auto by_worth = [&](const Taken& one) { return worth(one, choice); };
  const std::string best = label(std::ranges::max_element(all.taken, {}, by_worth)->setting);
  std::vector<std::string> left;
  std::erase_if(all.taken, [&](const Taken& one) {
    const std::string other = label(one.setting);
    if (other == best) return false;
    if (std::ranges::find(left, other) == left.end()) left.push_back(other);
    return true;
  });
  if (left.empty()) return;
  constexpr std::size_t named = 3;
  std::string rest = fmt::format(
      "{}", fmt::join(left.begin(), left.begin() + static_cast<long>(std::min(left.size(), named)),
                      "; "));
  if (left.size() > named) rest += fmt::format(" and {} more", left.size() - named);
  all.notes.insert(all.notes.begin(),
                   fmt::format("holds several settings: takes {}; --collective, --ranks or --test "
                               "N (the N-th test) take another: {}",
                               best, rest));
}

std::vector<NcclTest> chosen_test(std::vector<NcclTest> tests, const std::string& file,
                                  const LogChoice& choice) {
  if (!choice.test) return tests;
  if (*choice.test > std::ssize(tests)) {
    throw error_in(file, fmt::format("has {}, not {}", counted(tests.size(), "test"), *choice.test),
                   "--test counts from 1");
  }
  return {tests[static_cast<std::size_t>(*choice.test) - 1]};
}

/// GPUs of a domain, as NCCL says; 0: it does not. Throws Error if domains are unlike.
int domain_by_nccl(const NcclTest& test, const std::string& file) {
  const std::set<int>& domains = test.nvlink_domains;
  if (test.nvlink_between_hosts != true || domains.empty()) return 0;
  if (domains.size() == 1) return *domains.begin();
  throw error_in(file,
                 fmt::format("ran on NVLink domains that are not alike: of {} and of {} GPUs",
                             *domains.begin(), *domains.rbegin()),
                 "take a run with equally many GPUs of each; or --domain N", test.line);
}

/// NVLink spans the hosts if the user, NCCL or the kind of GPU says so.
LogChoice with_domain(const Taken& first, const std::string& file, LogChoice choice, Log& log) {
  if (choice.domain || first.setting.hosts == 1) return choice;
  const int by_nccl = domain_by_nccl(*first.test, file);
  const bool between = choice.reach == LinkReach::fabric;
  if (by_nccl > 0 && !(between && by_nccl >= first.setting.ranks)) {
    choice.domain = by_nccl;
    log.notes.push_back(fmt::format(
        "takes NVLink domains of {0} GPUs, since NCCL says cliqueSize {0}; --domain says otherwise",
        by_nccl));
    return choice;
  }
  const std::string& gpu = first.test->gpu;
  const auto told = first.test->nvlink_between_hosts;
  // NCCL that must use it fails where it cannot.
  const bool required = first.test->nvlink_set == 1 && may_be_in_racks(gpu) && !in_racks(gpu);
  const bool in_rack = in_racks(gpu) || required;
  if (between || !told.value_or(in_rack)) return choice;
  if (!told && first.test->nvlink_set == 0) {
    log.notes.emplace_back(
        "takes the hosts as not joined by NVLink, since NCCL_MNNVL_ENABLE is 0; --domain says "
        "otherwise");
    return choice;
  }
  choice.domain = rack_domain;
  const std::string why = told       ? "since NCCL says MNNVL 1"
                          : required ? "since NCCL_MNNVL_ENABLE is 1"
                                     : "as " + gpu + " are joined in racks";
  log.notes.push_back(fmt::format(
      "takes the hosts as one NVLink domain of up to {} GPUs, {}; --domain says otherwise",
      rack_domain, why));
  return choice;
}

}  // namespace

Log log_of(const std::vector<NcclTest>& tests, const std::string& file, const LogChoice& choice) {
  if (tests.empty()) return log_of({NcclTest{}}, file, choice);  // says that there is no table
  const std::vector<NcclTest> among = chosen_test(tests, file, choice);
  Selection all = select(among, file, choice);
  check_some(all, file);
  take_one_setting(all, choice);
  Log log;
  log.checked = true;
  const Taken& first = all.taken.front();
  const LinkShare share =
      link_share(file, first.setting, with_domain(first, file, choice, log), log);
  for (const Taken& one : all.taken) {
    const std::string place =
        among.size() == 1 ? "" : fmt::format("the test of line {} ", one.test->line);
    take(*one.test, one.setting, share, choice.collective.has_value(), file, place, log);
  }
  const auto early =
      std::ranges::find_if(all.taken, [](const Taken& one) { return !one.test->ended; });
  const auto is_first = [&](const Sample& s) { return s.bytes == log.samples.front().bytes; };
  if (early != all.taken.end() && std::ranges::all_of(log.samples, is_first)) {
    throw error_in(file, "ends early, " + ending(*early->test), "run the test to its end");
  }
  const auto has_rows = [](const Taken& one) { return !one.test->rows.empty(); };
  if (std::ranges::none_of(all.taken, has_rows)) {
    throw error_in(file, "has no rows below the names of its columns", "run the test to its end");
  }
  if (log.samples.empty() && !log.notes.empty()) throw error_in(file, log.notes.front());
  if (!choice.only_host.empty() && !first.test->ranks.hosts()) {
    log.notes.push_back(fmt::format("takes all {} as on one host, '{}', as --hosts says",
                                    counted(first.setting.ranks, "rank"), choice.only_host));
  }
  log.runs = static_cast<int>(all.taken.size());
  log.notes.insert(log.notes.end(), all.notes.begin(), all.notes.end());
  return log;
}

}  // namespace moesim
