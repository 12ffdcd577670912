// SPDX-License-Identifier: Apache-2.0
#include "sim/base/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>

#include "sim/base/error.h"
#include "sim/base/file_claims.h"
#include "sim/base/file_in_parts.h"
#include "sim/base/gzip.h"
#include "sim/base/line_file.h"
#include "tests/error_of.h"

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

TEST(Files, ALinkIsFollowedAndStays) {
  const fs::path folder = empty_folder("moesim_files_test_link");
  write_file((folder / "b").string(), "old");
  fs::create_symlink("b", folder / "a");
  fs::create_symlink("not-there", folder / "c");
  write_file((folder / "a").string(), "new");
  write_file((folder / "c").string(), "newer");
  EXPECT_EQ(read_file((folder / "b").string()), "new");
  EXPECT_EQ(read_file((folder / "not-there").string()), "newer");
  EXPECT_TRUE(fs::is_symlink(folder / "a") && fs::is_symlink(folder / "c"));
  fs::create_symlink("d", folder / "d");
  EXPECT_THROW(write_file((folder / "d").string(), "x"), Error);
  EXPECT_EQ(entries(folder), 5);
}

TEST(Files, ASetIsWrittenAsAWholeOrNotAtAll) {
  const fs::path folder = empty_folder("moesim_files_test_set");
  const auto file = [&](const char* name) { return (folder / name).string(); };
  write_files({{file("a"), "1"}, {file("b"), "1"}});
  fs::create_directory(folder / "c");
  EXPECT_THROW(write_files({{file("a"), "2"}, {file("b"), "2"}, {file("c"), "2"}}), Error);
  EXPECT_EQ(read_file(file("a")) + read_file(file("b")), "11");
  EXPECT_EQ(entries(folder), 3);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{40, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<NamedText> many;  // more than the process may have open
  for (int i = 0; i < 60; ++i) many.push_back({file("m") + std::to_string(i), "x"});
  write_files(many);
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(entries(folder), 63);
}

std::string reason(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    return e.diagnostics().front().message;
  }
  return "none";
}

TEST(Files, ALinkOfAnotherUserIsFollowedUnlessAllMayWriteWhereItIs) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root makes links of others";
  const fs::path folder = empty_folder("moesim_files_test_planted");
  const fs::path link = folder / "link";
  fs::create_symlink("target", link);
  ASSERT_EQ(::lchown(link.c_str(), 4321, 4321), 0);
  const auto refused = [&](mode_t mode) {
    EXPECT_EQ(::chmod(folder.c_str(), mode), 0);
    return reason([&] { output_target(link.string()); }) != "none";
  };
  EXPECT_TRUE(refused(01777));
  EXPECT_FALSE(refused(0777));
  EXPECT_FALSE(refused(01775));
  ASSERT_EQ(::chown(folder.c_str(), 4321, 4321), 0);
  EXPECT_FALSE(refused(01777)) << "the folder's owner made it";
  ASSERT_EQ(::chown(folder.c_str(), 4322, 4322), 0);
  EXPECT_TRUE(refused(01777));
  ASSERT_EQ(::lchown(link.c_str(), 0, 0), 0);
  EXPECT_FALSE(refused(01777)) << "its own";
}

TEST(Files, AFileCanBeWrittenWhereItsFolderIs) {
  const fs::path folder = empty_folder("moesim_files_test_writable");
  check_writable((folder / "a").string());
  EXPECT_TRUE(fs::is_empty(folder));
  EXPECT_EQ(reason([] { check_writable(""); }), "the name of a file to write is empty");
  EXPECT_EQ(reason([&] { check_writable(folder.string()); }), "is a folder, not a file");
  EXPECT_EQ(reason([] { check_writable("/no/such/file"); }), "there is no folder '/no/such'");
  EXPECT_TRUE(is_folder(folder.string()));
  EXPECT_FALSE(is_folder((folder / "a").string()));
}

