// SPDX-License-Identifier: Apache-2.0
// moesim plan: the plan of one step as text, proved to deliver every token; or all steps, saved for
// machines that execute them.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "sim/base/figures.h"
#include "sim/cli/commands.h"
#include "sim/cli/one_case.h"
#include "sim/flags/output_file.h"
#include "sim/flags/scenario_flags.h"
#include "sim/linkfit/nccl_tests_export.h"
#include "sim/plan/text.h"
#include "sim/scenario/executable_steps.h"
#include "sim/scenario/policy_planner.h"
#include "sim/scenario/proof.h"

namespace moesim {
namespace {

struct PlanOptions {
  ScenarioFlags scenario;
  OutputFile out, save;
  std::string nccl_tests;
  bool rows = false;
  bool check = false;
};

void save_steps(const PlanOptions& options) {
  if (options.out.asked() || !options.nccl_tests.empty() || options.rows || options.check) {
    throw Error("--save goes with no other flag of 'plan'",
                "saved steps have all rows; --check proves the same plans");
  }
  const Scenario scenario = options.scenario.read();
  if (scenario.topologies.size() != 1) throw Error("'plan --save' takes one topology");
  const Inputs inputs = open_inputs(scenario);
  for (const Diagnostic& w : inputs.warnings) fmt::print(stderr, "{}", w.str());
  const ClusterInput& cluster = inputs.clusters[0];
  const auto policies = plan_all(scenario, inputs, cluster);
  const StepsOrigin origin = origin_of(scenario, inputs, cluster, MOESIM_RELEASE);
  for (const SavedPolicy& policy : policies) {
    if (!policy.unsuitable.empty()) fmt::print(stderr, "{}: {}", policy.name, policy.unsuitable);
  }
  const auto suits = [](const SavedPolicy& policy) { return policy.unsuitable.empty(); };
  if (std::ranges::none_of(policies, suits)) throw Error("no policy can run: nothing is saved");
  options.save.write(pack_steps(origin, cluster.topology, policies));
  for (const SavedPolicy& policy : policies) {
    if (!suits(policy)) continue;
    fmt::print(options.save.beside(), "{}: {} for {}\n", policy.name,
               counted(policy.steps.size(), origin.iteration ? "iteration" : "step"),
               counted(cluster.topology.gpu_count(), "GPU"));
  }
}

void print_plan(const PlanOptions& options) {
  const Scenario scenario = options.scenario.read();
  check_one_case(scenario, "plan");
  const Inputs inputs = open_inputs(scenario);
  for (const Diagnostic& w : inputs.warnings) fmt::print(stderr, "{}", w.str());
  PolicyPlanner steps(view_of(scenario, inputs, 0), {.explicit_rows = options.rows});
  const PlannedStep planned = steps.plan(0);
  if (options.check) {
    const std::size_t layers = prove_each_layer(steps.planner(), planned);
    fmt::print(stderr,
               "delivery proved: {}, {}{}: every choice reaches its expert and returns once\n",
               counted(planned.plan.ops.size(), "op"), counted(layers, "layer"),
               scenario.iteration ? " of microbatches that differ" : "");
  }
  if (!options.nccl_tests.empty()) {
    const int files = write_nccl_tests(planned.plan, options.nccl_tests);
    fmt::print(options.out.beside(), "{} for alltoallv_perf on {} in {}\n",
               counted(files, "exchange"), counted(planned.plan.gpus, "GPU"), options.nccl_tests);
    if (!options.out.asked()) return;
  }
  (options.out.asked() ? options.out : OutputFile("-")).write(to_text(planned.plan));
}

}  // namespace

void add_plan_command(CommandLine& app) {
  const auto options = std::make_shared<PlanOptions>();
  CommandLine command = app.add_subcommand("plan", "Prints the plan of a scenario's first step");
  options->scenario.add_to(command);
  options->out.add_to(command, "-o,--out", "writes the plan to a file");
  command.add_option("--nccl-tests", options->nccl_tests,
                     "writes each exchange as a matrix for alltoallv_perf into this folder");
  command.add_flag("--rows", options->rows, "adds the explicit token rows of every exchange");
  command.add_flag("--check", options->check,
                   "proves that every token reaches its experts and returns, once");
  options->save.add_to(
      command, "--save",
      "writes all steps or iterations of all policies into a file for moesim-hw run --saved");
  command.callback(
      [options] { options->save.asked() ? save_steps(*options) : print_plan(*options); });
}

}  // namespace moesim
