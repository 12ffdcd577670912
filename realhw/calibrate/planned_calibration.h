// SPDX-License-Identifier: Apache-2.0
// A calibration planned from topology and model, which needs YAML.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "realhw/calibrate/calibration.h"
#include "realhw/calibrate/exchange_plans.h"
#include "sim/model/gpu_model.h"
#include "sim/model/moe_model.h"
#include "sim/topology/reader.h"

namespace moesim {

class PlannedCalibration : public CalibrationRun {
 public:
  /// `check` sees the topology before anything is planned and may throw Error, as reading does.
  explicit PlannedCalibration(const CalibrationInputs& inputs,
                              const std::function<void(const Topology&)>& check = {});

  const CalibrationOrigin& origin() const override { return origin_; }
  std::vector<const MicroPlan*> plans() const override;
  std::vector<Diagnostic> warnings() const override { return file_.warnings; }
  /// Fits the times: see fit_calibration.
  std::string conclude(const CalibrationFiles& files) const override;

  const Topology& topology() const { return file_.topology; }
  /// As it is once it takes a calibration.
  Topology calibrated(const CalibrationFiles& files) const;
  const std::map<std::string, GpuModel>& gpus() const { return gpus_; }
  const std::vector<ExchangePlan>& exchanges() const { return exchanges_; }
  std::vector<const MicroPlan*> kernels() const;
  const MicroPlan& overlap() const { return overlap_; }

 private:
  CalibrationOrigin origin_;
  TopologyFile file_;
  MoeModel model_;
  std::map<std::string, GpuModel> gpus_;  // by the topology's name for them
  std::vector<ExchangePlan> exchanges_;
  std::vector<MicroPlan> kernels_;
  MicroPlan overlap_;
};

}  // namespace moesim
