// SPDX-License-Identifier: Apache-2.0
#include "sim/import/torch_json.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <span>

#include "sim/import/pickle.h"
#include "sim/import/pickle_machine.h"
#include "tests/error_of.h"
#include "tests/trace/scratch.h"

namespace moesim {
namespace {

/// What torch_json() makes of a Python value; Tensor is that of formats.py.
std::string json_of_torch(const std::string& value) {
  const ScratchFolder scratch;
  write_bytes(
      scratch / "save.py",
      "import sys\nsys.path.insert(0, sys.argv[1])\nfrom formats import Tensor, torch_save\n"
      "def nested(depth):\n    return [nested(depth - 1)] if depth else 7\n"
      "torch_save(sys.argv[2], " +
          value + ")\n");
  const std::string command = "python3 -B " + (scratch / "save.py") + " " + MOESIM_ROOT +
                              "/tests/import " + (scratch / "a.pt");
  EXPECT_EQ(std::system(command.c_str()), 0);
  return torch_json(scratch / "a.pt");
}

TEST(TorchTypes, AreThoseOfStoragesAndOfTensors) {
  const auto type = [](std::string_view name) {
    const auto found = torch_type(name);
    return found ? found->kind + std::to_string(found->size) : "none";
  };
  for (const auto& [expected, names] : std::map<std::string, std::vector<std::string_view>>{
           {"f4", {"FloatStorage", "float32"}},
           {"f8", {"DoubleStorage", "float64"}},
           {"f2", {"HalfStorage", "float16"}},
           {"b2", {"BFloat16Storage", "bfloat16"}},
           {"i8", {"LongStorage", "int64"}},
           {"i4", {"IntStorage", "int32"}},
           {"i2", {"ShortStorage", "int16"}},
           {"i1", {"CharStorage", "int8"}},
           {"u1", {"ByteStorage", "uint8", "BoolStorage", "bool", "UntypedStorage"}},
           {"u2", {"uint16"}},
           {"u4", {"uint32"}},
           {"none", {"", "Storage", "complex64"}}}) {
    for (const std::string_view name : names) EXPECT_EQ(type(name), expected) << name;
  }
}

TEST(TorchTypes, AndTensorsAreHarmlessGlobals) {
  for (const char* const name :
       {"torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_tensor_v3",
        "torch._utils._rebuild_parameter", "collections.OrderedDict",
        "torch.storage.UntypedStorage", "torch.FloatStorage", "torch.bool"}) {
    EXPECT_TRUE(is_harmless(name)) << name;
  }
  for (const char* const name : {"os.system", "torch.load", "numpy.float32", "float32", "torch."}) {
    EXPECT_FALSE(is_harmless(name)) << name;
  }
}

/// The value of a pickle, written as Python does; or what is wrong.
std::string value_of_pickle(const std::string& bytes) {
  using Kind = PickleValue::Kind;
  std::string text;
  const std::function<void(const PickleValue&)> write = [&](const PickleValue& value) {
    if (value.is(Kind::none)) text += "None";
    if (value.is(Kind::boolean)) text += value.integer == 1 ? "True" : "False";
    if (value.is(Kind::integer)) text += std::to_string(value.integer);
    if (value.is(Kind::real)) text += std::to_string(value.real);
    if (value.is(Kind::text)) text += "'" + value.node->text + "'";
    if (!value.is_list() && !value.is(Kind::dict)) return;
    text += value.is(Kind::dict) ? "{" : value.is(Kind::list) ? "[" : "(";
    for (const PickleValue& item : value.node->items) write(item), text += ",";
    text += value.is(Kind::dict) ? "}" : value.is(Kind::list) ? "]" : ")";
  };
  const std::string error = error_of([&] {
    const Pickle pickle(std::as_bytes(std::span(bytes)), "p");
    write(pickle.root());
  });
  return error.empty() ? text : error;
}

TEST(Pickles, HaveEveryOperationThatTorchNeeds) {
  using namespace std::string_literals;
  for (const auto& [bytes, value] : std::vector<std::pair<std::string, std::string>>{
           {"N."s, "None"},
           {"\x88."s, "True"},
           {"\x89."s, "False"},
           {"K\xff."s, "255"},
           {"M\x01\x02."s, "513"},
           {"J\xfe\xff\xff\xff."s, "-2"},
           {"\x8a\x00."s, "0"},
           {"\x8a\x01\xff."s, "-1"},
           {"\x8a\x02\xff\x00."s, "255"},
           {"\x8a\x02\x00\x80."s, "-32768"},
           {"\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80."s, "-9223372036854775808"},
           {"G\x3f\xf8\x00\x00\x00\x00\x00\x00."s, "1.500000"},
           {"X\x02\x00\x00\x00"
            "ab."s,
            "'ab'"},
           {"\x8c\x01"
            "a."s,
            "'a'"},
           {"U\x01"
            "a."s,
            "'a'"},
           {"]K\x01"
            "a."s,
            "[1,]"},
           {"](K\x01K\x02"
            "e."s,
            "[1,2,]"},
           {"}K\x01K\x02s."s, "{1,2,}"},
           {"}(K\x01K\x02K\x03K\x04u."s, "{1,2,3,4,}"},
           {")."s, "()"},
           {"(K\x01K\x02K\x03K\x04t."s, "(1,2,3,4,)"},
           {"K\x01\x85."s, "(1,)"},
           {"K\x01K\x02\x86."s, "(1,2,)"},
           {"K\x01K\x02K\x03\x87."s, "(1,2,3,)"},
           {"\x80\x02K\x01q\x05h\x05\x86."s, "(1,1,)"},
           {"K\x01r\x05\x00\x00\x00j\x05\x00\x00\x00\x86."s, "(1,1,)"},
           {"K\x07\x94K\x08\x94h\x00\x87."s, "(7,8,7,)"},
           {"\x95\x02\x00\x00\x00\x00\x00\x00\x00K\x01."s, "1"}}) {
    EXPECT_EQ(value_of_pickle(bytes), value);
  }
  EXPECT_THAT(value_of_pickle("i."), testing::HasSubstr("operation 0x69 is not one that torch"));
  EXPECT_THAT(value_of_pickle("\x8a\x09."), testing::HasSubstr("a number is too large"));
}

TEST(TorchJson, ListsHoldNumbersTextsAndWhatIsNone) {
  EXPECT_EQ(json_of_torch(R"([None, True, False, -3, 2.5, "a\"b", (1, 2), []])"),
            R"([null, true, false, -3, 2.5, "a\"b", [1, 2], []])"
            "\n");
}

