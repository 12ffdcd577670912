// SPDX-License-Identifier: Apache-2.0
// Every file of tests/fixtures/bad/yaml gives exactly the diagnostics and exit code next to it. The
// first word of a file's name says which input it is.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/cli/run.h"

namespace fs = std::filesystem;

namespace moesim {
namespace {

const fs::path bad_folder = MOESIM_ROOT "/tests/fixtures/bad/yaml";

std::vector<std::string> bad_files() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(bad_folder)) {
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// The command that reads the file; what else it needs is sound.
std::vector<std::string> command_for(const std::string& name) {
  const std::string file = name + ".yaml";
  if (name.starts_with("topology-")) return {"topology", "check", file};
  if (name.starts_with("scenario-")) return {"compare", file};
  std::vector<std::string> plan = {"plan", "--topology", "two-by-two", "--trace",
                                   "../../traces/hand"};
  const auto add = [&](const std::string& flag, const std::string& value) {
    plan.insert(plan.end(), {flag, value});
  };
  add("--model", name.starts_with("model-") ? file : "hand");
  add("--policy", name.starts_with("policy-") ? file : "megatron");
  if (name.starts_with("gpu-")) add("--set", "topology.node.gpu=" + file);
  return plan;
}

std::string shortened(std::string text) {
  const std::string root = MOESIM_ROOT "/";
  for (auto at = text.find(root); at != std::string::npos; at = text.find(root)) {
    text.erase(at, root.size());
  }
  return text;
}

class BadInput : public testing::TestWithParam<std::string> {};

TEST_P(BadInput, GivesExactlyTheseDiagnostics) {
  const Outcome outcome = run_moesim(command_for(GetParam()), {.folder = bad_folder});
  EXPECT_EQ(outcome.out, "");
  expect_golden(bad_folder / (GetParam() + ".expected"),
                fmt::format("exit {}\n{}", outcome.code, shortened(outcome.err)));
}

std::string test_name(const testing::TestParamInfo<std::string>& file) {
  std::string name = file.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Yaml, BadInput, testing::ValuesIn(bad_files()), test_name);

TEST(BadInputs, AreAllRefusedAndManyEnough) {
  const std::vector<std::string> names = bad_files();
  EXPECT_GE(names.size(), 35u);
  for (const std::string& name : names) {
    EXPECT_TRUE(content(bad_folder / (name + ".expected")).starts_with("exit 2\n")) << name;
  }
}

}  // namespace
}  // namespace moesim
