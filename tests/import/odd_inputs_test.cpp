// SPDX-License-Identifier: Apache-2.0
// Inputs that are unusual but clear: rare element types, alternating tokens, files of other kinds.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstring>

#include "sim/import/import_sink.h"
#include "sim/import/microbatch.h"
#include "sim/import/trtllm_files.h"
#include "tests/error_of.h"
#include "tests/import/formats.h"

namespace moesim {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

template <class T>
std::string raw_bytes(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

/// Reads a file with one element of `dtype`; returns the element as text, or the error.
std::string element_of(const std::string& dtype, const std::string& data,
                       const std::string& more = "") {
  const ScratchFolder scratch;
  const std::string header =
      fmt::format(R"({{"t": {{"dtype": "{}", "shape": [1], "data_offsets": [0, {}]}}{}}})", dtype,
                  data.size(), more);
  write_bytes(scratch / "a", raw_bytes(std::uint64_t{header.size()}) + header + data);
  std::string text;
  const std::string error = error_of([&] {
    const Safetensors file(scratch / "a");
    const NpyArray& array = file.tensors().at("t");
    text = fmt::format("{} {}", array.describe(), array.real(0));
  });
  return error.empty() ? text : error.substr(error.find("error: ") + 7);
}

TEST(SafetensorsOf, EveryTypeAreRead) {
  EXPECT_EQ(element_of("BOOL", "\x01"), "uint8 (1,) 1");
  EXPECT_EQ(element_of("U8", "\xff"), "uint8 (1,) 255");
  EXPECT_EQ(element_of("I8", "\xff"), "int8 (1,) -1");
  EXPECT_EQ(element_of("U16", "\xff\xff"), "uint16 (1,) 65535");
  EXPECT_EQ(element_of("I16", "\xfe\xff"), "int16 (1,) -2");
  EXPECT_EQ(element_of("U32", "\xff\xff\xff\xff"), "uint32 (1,) 4294967295");
  EXPECT_EQ(element_of("I32", "\xfd\xff\xff\xff"), "int32 (1,) -3");
  EXPECT_EQ(element_of("U64", raw_bytes(std::uint64_t{7})), "uint64 (1,) 7");
  EXPECT_EQ(element_of("I64", raw_bytes(std::int64_t{-7})), "int64 (1,) -7");
  EXPECT_EQ(element_of("F16", raw_bytes(std::uint16_t{0x3e00})), "float16 (1,) 1.5");
  EXPECT_EQ(element_of("F32", raw_bytes(0.25F)), "float32 (1,) 0.25");
  EXPECT_EQ(element_of("F64", raw_bytes(0.75)), "float64 (1,) 0.75");
  EXPECT_EQ(element_of("BF16", raw_bytes(std::uint16_t{0x3fc0})), "bfloat16 (1,) 1.5");
  EXPECT_EQ(element_of("F8", "x"), "holds elements of an unsupported type\n");
  EXPECT_EQ(element_of("U8", "\x01", R"(, "__metadata__": {"a": "b"})"), "uint8 (1,) 1");
  EXPECT_EQ(
      element_of("U8", "\x01", R"(, "u": {"dtype": "U8", "shape": [-1], "data_offsets": []})"),
      "has a shape of no whole numbers\n");
  for (const char* const ends : {"[1, 0]", "[0, 2]", "[0]", "[0, 1, 1]"}) {
    EXPECT_THAT(
        element_of(
            "U8", "\x01",
            fmt::format(R"(, "u": {{"dtype": "U8", "shape": [1], "data_offsets": {}}})", ends)),
        HasSubstr("lies beyond the end of the file"))
        << ends;
  }
}

TEST(SafetensorsOf, NoHeaderAreRefused) {
  const ScratchFolder scratch;
  const auto refused = [&](const std::string& bytes) {
    write_bytes(scratch / "a", bytes);
    const std::string error = error_of([&] { Safetensors(scratch / "a"); });
    return error.substr(error.find("error: ") + 7);
  };
  const std::string cut = "is not a safetensors file: its header is cut short\n";
  EXPECT_EQ(refused("1234567"), cut);
  EXPECT_EQ(refused(raw_bytes(std::uint64_t{3}) + "{}"), cut);
  EXPECT_EQ(refused(raw_bytes(std::uint64_t{2}) + "[]"),
            "is not a safetensors file: its header is not an object\n");
  write_bytes(scratch / "a", raw_bytes(std::uint64_t{2}) + "{}");
  EXPECT_EQ(error_of([&] { Safetensors(scratch / "a"); }), "");
}

/// Imports rows of `top_k` different ids of type T; more tokens than are copied at once.
template <class T>
void expect_narrowed(int top_k, int experts) {
  constexpr std::int64_t tokens = 300;
  const auto id = [&](std::int64_t t, int k) { return static_cast<T>((7 * t + k) % experts); };
  std::vector<T> ids;
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (int k = 0; k < top_k; ++k) ids.push_back(id(t, k));
  }
  const auto kept = std::make_shared<std::vector<T>>(ids);
  const NpyType type{std::is_signed_v<T> ? 'i' : 'u', static_cast<int>(sizeof(T))};
  const ScratchFolder scratch;
  ImportOptions options;
  options.inputs = {"input"}, options.output = scratch / "out";
  options.experts = experts, options.layers = {0};
  const auto import_rows = [&] {
    auto writer = TraceWriter::resume(options.output, "key");
    ImportSink sink(options, writer, {});
    sink.add({"pass",
              ChoiceTable({NpyArray::view(type, {tokens, top_k}, std::as_bytes(std::span(*kept)),
                                          kept, "ids")}),
              {tokens}});
    sink.finish("kind", "[]");
  };
  import_rows();
  const RoutingTrace trace = RoutingTrace::open(options.output);
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (int k = 0; k < top_k; ++k) {
      ASSERT_EQ(trace.step(0).ids(0).at(t, k), static_cast<int>(id(t, k))) << top_k;
    }
  }
  options.output = scratch / "other";
  (*kept)[kept->size() - 1] = static_cast<T>(experts);
  const std::string error = error_of(import_rows);
  EXPECT_THAT(error, HasSubstr(fmt::format("token 299: expert {} of a model with {} experts",
                                           experts, experts)));
}

