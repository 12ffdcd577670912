// SPDX-License-Identifier: Apache-2.0
// moesim calibrate: measured times of exchanges to a link's latency and bandwidth table.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>

#include "sim/base/data_files.h"
#include "sim/base/error.h"
#include "sim/base/units.h"
#include "sim/cli/commands.h"
#include "sim/cli/exchange_overhead.h"
#include "sim/cli/hosts_flag.h"
#include "sim/flags/output_file.h"
#include "sim/linkfit/calibration_text.h"
#include "sim/linkfit/hold_out.h"
#include "sim/linkfit/link_fit.h"
#include "sim/linkfit/logs/read_log.h"
#include "sim/linkfit/noted_rates.h"
#include "sim/topology/read/spec_reader.h"
#include "sim/topology/reader.h"
#include "sim/transport/reader.h"

namespace moesim {
namespace {

struct CalibrateOptions {
  std::vector<std::string> logs;
  OutputFile out{"-"};
  std::string name, date, collective, reach, nominal, source;
  ExchangeOverhead exchange_overhead;
  std::string hosts, topology;
  std::vector<int> beside;
  int ranks = 0, hold_out = 0, domain = 0, test = 0;
  bool in_place = false;
};

/// GPUs of a node of the topology: NVLink joins no others.
int domain_of(const std::string& topology) {
  const TopologyFile file = read_topology(data_file("topologies", topology));
  std::map<int, int> gpus;
  for (const GpuId gpu : file.topology.all_gpus()) ++gpus[file.topology.host_of(gpu)];
  return std::ranges::max_element(gpus, {}, &std::pair<const int, int>::second)->second;
}

LogChoice choice_of(const CalibrateOptions& options) {
  LogChoice choice;
  if (!options.collective.empty()) {
    choice.collective = collective_of(options.collective);
    if (!choice.collective) {
      throw Error("--collective: no bytes per link are known for '" + options.collective + "'",
                  "alltoall, all_gather, reduce_scatter, all_reduce or sendrecv");
    }
  }
  if (options.reach == "host") choice.reach = LinkReach::host;
  if (options.reach == "fabric") choice.reach = LinkReach::fabric;
  if (!options.reach.empty() && !choice.reach) {
    throw Error("--reach: '" + options.reach + "' is neither host nor fabric");
  }
  if (options.ranks != 0) choice.ranks = options.ranks;
  if (!options.hosts.empty()) take_hosts(options.hosts, choice);
  if (options.domain != 0 && !options.topology.empty()) {
    throw Error("--domain and --topology both say how many GPUs share NVLink",
                "leave one of them out");
  }
  if (options.domain != 0) choice.domain = options.domain;
  if (!options.topology.empty()) choice.domain = domain_of(options.topology);
  if (options.test != 0) choice.test = options.test;
  choice.in_place = options.in_place;
  return choice;
}

void check_nominal(const CalibrateOptions& options) {
  if (options.nominal.empty()) return;
  NumberWithUnit value;
  const bool known = split_unit(options.nominal, value);
  const double rate = known ? value.number * bandwidth_scale(value.unit) : 0;
  if (!(rate >= possible_bandwidth.min && rate <= possible_bandwidth.max)) {
    throw Error("--nominal: '" + options.nominal + "' is not a bandwidth",
                "such as \"200 Gbit/s\"");
  }
}

/// As it can be repeated, without the folders of files.
std::string command_of(const CalibrateOptions& options) {
  const auto name = [](const std::string& path) {
    return std::filesystem::path(path).filename().string();
  };
  std::string text = "moesim calibrate";
  for (const std::string& log : options.logs) text += " " + name(log);
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty()) text += fmt::format(" {} '{}'", flag, value);
  };
  add("--collective", options.collective);
  if (options.ranks != 0) add("--ranks", std::to_string(options.ranks));
  for (const int ranks : options.beside) add("--beside", std::to_string(ranks));
  add("--hosts", options.hosts);
  if (options.domain != 0) add("--domain", std::to_string(options.domain));
  add("--topology", options.topology);
  if (options.test != 0) add("--test", std::to_string(options.test));
  add("--reach", options.reach);
  if (options.in_place) text += " --in-place";
  add("--exchange-overhead", options.exchange_overhead.text);
  add("--nominal", options.nominal);
  add("--source", options.source);
  if (options.hold_out != 0) add("--hold-out", std::to_string(options.hold_out));
  add("--date", options.date);
  return text;
}

std::string name_of(const CalibrateOptions& options) {
  if (!options.name.empty()) return options.name;
  std::filesystem::path path(options.out.printed() ? options.logs.front() : options.out.path());
  while (path.has_extension()) path = path.stem();
  return path.filename().string();
}

/// Times of other rank counts by the bytes on the link of `log` at which each peer gets as much.
std::vector<std::vector<Sample>> beside_of(const CalibrateOptions& options, const Log& log) {
  std::vector<std::vector<Sample>> curves;
  for (const int ranks : options.beside) {
    LogChoice choice = choice_of(options);
    choice.ranks = ranks;
    std::vector<Sample>& curve = curves.emplace_back();
    for (const std::string& path : options.logs) {
      const Log other = read_log(path, choice);
      for (const Sample& s : other.samples) {
        const double bytes = static_cast<double>(s.bytes.value) * log.parts / other.parts;
        curve.push_back({Bytes(std::llround(bytes)), s.time});
      }
    }
  }
  return curves;
}

