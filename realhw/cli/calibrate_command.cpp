// SPDX-License-Identifier: Apache-2.0
// moesim-hw calibrate: measures a cluster and writes what the simulator reads of it.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "realhw/calibrate/cluster_file.h"
#include "realhw/calibrate/gpu_files.h"
#include "realhw/calibrate/kernel_plans.h"
#include "realhw/calibrate/link_files.h"
#include "realhw/cli/agreed.h"
#include "realhw/cli/commands.h"
#include "sim/base/data_files.h"
#include "sim/base/files.h"
#include "sim/topology/reader.h"

namespace moesim {
namespace {

/// What is measured, as every rank reads it.
struct Measurable {
  TopologyFile topology;
  MoeModel model;
  std::map<std::string, GpuModel> gpus;  // by the topology's name for them
  std::vector<ExchangePlan> exchanges;
  std::vector<MicroPlan> kernels;
  MicroPlan overlap;
  std::vector<const MicroPlan*> plans;  // all of them
  std::string identity;
};

class CalibrateCommand : public Command {
 public:
  explicit CalibrateCommand(CLI::App& app) {
    CLI::App* command =
        app.add_subcommand("calibrate", "Measures a cluster; writes what the simulator reads");
    command->add_option("--topology", topology_, "name in topologies/, or a file")->required();
    command->add_option("--model", model_, "name in models/moe/, or a file: shapes of the GEMMs")
        ->required();
    command->add_option("--set", set_, "topology.KEY=VALUE or model.KEY=VALUE")
        ->allow_extra_args(false);
    command
        ->add_option("-o,--out", prefix_,
                     "PREFIX: writes PREFIX.calib.yaml and, beside it, the files that it names")
        ->required();
    command->add_flag("--quick", quick_, "fewer and smaller measurements, for a first look");
    command->add_flag("--resume", resume_, "goes on with the times of an interrupted calibration");
    command->add_option("--rounds", rounds_, "of all measurements, in turn (5; quick: 2)")
        ->check(CLI::Range(1, 1000));
    command
        ->add_option("--longest", longest_,
                     "of the measured exchanges, in milliseconds by the topology (100; quick: 20)")
        ->check(CLI::Range(1e-3, 1e6));
    command->add_option("--rows", rows_, "most rows of all experts of a rank (4096; quick: 128)")
        ->check(CLI::Range(1, 1 << 24));
    backend_.add_to(*command);
  }

  int run(Job& job) override {
    std::optional<Measurable> what;
    RoundOptions rounds;
    rounds.rounds = rounds_ > 0 ? rounds_ : quick_ ? 2 : 5;
    const bool readable = agreed(job, [&] {
      what.emplace(read(job.ranks()));
      for (const ExchangePlan& plan : what->exchanges) what->plans.push_back(&plan.micro);
      for (const MicroPlan& plan : what->kernels) what->plans.push_back(&plan);
      if (job.ranks() > 1) what->plans.push_back(&what->overlap);
      for (const MicroPlan* plan : what->plans) check_plan(plan->plan);
      what->identity = identity_of(what->plans, rounds);
    });
    if (!readable) return bad_input;
    Times times;
    if (!resume_times(job, what->identity, times)) return bad_input;
    std::unique_ptr<HardwareBackend> backend;
    if (!agreed(job, [&] { backend = backend_.open(job); })) return bad_input;
    Provenance provenance = provenance_of(job, *backend, rounds);
    provenance.moesim = MOESIM_RELEASE;
    provenance.topology = described(what->topology.topology.name(), "topology.");
    provenance.model = described(what->model.name, "model.");
    const bool first = job.rank() == 0;
    if (first) print_header(*what, provenance);
    std::optional<TimesFile> file;
    if (!agreed(job, [&] {
          if (first) file.emplace(CalibrationFiles(prefix_).times(), what->identity, resumable_);
        })) {
      return bad_input;
    }
    measure_rounds(
        job, *backend, what->plans, ExpertShape(what->model), rounds, times,
        [&](const std::string& plan, int round, const std::vector<Timeline>& timelines) {
          file->add(plan, round, timelines);
        },
        [&](const std::string& plan, int round) { tell(plan, round, rounds.rounds); });
    if (first) finish(*what, provenance, times);
    return 0;
  }

 private:
  std::vector<Override> overrides(const std::string& prefix) const {
    std::vector<Override> list;
    for (const std::string& text : set_) {
      Override o = parse_override(text);
      o.flag = "--set " + text;
      if (!o.path.starts_with("topology.") && !o.path.starts_with("model.")) {
        throw Error(o.flag + ": neither of 'topology' nor of 'model'",
                    "--set topology.KEY=VALUE or --set model.KEY=VALUE");
      }
      if (!o.path.starts_with(prefix)) continue;
      o.path.erase(0, prefix.size());
      list.push_back(o);
    }
    return list;
  }

  std::string described(std::string name, const std::string& prefix) const {
    for (const Override& o : overrides(prefix)) name += fmt::format(" {}={}", o.path, o.value);
    return name;
  }

