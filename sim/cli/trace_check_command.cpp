// SPDX-License-Identifier: Apache-2.0
// moesim trace check: what is suspicious in a trace.
#include <fmt/format.h>

#include <memory>

#include "sim/base/data_files.h"
#include "sim/base/error.h"
#include "sim/cli/long_work.h"
#include "sim/cli/trace_command.h"
#include "sim/model/layer_numbers.h"
#include "sim/trace/suspicions.h"
#include "sim/trace/verify.h"

namespace moesim {
namespace {

struct CheckFlags {
  std::string directory, model;
  int interval = 1;
};

void run_check(const CheckFlags& flags) {
  const std::string folder = find_trace(flags.directory);
  const auto trace = RoutingTrace::open(folder);
  SuspicionOptions options;
  options.interval = flags.interval;
  if (!flags.model.empty()) {
    const MoeModel model = read_moe_model(data_file("models", flags.model));
    const auto dense = dense_layers(trace.info().layers, model);
    if (!dense.empty()) throw error_in(folder, dense_layers_text(dense, model));
    options.model = {model.name, model.experts, model.top_k, model.moe_layers};
  }
  LongWork work("checking");
  std::vector<Diagnostic> errors;
  for (auto& problem : verify_trace(folder, [&](double done) { work.progress()(done / 2); })) {
    if (problem.severity == Severity::error) errors.push_back(std::move(problem));
  }
  if (!errors.empty()) throw Error(std::move(errors));
  const auto found =
      suspicions(trace, options, [&](double done) { work.progress()(0.5 + done / 2); });
  for (const std::string& text : found) fmt::print("suspicious  {}\n", text);
  if (found.empty()) fmt::print("nothing suspicious\n");
}

}  // namespace

void add_trace_check(CommandLine& trace) {
  const auto flags = std::make_shared<CheckFlags>();
  CommandLine command =
      trace.add_subcommand("check", "Says what is suspicious in a trace, sound as it is");
  command.add_option("TRACE", flags->directory, "a trace folder, or the name of one among the data")
      .required();
  command.add_option("--model", flags->model, "model that it is said to be of");
  command.add_option("--interval", flags->interval, "steps after which a planner first plans")
      .range(0, 1 << 30);
  command.callback([flags] { run_check(*flags); });
}

}  // namespace moesim
