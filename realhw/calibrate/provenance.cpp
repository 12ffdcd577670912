// SPDX-License-Identifier: Apache-2.0
#include "realhw/calibrate/provenance.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <thread>

#include "realhw/core/gemm.h"
#include "realhw/job/job.h"
#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/base/platform.h"
#include "sim/linkfit/calibration_text.h"

namespace moesim {
namespace {

/// "Xeon ..., 2 threads" of this host.
std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  std::string name = "an unknown processor";
  for (std::string line; std::getline(info, line);) {
    if (!line.starts_with("model name") || line.find(": ") == std::string::npos) continue;
    name = line.substr(line.find(": ") + 2);
    break;
  }
  return fmt::format("{}, {} threads", name, std::thread::hardware_concurrency());
}

/// The command line, without the program's folder.
std::string command_line() {
  std::vector<std::string> words = own_arguments();
  if (!words.empty()) words[0].erase(0, words[0].rfind('/') + 1);
  return fmt::format("{}", fmt::join(words, " "));
}

std::vector<std::string> without_repeats(const std::vector<std::string>& all) {
  std::vector<std::string> list;
  for (const std::string& one : all) {
    if (std::ranges::find(list, one) == list.end()) list.push_back(one);
  }
  return list;
}

std::string yaml_list(const std::vector<std::string>& list) {
  std::string text;
  for (const std::string& one : list) text += (text.empty() ? "" : ", ") + quoted(one);
  return "[" + text + "]";
}

/// Multiprocessors of each rank's GPU; empty if no rank has one.
std::vector<int> gather_sms(Job& job, int mine) {
  std::vector<int> sms;
  for (const std::string& of_rank : all_gather(job, std::to_string(mine))) {
    sms.push_back(std::stoi(of_rank));
  }
  if (std::ranges::count(sms, 0) == std::ssize(sms)) sms.clear();
  return sms;
}

std::vector<std::string> sorted(std::vector<std::string> list) {
  std::ranges::sort(list);
  return list;
}

std::string sms_text(const std::vector<int>& sms) {
  return fmt::format("GPUs of {} multiprocessors", fmt::join(sms, ", "));
}

}  // namespace

void Provenance::set_origin(const CalibrationOrigin& origin) {
  topology = origin.topology;
  model = origin.model;
  ranks = origin.ranks;
  rounds = origin.rounds;
}

Provenance provenance_of(Job& job, const HardwareBackend& backend,
                         const CalibrationOrigin& origin) {
  Provenance result;
  result.moesim = MOESIM_RELEASE;
  result.command = command_line();
  result.date = fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(std::time(nullptr)));
  result.backend = fmt::format("{}; {}", backend.description(), gemm_library());
  result.processors = without_repeats(all_gather(job, processor()));
  result.hosts = without_repeats(all_gather(job, host_name()));
  result.sms = gather_sms(job, backend.sms());
  result.set_origin(origin);
  return result;
}

Provenance continued(Provenance first, const Provenance& now, const std::string& file) {
  const auto compare = [&](const std::string& was, const std::string& is) {
    if (was == is) return;
    throw error_in(file, fmt::format("these times were measured with {}, not with {}", was, is),
                   "use the same build and hosts, or leave --resume out");
  };
  compare(first.backend, now.backend);
  compare(yaml_list(sorted(first.processors)), yaml_list(sorted(now.processors)));
  if (first.sms.empty()) first.sms = now.sms;  // times of a release that did not record them
  compare(sms_text(first.sms), sms_text(now.sms));
  first.hosts.insert(first.hosts.end(), now.hosts.begin(), now.hosts.end());
  first.hosts = without_repeats(first.hosts);
  return first;
}

std::string yaml_of(const Provenance& p) {
  return fmt::format(
      "provenance:  # of the measurements\n"
      "  moesim: {}\n"
      "  command: {}\n"
      "  date: {}\n"
      "  backend: {}\n"
      "  processors: {}\n"
      "  hosts: {}\n"
      "  ranks: {}\n"
      "  topology: {}\n"
      "  model: {}\n"
      "  rounds: {}\n"
      "  runs_of_a_round: {}\n",
      quoted(p.moesim), quoted(p.command), quoted(p.date), quoted(p.backend),
      yaml_list(p.processors), yaml_list(p.hosts), p.ranks, quoted(p.topology), quoted(p.model),
      p.rounds.rounds, p.rounds.repeats);
}

std::string header_of(const Provenance& p, std::size_t plans) {
  return fmt::format(
      "# moesim-hw calibrate, {}, {} on {}, {}\n# {}, {}; {}, {}: one checked run, then {} timed "
      "runs\n\n",
      p.backend, counted(p.ranks, "rank"), counted(p.hosts.size(), "host"),
      fmt::join(p.processors, "; "), p.topology, p.model, counted(plans, "plan"),
      counted(p.rounds.rounds, "round"), p.rounds.repeats);
}

}  // namespace moesim