TEST(IdsOfEveryType, AreNarrowedInAnyNumber) {
  for (const int top_k : {1, 2, 3, 4, 6, 8, 9, 16}) {
    expect_narrowed<std::uint8_t>(top_k, 100);
    expect_narrowed<std::int8_t>(top_k, 100);
    expect_narrowed<std::uint16_t>(top_k, 300);
    expect_narrowed<std::int16_t>(top_k, 256);
    expect_narrowed<std::uint32_t>(top_k, 255);
    expect_narrowed<std::int32_t>(top_k, 300);
    expect_narrowed<std::int64_t>(top_k, 257);
  }
}

/// Alternating sequences found in tokens with two choices, the same in four layers.
int sequences_of(std::int64_t tokens, const std::function<std::int32_t(std::int64_t, int)>& id) {
  std::vector<NpyArray> layers;
  for (int l = 0; l < 4; ++l) {
    std::vector<std::int32_t> ids;
    for (std::int64_t t = 0; t < tokens; ++t) ids.insert(ids.end(), {id(t, 0), id(t, 1)});
    layers.push_back(NpyArray::of(std::move(ids), {tokens, 2}, "ids"));
  }
  return alternating_sequences(ChoiceTable(std::move(layers)));
}

TEST(AlternatingTokens, ShareMoreThanTheirNeighbours) {
  const auto own = [](std::int64_t t) { return static_cast<std::int32_t>(1000 + t); };
  // The first choice repeats every 2 tokens: at even lags half of the choices are equal.
  EXPECT_EQ(
      sequences_of(
          2102, [&](auto t, int k) { return k == 0 ? static_cast<std::int32_t>(t % 2) : own(t); }),
      2);
  // The second repeats every 5 tokens: lag 5 has as many equal choices as its neighbour, lag 4.
  EXPECT_EQ(sequences_of(2102,
                         [&](auto t, int k) {
                           return static_cast<std::int32_t>(k == 0 ? t % 2 : 10 + t % 5);
                         }),
            1);
  // A choice comes again in 3 of 30 tokens: 1.7 % at lag 4, less than a language's rhythm makes.
  EXPECT_EQ(sequences_of(2400,
                         [&](auto t, int k) {
                           return k == 0 && t % 30 < 6 && t % 2 == 0
                                      ? static_cast<std::int32_t>(t / 30)
                                      : own(2 * t + k);
                         }),
            1);
  EXPECT_EQ(
      sequences_of(
          2101, [&](auto t, int k) { return k == 0 ? static_cast<std::int32_t>(t % 2) : own(t); }),
      1)
      << "an odd number of tokens";
}

