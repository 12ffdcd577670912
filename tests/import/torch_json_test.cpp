// SPDX-License-Identifier: Apache-2.0
#include "sim/import/torch_json.h"

#include <gmock/gmock.h>

#include <cstdlib>

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