TEST(TorchJson, DictsHaveALineForEachKey) {
  EXPECT_EQ(json_of_torch(R"({"a": 1, 7: {}, "b": [2]})"), "{\"a\": 1,\n\"7\": {},\n\"b\": [2]}\n");
}

TEST(TorchJson, TensorsAreNestedLists) {
  EXPECT_EQ(json_of_torch(R"(Tensor("Short", [[1, 2, 3], [4, 5, 6]]))"),
            "[[1, 2, 3], [4, 5, 6]]\n");
  EXPECT_EQ(json_of_torch(R"(Tensor("Float", [0.5]))"), "[0.5]\n");
  EXPECT_EQ(json_of_torch(R"(Tensor("Long", [], shape=[0, 1 << 30]))"), "[]\n");
}

TEST(TorchJson, KeysAreTextsOrNumbers) {
  EXPECT_THAT(error_of([] { json_of_torch("{2.5: 1}"); }),
              testing::HasSubstr("has a key that is neither a text nor a number"));
}

TEST(TorchJson, AHundredListsWithinEachOtherAreRead) {
  EXPECT_EQ(json_of_torch("nested(100)"),
            std::string(100, '[') + "7" + std::string(100, ']') + "\n");
  EXPECT_THAT(error_of([] { json_of_torch("nested(101)"); }),
              testing::HasSubstr("has lists and dicts nested too deep"));
}

}  // namespace
}  // namespace moesim