TEST(ManifestsOfTraceV1, HaveNumbersInTheirRange) {
  const auto refused = [](const std::string& key, std::int64_t value) {
    const ScratchFolder scratch;
    std::string text =
        R"({"schema_version": 1, "logical_layer_id": 1, "step_id": 4, )"
        R"("microbatch_id": 0, "logical_num_tokens": 9, "num_experts": 8, "topk": 2})";
    const auto at = text.find(key) + key.size() + 3;
    text.replace(at, text.find_first_of(",}", at) - at, std::to_string(value));
    write_bytes(scratch / "in/manifest.json", text);
    const std::string error =
        error_of([&] { import_trace("trace-v1", options_of(scratch / "in", scratch / "out")); });
    return error.find("has no sound '" + key + "'") != std::string::npos;
  };
  for (const auto& [key, most] :
       std::vector<std::pair<std::string, std::int64_t>>{{"step_id", 1LL << 40},
                                                         {"microbatch_id", 1LL << 40},
                                                         {"logical_num_tokens", 1LL << 31},
                                                         {"num_experts", 65535},
                                                         {"topk", 65535}}) {
    EXPECT_FALSE(refused(key, most)) << key;
    EXPECT_TRUE(refused(key, most + 1)) << key;
    EXPECT_TRUE(refused(key, -1)) << key;
  }
}

/// A copy of a folder that formats.py wrote, with the file `more` and without the file `without`.
std::string changed_folder(const ScratchFolder& scratch, const std::string& kind,
                           const std::string& more, const std::string& without) {
  fs::copy(formats() + "/" + kind, scratch / "in", fs::copy_options::recursive);
  if (!more.empty()) write_bytes(scratch / ("in/" + more), "x");
  if (!without.empty()) fs::remove(scratch / ("in/" + without));
  return scratch / "in";
}

TEST(FoldersOfFormats, MayHoldOtherFiles) {
  for (const auto& [kind, more] : std::vector<std::pair<std::string, std::string>>{
           {"ultraep", "a.txt"}, {"trtllm", "a.txt"}, {"trtllm-counts", "a.txt"}}) {
    const ScratchFolder scratch;
    const std::string folder = changed_folder(scratch, kind, more, "");
    EXPECT_EQ(error_of([&] { import_trace(kind, options_of(folder, scratch / "out")); }), "")
        << kind;
  }
}

TEST(FoldersOfFormats, ThatLackTheirExpertsNeedThem) {
  for (const std::string kind : {"trtllm", "trtllm-counts"}) {
    const ScratchFolder scratch;
    auto options = options_of(changed_folder(scratch, kind, "", "meta_info.json"), scratch / "out");
    options.experts = 0;
    EXPECT_THAT(error_of([&] { import_trace(kind, options); }),
                HasSubstr("the number of experts is not known"))
        << kind;
  }
}

/// Ids that the table reader finds in a file, by layer, or the error.
std::string imported_table(const std::string& text, std::vector<int> layers = {}) {
  const ScratchFolder scratch;
  write_bytes(scratch / "in/a", text);
  auto options = options_of(scratch / "in", scratch / "out");
  options.layers = std::move(layers);
  std::string ids;
  const std::string error = error_of([&] {
    import_trace("table", options);
    const RoutingTrace trace = RoutingTrace::open(scratch / "out");
    for (std::size_t l = 0; l < trace.info().layers.size(); ++l) {
      const IdRows rows = trace.step(0).ids(static_cast<int>(l));
      ids += fmt::format(" {}:", trace.info().layers[l]);
      for (std::int64_t t = 0; t < rows.tokens(); ++t) {
        for (int k = 0; k < rows.top_k(); ++k) ids += fmt::format(" {}", rows.at(t, k));
      }
    }
  });
  return error.empty() ? ids : replace_all(error, scratch.path(), "");
}

