// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/mapped_file.h"

#include <gmock/gmock.h>
#include <signal.h>

#include <memory>
#include <numeric>

#include "tests/trace/scratch.h"

namespace moesim {
namespace {

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
