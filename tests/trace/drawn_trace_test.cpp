// SPDX-License-Identifier: Apache-2.0
// Traces that are drawn when they are needed: what is kept, and what never counts as kept.
#include "sim/trace/synth/drawn_trace.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "sim/base/files.h"
#include "sim/base/yaml.h"
#include "sim/trace/synth/synth.h"
#include "sim/trace/synth/synth_reader.h"
#include "tests/trace/scratch.h"

namespace moesim {
namespace {

namespace fs = std::filesystem;

/// A cache of the test's own.
class DrawnTraceTest : public testing::Test {
 protected:
  DrawnTraceTest() { keep_in(scratch_ / "cache"); }
  ~DrawnTraceTest() override { ::unsetenv("XDG_CACHE_HOME"); }

  static void keep_in(const std::string& folder) { ::setenv("XDG_CACHE_HOME", folder.c_str(), 1); }
  /// The folder of the only trace that is kept.
  static fs::path kept() {
    fs::path found;
    for (const auto& entry : fs::directory_iterator(drawn_folder())) {
      if (!entry.is_directory()) continue;
      EXPECT_TRUE(found.empty()) << entry.path() << " next to " << found;
      found = entry.path();
    }
    return found;
  }

  ScratchFolder scratch_;
  SynthOptions options_ = [] {
    SynthOptions o;
    o.experts = 8;
    o.top_k = 2;
    o.tokens = 32;
    o.steps = 3;
    o.skew = 0.5;
    o.seed = 7;
    return o;
  }();
};

TEST_F(DrawnTraceTest, IsTheTraceOfTheOptions) {
  SynthOptions named = options_;
  named.name = "synthetic routing (skew 0.5, seed 7)";
  write_synthetic_trace(scratch_ / "by-hand", named);
  const RoutingTrace trace = drawn_trace(options_);
  EXPECT_EQ(trace.info().name, named.name);
  EXPECT_EQ(trace.info().phase, Phase::synthetic);
  EXPECT_EQ(trace.hash(), RoutingTrace::open(scratch_ / "by-hand").hash());
}

TEST_F(DrawnTraceTest, IsKeptAndReadTheNextTime) {
  const std::string hash = drawn_trace(options_).hash();
  const fs::path folder = kept();
  const auto written = fs::last_write_time(folder / "trace.json");
  EXPECT_EQ(drawn_trace(options_).hash(), hash);
  EXPECT_EQ(fs::last_write_time(kept() / "trace.json"), written);
}

TEST_F(DrawnTraceTest, OtherOptionsAreAnotherTrace) {
  SynthOptions other = options_;
  other.tokens = 64;  // not in the title
  EXPECT_NE(drawn_name(options_), drawn_name(other));
  EXPECT_EQ(drawn_trace(options_).step(0).tokens(), 32);
  EXPECT_EQ(drawn_trace(other).step(0).tokens(), 64);
}

TEST_F(DrawnTraceTest, WhatIsDamagedIsDrawnAgain) {
  const std::string hash = drawn_trace(options_).hash();
  write_file((kept() / "trace.json").string(), "{\"format\": ");
  EXPECT_EQ(drawn_trace(options_).hash(), hash);
  fs::remove_all(kept() / "step-00000001");
  EXPECT_EQ(drawn_trace(options_).hash(), hash);
  EXPECT_EQ(drawn_trace(options_).step_count(), 3);
}

TEST_F(DrawnTraceTest, WhatHasIdsOfNoExpertIsDrawnAgain) {
  const std::string hash = drawn_trace(options_).hash();
  const std::string ids = (kept() / "step-00000002" / "ids.npy").string();
  std::string bytes = read_file(ids);
  bytes.back() = 8;
  write_file(ids, bytes);
  EXPECT_EQ(drawn_trace(options_).hash(), hash);
}

TEST_F(DrawnTraceTest, IsInMemoryIfNothingCanBeKept) {
  const std::string hash = drawn_trace(options_).hash();
  write_file(scratch_ / "file", "not a folder");
  keep_in(scratch_ / "file");
  EXPECT_EQ(drawn_trace(options_).hash(), hash);
}

TEST_F(DrawnTraceTest, OptionsThatCannotBeAreAnErrorAndKeepNothing) {
  options_.top_k = 9;
  EXPECT_THROW(drawn_trace(options_), Error);
  EXPECT_FALSE(fs::exists(drawn_folder()));
}

TEST_F(DrawnTraceTest, IsKeptInTheHomeFolderUnlessTheCacheHasAnother) {
  const char* home = std::getenv("HOME");
  const std::string before = home != nullptr ? home : "";
  ::setenv("HOME", "/home/of", 1);
  keep_in("not/from/the/root");
  EXPECT_EQ(drawn_folder(), "/home/of/.cache/moesim/traces");
  keep_in("/kept");
  EXPECT_EQ(drawn_folder(), "/kept/moesim/traces");
  keep_in("");
  ::setenv("HOME", "of", 1);
  EXPECT_EQ(drawn_folder(), "");
  ::unsetenv("HOME");
  EXPECT_EQ(drawn_folder(), "");
  if (home != nullptr) ::setenv("HOME", before.c_str(), 1);
}

TEST(SynthText, HasEveryKeyThatIsNotAsUsual) {
  const auto again = [](const std::string& text) {
    const auto document = YamlDocument::from_text(text, "a.yaml");
    const SynthOptions options = read_synth(document->root().map());
    document->finish();
    return synth_text(options);
  };
  const std::string all =
      R"({"experts":32,"top_k":4,"layers":3,"tokens":96,"sequences":12,"steps":4,"skew":0.5,)"
      R"("affinity":0.25,"communities":2,"stickiness":0.1,"drift":0.05,"groups":4,)"
      R"("kept_groups":2,"seed":9})";
  EXPECT_EQ(again(all), all);
  EXPECT_EQ(again("{}"), R"({"tokens":32768,"sequences":256,"skew":0.0,"seed":1})");
}

TEST(SynthTitle, SaysWhatShapesTheChoices) {
  SynthOptions o;
  EXPECT_EQ(synth_title(o), "synthetic routing (skew 0, seed 1)");
  o.affinity = 0.4;
  o.drift = 0.05;
  o.groups = 8;
  o.kept_groups = 4;
  EXPECT_EQ(synth_title(o),
            "synthetic routing (skew 0, affinity 0.4, drift 0.05, 4 of 8 groups, seed 1)");
}

}  // namespace
}  // namespace moesim
