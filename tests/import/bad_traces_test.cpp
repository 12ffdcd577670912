// SPDX-License-Identifier: Apache-2.0
// Every broken trace and import in tests/fixtures/bad/trace gives exactly the diagnostics in its
// NAME.expected. MOESIM_ACCEPT=1 rewrites them.
#include <algorithm>
#include <cstdlib>

#include "sim/import/importer.h"
#include "sim/trace/verify.h"
#include "tests/error_of.h"
#include "tests/trace/scratch.h"

namespace moesim {
namespace {

namespace fs = std::filesystem;

const std::string bad_traces = std::string(MOESIM_ROOT) + "/tests/fixtures/bad/trace";

std::vector<std::string> names() {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(bad_traces)) {
    if (entry.is_directory()) found.push_back(entry.path().filename().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<int> numbers(const std::string& list) {
  std::vector<int> out;
  std::istringstream in(list);
  for (std::string word; std::getline(in, word, ',');) out.push_back(std::stoi(word));
  return out;
}

/// What the import that the file `args` describes has to say.
std::string import_text(const std::string& folder) {
  ScratchFolder scratch;
  ImportOptions options;
  options.output = scratch / "out";
  std::ifstream args(folder + "/args");
  std::string kind;
  args >> kind;
  for (std::string word; args >> word;) {
    const auto equals = word.find('=');
    if (equals == std::string::npos) {
      options.inputs.push_back(word == "." ? folder : folder + "/" + word);
      continue;
    }
    const std::string key = word.substr(0, equals);
    const std::string value = word.substr(equals + 1);
    if (key == "experts") {
      options.experts = std::stoi(value);
    } else if (key == "top_k") {
      options.top_k = std::stoi(value);
    } else if (key == "layers") {
      options.layers = numbers(value);
    } else if (key == "moe_layers") {
      options.moe_layers = numbers(value);
    } else if (key == "order") {
      options.order = value;
    } else if (key == "ids") {
      options.ids = value;
    } else {
      ADD_FAILURE() << "unknown option " << key;
    }
  }
  const auto text = error_of([&] { import_trace(kind, options); });
  EXPECT_TRUE(fs::is_empty(scratch.path())) << "a refused import left something behind";
  return text;
}

std::string verify_text(const std::string& folder) {
  std::string text;
  for (const auto& problem : verify_trace(folder)) text += problem.str();
  return text;
}

class BadTrace : public testing::TestWithParam<std::string> {};

TEST_P(BadTrace, GivesItsDiagnostics) {
  const std::string folder = bad_traces + "/" + GetParam();
  const std::string expected = folder + ".expected";
  const std::string text =
      replace_all(fs::exists(folder + "/args") ? import_text(folder) : verify_text(folder),
                  bad_traces + "/", "");
  if (std::getenv("MOESIM_ACCEPT") != nullptr) write_bytes(expected, text);
  ASSERT_FALSE(text.empty());
  EXPECT_EQ(text, read_bytes(expected));
}

INSTANTIATE_TEST_SUITE_P(All, BadTrace, testing::ValuesIn(names()),
                         [](const auto& test) { return replace_all(test.param, "-", "_"); });

TEST(BadTraces, EveryExpectationHasItsTrace) {
  for (const auto& entry : fs::directory_iterator(bad_traces)) {
    if (entry.path().extension() == ".expected") {
      EXPECT_TRUE(fs::is_directory(bad_traces + "/" + entry.path().stem().string()))
          << entry.path();
    }
  }
}

TEST(Verify, CommittedTracesAreSound) {
  for (const std::string trace : {"/tests/fixtures/traces/hand", "/traces/tiny-moe-train"}) {
    EXPECT_EQ(verify_text(MOESIM_ROOT + trace), "");
  }
}

TEST(Verify, OpenRefusesWhatItCanSeeWithoutReadingIds) {
  for (const std::string name : {"ids-int64", "ids-cut-short", "lengths-sum", "weights-shape"}) {
    EXPECT_EQ(error_of([&] { RoutingTrace::open(bad_traces + "/" + name); }),
              verify_text(bad_traces + "/" + name));
  }
  EXPECT_NO_THROW(RoutingTrace::open(bad_traces + "/ids-out-of-range"));
}

}  // namespace
}  // namespace moesim
