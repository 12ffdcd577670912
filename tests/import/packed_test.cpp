// SPDX-License-Identifier: Apache-2.0
// Small files that unpack to one long line or value, which would fill the memory.
#include <gmock/gmock.h>

#include "sim/base/gzip.h"
#include "tests/import/formats.h"

namespace moesim {
namespace {

/// A small file of many equal bytes behind a beginning.
struct Packed {
  const char *kind, *file, *beginning;
};

class PackedTest : public testing::TestWithParam<Packed> {};

TEST_P(PackedTest, IsRefused) {
  const ScratchFolder scratch;
  const std::string text = GetParam().beginning + std::string(36'000'000, '1');
  const std::string packed = gzipped(text);
  ASSERT_LT(packed.size(), 60'000u);
  write_bytes(scratch / "in/" + GetParam().file, packed);
  try {
    import_trace(GetParam().kind, options_of(scratch / "in", scratch / "out"));
    ADD_FAILURE() << "was read";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("unpacks to more than 200 times its size"));
  }
}

INSTANTIATE_TEST_SUITE_P(All, PackedTest,
                         testing::Values(Packed{"vllm-routes", "a.jsonl", ""},
                                         Packed{"vllm-routes", "a.jsonl", "["},
                                         Packed{"vllm-routes", "a.jsonl", "{\"a\": \""},
                                         Packed{"esft", "expert_weights_1.txt.gz", ""}));

}  // namespace
}  // namespace moesim