TEST(Files, AFileIsReadOrWrittenAndWrittenOnce) {
  const fs::path folder = empty_folder("moesim_files_test_claims");
  const auto file = [&](const char* name) { return (folder / name).string(); };
  for (const char* name : {"read", "written", "page"}) write_file(file(name), "x");
  fs::create_hard_link(folder / "written", folder / "same");
  read_file(file("read"));
  EXPECT_EQ(reason([&] { claim_output(file("read")); }),
            "is both read and written by this command");
  claim_output(file("written"));
  EXPECT_EQ(reason([&] { read_file(file("same")); }), "is both read and written by this command");
  EXPECT_EQ(reason([&] { claim_output(file("same")); }),
            "is the name of two outputs of this command");
  claim_output(file("new"));
  EXPECT_EQ(reason([&] { claim_output(file("./new")); }),
            "is the name of two outputs of this command");
  // What an output replaces is gone: its number may be that of the next new file.
  fs::remove(folder / "same");
  write_file(file("written"), "anew");
  for (int next = 0; next < 20; ++next) {
    const std::string name = file(std::to_string(next).c_str());
    write_file(name, "another file");
    EXPECT_EQ(read_file(name), "another file");
  }
  claim_rewritten(file("page"));
  EXPECT_EQ(read_file(file("page")), "x");
}

TEST(Files, NoOutputIsInAFolderThatIsRead) {
  const fs::path folder = empty_folder("moesim_files_test_folders");
  fs::create_directories(folder / "trace/step");
  fs::create_directories(folder / "trace-2");
  fs::create_directory_symlink("trace", folder / "link");
  const auto file = [&](const char* name) { return (folder / name).string(); };
  note_input_folder(file("link"));
  for (const char* name : {"trace/new", "trace/step/new", "link/new"}) {
    EXPECT_THAT(reason([&] { claim_output(file(name)); }),
                testing::MatchesRegex("is inside the folder '.*/trace', which this command reads"));
  }
  claim_output(file("trace-2/new"));
  EXPECT_THAT(reason([&] { note_input_folder(file("trace-2")); }),
              testing::HasSubstr("trace-2', which this command reads"));
}

TEST(Files, FreshNamesCannotBeForeseen) {
  const std::string name = fresh_name_beside("x");
  EXPECT_TRUE(name.starts_with("x.tmp-"));
  EXPECT_NE(name, fresh_name_beside("x"));
}

TEST(Files, OnlyRegularFilesAreReplaced) {
  const fs::path pipe = fs::path(testing::TempDir()) / "moesim_files_test_pipe";
  fs::remove_all(pipe);
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0666), 0);
  EXPECT_THROW(write_file(pipe.string(), "x"), Error);
  EXPECT_TRUE(fs::is_fifo(pipe));
  fs::remove_all(pipe);
  EXPECT_THROW(write_file(testing::TempDir(), "x"), Error);
}

TEST(Files, OnlyRegularFilesAreRead) {
  const fs::path pipe = fs::path(testing::TempDir()) / "moesim_files_test_fifo";
  fs::remove_all(pipe);
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0666), 0);
  const auto refusal = [](const std::string& path, auto read) {
    return error_of([&] { read(path); });
  };
  // Nobody writes to the FIFO, and /dev/zero has no end: reading either never returns.
  for (const auto& read : {+[](const std::string& path) { read_file(path); },
                           +[](const std::string& path) { read_text_or_gzip(path); },
                           +[](const std::string& path) { TextBlocks{path}; }}) {
    EXPECT_NE(refusal(pipe.string(), read).find("fifo: error: is a FIFO, not a regular file"),
              std::string::npos);
    EXPECT_NE(refusal("/dev/zero", read).find("is a device, not a regular file"),
              std::string::npos);
  }
  fs::remove_all(pipe);
}

TEST(Files, HashIsXxh3) {
  // xxhsum -H2 of an empty file.
  EXPECT_EQ(hash_of(""), "99aa06d3014798d86001c324468d497f");
  EXPECT_NE(hash_of("a"), hash_of("b"));
}

}  // namespace
}  // namespace moesim
