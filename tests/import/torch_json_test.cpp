// SPDX-License-Identifier: Apache-2.0
#include "sim/import/torch_json.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <map>

#include "sim/import/torch_types.h"
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
  EXPECT_THAT(error_text([] { json_of_torch("{2.5: 1}"); }),
              testing::HasSubstr("has a key that is neither a text nor a number"));
}

TEST(TorchJson, AHundredListsWithinEachOtherAreRead) {
  EXPECT_EQ(json_of_torch("nested(100)"),
            std::string(100, '[') + "7" + std::string(100, ']') + "\n");
  EXPECT_THAT(error_text([] { json_of_torch("nested(101)"); }),
              testing::HasSubstr("has lists and dicts nested too deep"));
}

}  // namespace
}  // namespace moesim
