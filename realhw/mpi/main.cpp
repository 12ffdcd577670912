// SPDX-License-Identifier: Apache-2.0
// moesim-hw: runs the plans that moesim simulates on CPUs, one MPI process a GPU.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <optional>

#include "realhw/core/gemm.h"
#include "realhw/mpi/measure.h"
#include "sim/base/files.h"
#include "sim/flags/scenario_flags.h"
#include "sim/flags/usage.h"
#include "sim/policy/unsuitable.h"

namespace moesim {
namespace {

constexpr int run_failed = 1;
constexpr int bad_input = 2;

struct Options {
  ScenarioFlags scenario;
  MeasureOptions measure;
  std::string json;
};

/// What every rank must do alike, such as reading input. Where any of them throws Error, the lowest
/// one prints it and nobody goes on: returns false.
template <class Action>
bool agreed(const MpiSession& mpi, Action action) {
  std::string complaint;
  try {
    action();
  } catch (const Error& e) {
    complaint = e.what();
  }
  int mine = complaint.empty() ? mpi.ranks() : mpi.rank(), lowest = 0;
  check(MPI_Allreduce(&mine, &lowest, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
  if (lowest == mpi.rank()) fmt::print(stderr, "{}", complaint);
  return lowest == mpi.ranks();
}

/// False: only help or the version was asked for.
bool parse(int argc, char** argv, bool first, Options& options) {
  CLI::App app{
      "Runs the plans that moesim simulates with real data on CPUs, one MPI process a GPU."};
  app.name("moesim-hw");
  app.set_version_flag("--version", std::string("moesim-hw ") + MOESIM_RELEASE);
  app.require_subcommand(1);
  app.footer("Exit codes: 0 done, 1 the run failed or computed wrong numbers, 2 bad input.");
  CLI::App* run = app.add_subcommand("run", "Measures the policies of a scenario");
  options.scenario.add_to(*run);
  MeasureOptions& m = options.measure;
  run->add_option("--warmup", m.warmup, "runs of a step before those that count (default 1)")
      ->check(CLI::Range(0, 1000000));
  run->add_option("--repeats", m.repeats, "runs of a step that count (default 5)")
      ->check(CLI::Range(1, 1000000));
  const auto keep_transport = [&m](const std::string& name) {
    if (name != "p2p" && name != "alltoallv") {
      throw Error(fmt::format("--transport {} is not known", name),
                  did_you_mean(name, {"p2p", "alltoallv"}));
    }
    m.transport = name == "p2p" ? Transport::p2p : Transport::alltoallv;
  };
  run->add_option_function<std::string>(
      "--transport", keep_transport,
      "p2p (default): a send and a receive per peer; or alltoallv: one MPI_Ialltoallv");
  run->add_option("--timeout", m.timeout, "seconds without progress that end the run (default 30)")
      ->check(CLI::Range(1e-6, 1e9));
  run->add_option("--check", m.compared,
                  "tokens of a rank and layer that are compared with the reference (default: all)")
      ->check(CLI::Range(0, 1000000000));
  run->add_option("--json", options.json, "writes everything printed, and more, to a file");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() != 0) throw usage_error(app, e);
    if (first) app.exit(e);  // prints the help or the version
    return false;
  }
  return true;
}

/// The scenario's inputs, if hardware can run them.
Inputs open_checked(const Scenario& scenario, int ranks) {
  if (scenario.topologies.size() != 1) throw Error("moesim-hw takes one topology");
  if (scenario.fidelities != std::vector{Fidelity::port}) {
    throw Error("'fidelity' has no effect on hardware", "leave it out");
  }
  if (scenario.p2p_order != P2pOrder::all_at_once) {
    throw Error("'p2p_order' has no effect on hardware", "leave it out");
  }
  Inputs inputs = open_inputs(scenario);
  const Topology& topology = inputs.clusters[0].topology;
  if (topology.gpu_count() != ranks) {
    throw Error(fmt::format("{} has {} GPUs, but {} MPI process{}", topology.name(),
                            topology.gpu_count(), ranks, ranks == 1 ? " runs" : "es run"),
                fmt::format("mpirun -n {} moesim-hw run ..., or another cluster by --set "
                            "topology.nodes=...",
                            topology.gpu_count()));
  }
  return inputs;
}

Measured measure_if_suitable(const MpiSession& mpi, const Scenario& scenario, const Inputs& inputs,
                             const SystemSpec& system, const MeasureOptions& options) {
  try {
    return measure(mpi, scenario, inputs, system, options);
  } catch (const Unsuitable& e) {  // on all ranks alike, before anything runs
    Measured result;
    result.policy = system.name;
    result.unsuitable = e.what();
    return result;
  }
}

int run(const MpiSession& mpi, const Options& options) {
  Scenario scenario;
  std::optional<Inputs> inputs;
  const bool readable = agreed(mpi, [&] {
    scenario = options.scenario.read();
    inputs.emplace(open_checked(scenario, mpi.ranks()));
  });
  if (!readable) return bad_input;
  const bool first = mpi.rank() == 0;
  const HardwareJob job{
      mpi_version(),           mpi.ranks(),
      count_hosts(),           options.measure.warmup,
      options.measure.repeats, options.measure.transport == Transport::p2p ? "p2p" : "alltoallv"};
  if (first) {
    for (const Diagnostic& w : inputs->warnings) fmt::print(stderr, "{}", w.str());
    fmt::print("{}", hardware_header(job, scenario, *inputs));
    std::fflush(stdout);
  }
  std::vector<Measured> cases;
  const bool planned = agreed(mpi, [&] {
    for (const SystemSpec& system : inputs->systems) {
      cases.push_back(measure_if_suitable(mpi, scenario, *inputs, system, options.measure));
    }
  });
  if (!planned) return bad_input;
  std::int64_t wrong = 0;
  for (const Measured& m : cases) wrong += m.compared.wrong();
  if (first) {
    fmt::print("{}\n{}", hardware_table(cases), op_table(cases));
    for (const Measured& m : cases) {
      if (!m.unsuitable.empty()) fmt::print(stderr, "{}: {}", m.policy, m.unsuitable);
    }
    if (!options.json.empty()) {
      write_file(options.json, hardware_json(job, scenario, *inputs, cases));
    }
    if (wrong > 0) fmt::print(stderr, "moesim-hw: the run failed: {} wrong elements\n", wrong);
  }
  return wrong > 0 ? run_failed : 0;
}

int run(int argc, char** argv, const MpiSession& mpi) {
  Options options;
  bool go_on = true;
  if (!agreed(mpi, [&] { go_on = parse(argc, argv, mpi.rank() == 0, options); })) return bad_input;
  set_gemm_threads(1);
  return go_on ? run(mpi, options) : 0;
}

}  // namespace
}  // namespace moesim

int main(int argc, char** argv) {
  std::optional<moesim::MpiSession> mpi;
  try {
    mpi.emplace(argc, argv);
    return moesim::run(argc, argv, *mpi);
  } catch (const std::exception& e) {
    fmt::print(stderr, "moesim-hw: the run failed: {}\n", e.what());
    if (!mpi) return moesim::run_failed;
    moesim::abort_all(moesim::run_failed);
  }
}
