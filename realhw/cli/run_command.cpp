// SPDX-License-Identifier: Apache-2.0
// moesim-hw run: measures the policies of a scenario.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <ctime>
#include <optional>

#include "realhw/cli/agreed.h"
#include "realhw/cli/commands.h"
#include "sim/base/files.h"
#include "sim/policy/unsuitable.h"

namespace moesim {
namespace {

std::string utc_now() { return fmt::format("{:%Y-%m-%dT%H:%MZ}", fmt::gmtime(std::time(nullptr))); }

class RunCommand : public Command {
 public:
  explicit RunCommand(CLI::App& app) {
    CLI::App* run = app.add_subcommand("run", "Measures the policies of a scenario");
    scenario_.add_to(*run);
    run->add_option("--warmup", measure_.warmup,
                    "runs of a step before those that count (default 1)")
        ->check(CLI::Range(0, 1000000));
    run->add_option("--repeats", measure_.repeats, "runs of a step that count (default 5)")
        ->check(CLI::Range(1, 1000000));
    backend_.add_to(*run);
    run->add_option(
           "--check", measure_.compared,
           "tokens of a rank and layer that are compared with the reference (default: all)")
        ->check(CLI::Range(0, 1000000000));
    run->add_option("--json", json_, "writes everything printed, and more, to a file");
  }

  int run(Job& job) override {
    Scenario scenario;
    std::optional<Inputs> inputs;
    const bool readable = agreed(job, [&] {
      scenario = scenario_.read();
      inputs.emplace(open_hardware_inputs(scenario, job.ranks()));
    });
    if (!readable) return bad_input;
    const auto backend = backend_.open(job);
    const HardwareJob about{
        backend->name(), backend->description(), job.launcher(),  utc_now(),
        job.ranks(),     count_hosts(job),       measure_.warmup, measure_.repeats};
    const bool first = job.rank() == 0;
    if (first) {
      for (const Diagnostic& w : inputs->warnings) fmt::print(stderr, "{}", w.str());
      fmt::print("{}", hardware_header(about, scenario, *inputs));
      std::fflush(stdout);
    }
    std::vector<Measured> cases;
    const bool planned = agreed(job, [&] {
      for (const SystemSpec& system : inputs->systems) {
        cases.push_back(measure_if_suitable(job, *backend, scenario, *inputs, system));
      }
    });
    if (!planned) return bad_input;
    return first ? report(about, scenario, *inputs, cases) : code_of(cases);
  }

 private:
  Measured measure_if_suitable(Job& job, HardwareBackend& backend, const Scenario& scenario,
                               const Inputs& inputs, const SystemSpec& system) const {
    try {
      return measure(job, backend, scenario, inputs, system, measure_);
    } catch (const Unsuitable& e) {  // on all ranks alike, before anything runs
      Measured result;
      result.policy = system.name;
      result.unsuitable = e.what();
      return result;
    }
  }

  static std::int64_t wrong_in(const std::vector<Measured>& cases) {
    std::int64_t wrong = 0;
    for (const Measured& m : cases) wrong += m.compared.wrong();
    return wrong;
  }
  static int code_of(const std::vector<Measured>& cases) {
    return wrong_in(cases) > 0 ? run_failed : 0;
  }

  int report(const HardwareJob& about, const Scenario& scenario, const Inputs& inputs,
             const std::vector<Measured>& cases) const {
    fmt::print("{}\n{}", hardware_table(cases), op_table(cases));
    for (const Measured& m : cases) {
      if (!m.unsuitable.empty()) fmt::print(stderr, "{}: {}", m.policy, m.unsuitable);
    }
    if (!json_.empty()) write_file(json_, hardware_json(about, scenario, inputs, cases));
    const std::int64_t wrong = wrong_in(cases);
    if (wrong > 0) fmt::print(stderr, "moesim-hw: the run failed: {} wrong elements\n", wrong);
    return code_of(cases);
  }

  ScenarioFlags scenario_;
  MeasureOptions measure_;
  BackendFlags backend_;
  std::string json_;
};

}  // namespace

std::unique_ptr<Command> add_run_command(CLI::App& app) {
  return std::make_unique<RunCommand>(app);
}

}  // namespace moesim
