// SPDX-License-Identifier: Apache-2.0
#include "realhw/cli/measuring.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <stdexcept>

#include "realhw/cli/agreed.h"
#include "sim/base/files.h"
#include "sim/base/unsuitable.h"

namespace moesim {
namespace {

std::string utc_now() { return fmt::format("{:%Y-%m-%dT%H:%MZ}", fmt::gmtime(std::time(nullptr))); }

/// A policy that cannot run here is a result of its own.
Measured measure_if_suitable(Job& job, HardwareBackend& backend, StepSource& source,
                             std::size_t policy, const MeasureOptions& options) {
  try {
    return measure(job, backend, source, policy, options);
  } catch (const Unsuitable& e) {  // on all ranks alike, before anything runs
    Measured result;
    result.policy = source.policies()[policy];
    result.unsuitable = e.what();
    return result;
  }
}

/// Whether anything could run; says why not if `told`.
template <class Case>
bool any_suits(const std::vector<Case>& cases, bool told) {
  if (std::ranges::any_of(cases, [](const Case& c) { return c.unsuitable.empty(); })) return true;
  for (const Case& c : cases) {
    if (told) fmt::print(stderr, "{}: {}", c.policy, c.unsuitable);
  }
  return false;
}

}  // namespace

int code_of(std::int64_t wrong, bool told) {
  if (wrong == 0) return 0;
  if (told) fmt::print(stderr, "moesim-hw: the run failed: {} wrong elements\n", wrong);
  return run_failed;
}

void Measuring::add_to(CommandLine& command, int compared) {
  options_.compared = compared;
  source_.add_to(command);
  command
      .add_option("--warmup-runs", options_.warmup,
                  "how often a step runs before it counts (default 1)")
      .range(0, 1000000);
  command.add_option("--repeats", options_.repeats, "how often a step runs and counts (default 5)")
      .range(1, 1000000);
  backend_.add_to(command);
  command.add_option("--timeline", timeline_,
                     "writes what ran when, of the median repeats, to a file for ui.perfetto.dev");
  command
      .add_option("--check", options_.compared,
                  fmt::format("tokens of a rank and layer that are compared with the reference "
                              "(default: {})",
                              compared < 0 ? "all" : std::to_string(compared)))
      .range(0, 1000000000);
}

std::optional<Measurement> Measuring::measure(Job& job, const std::function<void()>& check) const {
  std::unique_ptr<StepSource> source;
  std::optional<MeasuredTimeline> timeline;
  const bool first = job.rank() == 0;
  const bool readable = agreed(job, [&] {
    source = source_.open();
    check_ranks(source->cluster().name(), source->cluster().gpu_count(), job.ranks());
    if (first) check();
    if (first && !timeline_.empty()) {
      timeline.emplace(timeline_, source->cluster(), source->policies().size() > 1);
    }
  });
  if (!readable) return std::nullopt;
  std::unique_ptr<HardwareBackend> backend;
  if (!agreed(job, [&] { backend = backend_.open(job); })) return std::nullopt;
  Measurement m{{backend->name(), backend->description(), job.launcher(), utc_now(), job.ranks(),
                 count_hosts(job), options_.warmup, options_.repeats},
                std::move(source),
                {}};
  if (first) {
    for (const Diagnostic& w : m.source->warnings()) fmt::print(stderr, "{}", w.str());
    fmt::print(out_, "{}", hardware_header(m.about, m.source->origin(), m.source->cluster()));
    std::fflush(out_);
  }
  const auto policies = m.source->policies();
  MeasureOptions options = options_;
  options.timeline = timeline ? &*timeline : nullptr;
  const bool planned = agreed(job, [&] {
    for (std::size_t i = 0; i < policies.size(); ++i) {
      if (first && policies.size() > 1) {
        fmt::print(stderr, "{} of {}: {}\n", i + 1, policies.size(), policies[i]);
      }
      m.cases.push_back(measure_if_suitable(job, *backend, *m.source, i, options));
    }
    if (timeline) timeline->finish();
  });
  if (!planned) return std::nullopt;
  if (!any_suits(m.cases, first)) return std::nullopt;
  return m;
}

std::optional<std::vector<Numerics>> Measuring::compute(Job& job) const {
  std::vector<Numerics> cases;
  const bool done = agreed(job, [&] {
    if (job.ranks() != 1) throw Error("--local runs all ranks in one process", "start only one");
    const auto source = source_.open();
    for (std::size_t i = 0; i < source->policies().size(); ++i) {
      cases.push_back(local_numerics(*source, i, {options_.compared}));
    }
  });
  if (!done) return std::nullopt;
  if (!any_suits(cases, true)) return std::nullopt;
  return cases;
}

void write_result(const OutputFile& file, const std::string& content) {
  try {
    file.write(content);
  } catch (const Error& e) {
    throw std::runtime_error(fmt::format("rank 0, writing the results: {}: {}", file.path(),
                                         e.diagnostics().front().message));
  }
}

}  // namespace moesim
