// SPDX-License-Identifier: Apache-2.0
#include "realhw/calibrate/planned_calibration.h"

#include <fmt/format.h>

#include <filesystem>

#include "realhw/calibrate/calibration_fit.h"
#include "realhw/calibrate/kernel_plans.h"
#include "realhw/calibrate/rounds.h"
#include "sim/base/data_files.h"
#include "sim/base/files.h"
#include "sim/saved/cluster_json.h"

namespace moesim {
namespace {

std::vector<Override> overrides(const CalibrationInputs& inputs, const std::string& prefix) {
  std::vector<Override> list;
  for (const std::string& text : inputs.set) {
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

std::string described(std::string name, const std::vector<Override>& changes) {
  for (const Override& o : changes) name += fmt::format(" {}={}", o.path, o.value);
  return name;
}

ExchangeSizes exchange_sizes(const CalibrationInputs& inputs) {
  ExchangeSizes sizes;
  if (inputs.quick) sizes = {.longest = Seconds(0.02), .most = Bytes(32 << 20), .step = 2};
  if (inputs.longest > 0) sizes.longest = Seconds(inputs.longest * 1e-3);
  return sizes;
}

KernelSizes kernel_sizes(const CalibrationInputs& inputs) {
  KernelSizes sizes;
  if (inputs.quick) {
    sizes = {.rows = 128, .step = 4, .most = Bytes(4 << 20), .exchange = Seconds(1e-3)};
  }
  if (inputs.rows > 0) sizes.rows = inputs.rows;
  return sizes;
}

TopologyFile read_cluster_of(const CalibrationInputs& inputs,
                             const std::vector<Override>& changes) {
  return read_topology(data_file("topologies", inputs.topology), changes);
}

}  // namespace

PlannedCalibration::PlannedCalibration(const CalibrationInputs& inputs,
                                       const std::function<void(const Topology&)>& check)
    : file_(read_cluster_of(inputs, overrides(inputs, "topology."))),
      model_(read_moe_model(data_file("models/moe", inputs.model), overrides(inputs, "model."))) {
  if (check) check(topology());
  const int ranks = topology().gpu_count();
  for (GpuId gpu(0); gpu.value < ranks; ++gpu.value) {
    const std::string& name = topology().gpu_model(gpu);
    if (gpus_.count(name) == 0) gpus_[name] = read_gpu_model(data_file("models/gpu", name));
  }
  const KernelSizes sizes = kernel_sizes(inputs);
  exchanges_ = exchange_plans(topology(), exchange_sizes(inputs));
  kernels_ = kernel_plans(topology(), model_, sizes);
  overlap_ = overlap_plan(topology(), model_, sizes);
  for (const MicroPlan* plan : plans()) check_plan(plan->plan);
  RoundOptions rounds;
  rounds.rounds = inputs.rounds > 0 ? inputs.rounds : inputs.quick ? 2 : 5;
  origin_ = {MOESIM_RELEASE,
             inputs,
             described(topology().name(), overrides(inputs, "topology.")),
             described(model_.name, overrides(inputs, "model.")),
             hash_of(cluster_json(topology()).dump()),
             ranks,
             ExpertShape(model_),
             rounds,
             identity_of(plans(), rounds)};
}

std::vector<const MicroPlan*> PlannedCalibration::plans() const {
  std::vector<const MicroPlan*> all;
  for (const ExchangePlan& plan : exchanges_) all.push_back(&plan.micro);
  for (const MicroPlan& plan : kernels_) all.push_back(&plan);
  if (topology().gpu_count() > 1) all.push_back(&overlap_);
  return all;
}

std::vector<const MicroPlan*> PlannedCalibration::kernels() const {
  std::vector<const MicroPlan*> all;
  for (const MicroPlan& plan : kernels_) all.push_back(&plan);
  return all;
}

Topology PlannedCalibration::calibrated(const CalibrationFiles& files) const {
  auto changes = overrides(origin_.inputs, "topology.");
  changes.push_back({"calibration", std::filesystem::absolute(files.cluster()), ""});
  return read_cluster_of(origin_.inputs, changes).topology;
}

std::string PlannedCalibration::conclude(const CalibrationFiles& files) const {
  return fit_calibration(*this, read_times(files.times()), files.times(), files);
}

}  // namespace moesim
