// SPDX-License-Identifier: Apache-2.0
// The least and the most that imports take, and the first that they refuse.
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "sim/import/choice_table.h"
#include "sim/import/import_sink.h"
#include "sim/import/input_hash.h"
#include "sim/import/parquet/parquet_file.h"
#include "sim/trace/npy.h"
#include "tests/error_of.h"
#include "tests/import/parquet_by_hand.h"
#include "tests/import/told.h"

namespace moesim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// "TOKENS x LAYERS x CHOICES" of ids of that shape, or what is wrong.
std::string table_of_shape(std::vector<std::int64_t> shape,
                           std::optional<std::int64_t> tokens = std::nullopt,
                           const std::string& order = "") {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
  std::string text;
  const std::string error = error_of([&] {
    const ChoiceTable table(NpyArray::of(std::move(ids), std::move(shape), "ids"), tokens, order);
    text = fmt::format("{} x {} x {}", table.tokens(), table.layers(), table.choices());
  });
  return error.empty() ? text : error.substr(0, error.find('\n'));
}

TEST(ShapesOfIds, HaveOneToAHundredThousandLayers) {
  EXPECT_EQ(table_of_shape({1, 100'000, 1}, {}, "tlk"), "1 x 100000 x 1");
  EXPECT_THAT(table_of_shape({1, 100'001, 1}, {}, "tlk"), HasSubstr("has too many layers"));
  EXPECT_EQ(table_of_shape({2, 1, 3}, {}, "tlk"), "2 x 1 x 3");
  EXPECT_EQ(table_of_shape({2, 3}), "2 x 1 x 3");
  EXPECT_EQ(table_of_shape({2, 1}), "2 x 1 x 1");
  EXPECT_EQ(table_of_shape({2, 0, 3}, {}, "tlk"), "ids: error: holds no ids");
  EXPECT_EQ(table_of_shape({2, 3, 0}, {}, "tlk"), "ids: error: holds no ids");
  EXPECT_EQ(table_of_shape({0, 3, 2}, {}, "tlk"), "0 x 3 x 2") << "no tokens are a table";
}

TEST(ShapesOfIds, HaveTheirTokensWhereTheLengthsAddUp) {
  EXPECT_EQ(table_of_shape({2, 3, 3}, 3), "3 x 2 x 3");
  EXPECT_EQ(table_of_shape({2, 3, 3}, 2), "2 x 3 x 3");
  EXPECT_EQ(table_of_shape({3, 2, 3}, 3), "3 x 2 x 3") << "as many as choices";
  EXPECT_THAT(table_of_shape({3, 3, 2}, 3), StartsWith("ids: error: "));
  EXPECT_THAT(table_of_shape({3, 2, 4}, 4), StartsWith("ids: error: "));
  EXPECT_EQ(table_of_shape({3, 3, 2}, 3, "ltk"), "3 x 3 x 2");
}

/// Bytes behind which nothing may be read.
class BytesAtTheEnd {
 public:
  explicit BytesAtTheEnd(const std::string& bytes)
      : page_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))), size_(bytes.size()) {
    memory_ = static_cast<char*>(
        ::mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    std::memcpy(memory_ + page_ - size_, bytes.data(), size_);
    ::mprotect(memory_ + page_, page_, PROT_NONE);
  }
  ~BytesAtTheEnd() { ::munmap(memory_, 2 * page_); }
  BytesAtTheEnd(const BytesAtTheEnd&) = delete;
  BytesAtTheEnd& operator=(const BytesAtTheEnd&) = delete;
  std::span<const std::byte> span() const {
    return std::as_bytes(std::span(memory_ + page_ - size_, size_));
  }

 private:
  std::size_t page_, size_;
  char* memory_;
};

TEST(NumbersOfAPage, AreReadToItsLastByteAndNoFurther) {
  const auto numbers = [](const std::string& bytes, int width, std::int64_t count) {
    const BytesAtTheEnd page(bytes);
    std::vector<std::uint32_t> out;
    read_runs(page.span(), width, count, out, "w");
    return out;
  };
  EXPECT_THAT(numbers("\x03\x88\xc6\xfa", 3, 8), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(numbers("\x02\x01\x03\x88\xc6\xfa", 3, 9), ElementsAre(1, 0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(numbers("\x03\x01\x02\x03\x04\x05\x06\x07\x08", 8, 8),
              ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

TEST(LayersOfFlame, AreNamedFromOne) {
  const ScratchFolder scratch;
  const auto told_as = [&](const std::string& name) {
    std::filesystem::remove_all(scratch / "in");
    write_bytes(scratch / ("in/" + name), read_bytes(formats() + "/flame/layer_02.parquet"));
    return told("flame", scratch / "in", [](ImportOptions& options) { options.moe_layers = {}; });
  };
  EXPECT_THAT(told_as("layer_1.parquet"), StartsWith("top 2 [9] 0: "));
  EXPECT_THAT(told_as("layer_2.parquet"), StartsWith("top 2 [9] 1: "));
  EXPECT_THAT(told_as("layer_0.parquet"),
              StartsWith("error: is not named layer_<number from 1>.parquet\n"));
}

TEST(LayersOfFlame, AreSequencesOf2048Tokens) {
  using namespace parquet_by_hand;
  const auto layer_of = [](int tokens, std::int64_t said) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens));
    for (int t = 0; t < tokens; ++t) ids[static_cast<std::size_t>(t)] = t * 5 % 8;
    return file_with({{tokens, data_page(tokens, ints(ids)), 1, 0, 0}}, "indices", said);
  };
  const ScratchFolder scratch;
  const auto import_tokens = [&](int tokens, std::int64_t said) {
    std::filesystem::remove_all(scratch / "out");
    write_bytes(scratch / "in/layer_1.parquet", layer_of(tokens, said));
    auto options = options_of(scratch / "in", scratch / "out");
    options.top_k = 1, options.moe_layers = {};
    std::vector<double> shares;
    import_trace("flame", options, [&](double done) { shares.push_back(done * 8200); });
    return shares;
  };
  // 8192 of them are read together.
  EXPECT_THAT(import_tokens(8200, 8200), ElementsAre(8192, 8200));
  const RoutingTrace trace = RoutingTrace::open(scratch / "out");
  EXPECT_THAT(trace.step(0).sequence_lengths(), ElementsAre(2048, 2048, 2048, 2048, 8));
  for (const int t : {0, 2047, 2048, 8191, 8192, 8199}) {
    EXPECT_EQ(trace.step(0).ids(0).at(t, 0), t * 5 % 8) << t;
  }
  EXPECT_THAT(import_tokens(8192, 8192), ElementsAre(8200));
  EXPECT_THAT(error_of([&] { import_tokens(8200, 8201); }),
              HasSubstr("holds 8200 tokens but says 8201"));
}

TEST(FilesOfEsft, MayHaveOneChoiceAToken) {
  const auto with = [](int top_k) {
    return told_of("esft", {{"expert_weights_1.txt", "3\t5\t\t1\t1\n"}},
                   [&](ImportOptions& o) { o.top_k = top_k, o.moe_layers = {}; });
  };
  EXPECT_EQ(with(1), "top 1 [2] 1: 3 5");
  EXPECT_EQ(with(2), "top 2 [1] 1: 3 5");
  EXPECT_EQ(with(0), "error: ESFT files do not say top-k\nhint: give --model or --top-k\n");
}

TEST(InputHashes, AreOfWholeLargeFiles) {
  const ScratchFolder scratch;
  const auto hash_of = [&](std::size_t letters) {
    write_bytes(scratch / "a", std::string(letters, 'a'));
    return input_hashes({scratch / "a"});
  };
  const auto listed = [](const char* hash) {
    return fmt::format(R"([{{"file":"a","xxh3":"{}"}}])", hash);
  };
  EXPECT_EQ(hash_of(3), listed("1ba4b00492c7202ee4ba3228795dc9ef"));
  EXPECT_EQ(hash_of(8 << 20), listed("3e50438d81b75ee46214993407adc07d"));
  EXPECT_EQ(hash_of((8 << 20) + 3), listed("bb465bb3788a6fd3c5239f50156cc80e"));
}

TEST(MapsOfTables, HaveARoleAndAField) {
  const auto mapped = [](const std::string& map) {
    return told_of("table", {{"a.csv", "layer,token,f\n1,0,3\n1,1,4\n"}},
                   [&](ImportOptions& o) { o.top_k = 1, o.layers = {1}, o.map = {map}; });
  };
  EXPECT_EQ(mapped("experts=f"), "top 1 [2] 1: 3 4");
  for (const char* const wrong : {"experts=", "experts", "="}) {
    EXPECT_THAT(mapped(wrong),
                StartsWith(fmt::format("error: --map: '{}' is not ROLE=FIELD\n", wrong)));
  }
  EXPECT_THAT(mapped("=f"), StartsWith("error: --map: '' is nothing that a field says\n"));
}

}  // namespace
}  // namespace moesim
