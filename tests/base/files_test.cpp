// SPDX-License-Identifier: Apache-2.0
#include "sim/base/files.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "sim/base/error.h"
#include "sim/base/file_in_parts.h"
#include "sim/base/gzip.h"

namespace moesim {
namespace {

namespace fs = std::filesystem;

TEST(Files, WriteThenReadLeavesNoTemporaryBehind) {
  const fs::path folder = fs::path(testing::TempDir()) / "moesim_files_test";
  fs::remove_all(folder);
  fs::create_directories(folder);
  write_file((folder / "a").string(), "first");
  write_file((folder / "a").string(), "second");
  EXPECT_EQ(read_file((folder / "a").string()), "second");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1);
}

TEST(Files, SaysWhyAFileCannotBeReadOrWritten) {
  EXPECT_THROW(read_file("/nonexistent/x"), Error);
  try {
    write_file("/nonexistent/x", "");
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "/nonexistent/x: error: cannot be written: No such file or directory\n");
  }
}

int entries(const fs::path& folder) {
  return static_cast<int>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

fs::path empty_folder(const char* name) {
  const fs::path folder = fs::path(testing::TempDir()) / name;
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

TEST(Files, AKilledWriterLeavesNothing) {
  const fs::path folder = empty_folder("moesim_files_test_killed");
  const pid_t child = ::fork();
  if (child == 0) {
    FileInParts file((folder / "a").string());
    file.write("half");
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(entries(folder), 0);
}

TEST(Files, AnAbandonedFileLeavesNothingAndTheOldOneStays) {
  const fs::path folder = empty_folder("moesim_files_test_abandoned");
  write_file((folder / "a").string(), "old");
  {
    FileInParts file((folder / "a").string());
    file.write("new");
  }
  EXPECT_EQ(entries(folder), 1);
  EXPECT_EQ(read_file((folder / "a").string()), "old");
}

TEST(Files, ALinkInTheirPlaceIsReplacedNotWrittenThrough) {
  const fs::path folder = empty_folder("moesim_files_test_link");
  write_file((folder / "precious").string(), "precious");
  fs::create_symlink(folder / "precious", folder / "a");
  write_file((folder / "a").string(), "new");
  EXPECT_EQ(read_file((folder / "precious").string()), "precious");
  EXPECT_EQ(read_file((folder / "a").string()), "new");
  EXPECT_FALSE(fs::is_symlink(folder / "a"));
}

TEST(Files, FreshNamesCannotBeForeseen) {
  const std::string name = fresh_name_beside("x");
  EXPECT_TRUE(name.starts_with("x.tmp-"));
  EXPECT_NE(name, fresh_name_beside("x"));
}

TEST(Files, OnlyRegularFilesAreReplaced) {
  const fs::path pipe = fs::path(testing::TempDir()) / "moesim_files_test_pipe";
  fs::remove(pipe);
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0666), 0);
  EXPECT_THROW(write_file(pipe.string(), "x"), Error);
  EXPECT_TRUE(fs::is_fifo(pipe));
  fs::remove(pipe);
  EXPECT_THROW(write_file(testing::TempDir(), "x"), Error);
}

TEST(Files, OnlyRegularFilesAreRead) {
  const fs::path pipe = fs::path(testing::TempDir()) / "moesim_files_test_fifo";
  fs::remove(pipe);
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0666), 0);
  const auto refusal = [](const std::string& path, auto read) {
    try {
      read(path);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  // Nobody writes to the FIFO, and /dev/zero has no end: reading either never returns.
  for (const auto& read : {+[](const std::string& path) { read_file(path); },
                           +[](const std::string& path) { read_text_or_gzip(path); }}) {
    EXPECT_NE(refusal(pipe.string(), read).find("fifo: error: is a FIFO, not a regular file"),
              std::string::npos);
    EXPECT_NE(refusal("/dev/zero", read).find("is a device, not a regular file"),
              std::string::npos);
  }
  fs::remove(pipe);
}

TEST(Files, HashIsXxh3) {
  // xxhsum -H2 of an empty file.
  EXPECT_EQ(hash_of(""), "99aa06d3014798d86001c324468d497f");
  EXPECT_NE(hash_of("a"), hash_of("b"));
}

}  // namespace
}  // namespace moesim
