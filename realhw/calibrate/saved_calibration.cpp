// SPDX-License-Identifier: Apache-2.0
#include "realhw/calibrate/saved_calibration.h"

#include <fmt/format.h>

#include <set>

#include "realhw/calibrate/origin_json.h"
#include "realhw/calibrate/rounds.h"
#include "sim/base/figures.h"
#include "sim/base/files.h"
#include "sim/saved/saved_lines.h"
#include "sim/saved/step_json.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

constexpr SavedFormat calibration_format{"moesim-calibration", 2, "saved calibration", "plan",
                                         "moesim-hw calibrate --save"};

class SavedCalibration : public CalibrationRun {
 public:
  explicit SavedCalibration(const std::string& path) {
    SavedLines lines(calibration_format, path);
    std::vector<std::pair<std::string, std::string>> listed;  // name and hash
    origin_ = lines.header([&](const Json& header) {
      for (const Json& plan : header.at("plans")) {
        listed.emplace_back(plan.at("name").get<std::string>(), plan.at("xxh3").get<std::string>());
      }
      check_names(listed);
      return read_calibration_origin(header);
    });
    for (const auto& entry : listed) {
      const std::string& name = entry.first;
      plans_.push_back(lines.next(entry.second, [&](const Json& json, const std::string& place) {
        return read_micro(json, fmt::format("{}, the plan '{}'", place, name), name);
      }));
    }
    lines.end();
    if (identity_of(plans(), origin_.rounds) == origin_.plans) return;
    throw error_in(path, "the plans are not the ones that line 1 names",
                   "write it again with moesim-hw calibrate --save", 1);
  }

  const CalibrationOrigin& origin() const override { return origin_; }
  std::vector<const MicroPlan*> plans() const override {
    std::vector<const MicroPlan*> all;
    for (const MicroPlan& plan : plans_) all.push_back(&plan);
    return all;
  }
  std::string conclude(const CalibrationFiles& files) const override {
    return fmt::format(
        "{}: all times of {}; take it where that was planned, and fit: moesim-hw calibrate --times "
        "{} -o {}\n",
        files.times(), origin_.topology, file_name(files.times()), files.name());
  }

 private:
  static void check_names(const std::vector<std::pair<std::string, std::string>>& listed) {
    if (listed.empty()) throw Error("there are no plans");
    std::set<std::string> names;
    for (const auto& entry : listed) {
      if (!names.insert(entry.first).second) {
        throw Error(fmt::format("two plans are named '{}'", entry.first));
      }
    }
  }

  MicroPlan read_micro(const Json& json, const std::string& place, const std::string& name) const {
    RoutedPlan routed = read_plan(json, place);
    if (routed.plan.gpus != origin_.ranks) {
      throw Error(fmt::format("the plan has {}, the cluster {}", counted(routed.plan.gpus, "GPU"),
                              origin_.ranks));
    }
    MicroPlan micro{name, std::move(routed.plan), {}};
    for (ServedLayer& layer : routed.layers) micro.layers.emplace_back(std::move(layer));
    return micro;
  }

  CalibrationOrigin origin_;
  std::vector<MicroPlan> plans_;
};

}  // namespace

std::string pack_calibration(const CalibrationRun& calibration) {
  Json header = origin_json(calibration.origin()), list = Json::array();
  std::vector<std::string> lines;
  for (const MicroPlan* micro : calibration.plans()) {
    Json json = Json::object();
    add_plan(json, micro->plan, {micro->layers.begin(), micro->layers.end()});
    lines.push_back(json.dump() + "\n");
    list.push_back({{"name", micro->name}, {"xxh3", hash_of(lines.back())}});
  }
  header["plans"] = std::move(list);
  return pack_lines(calibration_format, header, lines);
}

std::unique_ptr<CalibrationRun> saved_calibration(const std::string& path) {
  return std::make_unique<SavedCalibration>(path);
}

}  // namespace moesim
