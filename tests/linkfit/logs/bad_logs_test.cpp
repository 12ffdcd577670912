// SPDX-License-Identifier: Apache-2.0
// Every file of tests/fixtures/bad/logs is refused with exactly the diagnostics next to it.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "sim/base/error.h"
#include "sim/linkfit/link_fit.h"
#include "sim/linkfit/logs/read_log.h"
#include "tests/linkfit/golden.h"

namespace fs = std::filesystem;

namespace moesim {
namespace {

const fs::path bad_logs = MOESIM_ROOT "/tests/fixtures/bad/logs";

std::vector<std::string> bad_files() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(bad_logs)) {
    if (entry.path().extension() != ".expected") names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class BadLog : public testing::TestWithParam<std::string> {};

TEST_P(BadLog, GivesExactlyTheseDiagnostics) {
  std::string told = "accepted\n";
  try {
    fit_link(parse_log(read_file((bad_logs / GetParam()).string()), GetParam(), {}).samples);
  } catch (const Error& e) {
    told = e.what();
  }
  EXPECT_NE(told, "accepted\n");
  expect_golden("../../fixtures/bad/logs/" + GetParam() + ".expected", told);
}

INSTANTIATE_TEST_SUITE_P(Logs, BadLog, testing::ValuesIn(bad_files()), [](const auto& file) {
  std::string name = file.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '-' || c == '.'; }, '_');
  return name;
});

TEST(BadLogs, AreManyEnough) { EXPECT_GE(bad_files().size(), 25u); }

}  // namespace
}  // namespace moesim
