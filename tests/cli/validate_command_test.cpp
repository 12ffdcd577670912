// SPDX-License-Identifier: Apache-2.0
// moesim validate on measured files that are made up from what the simulator itself says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "sim/base/files.h"
#include "tests/cli/run.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const Surroundings beside_shipped_data{.data = MOESIM_ROOT};
const std::vector<std::string> policies = {"megatron", "dedup"};

/// What hardware that is just as the simulator says would have measured.
Json perfect(const Scratch& scratch) {
  const auto on = [](const std::string& command, const std::vector<std::string>& names,
                     std::vector<std::string> more) {
    more.insert(more.begin(), {"--steps", "0"});
    return run_moesim(on_hand_trace(command, "pair", names, more));
  };
  const std::string file = scratch.file("simulated.json");
  EXPECT_EQ(on("compare", policies, {"--json", file}).code, 0);
  Json cases = Json::array();
  const Json simulated = Json::parse(content(file));
  for (const Json& c : simulated["cases"]) {
    const std::string plan = on("plan", {c["policy"]}, {}).out;
    cases.push_back({{"policy", c["policy"]},
                     {"wrong", 0},
                     {"measured_steps",
                      {{{"plan_xxh3", hash_of(plan)},
                        {"repeats_s", {c["step_s"]}},
                        {"waiting_s", 0.001},
                        {"ops",
                         {{{"name", "fc1"},
                           {"stage", "experts"},
                           {"stream", "compute"},
                           {"time_s", 0.002}}}}}}}});
  }
  return {{"format", "moesim-hw-result"},
          {"format_version", 2},
          {"moesim", "0.1.0"},
          {"date", "2026-01-01T00:00Z"},
          {"description", "nothing"},
          {"ranks", 2},
          {"hosts", 2},
          {"warmup", 1},
          {"repeats", 1},
          {"scenario",
           {{"topology", {"pair"}},
            {"model", "hand"},
            {"trace", MOESIM_ROOT "/tests/fixtures/traces/hand"},
            {"policy", policies},
            {"steps", "0"}}},
          {"cases", cases}};
}

class ValidateCommand : public testing::Test {
 protected:
  Outcome validate(const Json& document, std::vector<std::string> more = {}) {
    std::ofstream(file) << document.dump(1);
    more.insert(more.begin(), {"validate", file});
    return run_moesim(more);
  }
  Json& repeats(int policy) { return measured["cases"][policy]["measured_steps"][0]["repeats_s"]; }

  const Scratch scratch;
  const std::string file = scratch.file("m.json");
  Json measured = perfect(scratch);
};

TEST_F(ValidateCommand, MistakesOfItsScenarioAreOfTheFile) {
  measured["scenario"]["memory"] = {{"check", true}};
  EXPECT_EQ(validate(measured).err,
            file +
                ": error: in its 'scenario.memory': 'memory' cannot be a mapping\n"
                "hint: known: check, model, ignore\n");
  measured["scenario"].erase("memory");
  measured["scenario"]["set"] = {1e300};
  EXPECT_THAT(validate(measured).err, StartsWith(file + ": error: in its 'scenario.set"));
  measured["scenario"].erase("set");
  measured["scenario"]["policy"] = "0";
  EXPECT_THAT(validate(measured).err,
              StartsWith(file + ": error: in its 'scenario': 'policy': no '0' in models/system\n"));
  EXPECT_THAT(validate(measured, {"--topology", "pair"}).err, StartsWith(file + ": error: in its"));
  measured["scenario"]["policy"] = policies;
  EXPECT_THAT(validate(measured, {"--topology", "nosuch"}).err,
              Not(HasSubstr("in its 'scenario'")));
}

TEST_F(ValidateCommand, ReadsNoFilesThatOnlyTheResultNames) {
  const Scratch elsewhere;
  for (const std::string& name : {std::string("/etc/passwd"), elsewhere.file("secret.yaml")}) {
    if (name.ends_with(".yaml")) std::ofstream(name) << "secret: text\n";
    measured["scenario"]["policy"] = {name};
    const Outcome outcome = validate(measured);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.err,
              file + ": error: its 'scenario.policy' names " + name +
                  ", which is neither in its folder nor in the working directory or "
                  "the data of moesim\nhint: if you trust the file: --inputs FOLDER\n");
  }
  const Outcome permitted = validate(measured, {"--inputs", elsewhere.path().string()});
  EXPECT_THAT(permitted.err, HasSubstr("secret")) << "read, and not a policy";
}

TEST_F(ValidateCommand, TakesNoMemoryForAClaim) {
  measured["scenario"]["set"] = {"topology.nodes=100000"};
  const Outcome outcome = validate(measured);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("at most 2 are possible"));
  EXPECT_LT(outcome.peak_bytes, 200e6);
}

