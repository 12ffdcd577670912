// SPDX-License-Identifier: Apache-2.0
#include "realhw/calibrate/calibration_fit.h"

#include <fmt/format.h>

#include <algorithm>

#include "realhw/calibrate/cluster_file.h"
#include "realhw/calibrate/rounds.h"

namespace moesim {
namespace {

/// Whether the times are of what was planned here.
void check_origin(const CalibrationOrigin& here, const CalibrationOrigin& there,
                  const std::string& file) {
  if (here.cluster != there.cluster) {
    throw error_in(file, fmt::format("topology {} was another one then", there.topology),
                   "fit with the topology that was measured");
  }
  if (here.plans != there.plans) {
    throw error_in(
        file,
        fmt::format("these times are of other plans than {} and {} have here", there.topology,
                    there.model),
        fmt::format("moesim-hw {} planned them; fit with that, and with the model as it was",
                    there.moesim));
  }
}

/// The fewest multiprocessors of the model's GPUs; 0 if the times do not say.
int sms_of(const std::string& model, const Topology& topology, const std::vector<int>& of_ranks) {
  int least = 0;
  for (GpuId rank(0); rank.index() < of_ranks.size(); ++rank.value) {
    const int sms = of_ranks[rank.index()];
    if (topology.gpu_model(rank) == model) least = least == 0 ? sms : std::min(least, sms);
  }
  return least;
}

}  // namespace

std::string fit_calibration(const PlannedCalibration& planned, const TimesRead& read,
                            const std::string& file, const CalibrationFiles& files) {
  const CalibrationOrigin& origin = planned.origin();
  const Times& times = read.times;
  check_origin(origin, read.head.origin, file);
  check_times(times, planned.plans(), origin.rounds, file);
  check_complete(times, planned.plans(), origin.rounds, file);
  const ExchangeFit fit = fit_exchanges(planned.topology(), planned.exchanges(), times);
  const OverlapFit overlap = fit_overlap(planned.overlap(), times);
  auto gpus =
      fit_kernels(planned.topology(), planned.kernels(), planned.gpus(), overlap.factors, times);
  for (auto& [name, gpu] : gpus) {
    gpu.model.sms = sms_of(name, planned.topology(), read.head.provenance.sms);
  }
  write_calibration(files, fit, gpus, read.head.provenance);
  std::string report;
  for (const auto& [name, gpu] : gpus) report += kernel_report(name, gpu) + "\n";
  const auto checks = check_exchanges(planned.calibrated(files), planned.exchanges(), fit, times);
  return report +
         fmt::format("{}\n{}\nthe same exchanges as the simulator tells their times now:\n{}\n",
                     overlap_report(overlap), exchange_report(fit), check_report(checks)) +
         fmt::format(
             "{}: take it by `calibration: {}` in the topology, or --set "
             "topology.calibration={}\n",
             files.cluster(), files.cluster(), files.cluster());
}

std::string fit_times(const std::string& file, const CalibrationFiles& files) {
  const TimesRead read = read_times(file);
  const PlannedCalibration planned(read.head.origin.inputs);
  const std::string header = header_of(read.head.provenance, planned.plans().size());
  return header + fit_calibration(planned, read, file, files);
}

}  // namespace moesim
