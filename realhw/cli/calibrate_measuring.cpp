// SPDX-License-Identifier: Apache-2.0
#include "realhw/cli/calibrate_measuring.h"

#include <fmt/format.h>

#include <cstdio>
#include <optional>

#include "realhw/calibrate/rounds.h"
#include "realhw/cli/agreed.h"
#include "sim/base/files.h"
#include "sim/print/progress_line.h"

namespace moesim {
namespace {

/// What an earlier run has measured, read by rank 0 for all; nothing: it cannot be taken.
std::optional<std::string> earlier(Job& job, const std::string& file) {
  std::string text;
  if (!agreed(job, [&] {
        if (job.rank() == 0 && is_there(file)) text = read_file(file);
      })) {
    return std::nullopt;
  }
  return job.broadcast(text);
}

TimesRead taken(const std::string& text, const std::string& file, const CalibrationRun& what) {
  TimesRead read = parse_times(text, file);
  const CalibrationOrigin& origin = what.origin();
  if (read.head.origin.plans != origin.plans) {
    throw error_in(file, "these times are of other plans",
                   "resume with the same topology, model and flags, or leave --resume out");
  }
  check_times(read.times, what.plans(), origin.rounds, file);
  return read;
}

}  // namespace

void CalibrateMeasuring::add_to(CommandLine& command) {
  const auto before = command.flags();
  command.add_flag("--resume", resume_, "continues with the times of an interrupted calibration");
  backend_.add_to(command);
  const auto all = command.flags();
  options_.assign(all.begin() + std::ssize(before), all.end());
}

bool CalibrateMeasuring::measure(Job& job, const CalibrationRun& what,
                                 const std::string& times) const {
  const bool first = job.rank() == 0;
  const auto text = resume_ ? earlier(job, times) : "";
  if (!text) return false;
  std::optional<TimesRead> before;
  std::unique_ptr<HardwareBackend> backend;
  if (!agreed(job, [&] {
        if (!text->empty()) before = taken(*text, times, what);
        backend = backend_.open(job);
      })) {
    return false;
  }
  const CalibrationOrigin& origin = what.origin();
  const Provenance now = provenance_of(job, *backend, origin);
  std::optional<TimesFile> file;
  if (!agreed(job, [&] {
        const auto head = before ? continued(before->head.provenance, now, times) : now;
        if (first) file.emplace(times, TimesHead{origin, head}, *text);
      })) {
    return false;
  }
  if (first) {
    for (const Diagnostic& w : what.warnings()) fmt::print(stderr, "{}", w.str());
    fmt::print("{}", header_of(now, what.plans().size()));
    std::fflush(stdout);
  }
  Times known = before ? std::move(before->times) : Times{};
  double left = static_cast<double>(what.plans().size()) * origin.rounds.rounds;
  for (const auto& [plan, rounds] : known) left -= static_cast<double>(rounds.size());
  int begun = 0;
  ProgressLine line;
  measure_rounds(
      job, *backend, what.plans(), origin.shape, origin.rounds, known,
      [&](const std::string& plan, int round, const std::vector<Timeline>& timelines) {
        file->add(plan, round, timelines);
      },
      [&](const std::string& plan, int round) {
        line.show(fmt::format("round {} of {}: {};", round + 1, origin.rounds.rounds, plan),
                  begun++ / left);
      });
  return true;
}

}  // namespace moesim