TEST_F(ValidateCommand, IsContentWithExactAgreement) {
  const Outcome outcome = validate(measured, {"--json", scratch.file("v.json")});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out, HasSubstr("mean absolute error 0.0 %"));
  EXPECT_THAT(outcome.out, testing::EndsWith("\nvalid\n"));
  const Json result = Json::parse(content(scratch.file("v.json")));
  EXPECT_EQ(result["mean_absolute_error"], 0.0);
  EXPECT_EQ(result["results"][0]["policies"].size(), 2u);
  for (const Json& p : result["results"][0]["policies"]) {
    EXPECT_EQ(p["measured_s"], p["simulated_s"]);
    EXPECT_GT(p["ops"].size(), 5u);
  }
}

TEST_F(ValidateCommand, PrintsItsTables) {
  std::string out = validate(measured).out;
  out = out.substr(out.find('\n') + 1);  // the first line holds the version
  for (auto at = out.find(file); at != std::string::npos; at = out.find(file)) {
    out.replace(at, file.size(), "m.json");
  }
  expect_golden(MOESIM_ROOT "/tests/cli/golden/validate.txt", out);
}

TEST_F(ValidateCommand, FailsBeyondTheTolerance) {
  for (int policy : {0, 1}) repeats(policy) = {repeats(policy)[0].get<double>() / 1.13};
  const Outcome outcome = validate(measured, {"--json", scratch.file("v.json")});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("not valid: a mean absolute error of 13.0 %, beyond 12.0 %"));
  EXPECT_THAT(content(scratch.file("v.json")), HasSubstr("\"valid\": false"));
  EXPECT_EQ(validate(measured, {"--tolerance", "13.1%"}).code, 0);
}

TEST_F(ValidateCommand, FailsWhereTheOrderIsWrong) {
  repeats(0)[0] = repeats(1)[0].get<double>() / 1.5;
  const Outcome outcome = validate(measured, {"--tolerance", "1000%"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("megatron is faster than dedup, but not simulated so"));
}

TEST_F(ValidateCommand, FailsOnWrongNumbers) {
  measured["cases"][0]["wrong"] = 7;
  EXPECT_EQ(validate(measured).code, 1);
}

TEST_F(ValidateCommand, SimulatesTheSamePlansOnAnotherCluster) {
  const Outcome slower = validate(measured, {"--set", "topology.node.nics.latency=1 ms"});
  EXPECT_EQ(slower.code, 1);
  EXPECT_THAT(slower.out, HasSubstr("not valid"));
  const Outcome other = validate(measured, {"--topology", "two-by-two"});
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("2 ranks were measured, two-by-two has 4 GPUs"));
}

TEST_F(ValidateCommand, RefusesPlansThatWereNotMeasured) {
  measured["scenario"]["set"] = {"model.hidden=2000"};
  const Outcome outcome = validate(measured);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("the plan of step 0 is not the one that was measured"));
  EXPECT_THAT(outcome.err, HasSubstr("hint: "));
}

TEST_F(ValidateCommand, AnotherDocumentIsOneError) {
  for (const std::string text :
       {"name: hand\nsource: x\nhidden: 1\n", "{\"format\": \"moesim-result\", \"a\": 1}",
        "{\"format\": {}, \"b\": [1]}", "[1, 2]", "word"}) {
    std::ofstream(file) << text;
    const Outcome outcome = run_moesim({"validate", file});
    EXPECT_EQ(outcome.code, 2) << text;
    const std::size_t first = outcome.err.find("error: ");
    EXPECT_NE(first, std::string::npos) << text;
    EXPECT_EQ(outcome.err.find("error: ", first + 1), std::string::npos) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("hint: "));
  }
}

TEST_F(ValidateCommand, RefusesWhatIsNoMeasuredFile) {
  const auto refused = [&](const auto& damage, const std::string& message) {
    Json broken = measured;
    damage(broken);
    const Outcome outcome = validate(broken);
    EXPECT_EQ(outcome.code, 2) << message;
    EXPECT_THAT(outcome.err, testing::AllOf(HasSubstr(file + ":"), HasSubstr(message)));
    EXPECT_EQ(outcome.out, "");
  };
  refused([](Json& j) { j["format"] = "moesim-result"; }, "moesim-hw run --json is needed");
  refused([](Json& j) { j["format_version"] = 1; }, "measure again with this version");
  refused([](Json& j) { j.erase("scenario"); }, "'scenario'");
  refused([](Json& j) { j["cases"] = Json::array(); }, "'cases' is empty");
  refused([](Json& j) { j["cases"].erase(1); }, "1 case for 2 policies");
  refused([](Json& j) { j["cases"][1]["policy"] = "eplb"; }, "'eplb' was measured in the place of");
  refused([](Json& j) { j["cases"][0].erase("wrong"); }, "'cases.0' lacks the key 'wrong'");
  const auto in_step = [&](const std::string& key, const Json& value, const std::string& message) {
    refused([&](Json& j) { j["cases"][0]["measured_steps"][0][key] = value; }, message);
  };
  in_step("repeats_s", Json::array(), "repeats_s' is empty");
  in_step("repeats_s", {-1}, "must be");
  in_step("repeats_s", {"nan"}, "must be a number");
  in_step("ops", {{{"name", "fc1"}, {"stage", "exprts"}, {"stream", "compute"}, {"time_s", 1}}},
          "experts");
}

