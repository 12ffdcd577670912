// SPDX-License-Identifier: Apache-2.0
// Without libFuzzer: sound inputs are read, past findings and damaged inputs are refused or read,
// by every target, within bounds of memory and time.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "sim/base/error.h"
#include "sim/base/files.h"
#include "tests/fuzz/seeds.h"
#include "tests/fuzz/target.h"

namespace moesim::fuzz {
namespace {

constexpr rlim_t most_memory = rlim_t{2} << 30;  // far more than any of these inputs takes
constexpr rlim_t most_seconds = 120;             // of CPU time, all tests together

/// Whether the input was read; what is thrown besides an Error continues.
bool reads(const Target& target, const std::string& input) {
  try {
    target.read(input);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// Numbers at which counts, products and narrower types break.
const std::vector<std::string> hostile_numbers = {
    "0", "-1", "1000000", "2147483647", "4294967296", "9223372036854775807", "1e300", ".nan"};

/// Another number in place of one, or bytes turned, cut out or repeated.
std::string damaged(std::string input, std::mt19937& random) {
  const auto any = [&](std::size_t count) { return random() % std::max<std::size_t>(count, 1); };
  const std::size_t at = any(input.size());
  const std::size_t digit = input.find_first_of("0123456789", at);
  switch (any(5)) {
    case 0:
    case 1:
      if (digit == std::string::npos) return input.substr(0, at);
      return input.replace(digit, input.find_first_not_of("0123456789", digit) - digit,
                           hostile_numbers[any(hostile_numbers.size())]);
    case 2:
      if (!input.empty()) input[at] ^= static_cast<char>(1 << any(8));
      return input;
    case 3:
      return input.erase(at, any(64));
    default:
      return input.insert(at, input.substr(any(input.size()), any(64)));
  }
}

/// What tells a seed that is not sound.
std::string beginning(const std::string& text) { return text.substr(0, text.find('\n')); }

class FuzzTest : public testing::TestWithParam<Target> {
 protected:
  static void SetUpTestSuite() {
    if (std::filesystem::is_directory("/dev/shm")) ::setenv("TMPDIR", "/dev/shm", 1);
#ifndef __SANITIZE_ADDRESS__  // whose shadow is larger than any limit
    const rlimit memory{most_memory, most_memory};
    ::setrlimit(RLIMIT_AS, &memory);
#endif
    if (std::getenv("MOESIM_FUZZ_VARIANTS") != nullptr) return;
    const rlimit time{most_seconds, most_seconds};
    ::setrlimit(RLIMIT_CPU, &time);
  }
};

TEST_P(FuzzTest, ReadsSoundInputs) {
  const auto seeds = seeds_of(GetParam().name);
  EXPECT_FALSE(seeds.empty());
  for (const std::string& seed : seeds) EXPECT_NO_THROW(GetParam().read(seed)) << beginning(seed);
}

TEST_P(FuzzTest, RefusesPastFindings) {
  for (const Finding& finding : findings_of(GetParam().name)) {
    EXPECT_FALSE(reads(GetParam(), finding.input)) << finding.name;
  }
}

TEST_P(FuzzTest, SurvivesTheCorpus) {
  const auto inputs = corpus_of(GetParam().name);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_NO_THROW(reads(GetParam(), inputs[i])) << "input " << i;
  }
}

/// MOESIM_FUZZ_VARIANTS tries more of them, and says which one it was that ended the test.
TEST_P(FuzzTest, SurvivesDamagedInputs) {
  const char* asked = std::getenv("MOESIM_FUZZ_VARIANTS");
  const int variants = asked != nullptr ? std::stoi(asked) : 300;
  std::mt19937 random(1);
  const auto seeds = seeds_of(GetParam().name);
  int refused = 0;
  for (int i = 0; i < variants; ++i) {
    std::string input = damaged(seeds[static_cast<std::size_t>(i) % seeds.size()], random);
    for (auto more = random() % 3; more > 0; --more) input = damaged(input, random);
    if (asked != nullptr) write_file(testing::TempDir() + "last-input", input);
    refused += reads(GetParam(), input) ? 0 : 1;
  }
  EXPECT_GT(refused, 0);
}

INSTANTIATE_TEST_SUITE_P(All, FuzzTest, testing::ValuesIn(targets()), [](const auto& target) {
  std::string name = target.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace moesim::fuzz
