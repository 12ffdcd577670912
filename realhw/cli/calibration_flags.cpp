// SPDX-License-Identifier: Apache-2.0
#include "realhw/cli/calibration_flags.h"

#include <fmt/format.h>

#include "realhw/calibrate/saved_calibration.h"
#include "realhw/cli/source_flags.h"
#ifdef MOESIM_SCENARIOS
#include "realhw/calibrate/planned_calibration.h"
#endif

namespace moesim {
namespace {

#ifdef MOESIM_SCENARIOS
std::unique_ptr<CalibrationRun> planned(const CalibrationInputs& inputs, int ranks) {
  if (inputs.topology.empty() || inputs.model.empty()) {
    throw Error(
        fmt::format("{} is missing", inputs.topology.empty() ? "--topology" : "--model"),
        "--topology and --model say what to measure, or --saved FILE, or --times what to fit");
  }
  return std::make_unique<PlannedCalibration>(inputs, [ranks](const Topology& topology) {
    if (ranks > 0) check_ranks(topology.name(), topology.gpu_count(), ranks);
  });
}
#endif

}  // namespace

void CalibrationFlags::add_to(CommandLine& command) {
#ifdef MOESIM_SCENARIOS
  options_ = {
      command.add_option("--topology", inputs_.topology, "name in topologies/, or a file"),
      command.add_option("--model", inputs_.model,
                         "name in models/moe/, or a file: shapes of the GEMMs"),
      command.add_option("--set", inputs_.set, "topology.KEY=VALUE or model.KEY=VALUE")
          .one_value_each(),
      command.add_flag("--quick", inputs_.quick,
                       "fewer and smaller measurements, for a first look"),
      command.add_option("--rounds", inputs_.rounds, "rounds over all measurements (5; quick: 2)")
          .range(1, 1000),
      command
          .add_option("--longest", inputs_.longest,
                      "longest measured exchange, in ms by the topology's rates (100; quick: 20)")
          .range(1e-3, 1e6),
      command
          .add_option("--rows", inputs_.rows,
                      "most rows of all experts of a rank (4096; quick: 128)")
          .range(1, 1 << 24)};
#else
  refuse_without_yaml(command, {"--topology", "--model", "--set"}, "plans no calibration",
                      "--saved FILE measures what moesim-hw calibrate --save FILE planned");
#endif
  Flag saved = command.add_option(
      "--saved", saved_,
      "measures what calibrate --save planned; calibrate --times fits the times");
  for (Flag option : options_) saved.excludes(option);
  options_.push_back(saved);
}

std::unique_ptr<CalibrationRun> CalibrationFlags::open(int ranks) const {
  if (!saved_.empty()) {
    auto calibration = saved_calibration(saved_);
    const CalibrationOrigin& origin = calibration->origin();
    check_ranks(origin.topology, origin.ranks, ranks);
    return calibration;
  }
#ifdef MOESIM_SCENARIOS
  return planned(inputs_, ranks);
#else
  throw Error("nothing to measure", "--saved FILE");
#endif
}

}  // namespace moesim