TEST_F(ValidateCommand, RefusesAtOnceStepsThatWereNotMeasured) {
  for (const char* steps : {"0:1000000000", "0:60000", "0:2"}) {
    Json claims = measured;
    claims["scenario"]["steps"] = steps;
    claims["scenario"]["repeat"] = 65536;
    const Outcome outcome = validate(claims);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, HasSubstr(file + ": error: "));
    EXPECT_THAT(outcome.err, HasSubstr("1 step measured, the scenario has "));
    EXPECT_LT(outcome.peak_bytes, 1e9) << steps;
  }
}

TEST_F(ValidateCommand, RefusesBadFlagsAndBrokenFiles) {
  EXPECT_THAT(validate(measured, {"--tolerance", "12"}).err, HasSubstr("such as 12%"));
  EXPECT_THAT(validate(measured, {"--fidelity", "prot"}).err, HasSubstr("did you mean 'port'?"));
  EXPECT_THAT(validate(measured, {"--set", "model.hidden=1"}).err, HasSubstr("the measured ones"));
  EXPECT_THAT(validate(measured, {"--set", "topology.node.nics.latency=2 us", "--set",
                                  "gpu.memory=1 GB", "--set", "model.hidden=1"})
                  .err,
              HasSubstr("--set model.hidden=1: the plans are the measured ones"));
  std::ofstream(file) << "{\"format\": ";
  EXPECT_EQ(run_moesim({"validate", file}).code, 2);
  EXPECT_EQ(run_moesim({"validate", scratch.file("absent.json")}).code, 2);
}

TEST(ValidateProfile, ComparesTheIterationsOfALog) {
  const Scratch scratch;
  const std::string log = scratch.file("train.log");
  write_file(log,
             "iteration 1/ 9 | elapsed time per iteration (ms): 900.0 |\n"
             "iteration 2/ 9 | elapsed time per iteration (ms): 500.0 |\n"
             "iteration 3/ 9 | elapsed time per iteration (ms): 500.0 |\n"
             "    forward-backward ...: (110.0, 120.0)\n");
  const auto validate = [&](const std::vector<std::string>& more) {
    std::vector<std::string> line = {
        "validate",        "profile",         log,          "--scenario",       "iteration",
        "--set",           "policy=alltoall", "--set",      "routing=recorded", "--set",
        "batch.global=16", "--set",           "steps=12:13"};
    line.insert(line.end(), more.begin(), more.end());
    return run_moesim(line, beside_shipped_data);
  };
  const std::string file = scratch.file("v.json");
  const Outcome outcome = validate({"--json", file});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, testing::StartsWith("measured: the median of 3 iterations in a log"));
  EXPECT_THAT(outcome.out, testing::ContainsRegex("wall  +500 ms +[0-9.]+ m?s +[+-][0-9.]+ %"));
  EXPECT_THAT(outcome.out, testing::ContainsRegex("grouped-gemm +- +[0-9.]+ m?s +-"));
  EXPECT_THAT(outcome.out,
              testing::ContainsRegex("forward-backward +110 ms +120 ms +[0-9.]+ m?s +[+-]"));
  const Outcome run =
      run_moesim({"run", "iteration", "--policy", "alltoall", "--routing", "recorded", "--set",
                  "batch.global=16", "--steps", "12:13", "--json", scratch.file("r.json")},
                 beside_shipped_data);
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_NEAR(Json::parse(content(file))["simulated"]["wall_s"],
              Json::parse(content(scratch.file("r.json")))["cases"][0]["step_s"], 1e-9);
  const auto refused = [&](const std::vector<std::string>& more) { return validate(more).err; };
  EXPECT_EQ(refused({"--steps", "2"}),
            "error: --steps: the log says how many iterations it has\nhint: leave --steps out\n");
  EXPECT_THAT(refused({"--timeline", scratch.file("t.json")}),
              HasSubstr("error: --timeline: a log has no kernels\n"));
  EXPECT_THAT(refused({"--report", scratch.file("t.html")}),
              HasSubstr("error: --report: a log has no kernels to draw\n"));
  const Outcome layer =
      run_moesim({"validate", "profile", log, "--scenario", "quickstart"}, beside_shipped_data);
  EXPECT_EQ(layer.code, 2);
  EXPECT_THAT(layer.err, HasSubstr("'parallel' and 'batch' describe one"));
  const Outcome fit =
      run_moesim({"calibrate", "profile", log, "--gpu", "h200", "-o", scratch.file("mine")},
                 beside_shipped_data);
  EXPECT_EQ(fit.code, 2);
  EXPECT_THAT(fit.err, HasSubstr("is a log without kernels: nothing can be fitted\nhint: "));
  EXPECT_FALSE(std::filesystem::exists(scratch.file("mine.calib.yaml")));
}

}  // namespace
}  // namespace moesim