  Measurable read(int ranks) const {
    Measurable what{read_topology(data_file("topologies", topology_), overrides("topology.")),
                    read_moe_model(data_file("models/moe", model_), overrides("model.")),
                    {},
                    {},
                    {},
                    {},
                    {},
                    {}};
    const Topology& topology = what.topology.topology;
    if (topology.gpu_count() != ranks) {
      throw Error(fmt::format("{} has {} GPUs, but {} process{}", topology.name(),
                              topology.gpu_count(), ranks, ranks == 1 ? " runs" : "es run"),
                  "a topology of as many GPUs as ranks, by --set topology.nodes=...");
    }
    ExchangeSizes sizes;
    if (quick_) sizes = {.longest = Seconds(0.02), .most = Bytes(32 << 20), .step = 2};
    if (longest_ > 0) sizes.longest = Seconds(longest_ * 1e-3);
    what.exchanges = exchange_plans(topology, sizes);
    KernelSizes kernels;
    if (quick_)
      kernels = {.rows = 128, .step = 4, .most = Bytes(4 << 20), .exchange = Seconds(1e-3)};
    if (rows_ > 0) kernels.rows = rows_;
    what.kernels = kernel_plans(topology, what.model, kernels);
    what.overlap = overlap_plan(topology, what.model, kernels);
    for (int g = 0; g < ranks; ++g) {
      const std::string& name = topology.gpu_model(GpuId(g));
      if (what.gpus.count(name) == 0) {
        what.gpus[name] = read_gpu_model(data_file("models/gpu", name));
      }
    }
    return what;
  }

  /// What an earlier run has measured, read by rank 0 for all; false: it cannot be taken.
  bool resume_times(Job& job, const std::string& identity, Times& times) {
    const std::string path = CalibrationFiles(prefix_).times();
    std::string text;
    const bool known = agreed(job, [&] {
      if (job.rank() == 0 && resume_ && std::filesystem::exists(path)) text = read_file(path);
    });
    if (!known) return false;
    text = job.broadcast(text);
    resumable_ = !text.empty();
    return !resumable_ || agreed(job, [&] { times = parse_times(text, path, identity); });
  }

  void print_header(const Measurable& what, const Provenance& p) const {
    for (const Diagnostic& w : what.topology.warnings) fmt::print(stderr, "{}", w.str());
    fmt::print("# moesim-hw calibrate, {}, {} ranks on {} host{}, {}\n", p.backend, p.ranks,
               p.hosts.size(), p.hosts.size() == 1 ? "" : "s", fmt::join(p.processors, "; "));
    fmt::print("# {}, {}; {} plans, {} rounds of {} runs after one that is compared\n\n",
               p.topology, p.model, what.plans.size(), p.rounds.rounds, p.rounds.repeats);
    std::fflush(stdout);
  }

  static void tell(const std::string& plan, int round, int rounds) {
    if (isatty(STDERR_FILENO) == 0) return;
    fmt::print(stderr, "\r\x1b[Kround {} of {}: {}", round + 1, rounds, plan);
    std::fflush(stderr);
  }

  void finish(const Measurable& what, const Provenance& provenance, const Times& times) const {
    if (isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r\x1b[K");
    const CalibrationFiles files(prefix_);
    const ExchangeFit fit = fit_exchanges(what.topology.topology, what.exchanges, times);
    std::vector<const MicroPlan*> kernels;
    for (const MicroPlan& plan : what.kernels) kernels.push_back(&plan);
    const OverlapFit overlap = fit_overlap(what.overlap, times);
    const auto gpus =
        fit_kernels(what.topology.topology, kernels, what.gpus, overlap.factors, times);
    write_calibration(files, fit, gpus, provenance);
    auto as_measured = overrides("topology.");
    as_measured.push_back({"calibration", std::filesystem::absolute(files.cluster()), ""});
    const TopologyFile calibrated = read_topology(data_file("topologies", topology_), as_measured);
    for (const auto& [name, gpu] : gpus) fmt::print("{}\n", kernel_report(name, gpu));
    fmt::print("{}\n", overlap_report(overlap));
    fmt::print("{}\nthe same exchanges as the simulator tells their times now:\n{}",
               exchange_report(fit),
               check_report(check_exchanges(calibrated.topology, what.exchanges, fit, times)));
    fmt::print(
        "\n{}: take it by `calibration: {}` in the topology, or --set "
        "topology.calibration={}\n",
        files.cluster(), files.cluster(), files.cluster());
  }

  std::string topology_, model_, prefix_;
  std::vector<std::string> set_;
  bool quick_ = false, resume_ = false, resumable_ = false;
  int rounds_ = 0;      // 0: by quick
  double longest_ = 0;  // ms; 0: by quick
  int rows_ = 0;        // 0: by quick
  BackendFlags backend_;
};

}  // namespace

std::unique_ptr<Command> add_calibrate_command(CLI::App& app) {
  return std::make_unique<CalibrateCommand>(app);
}

}  // namespace moesim
