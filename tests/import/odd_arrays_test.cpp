// SPDX-License-Identifier: Apache-2.0
// Arrays of ids: slots that a map names, what little space may hold, and passes that are no
// warm-up.
#include <gmock/gmock.h>

#include "sim/base/gzip.h"
#include "sim/import/import_sink.h"
#include "sim/import/parquet/parquet_file.h"
#include "sim/trace/npy.h"
#include "tests/error_of.h"
#include "tests/import/told.h"

namespace moesim {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// The first expert of each of two layers, whose slots a map names; or what is wrong.
std::string experts_of_slots(std::int32_t first, std::int32_t second) {
  const ScratchFolder scratch;
  ImportOptions options;
  options.output = scratch / "out", options.inputs = {"input"};
  options.experts = 8, options.layers = {0, 1};
  const auto slot = [](std::int32_t id) { return NpyArray::of(std::vector{id}, {1, 1}, "ids"); };
  RoutedPass pass{"pass", ChoiceTable({slot(first), slot(second)}), {1}};
  pass.logical_of = NpyArray::of(std::vector<std::int32_t>{5, 6, 7, 1, 2, 3}, {2, 3}, "map");
  std::string text;
  auto writer = TraceWriter::resume(options.output, "key");
  const std::string error = error_of([&] {
    ImportSink sink(options, writer, {});
    sink.add(pass);
    sink.finish("kind", "[]");
    const RoutingTrace trace = RoutingTrace::open(options.output);
    text = fmt::format("{} {}", trace.step(0).ids(0).at(0, 0), trace.step(0).ids(1).at(0, 0));
  });
  if (error.empty()) return text;
  writer.abandon();
  return error.substr(0, error.find('\n'));
}

TEST(SlotsOfAMap, AreThoseOfTheirLayer) {
  EXPECT_EQ(experts_of_slots(0, 2), "5 3");
  EXPECT_EQ(experts_of_slots(2, 0), "7 1");
  EXPECT_EQ(experts_of_slots(3, 0),
            "pass: error: layer 0, token 0: expert 3 of a model with 8 experts")
      << "none of the next layer's";
  EXPECT_THAT(experts_of_slots(0, 3), HasSubstr("layer 1, token 0: expert 3"));
}

TEST(PagesOfEqualNumbers, TakeLittleSpace) {
  const std::string numbers(100'000, '\1');
  const std::string packed = gzipped(numbers);
  ASSERT_LT(packed.size() * 200, numbers.size());
  std::vector<std::byte> out;
  unpack_page(ParquetCodec::gzip, std::as_bytes(std::span(packed)), numbers.size(), out, "w");
  EXPECT_EQ(out, std::vector<std::byte>(100'000, std::byte{1}));
}

TEST(ArchivesOfEqualIds, TakeLittleSpace) {
  const ScratchFolder scratch;
  write_bytes(scratch / "ids.npy", npy_header({'u', 1}, std::vector<std::int64_t>{100'000, 1, 1}) +
                                       std::string(100'000, '\1'));
  const std::string pack =
      "import sys, zipfile; zipfile.ZipFile(sys.argv[1], 'w', "
      "zipfile.ZIP_DEFLATED).write(sys.argv[2], 'ids.npy')";
  ASSERT_EQ(std::system(fmt::format("python3 -c \"{}\" {} {}", pack, scratch / "in.npz",
                                    scratch / "ids.npy")
                            .c_str()),
            0);
  ASSERT_LT(std::filesystem::file_size(scratch / "in.npz") * 200, 100'000U);
  auto options = options_of(scratch / "in.npz", scratch / "out");
  options.top_k = 1, options.layers = {1}, options.order = "tlk";
  import_trace("npz", options);
  EXPECT_EQ(RoutingTrace::open(scratch / "out").total_tokens(), 100'000);
}

std::string npy_of(const std::vector<std::int64_t>& shape, const std::string& bytes) {
  return npy_header({'u', 1}, shape) + bytes;
}

/// Ten tokens that chose the same.
std::string ten_equal(int layers) {
  std::string one, all;
  for (int l = 0; l < layers; ++l) one += {static_cast<char>(l + 1), static_cast<char>(l + 2)};
  for (int t = 0; t < 10; ++t) all += one;
  return npy_of({10, layers, 2}, all);
}

TEST(ArraysOfEqualTokens, AreAWarmUpIfTheyHaveLengths) {
  const auto read = [](const TextsByName& arrays) {
    return told_of("npy", arrays, [](ImportOptions& options) { options.order = "tlk"; });
  };
  EXPECT_THAT(read({{"ids.npy", ten_equal(2)}}), StartsWith("top 2 [10] 1: 1 2 1 2"));
  EXPECT_EQ(read({{"ids.npy", ten_equal(2)}, {"lengths.npy", npy_of({1}, "\x0a")}}),
            "error: holds padding only\n");
}

TEST(CapturesOfTrtllm, AreRoutersOfTheModelAndOfMultiTokenPrediction) {
  const auto read = [](const std::string& array) {
    return told_of("trtllm-routes", {{"a.npy", array}});
  };
  EXPECT_THAT(read(ten_equal(2)), StartsWith("top 2 [10] 1: 1 2 1 2")) << "no warm-up";
  EXPECT_THAT(read(ten_equal(3)), ::testing::EndsWith("\n10 rows: of multi-token prediction\n"));
  EXPECT_THAT(read(ten_equal(4)),
              StartsWith("error: has 4 routers but the model has 2 MoE layers\n"));
  EXPECT_THAT(read(npy_of({2'147'483'648, 0, 2}, "")),
              StartsWith("error: holds routes (2147483648, 0, 2), not [token]"));
  EXPECT_EQ(read(npy_of({2'147'483'647, 0, 2}, "")), "error: holds no ids\n");
  EXPECT_THAT(read(npy_of({0, 2, 2}, "")), StartsWith("error: holds no tokens\n"));
}

TEST(LongArraysOfIds, OfOneStepAreOneSequence) {
  const ScratchFolder scratch;
  const auto said_of = [&](std::int64_t tokens) {
    std::filesystem::remove_all(scratch / "out");
    write_bytes(scratch / "in/ids.npy",
                npy_of({tokens, 1, 1}, std::string(static_cast<std::size_t>(tokens), '\1')));
    auto options = options_of(scratch / "in", scratch / "out");
    options.moe_layers = {1}, options.top_k = 1, options.order = "tlk";
    return import_trace("npy", options).warnings.at(0).message;
  };
  EXPECT_THAT(said_of(131'072), HasSubstr("all tokens are taken as one sequence"));
  EXPECT_THAT(said_of(131'073), HasSubstr("are taken as sequences of 131072 tokens"));
}

TEST(ListsOfRouters, SayWhatIsTakenApartAndLeftOut) {
  EXPECT_THAT(told("router-lists", formats() + "/replay-three"),
              StartsWith("top 2 [32, 32, 32] 1: "));
  EXPECT_THAT(told("router-lists", formats() + "/replay-mtp"),
              ::testing::EndsWith("\n9 rows: of multi-token prediction\n"));
}

/// A tensor file of TensorRT-LLM whose header begins so.
std::string tensors_with(const std::string& start, const std::vector<int>& layers) {
  std::string header = start, data;
  for (const int layer : layers) {
    header +=
        fmt::format(R"({}"3_{}": {{"dtype": "U8", "shape": [1, 2], "data_offsets": [{}, {}]}})",
                    header.empty() ? "" : ", ", layer, data.size(), data.size() + 2);
    data += "\4\5";
  }
  header = "{" + header + "}";
  const std::uint64_t size = header.size();
  return std::string(reinterpret_cast<const char*>(&size), 8) + header + data;
}

TEST(TensorsOfTrtllm, OfADenseLayerAreRefusedByItsNumber) {
  EXPECT_EQ(told_of("trtllm", {{"rank0_raw.safetensors", tensors_with("", {1, 2, 7})}}),
            "error: layer 7 is dense in the model but token 0 chose expert 4\nhint: the file has 3 "
            "layers, and those of the model with experts are 1, 2: counted in another way, of "
            "multi-token prediction ('mtp' of the model says how many), or another model's\n");
}

TEST(TensorsOfTrtllm, MayFollowWhatAHeaderSaysOfItself) {
  const std::string about = R"("__metadata__": {"format": "pt"})";
  EXPECT_EQ(told_of("trtllm", {{"rank0_raw.safetensors", tensors_with(about, {1, 2})}}),
            "top 2 step 3 [1] 1: 4 5 2: 4 5 rank 0");
}

}  // namespace
}  // namespace moesim
