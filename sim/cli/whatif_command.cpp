// SPDX-License-Identifier: Apache-2.0
// moesim whatif: the same scenario on a changed cluster, before and after in one table.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "sim/cli/commands.h"
#include "sim/cli/version.h"
#include "sim/flags/print_flags.h"
#include "sim/flags/scenario_flags.h"
#include "sim/flags/shared_flags.h"
#include "sim/run/engine_views.h"
#include "sim/run/result_file.h"
#include "sim/run/simulate.h"
#include "sim/run/whatif.h"
#include "sim/run/whatif_engines.h"
#include "sim/run/worker_count.h"

namespace moesim {
namespace {

struct WhatIfOptions {
  ScenarioFlags scenario;
  ResultOutput output;
  WhatIf what;
  int workers = 0;
};

void what_if(const WhatIfOptions& options) {
  if (!options.what.any()) {
    throw Error("'whatif' needs a change of the cluster",
                "for example --scale nic.bandwidth=1.5, --slow gpu:7=0.8 or --fail gpu:7");
  }
  const Scenario scenario = options.scenario.read();
  const Inputs before = open_inputs(scenario);
  const Inputs after = open_changed_inputs(scenario, options.what);
  for (const Diagnostic& w : after.warnings) fmt::print(stderr, "{}", w.str());
  Printout header;
  header
      .add(scenario.engine_run ? engine_header(scenario, before, MOESIM_VERSION)
                               : result_header(scenario, before, MOESIM_VERSION))
      .add(fmt::format("# what if: {}\n", text_of(options.what)));
  const auto write = [&](const auto& cases, const Printout& table) {
    options.output.write(
        [&] { return whatif_document(scenario, before, options.what, cases, MOESIM_VERSION); },
        header.add(table));
  };
  const int workers = worker_count(options.workers);
  if (scenario.engine_run) {
    const auto cases = run_whatif(scenario, before, after, workers);
    return write(cases, whatif_table(scenario, cases));
  }
  const auto cases = simulate_whatif(scenario, before, after, workers);
  write(cases, whatif_table(cases));
}

}  // namespace

void add_whatif_command(CommandLine& app) {
  const auto options = std::make_shared<WhatIfOptions>();
  CommandLine command = app.add_subcommand(
      "whatif", "Shows what a change of the cluster does: faster parts, stragglers, failures");
  options->scenario.add_to(command);
  add_allow_commands(command);
  command
      .add_option(
          "--scale", options->what.scale,
          "RESOURCE=FACTOR, times its size: gpu.flops, nic.bandwidth, nic.latency ...; several: "
          "a,b")
      .separated_by(',')
      .one_value_each();
  command
      .add_option("--slow", options->what.slow,
                  "TARGET=FACTOR, times its speed: gpu:RANK, host:N, link:A--B, device:NAME")
      .separated_by(',')
      .one_value_each();
  command
      .add_option("--fail", options->what.fail,
                  "TARGET that is gone: link:A--B, device:NAME (a NIC or switch), gpu:RANK, host:N")
      .separated_by(',')
      .one_value_each();
  options->output.add_to(command, "writes everything printed, and more, to a file");
  command.add_option("--workers", options->workers, "processes to use (default: all cores)")
      .range(1, 1024);
  command.callback([options] { what_if(*options); });
}

}  // namespace moesim