/// As fit_link; mistakes name the logs.
LinkFit fit_of(const std::vector<Sample>& samples, const std::vector<std::vector<Sample>>& beside,
               const std::vector<Log>& logs) {
  try {
    return fit_link(samples, beside);
  } catch (const Error& e) {
    const Diagnostic& first = e.diagnostics().front();
    std::vector<std::string> files;
    int runs = 0;
    for (const Log& log : logs) {
      files.push_back(log.file);
      runs = std::max(runs, log.runs);
    }
    throw error_in(fmt::format("{}", fmt::join(files, ", ")), first.message,
                   runs == 1
                       ? first.hint
                       : fmt::format("--test N takes one of {} tests; or {}", runs, first.hint));
  }
}

/// What simulated NCCL takes before such an exchange moves, and its transport.
CalibrationText::Start start_of(const Log& log) {
  const bool pairs = rounds_of(log.setting) == 1;
  const TransportPtr transport = find_transport(pairs ? "nccl-p2p" : "nccl-ring");
  const Tier tier = log.reach == LinkReach::host ? Tier::host : Tier::fabric;
  const int peers = log.setting.collective == Collective::sendrecv ? 1 : log.setting.ranks - 1;
  const Seconds of_peers = pairs ? transport->per_peer.of(tier) * peers : Seconds(0);
  return {transport->start_up->of(tier) + of_peers, transport->name};
}

void calibrate(const CalibrateOptions& options) {
  const LogChoice choice = choice_of(options);
  check_nominal(options);
  std::vector<Log> logs;
  std::vector<Sample> samples;
  for (const std::string& path : options.logs) {
    logs.push_back(read_log(path, choice));
    Log& log = logs.back();
    if (log.date.empty()) log.date = options.date;
    const auto same = std::ranges::find(logs, log.hash, &Log::hash);
    if (&*same != &log)
      log.notes.push_back("has the content of " + same->file + ": its times count twice");
    if (log.what != logs.front().what) {
      throw error_in(
          path, fmt::format("holds {}, but {} {}", log.what, logs.front().file, logs.front().what),
          "calibrate each kind of link by itself");
    }
    samples.insert(samples.end(), log.samples.begin(), log.samples.end());
  }
  const auto beside = beside_of(options, logs.front());
  Calibrated result{fit_of(samples, beside, logs), {}, std::move(logs)};
  note_rates(result.fit, options.nominal, result.logs.front());
  if (options.hold_out != 0) result.held = hold_out(samples, beside, options.hold_out);
  const CalibrationText text{name_of(options), command_of(options),
                             options.exchange_overhead.given()
                                 ? CalibrationText::Start{options.exchange_overhead.time(), {}}
                                 : start_of(result.logs.front()),
                             options.nominal, options.source};
  options.out.write(calibration_yaml(result, text));
  fmt::print(options.out.beside(), "{}", calibration_report(result, text.start));
}

}  // namespace

void add_calibrate_command(CommandLine& app) {
  const auto options = std::make_shared<CalibrateOptions>();
  CommandLine command = app.add_subcommand(
      "calibrate", "Fits a link's latency and bandwidth table to measured times of exchanges");
  command.add_option(
      "LOG", options->logs,
      "output of nccl-tests (text or JSON), or a table; several runs of one setting");
  options->out.add_to(command, "-o,--out", "writes NAME.calib.yaml");
  command.add_option("--name", options->name, "name of the calibration (default: the file's)");
  command.add_option(
      "--collective", options->collective,
      "takes the tests of this collective, or says what a log without a name measures");
  command.add_option("--ranks", options->ranks,
                     "takes the rows of this rank count, or says it for a log without ranks");
  command.add_option(
      "--hosts", options->hosts,
      "hosts of a log without ranks: how many, their names between commas, or a file");
  command
      .add_option("--domain", options->domain,
                  "GPUs of the run that share NVLink (default: those of a host; 72 of GB200 and "
                  "GB300)")
      .range(1, 1 << 20);
  command.add_option("--topology", options->topology,
                     "takes --domain from the nodes of a topology");
  command.add_option("--test", options->test, "takes only the N-th test of each log")
      .range(1, 1 << 20);
  command
      .add_option("--beside", options->beside,
                  "takes rows of these other rank counts for sizes that were not measured or "
                  "whose times contradict each other")
      .range(2, 1 << 20);
  command
      .add_option("--hold-out", options->hold_out,
                  "leaves every N-th size out, round-robin, and reports the error of the fit there")
      .range(2, 1 << 20);
  command.add_option(
      "--reach", options->reach,
      "host: links inside a host; fabric: between hosts (default: where the ranks were)");
  command.add_flag("--in-place", options->in_place, "takes the in-place times of nccl-tests");
  options->exchange_overhead.add_to(command, "what NCCL takes to start in simulations");
  command.add_option("--nominal", options->nominal,
                     "bandwidth of the measured link by its data sheet; links of other bandwidths "
                     "may then scale the table");
  command.add_option("--source", options->source,
                     "who published the measurements and under which licence");
  command.add_option("--date", options->date, "when it was measured, where the log does not say");
  const auto of_other = std::make_shared<bool>(false);
  add_calibrate_profile(command, of_other);
  add_calibrate_steps(command, of_other);
  command.callback([options, of_other] {
    if (*of_other) return;
    if (options->logs.empty()) {
      throw Error("LOG is required", "or moesim calibrate profile TRACE, moesim calibrate steps");
    }
    calibrate(*options);
  });
}

}  // namespace moesim
