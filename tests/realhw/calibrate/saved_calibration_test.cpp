// SPDX-License-Identifier: Apache-2.0
// Saved calibrations read back as they were planned; files that are not whole or do not fit are
// refused; times are fitted to the same files wherever that is done.
#include "realhw/calibrate/saved_calibration.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "realhw/calibrate/calibration_fit.h"
#include "realhw/calibrate/rounds.h"
#include "sim/base/data_files.h"
#include "sim/base/files.h"
#include "sim/base/gzip.h"
#include "sim/plan/text.h"
#include "tests/error_of.h"
#include "tests/realhw/calibrate/simulated_times.h"
#include "tests/saved/saved_file.h"

namespace moesim {
namespace {

using testing::HasSubstr;
using Json = nlohmann::ordered_json;

CalibrationInputs inputs() {
  CalibrationInputs in;
  in.topology = "hiermoe-a6000";
  in.model = "tiny-moe";
  in.set = {"topology.nodes=2", "topology.node.gpus=2", "model.hidden=64"};
  in.quick = true;
  in.rounds = 2;
  in.longest = 5;
  in.rows = 16;
  return in;
}

const PlannedCalibration& planned() {
  static const PlannedCalibration p(inputs());
  return p;
}

class SavedCalibrationFile : public testing::Test {
 protected:
  SavedCalibrationFile() { std::filesystem::create_directories(folder_); }
  ~SavedCalibrationFile() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<CalibrationRun> read(const std::string& content) {
    write_file(path_, content);
    return saved_calibration(path_);
  }
  std::string complaint(const std::string& content) {
    try {
      read(content);
    } catch (const Error& e) {
      EXPECT_EQ(e.diagnostics()[0].file.rfind(path_, 0), 0U) << e.what();
      return e.what();
    }
    return "";
  }
  /// The lines of a sound file, without the last one's hash.
  std::vector<std::string> lines() {
    write_file(path_, pack_calibration(planned()));
    std::vector<std::string> all = test::saved_lines(path_);
    all.pop_back();
    return all;
  }
  /// The complaint about a file with a changed line whose hashes all fit.
  std::string broken(std::size_t line, const std::function<void(Json&)>& change) {
    return complaint(test::rewritten(lines(), line, change));
  }
  /// The number of the line of a plan, counted from 0.
  static std::size_t line_of(const std::string& name) {
    const auto plans = planned().plans();
    return static_cast<std::size_t>(std::ranges::find(plans, name, &MicroPlan::name) -
                                    plans.begin()) +
           1;
  }
  /// Times of all plans but the last `missing`, as the topology would have them.
  std::string write_times(std::size_t missing = 0, const std::vector<int>& sms = {}) const {
    const auto plans = planned().plans();
    const auto model = std::make_shared<const GpuModel>(planned().gpus().at("a6000"));
    Times times;
    for (const MicroPlan* plan : plans) {
      add_simulated(planned().topology(), GpuModels(4, model), *plan, 1, {0.1, 20}, times);
    }
    TimesHead head{planned().origin(), {}};
    head.provenance.date = "today";
    head.provenance.hosts = {"here"};
    head.provenance.sms = sms;
    head.provenance.set_origin(head.origin);
    const std::string path = (folder_ / "there.times.jsonl").string();
    TimesFile file(path, head);
    for (int round = 0; round < head.origin.rounds.rounds; ++round) {
      for (std::size_t i = 0; i + (round > 0 ? missing : 0) < plans.size(); ++i) {
        const Timeline& timeline = times[plans[i]->name][0][0];
        file.add(plans[i]->name, round, {timeline, timeline, timeline});
      }
    }
    return path;
  }
  CalibrationFiles files(const std::string& folder) const {
    std::filesystem::create_directories(folder_ / folder);
    return CalibrationFiles((folder_ / folder / "mine").string());
  }
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / fmt::format("saved-calibration-{}", ::getpid());
  std::string path_ = (folder_ / "saved.moesim-calibration").string();
};

TEST_F(SavedCalibrationFile, ReadsBackWhatWasPlanned) {
  const std::string packed = pack_calibration(planned());
  const auto saved = read(packed);
  const CalibrationOrigin &was = planned().origin(), &is = saved->origin();
  EXPECT_EQ(is.topology, "hiermoe-a6000 nodes=2 node.gpus=2");
  EXPECT_EQ(is.model, "tiny-moe hidden=64");
  EXPECT_EQ(is.ranks, 4);
  EXPECT_EQ(is.rounds.rounds, 2);
  EXPECT_EQ(is.shape.hidden, 64);
  EXPECT_EQ(is.shape.gated, was.shape.gated);
  EXPECT_EQ(is.plans, was.plans);
  ASSERT_EQ(saved->plans().size(), planned().plans().size());
  std::size_t layers = 0;
  for (std::size_t i = 0; i < saved->plans().size(); ++i) {
    const MicroPlan &plan = *saved->plans()[i], &original = *planned().plans()[i];
    EXPECT_EQ(plan.name, original.name);
    EXPECT_EQ(plan.plan, original.plan);
    ASSERT_EQ(plan.layers.size(), original.layers.size());
    for (std::size_t l = 0; l < plan.layers.size(); ++l, ++layers) {
      EXPECT_EQ(plan.layers[l].placement.table(), original.layers[l].placement.table());
      EXPECT_EQ(plan.layers[l].slot, original.layers[l].slot);
      EXPECT_EQ(plan.layers[l].weight, original.layers[l].weight);
    }
  }
  EXPECT_GT(layers, 0U);
  EXPECT_EQ(pack_calibration(*saved), packed);
  EXPECT_EQ(pack_calibration(PlannedCalibration(inputs())), packed);
}

TEST_F(SavedCalibrationFile, RefusesWhatIsCutShort) {
  const std::string packed = pack_calibration(planned());
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{10}, packed.size() / 2,
                                 packed.size() - 8, packed.size() - 1}) {
    EXPECT_NE(complaint(packed.substr(0, size)), "") << size;
  }
  std::string text;
  for (const std::string& line : lines()) {
    EXPECT_NE(complaint(gzipped(text)), "") << text.size();
    text += line;
  }
  EXPECT_THAT(complaint(gzipped(text)), HasSubstr("the last line is not a hash"));
}

