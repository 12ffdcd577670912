// SPDX-License-Identifier: Apache-2.0
// Names among the data, and paths.
#include "sim/base/data_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/base/temporary_folder.h"

namespace moesim {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

std::string missing(const std::string& kind, const std::string& name) {
  try {
    return data_file(kind, name);
  } catch (const Error& e) {
    return e.what();
  }
}

TEST(DataFiles, ModelsLieInTwoFolders) {
  EXPECT_THAT(data_file("models", "olmoe"), HasSubstr("models/moe/olmoe.yaml"));
  EXPECT_THAT(data_file("models", "llama-3-8b"), HasSubstr("models/dense/llama-3-8b.yaml"));
  EXPECT_THAT(data_names("models"), Contains("olmoe"));
  EXPECT_THAT(data_names("models"), Contains("llama-3-8b"));
  EXPECT_THAT(missing("models", "olmoo"), HasSubstr("did you mean 'olmoe'?"));
}

TEST(DataFiles, OtherVersionsOfModelsAreNoSlips) {
  EXPECT_THAT(missing("models", "deepseek-r1"), HasSubstr("hint: 'deepseek-v3' has the sizes of "
                                                          "deepseek-r1\n"));
  EXPECT_THAT(missing("models", "llama-3.1-70b"), HasSubstr("hint: 'llama-3-70b' has the sizes"));
  EXPECT_THAT(missing("models", "DeepSeek-R1.yaml"), HasSubstr("'deepseek-v3' has the sizes of"));
  EXPECT_THAT(missing("models", "glm-4.5"),
              testing::AllOf(HasSubstr("hint: moesim model import config.json"),
                             HasSubstr("known: "), Not(HasSubstr("did you mean"))));
  EXPECT_THAT(missing("models", "deepseek-v5"), Not(HasSubstr("did you mean")));
  EXPECT_THAT(missing("models", "deepsek-v3"), HasSubstr("did you mean 'deepseek-v3'?"));
  EXPECT_THAT(missing("models", "qwen3-235b"), HasSubstr("did you mean 'qwen3-235b-a22b'?"));
  EXPECT_THAT(missing("topologies", "hiermoe-a600"), HasSubstr("did you mean 'hiermoe-a6000'?"));
}

TEST(DataFiles, APathIsTakenAsItIs) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/own.yaml";
  write_file(path, "x: 1\n");
  EXPECT_EQ(data_file("models", path), path);
  EXPECT_EQ(as_named_in("", "models", path), path);
  EXPECT_THAT(missing("models", folder.path() + "/olmoo.yaml"),
              HasSubstr("no such file\nhint: did you mean 'olmoe'?"));
}

TEST(DataFiles, AModelMayBeAFolderWithItsConfig) {
  const TemporaryFolder folder;
  write_file(folder.path() + "/config.json", "{}");
  EXPECT_EQ(data_file("models", folder.path()), folder.path() + "/config.json");
  EXPECT_EQ(data_file("topologies", folder.path()), folder.path());
}

TEST(DataFiles, TheFolderOfDataIsOne) {
  const char* set = std::getenv("MOESIM_DATA");
  const std::string before = set == nullptr ? "" : set;
  ::setenv("MOESIM_DATA", "/dev/null", 1);
  EXPECT_THAT(missing("models", "olmoe"),
              HasSubstr("MOESIM_DATA is '/dev/null', which is not a folder"));
  set == nullptr ? ::unsetenv("MOESIM_DATA") : ::setenv("MOESIM_DATA", before.c_str(), 1);
}

TEST(DataFiles, WhatIsNextToAFileComesFirst) {
  const TemporaryFolder folder;
  write_file(folder.path() + "/own.yaml", "x: 1\n");
  const std::string from = folder.path() + "/scenario.yaml";
  EXPECT_EQ(as_named_in(from, "models", "own.yaml"), folder.path() + "/own.yaml");
  EXPECT_EQ(as_named_in(from, "models", "other.yaml"), "other.yaml");
  EXPECT_EQ(as_named_in(from, "models", ""), "");
}

TEST(DataFiles, TracesAreFoldersAndTopologiesFiles) {
  EXPECT_THAT(data_names("traces"), Contains("tiny-moe-train"));
  EXPECT_THAT(data_names("topologies"), Contains("h100-rail"));
  EXPECT_THAT(data_names("topologies"), Not(Contains(HasSubstr(".calib"))));
  EXPECT_THAT(data_names("no-such-kind"), testing::IsEmpty());
  EXPECT_THAT(hint_for_trace("tiny-moe-trian"), HasSubstr("did you mean 'tiny-moe-train'?"));
  EXPECT_THAT(hint_for_trace("nothing-like-it-at-all"), HasSubstr("looked for in '"));
  EXPECT_EQ(hint_for_trace("/no/such/folder/nothing"), "");
}

TEST(DataFiles, ALinkToItselfIsNoneOfThem) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("own-trace", folder.path() + "/own-trace");
  std::filesystem::create_directory(folder.path() + "/other-trace");
  EXPECT_THAT(hint_for_trace(folder.path() + "/othr-trace"), HasSubstr("/other-trace'?"));
  EXPECT_FALSE(is_there(folder.path() + "/own-trace"));
  EXPECT_FALSE(is_regular_file(folder.path() + "/own-trace"));
  EXPECT_TRUE(is_regular_file(MOESIM_ROOT "/README.md"));
}

}  // namespace
}  // namespace moesim
