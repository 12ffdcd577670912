// SPDX-License-Identifier: Apache-2.0
// A hundred damaged variants of every format: errors, or sound traces; no crash, hang or memory.
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <random>

#include "sim/trace/verify.h"
#include "tests/import/formats.h"

namespace moesim {
namespace {

namespace fs = std::filesystem;

/// Damages one file in place: cut, bits turned, bytes repeated.
std::string damaged(std::string bytes, int variant, std::mt19937& random) {
  const auto any = [&] { return random() % bytes.size(); };
  if (variant % 4 == 0) return bytes.substr(0, any());
  if (variant % 4 == 1) {
    bytes[any()] ^= static_cast<char>(1 << random() % 8);
  } else if (variant % 4 == 2) {
    for (int i = 0; i < 8; ++i) bytes[any()] = static_cast<char>(random() % 256);
  } else {
    const std::size_t at = any();
    bytes.insert(at, bytes.substr(at, 1 + random() % 64));
  }
  return bytes;
}

/// Imports a hundred damaged variants; every one is an Error or a sound trace.
int import_damaged(const std::string& kind, const std::string& folder) {
  std::mt19937 random(1);
  std::vector<std::string> files;
  fs::copy(formats() + "/" + kind, folder + "/in", fs::copy_options::recursive);
  for (const auto& entry : fs::recursive_directory_iterator(folder + "/in")) {
    if (entry.is_regular_file()) files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  int errors = 0;
  for (int variant = 0; variant < 100; ++variant) {
    const std::string& file = files[static_cast<std::size_t>(variant) / 4 % files.size()];
    const std::string sound = read_bytes(file);
    write_bytes(file, damaged(sound, variant, random));
    try {
      import_trace(kind, options_of(folder + "/in", folder + "/out"));
      if (!verify_trace(folder + "/out").empty()) return -1;
    } catch (const Error&) {
      ++errors;
    }
    if (fs::exists(folder + "/.out.part")) return -2;
    fs::remove_all(folder + "/out");
    write_bytes(file, sound);
  }
  return errors;
}

class DamagedTest : public testing::TestWithParam<std::string> {};

TEST_P(DamagedTest, FilesAreErrors) {
  formats();
  if (fs::is_directory("/dev/shm")) ::setenv("TMPDIR", "/dev/shm", 1);  // no disk is waited for
  const ScratchFolder scratch;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {  // so that nothing but this loop counts
    ::alarm(60);
    int errors = -3;
    try {
      errors = import_damaged(GetParam(), scratch.path());
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s\n", e.what());
    }
    ::_exit(errors < 0 ? 200 - errors : errors);
  }
  int status = 0;
  rusage used{};
  ASSERT_EQ(::wait4(child, &status, 0, &used), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_GT(WEXITSTATUS(status), 50);
  EXPECT_LE(WEXITSTATUS(status), 100);
#ifndef __SANITIZE_ADDRESS__           // which keeps freed memory of the tests before
  EXPECT_LT(used.ru_maxrss, 200'000);  // KiB
#endif
}

/// Every kind of the table, and SGLang's other counts. A bit more or less makes other weights or
/// names of most of a text, so that fewer of these are errors.
std::vector<std::string> all_kinds() {
  std::vector<std::string> kinds;
  for (const Importer& importer : importers()) kinds.emplace_back(importer.kind);
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(All, DamagedTest, testing::ValuesIn(all_kinds()),
                         [](const auto& kind) { return test_name(kind.param); });

}  // namespace
}  // namespace moesim
