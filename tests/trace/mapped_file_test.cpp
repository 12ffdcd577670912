// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/mapped_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>

#include <chrono>
#include <memory>
#include <numeric>

#include "sim/base/error.h"
#include "tests/error_of.h"
#include "tests/trace/scratch.h"

namespace moesim {
namespace {

using namespace std::chrono_literals;

int sum(std::span<const std::byte> bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), 0,
                         [](int all, std::byte b) { return all + std::to_integer<int>(b); });
}

TEST(MappedFile, AFileThatIsCutShortWhileItIsReadIsNamed) {
  const ScratchFolder scratch;
  write_bytes(scratch / "other", std::string(100'000, 'x'));
  write_bytes(scratch / "cut", std::string(100'000, 'x'));
  const auto use_after_cut = [&] {
    auto gone = std::make_unique<MappedFile>(scratch / "other");
    gone.reset();  // its entry is used again
    const MappedFile other(scratch / "other"), cut(scratch / "cut");
    std::filesystem::resize_file(scratch / "cut", 1);
    ::exit(sum(other.bytes()) + sum(cut.bytes()) == 0 ? 3 : 4);
  };
  EXPECT_EXIT(use_after_cut(), testing::ExitedWithCode(1),
              "/cut: error: was cut short or replaced while it was read");
}

TEST(MappedFile, AFileThatIsChangedWhileItIsReadIsNamed) {
  const ScratchFolder scratch;
  for (const char* name : {"same", "replaced", "changed"}) write_bytes(scratch / name, "before");
  const auto use_after_change = [&](bool close_before) {
    auto same = std::make_unique<MappedFile>(scratch / "same");
    auto replaced = std::make_unique<MappedFile>(scratch / "replaced");
    auto changed = std::make_unique<MappedFile>(scratch / "changed");
    check_unchanged_files();
    write_bytes(scratch / "new", "after!");
    std::filesystem::rename(scratch / "new", scratch / "replaced");
    check_unchanged_files();  // what is mapped is still what it was
    write_bytes(scratch / "changed", "after!");
    const auto now = std::filesystem::last_write_time(scratch / "changed");
    std::filesystem::last_write_time(scratch / "changed", now + 1s);  // whatever a clock's tick is
    if (close_before) changed.reset();
    try {
      check_unchanged_files();
    } catch (const Error& e) {
      fmt::print(stderr, "{}", e.what());
      ::_exit(2);  // static folders are the parent's
    }
  };
  for (const bool close_before : {false, true}) {
    EXPECT_EXIT(use_after_change(close_before), testing::ExitedWithCode(2),
                "/changed: error: was changed while it was read");
  }
}

TEST(MappedFile, AFileWhoseTimesAreSetBackIsNamed) {
  const ScratchFolder scratch;
  const std::string path = scratch / "ids.npy";
  write_bytes(path, "before");
  const auto use_after_change = [&] {
    const auto written = std::filesystem::last_write_time(path);
    const MappedFile file(path);
    struct stat before {
    }, after{};
    ASSERT_EQ(::stat(path.c_str(), &before), 0);
    do {  // until the clock of the file system ticks
      write_bytes(path, "after!");
      std::filesystem::last_write_time(path, written);
      ASSERT_EQ(::stat(path.c_str(), &after), 0);
    } while (after.st_ctim.tv_sec == before.st_ctim.tv_sec &&
             after.st_ctim.tv_nsec == before.st_ctim.tv_nsec);
    try {
      check_unchanged_files();
    } catch (const Error& e) {
      fmt::print(stderr, "{}", e.what());
      ::_exit(2);
    }
  };
  EXPECT_EXIT(use_after_change(), testing::ExitedWithCode(2),
              "/ids.npy: error: was changed while it was read");
}

TEST(MappedFile, FifosAreRefused) {
  const ScratchFolder scratch;
  ASSERT_EQ(::mkfifo((scratch / "ids.npy").c_str(), 0666), 0);
  EXPECT_NE(
      error_of([&] { MappedFile file(scratch / "ids.npy"); }).find("is a FIFO, not a regular file"),
      std::string::npos);
}

TEST(MappedFile, OtherBusErrorsStaySignals) {
  const ScratchFolder scratch;
  write_bytes(scratch / "file", "x");
  const auto raise_after_mapping = [&] {
    const MappedFile file(scratch / "file");
    ::raise(SIGBUS);
    ::raise(SIGBUS);
  };
  EXPECT_EXIT(raise_after_mapping(), testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace moesim