TEST(TablesOfLogs, KeepLayersToTheirObjects) {
  EXPECT_EQ(imported_table(R"({"layers": {"1": {"token": 0, "experts": [3, 4]}}})", {1}),
            " 1: 3 4");
  EXPECT_THAT(imported_table(R"({"layers": {"1": {"token": 0, "experts": [3, 4]}}}
{"token": 1, "experts": [5, 6]})"),
              HasSubstr("a:2: error: does not say its layer"));
}

TEST(TablesOfLogs, HaveKeysThatNameTheirLayer) {
  const auto keyed = [](const std::string& key) {  // # is the number
    const std::string rows = R"({"of": {"@1": {"token": 0, "experts": [3, 4]},
"@2": {"token": 0, "experts": [5, 6]}}})";
    return imported_table(replace_all(replace_all(rows, "@1", replace_all(key, "#", "1")), "@2",
                                      replace_all(key, "#", "2")));
  };
  for (const char* const key : {"#", "layer_#", "layers#", "l#", "blk.#", "model.layers.#.mlp"}) {
    EXPECT_EQ(keyed(key), " 1: 3 4 2: 5 6") << key;
  }
  for (const char* const key : {"x#", "layer_#x", "9999999999999999999#"}) {
    EXPECT_THAT(keyed(key), HasSubstr("error: does not say its layer")) << key;
  }
}

TEST(TablesOfLogs, NameTheFileOfCountsThatCannotBe) {
  EXPECT_THAT(imported_table("layer,expert,count\n1,9,3\n2,0,3\n"),
              testing::StartsWith("/in/a: error: layer 1: counts expert 9 of a model with 8"));
}

TEST(TablesOfLogs, TakeTheFirstListOfALine) {
  EXPECT_EQ(
      imported_table("layer 1 expert 0.5 of token 0 [3, 4]\nlayer 2 token 0 [5, 6] expert 9\n"),
      " 1: 3 4 2: 5 6");
  EXPECT_EQ(
      imported_table("expert [0.5, 1] layer 1 [3, 4] token 0\nlayer 2 [5, 6] expert [7] token "
                     "0\n"),
      " 1: 3 4 2: 5 6");
}

TEST(TablesOfLogs, NameFieldsInAtMostThreeWords) {
  const auto second = [](const std::string& name) {
    return imported_table("layer 1 expert [3, 4] token 0\nlayer 1 " + name + " [5, 6] token 1\n",
                          {1});
  };
  for (const char* const name : {"expert", "ex pert", "ex per t", "an ex per t", "a expert"}) {
    EXPECT_EQ(second(name), " 1: 3 4 5 6") << name;
  }
  EXPECT_EQ(second("e x per t"), " 1: 3 4");
  EXPECT_EQ(second("expert or not"), " 1: 3 4");
}

TEST(LogitsWithoutAMask, AreOneSequenceAndSaidToBe) {
  const ScratchFolder scratch;
  write_bytes(scratch / "save.py", R"(
import sys
sys.path.insert(0, sys.argv[1])
from formats import Tensor, torch_save
rows = [[0.0, 3.0, 1.0, 2.0], [5.0, 5.0, 1.0, 5.0]]
torch_save(sys.argv[2], [Tensor("Float", rows)])
)");
  ASSERT_EQ(std::system(("python3 -B " + (scratch / "save.py") + " " + MOESIM_ROOT +
                         "/tests/import " + (scratch / "a.pt"))
                            .c_str()),
            0);
  ImportOptions options;
  options.inputs = {scratch / "a.pt"}, options.output = scratch / "out";
  options.experts = 4, options.top_k = 2, options.layers = {0};
  const Imported imported = import_trace("hf-logits", options);
  ASSERT_EQ(imported.warnings.size(), 1U);
  EXPECT_EQ(imported.warnings[0].str(),
            scratch / "a.pt" +
                ": warning: no attention_mask: all rows are taken as one sequence, "
                "padding included\nhint: save {\"router_logits\": ..., "
                "\"attention_mask\": ...}\n");
  const RoutingTrace trace = RoutingTrace::open(scratch / "out");
  EXPECT_THAT(trace.step(0).sequence_lengths(), ElementsAre(2));
  const IdRows rows = trace.step(0).ids(0);
  EXPECT_THAT((std::vector{rows.at(0, 0), rows.at(0, 1), rows.at(1, 0), rows.at(1, 1)}),
              ElementsAre(1, 3, 0, 1));
}

}  // namespace
}  // namespace moesim
