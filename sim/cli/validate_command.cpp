// SPDX-License-Identifier: Apache-2.0
// moesim validate: what was measured on hardware against the simulator.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "sim/base/data_files.h"
#include "sim/base/permitted_files.h"
#include "sim/cli/commands.h"
#include "sim/cli/version.h"
#include "sim/evidence/validate_runs.h"
#include "sim/evidence/validation.h"
#include "sim/flags/print_flags.h"
#include "sim/html/report_page.h"
#include "sim/report/tolerance.h"
#include "sim/run/worker_count.h"

namespace moesim {
namespace {

struct ValidateOptions {
  std::vector<std::string> files, set, inputs;
  std::string topology, fidelity = "port", tolerance = "12 %";
  ResultOutput output;
};

/// What the measured plans are simulated on, in addition to what they were made of.
std::vector<Override> changes_of_cluster(const ValidateOptions& options) {
  std::vector<Override> list;
  for (const std::string& text : options.set) {
    list.push_back(parse_override(text));
    const std::string& path = list.back().path;
    const std::string input = path.substr(0, path.find_first_of(".:"));
    if (input == "topology" || input == "gpu") continue;
    throw Error(fmt::format("--set {}: the plans are the measured ones", text),
                "topology.* and gpu.* change what they are simulated on");
  }
  return list;
}

Fidelity fidelity_named(const std::string& name) {
  const auto known = std::find(fidelity_names.begin(), fidelity_names.end(), name);
  if (known == fidelity_names.end()) {
    throw Error(fmt::format("--fidelity: '{}' is not known", name),
                did_you_mean(name, fidelity_names));
  }
  return static_cast<Fidelity>(known - fidelity_names.begin());
}

/// Errors of the scenario in a measured file name that file, which has it under a key of its own.
/// Without that they are of the command line, or of a path in the scenario.
Error in_measured(const Error& e, const std::string& file) {
  const std::string flags = "command line";
  std::vector<Diagnostic> all = e.diagnostics();
  for (Diagnostic& d : all) {
    std::string path = d.file;
    if (path.starts_with(flags)) path.erase(0, flags.size());
    if (path.starts_with(": ")) path.erase(0, 2);
    if (path.empty()) path = "scenario";
    if (path != "scenario" && !path.starts_with("scenario.")) continue;
    d = {d.severity, file, 0, 0, fmt::format("in its '{}': {}", path, d.message), "", d.hint};
  }
  return Error(std::move(all));
}

MeasuredRun recalled(const std::string& file, const SimulatedOn& on) {
  try {
    return recall(file, on);
  } catch (const Error& e) {
    if (on.topology.empty() && on.changes.empty()) throw in_measured(e, file);
  }
  try {
    recall(file, {"", {}, on.fidelity});
  } catch (const Error& e) {
    throw in_measured(e, file);
  }
  return recall(file, on);  // what the command line changes is wrong
}

/// From here on only what the command line names is read, and what is next to a result, in the
/// working directory or in the data of moesim: results come from anywhere.
void limit_files(const ValidateOptions& options) {
  std::vector<std::string> paths = data_roots();
  paths.insert(paths.end(), options.inputs.begin(), options.inputs.end());
  paths.push_back(".");
  const auto add_with_folder = [&](const std::string& path) {
    const std::filesystem::path parent = std::filesystem::path(path).parent_path();
    paths.push_back(path);
    if (!parent.empty()) paths.push_back(parent.string());
  };
  for (const std::string& file : options.files) add_with_folder(file);
  if (!options.topology.empty()) add_with_folder(options.topology);
  for (const std::string& change : options.set) {
    add_with_folder(change.substr(std::min(change.find('='), change.size() - 1) + 1));
  }
  permit_only(paths);
}

void validate_files(const ValidateOptions& options) {
  const double tolerance = parse_tolerance(options.tolerance);
  const SimulatedOn on{options.topology, changes_of_cluster(options),
                       fidelity_named(options.fidelity)};
  limit_files(options);
  std::vector<MeasuredRun> runs;
  for (const std::string& file : options.files) runs.push_back(recalled(file, on));
  for (const MeasuredRun& run : runs) {
    for (const Diagnostic& w : run.simulated.warnings) fmt::print(stderr, "{}", w.str());
  }
  const Validation validation{validate_runs(runs, worker_count()), tolerance};
  options.output.write([&] { return validation_json(validation, MOESIM_VERSION); },
                       validation_text(validation, MOESIM_VERSION));
  if (!validation.objections().empty()) throw std::runtime_error("the simulator is not valid here");
}

}  // namespace

void add_validate_command(CommandLine& app) {
  const auto options = std::make_shared<ValidateOptions>();
  CommandLine command = app.add_subcommand(
      "validate", "Compares what moesim-hw measured with the simulator, op by op");
  command.add_option("MEASURED", options->files, "files of moesim-hw run --json");
  command.add_option("--tolerance", options->tolerance,
                     "greatest mean absolute error of step times (default 12%)");
  command.add_option("--fidelity", options->fidelity, "port (default), flow, simgrid or analytic");
  command.add_option("--topology", options->topology,
                     "simulates the measured plans on this cluster, such as a calibrated one");
  command
      .add_option("--set", options->set,
                  "changes what the plans are simulated on: topology.PATH=VALUE, gpu.PATH=VALUE")
      .one_value_each();
  command.add_option("--inputs", options->inputs,
                     "folders with files that results name by path, next to those of moesim");
  options->output.add_to(command, "writes everything printed, and more, to a file");
  options->output.add_page(command, "--report", "draws the comparison as one HTML file",
                           [](const std::string& document) {
                             return report_page({{"", document}}, MOESIM_VERSION);
                           });
  const auto of_others = std::make_shared<bool>(false);
  add_validate_profile(command, of_others);
  add_validate_serving(command, of_others);
  command.callback([options, of_others] {
    if (*of_others) return;
    if (options->files.empty()) {
      throw Error("MEASURED is required",
                  "or moesim validate profile TRACE --scenario S, moesim validate serving RESULT "
                  "--scenario S");
    }
    validate_files(*options);
  });
}

}  // namespace moesim