TEST_F(SavedCalibrationFile, TellsWhichPlanWasAltered) {
  const std::vector<std::string> all = lines();
  for (std::size_t line = 1; line < all.size(); ++line) {
    std::vector<std::string> altered = all;
    altered[line].insert(1, " ");
    EXPECT_THAT(complaint(test::hashed(altered)),
                HasSubstr(fmt::format(":{}: error: the plan is not as it was written", line + 1)));
  }
}

TEST_F(SavedCalibrationFile, RefusesWhatDoesNotFit) {
  const std::size_t step = line_of("step of 1 experts with 4 rows");
  struct Case {
    std::size_t line;
    std::function<void(Json&)> change;
    std::string message;
  };
  const std::vector<Case> cases = {
      {0, [](Json& j) { j["format"] = "moesim-steps"; }, "holds no saved calibration"},
      {0, [](Json& j) { j["format_version"] = 7; },
       "is of version 7; this program reads version 2"},
      {0, [](Json& j) { j.erase("hidden"); }, "key 'hidden' not found"},
      {0, [](Json& j) { j["expert_ffn"] = 0; }, "the model has no sizes"},
      {0, [](Json& j) { j["rounds"] = 0; }, "nothing is to be measured"},
      {0, [](Json& j) { j["ranks"] = 5; }, "the plan has 4 GPUs, the cluster 5"},
      {0, [](Json& j) { j["plans"] = Json::array(); }, "there are no plans"},
      {0, [](Json& j) { j["plans"].erase(1); }, "the plan is not as it was written"},
      {0, [](Json& j) { j["plans"].erase(j["plans"].size() - 1); },
       "has plans that line 1 does not list"},
      {0,
       [](Json& j) {
         j["plans"].push_back({{"name", "x"}, {"xxh3", "x"}});
       },
       "lists more plans than there are"},
      {0, [](Json& j) { j["plans"][1]["name"] = j["plans"][0]["name"]; },
       "two plans are named 'overhead between nodes'"},
      {0, [](Json& j) { j["rounds"] = 3; },
       ":1: error: the plans are not the ones that line 1 names"},
      {1, [](Json& j) { j["plan"] = "moesim"; }, "line 2, the plan 'overhead between nodes'"},
      {step, [](Json& j) { j["layers"].clear(); }, "but the layer has no routing"},
      {step, [](Json& j) { j["layers"][0]["slot"][0] = 77; }, "is served by slot 77"},
  };
  for (const Case& c : cases) EXPECT_THAT(broken(c.line, c.change), HasSubstr(c.message));
  EXPECT_EQ(broken(0, [](Json&) {}), "");
  EXPECT_THAT(complaint("moesim-plan 1\n"), HasSubstr("is not in gzip's form"));
}

