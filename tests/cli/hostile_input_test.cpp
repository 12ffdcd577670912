// SPDX-License-Identifier: Apache-2.0
// Whatever a small file holds, every reader refuses it with exit code 2, its name and its line,
// within a second and 200 MB.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/cli/hostile_inputs.h"
#include "tests/cli/run.h"

namespace fs = std::filesystem;

namespace moesim {
namespace {

const std::string root = MOESIM_ROOT;
const std::string data = root + "/tests/cli/data/";
const std::string hand = root + "/tests/fixtures/traces/hand/";
const std::string logs = root + "/tests/fixtures/logs/";

/// A command that reads the file; `words` holds it as "@".
struct Reader {
  std::string name;
  std::string file;  // its name, for the reader may look at it
  std::vector<std::string> words;
  std::vector<HostileInput> (*inputs)(const std::string& sound);
  std::string sound;         // a file with good content, "" if there is none
  std::string program = "";  // moesim
  std::string beside = "";   // a folder whose files are next to it
  bool tells_lines = true;
};

std::vector<HostileInput> packed_json(const std::string& sound) {
  return hostile_gzip(hostile_json(sound));
}
std::vector<HostileInput> packed_lines(const std::string& sound) {
  return hostile_gzip(hostile_lines(sound));
}
std::vector<HostileInput> npz_of_ids(const std::string& sound) { return hostile_npz("ids", sound); }

std::vector<std::string> plan(const std::vector<std::string>& more) {
  std::vector<std::string> words = {"plan", "--trace", hand, "--topology", "pair"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::vector<std::string> import(const std::string& kind) {
  return {"trace", "import",  kind, "@",        "-o",  "out",     "--experts",
          "4",     "--top-k", "2",  "--layers", "0:2", "--order", "ltk"};
}

std::vector<Reader> readers() {
  const std::vector<std::string> hand_model = {"--model", "hand", "--policy", "megatron", "--set"};
  const auto with = [&](const std::string& set) {
    std::vector<std::string> words = hand_model;
    words.push_back(set);
    return plan(words);
  };
  const auto yaml = hostile_yaml;
  const std::string ids = hand + "step-00000000/ids.npy";
  std::vector<Reader> list = {
      {"topology", "in.yaml", {"topology", "check", "@"}, yaml, data + "topologies/pair.yaml"},
      {"topology_shown", "in.yaml", {"topology", "show", "@"}, yaml, data + "topologies/pair.yaml"},
      {"scenario", "in.yaml", {"compare", "@"}, yaml, ""},
      {"model", "in.yaml", plan({"--model", "@", "--policy", "megatron"}), yaml,
       data + "models/moe/hand.yaml"},
      {"policy", "in.yaml", plan({"--model", "hand", "--policy", "@"}), yaml,
       data + "models/system/megatron.yaml"},
      {"gpu", "in.yaml", with("topology.node.gpu=@"), yaml, data + "models/gpu/round.yaml"},
      {"link_calibration", "in.yaml", with("topology.node.nics={count: 1, calibration: \"@\"}"),
       yaml, ""},
      {"cluster_calibration", "in.yaml", with("topology.calibration=@"), yaml, ""},
      {"measured", "in.json", {"validate", "@"}, yaml, ""},
      {"trace_verify", "trace.json", {"trace", "verify", "."}, yaml, hand + "trace.json", "", hand},
      {"trace_info", "trace.json", {"trace", "info", "."}, yaml, hand + "trace.json", "", hand},
      {"trace_slice",
       "trace.json",
       {"trace", "slice", ".", "-o", "out"},
       yaml,
       hand + "trace.json",
       "",
       hand},
      {"trace_fit",
       "trace.json",
       {"trace", "synth", "--fit", ".", "-o", "out"},
       yaml,
       hand + "trace.json",
       "",
       hand},
      {"trace_model",
       "in.yaml",
       {"trace", "synth", "--model", "@", "-o", "out"},
       yaml,
       data + "models/moe/hand.yaml"},
      {"import_model",
       "in.yaml",
       {"trace", "import", "npy", ids, "-o", "out", "--model", "@"},
       yaml,
       data + "models/moe/hand.yaml"},
      {"trace_array",
       "step-00000000/ids.npy",
       {"trace", "verify", "."},
       hostile_npy,
       ids,
       "",
       hand},
      {"trace_lengths",
       "step-00000000/sequence_lengths.npy",
       {"trace", "info", "."},
       hostile_npy,
       hand + "step-00000000/sequence_lengths.npy",
       "",
       hand},
      {"import_npy", "ids.npy", import("npy"), hostile_npy, ids},
      {"import_npz", "in.npz", import("npz"), npz_of_ids, ids},
      {"import_gpt_oss", "in.json", import("gpt-oss"), hostile_json, ""},
      {"import_gpt_oss_packed", "in.json.gz", import("gpt-oss"), packed_json, ""},
      {"log_json", "in.json", {"calibrate", "@"}, hostile_json, logs + "alltoall-4.json"},
      {"log_packed", "in.json.gz", {"calibrate", "@"}, packed_json, logs + "alltoall-4.json"},
      {"log_text",
       "in.log",
       {"calibrate", "@"},
       hostile_lines,
       logs + "alltoall-1.log",
       "",
       "",
       false},
      {"log_beside",
       "in.log",
       {"calibrate", logs + "alltoall-1.log", "--beside", "@"},
       hostile_lines,
       logs + "alltoall-2.log",
       "",
       "",
       false},
      {"export", "out/index.json",
       plan({"--model", "hand", "--policy", "megatron", "--nccl-tests", "out"}), hostile_json, ""},
  };
  for (const std::string file : {"expert_weights_1.txt", "expert_weights_1.txt.gz"}) {
    std::vector<std::string> words = import("esft");
    words.erase(words.begin() + 10, words.end());
    const bool packed = file.ends_with(".gz");
    list.push_back({packed ? "import_esft_packed" : "import_esft", file, words,
                    packed ? packed_lines : hostile_lines, "", "", "", false});
  }
#ifdef MOESIM_HW_BINARY
  const std::string hw = MOESIM_HW_BINARY;
  list.insert(
      list.end(),
      {{"hw_steps", "in.steps.gz", {"run", "--saved", "@"}, packed_json, "", hw},
       {"hw_plans", "in.gz", {"calibrate", "--saved", "@", "-o", "out"}, packed_json, "", hw},
       {"hw_times",
        "in.times.jsonl",
        {"calibrate", "--times", "@", "-o", "out"},
        hostile_json,
        "",
        hw},
       {"hw_topology",
        "in.yaml",
        {"calibrate", "--topology", "@", "--model", "hand", "-o", "out"},
        yaml,
        data + "topologies/pair.yaml",
        hw},
       {"hw_scenario", "in.yaml", {"run", "@"}, yaml, "", hw}});
#endif
  return list;
}

class HostileFile : public testing::TestWithParam<Reader> {
 protected:
  void SetUp() override {
    const Reader& reader = GetParam();
    if (!reader.beside.empty()) {
      fs::copy(reader.beside, scratch_.path(), fs::copy_options::recursive);
    }
    fs::create_directories(fs::path(scratch_.file(reader.file)).parent_path());
  }

  Outcome run(const std::string& input) {
    const Reader& reader = GetParam();
    std::ofstream(scratch_.file(reader.file), std::ios::binary) << input;
    std::vector<std::string> words = reader.words;
    for (std::string& word : words) {
      if (const auto at = word.find('@'); at != std::string::npos) {
        word.replace(at, 1, scratch_.file(reader.file));
      }
    }
    Surroundings where{.folder = scratch_.path()};
    if (!reader.program.empty()) where.program = reader.program;
    where.limited = true;
    return run_moesim(words, where);
  }

  const Scratch scratch_;
};

TEST_P(HostileFile, IsRefused) {
  const Reader& reader = GetParam();
  const std::string sound = reader.sound.empty() ? "" : content(reader.sound);
  for (const HostileInput& input : reader.inputs(sound)) {
    if (input.name.starts_with("cut-") && sound.empty()) continue;
    // If a log is cut after two whole rows, these are read.
    if (reader.name == "log_text" && input.name == "cut-75") continue;
    const Outcome outcome = run(input.content);
    const std::string name = fs::path(reader.file).filename();
    const std::string shown = outcome.err.substr(0, 600);
    EXPECT_EQ(outcome.code, 2) << input.name << ": signal " << outcome.signal << "\n" << shown;
    EXPECT_THAT(shown, testing::HasSubstr(name)) << input.name;
    if (input.placed && reader.tells_lines) {
      EXPECT_THAT(outcome.err, testing::ContainsRegex(name + ":[0-9]+")) << input.name;
    }
    EXPECT_THAT(shown, testing::Not(testing::HasSubstr("exception"))) << input.name;
    EXPECT_LT(outcome.err.size(), 20'000u) << input.name;
    EXPECT_LT(outcome.cpu_seconds, 1) << input.name;
#ifndef __SANITIZE_ADDRESS__  // only its shadow takes more
    EXPECT_LT(outcome.peak_bytes, 200e6) << input.name;
#endif
    EXPECT_EQ(outcome.out, "") << input.name;
    EXPECT_FALSE(fs::exists(scratch_.file("out/trace.json"))) << input.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Readers, HostileFile, testing::ValuesIn(readers()),
                         [](const auto& reader) { return reader.param.name; });

}  // namespace
}  // namespace moesim