TEST_F(SavedCalibrationFile, IsFittedAsIfItHadBeenMeasuredHere) {
  const std::string times = write_times();
  const CalibrationFiles there = files("there"), here = files("here");
  const std::string said = fit_times(times, there);
  EXPECT_THAT(said, HasSubstr("4 ranks on 1 host"));
  EXPECT_THAT(said, HasSubstr("alltoall between nodes"));
  std::filesystem::copy(times, here.times());
  EXPECT_THAT(planned().conclude(here), HasSubstr("exchange overhead"));
  int compared = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "there")) {
    EXPECT_EQ(read_file(entry.path()), read_file(folder_ / "here" / entry.path().filename()));
    ++compared;
  }
  EXPECT_EQ(compared, 4) << "cluster, GPU, and the classes nic and nvlink";
  EXPECT_THAT(read_file(here.cluster()), HasSubstr("hosts: [\"here\"]"));
}

/// What software that takes multiprocessors needs of a GPU model.
TEST_F(SavedCalibrationFile, TellsTheMultiprocessorsOfTheGpus) {
  const CalibrationFiles known = files("known"), unknown = files("unknown");
  fit_times(write_times(0, {84, 84, 82, 84}), known);
  EXPECT_EQ(read_gpu_model(known.gpu("a6000", true)).sms, 82);
  const CalibrationFiles of_first = files("of_first");
  fit_times(write_times(0, {80, 84, 82, 84}), of_first);
  EXPECT_EQ(read_gpu_model(of_first.gpu("a6000", true)).sms, 80);
  fit_times(write_times(), unknown);
  EXPECT_EQ(read_gpu_model(unknown.gpu("a6000", true)).sms, 0);
  EXPECT_THAT(read_file(unknown.gpu("a6000", true)), HasSubstr("# sms is unknown"));
  const auto refused = [&](const std::vector<int>& sms) {
    return error_of([&] { fit_times(write_times(0, sms), files("x")); });
  };
  EXPECT_THAT(refused({84}), HasSubstr("1: error: 'sms' is of 1 rank, not of 4"));
  EXPECT_THAT(refused({84, 0, 84, 84}), HasSubstr("'sms' has a GPU without multiprocessors"));
}

TEST_F(SavedCalibrationFile, IsNotFittedInPart) {
  const std::string times = write_times(2);
  EXPECT_THAT(error_of([&] { fit_times(times, files("x")); }),
              HasSubstr(fmt::format("there.times.jsonl: error: lacks 2 of {} measurements: "
                                    "'memory-bound kernels' in round 2, 'kernels beside exchanges' "
                                    "in round 2\n",
                                    2 * planned().plans().size())));
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "x"));
}

TEST_F(SavedCalibrationFile, IsNotFittedToTimesOfOtherRuns) {
  const std::string times = write_times();
  std::string text = read_file(times);
  const std::string runs = "\"ns\":[";
  write_file(times, text.insert(text.find(runs) + runs.size(), "[],"));
  EXPECT_THAT(error_of([&] { fit_times(times, files("x")); }),
              HasSubstr("the times of 'overhead between nodes' in round 1 do not fit the plan"));
}

TEST_F(SavedCalibrationFile, IsNotFittedToAnotherTopologyOrModel) {
  const std::string times = write_times(), text = read_file(times);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    write_file(times, other.replace(other.find(from), from.size(), to));
    return error_of([&] { fit_times(times, files("x")); });
  };
  EXPECT_THAT(with("\"topology.nodes=2\"", "\"topology.nodes=3\""),
              HasSubstr("topology hiermoe-a6000 nodes=2 node.gpus=2 was another one then"));
  EXPECT_THAT(with("\"model.hidden=64\"", "\"model.hidden=32\""),
              HasSubstr("these times are of other plans than hiermoe-a6000"));
  EXPECT_THAT(with("\"topology\":\"hiermoe-a6000\"", "\"topology\":\"hiermoe-a600\""),
              HasSubstr("did you mean 'hiermoe-a6000'?"));
}

}  // namespace
}  // namespace moesim
