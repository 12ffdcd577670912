// SPDX-License-Identifier: Apache-2.0
// Pickles that are damaged say how and where; storages and tensors are made as torch makes them.
#include <gmock/gmock.h>

#include "sim/import/pickle.h"
#include "sim/trace/npy.h"
#include "tests/error_of.h"
#include "tests/trace/scratch.h"

namespace moesim {
namespace {

using namespace std::string_literals;
using Kind = PickleValue::Kind;

/// What is wrong with a pickle.
std::string damage_of(const std::string& bytes) {
  const std::string error = error_of([&] { Pickle(std::as_bytes(std::span(bytes)), "p"); });
  const std::string start = "p: error: holds a damaged pickle: ";
  return error.starts_with(start) ? error.substr(start.size(), error.find('\n') - start.size())
                                  : error.substr(0, error.find('\n'));
}

TEST(DamagedPickles, SayWhatIsMissingAndWhere) {
  for (const auto& [bytes, damage] : std::vector<std::pair<std::string, std::string>>{
           {"", "it is cut short (byte 0)"},
           {"K", "it is cut short (byte 1)"},
           {"X\x03\0\0\0ab"s, "it is cut short (byte 5)"},
           {"ctorch", "it is cut short (byte 1)"},
           {".", "it ends with values left over (byte 1)"},
           {"NN.", "it ends with values left over (byte 3)"},
           {"a.", "a value is missing (byte 1)"},
           {"](a.", "a value is missing (byte 3)"},
           {"q\x05.", "a value is missing (byte 2)"},
           {"h\x05.", "it refers to nothing (byte 2)"},
           {"Na.", "a list or dict is missing (byte 2)"},
           {"}Na.", "a list or dict is missing (byte 3)"},
           {"]NNs.", "a list or dict is missing (byte 4)"},
           {"]Ne.", "a mark is missing (byte 3)"},
           {"}(Nu.", "a key has no value (byte 4)"},
           {"NN\x93.", "a global has no name (byte 3)"},
           {"N)R.", "it calls something that is not a function (byte 3)"},
           {"ctorch\nbool\nNR.", "a call has no arguments (byte 14)"},
           {"ctorch\nbool\n)R.", "it calls bool as torch.save does not (byte 14)"},
           {"cos\nsystem\n.", "p: error: holds a os.system, which only its code can load"}}) {
    EXPECT_EQ(damage_of(bytes), damage);
  }
  EXPECT_EQ(damage_of("ccollections\nOrderedDict\n)R."), "");
  EXPECT_EQ(damage_of("ccollections\nOrderedDict\n(NtR."),
            "it calls OrderedDict as torch.save does not (byte 29)");
}

/// The storage '7' of four elements, or of what is said.
std::string storage_bytes(const std::string& type = "ctorch\nIntStorage\n",
                          const std::string& key = "U\x01"s + "7",
                          const std::string& elements = "K\x04") {
  return "(U\x07storage" + type + key + "U\x03" + "cpu" + elements + "tQ";
}

TEST(DamagedPickles, HaveStoragesOfTorch) {
  EXPECT_EQ(damage_of(storage_bytes() + "."), "");
  EXPECT_EQ(damage_of("NQ."), "a storage is not one of torch (byte 2)");
  EXPECT_EQ(damage_of("(NNNNtQ."), "a storage is not one of torch (byte 7)");
  EXPECT_THAT(damage_of(storage_bytes("N") + "."), ::testing::StartsWith("a storage has no type"));
  EXPECT_THAT(damage_of(storage_bytes("ccollections\nOrderedDict\n") + "."),
              ::testing::StartsWith("a storage has no type"));
  EXPECT_THAT(damage_of(storage_bytes("ctorch\nIntStorage\n", "N") + "."),
              ::testing::StartsWith("a storage has no key"));
  const auto of_elements = [](const std::string& elements) {
    return damage_of(storage_bytes("ctorch\nIntStorage\n", "U\x01"s + "7", elements) + ".");
  };
  EXPECT_EQ(of_elements("K\0"s), "");
  EXPECT_THAT(of_elements("J\xff\xff\xff\xff"),
              ::testing::StartsWith("a storage has a negative size"));
  EXPECT_THAT(of_elements("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"),
              ::testing::StartsWith("a storage is too large"));
  EXPECT_THAT(of_elements("N"), ::testing::StartsWith("a tensor has no number where one is due"));
}

/// A call that makes a tensor of these arguments after its storage.
std::string tensor_bytes(const std::string& arguments,
                         const std::string& storage = storage_bytes()) {
  return "ctorch._utils\n_rebuild_tensor_v2\n(" + storage + arguments + "tR.";
}

/// "TYPE SHAPE strides STRIDES from FIRST of SIZE in STORAGE" of a tensor, or what is wrong.
std::string tensor_told(const std::string& bytes) {
  const std::string damage = damage_of(bytes);
  if (!damage.empty()) return damage;
  const Pickle pickle(std::as_bytes(std::span(bytes)), "p");
  if (!pickle.root().is(Kind::tensor)) return "no tensor";
  const PickleTensor& tensor = pickle.root().node->tensor;
  return tensor.type.name() + " " + shape_text(tensor.shape) + " strides " +
         shape_text(tensor.strides) + " from " + std::to_string(tensor.first) + " of " +
         std::to_string(tensor.storage_size) + " in " + tensor.storage;
}

TEST(PickledTensors, HaveAStorageAShapeAndStrides) {
  const std::string shape = "K\x02K\x03\x86", strides = "K\x03K\x01\x86";
  EXPECT_EQ(tensor_told(tensor_bytes("K\x01" + shape + strides)),
            "int32 (2, 3) strides (3, 1) from 1 of 4 in 7");
  EXPECT_EQ(tensor_told(tensor_bytes("K\x01" + shape + strides + "\x89N")),
            "int32 (2, 3) strides (3, 1) from 1 of 4 in 7");
  EXPECT_THAT(tensor_told(tensor_bytes("K\x01" + shape)),
              ::testing::StartsWith("a tensor is incomplete"));
  EXPECT_THAT(tensor_told(tensor_bytes("N" + shape + strides)),
              ::testing::StartsWith("a tensor has no number where one is due"));
  EXPECT_THAT(tensor_told(tensor_bytes("K\x01N" + strides)),
              ::testing::StartsWith("a tensor has no shape"));
  EXPECT_THAT(tensor_told(tensor_bytes("K\x01" + shape + strides, "N")),
              ::testing::StartsWith("a tensor has no storage"));
  const auto of_axes = [&](std::size_t axes) {
    std::string numbers;
    for (std::size_t i = 0; i < axes; ++i) numbers += "K\x01";
    return tensor_told(tensor_bytes("K\0"s + "(" + numbers + "t(" + numbers + "t"));
  };
  EXPECT_THAT(of_axes(16), ::testing::StartsWith("int32 (1, 1, "));
  EXPECT_THAT(of_axes(17), ::testing::StartsWith("a tensor has no shape"));
}

TEST(PickledTensors, MaySayTheirTypeThemselves) {
  const std::string untyped = storage_bytes("ctorch.storage\nUntypedStorage\n", "U\x01"s + "7",
                                            "K\x10");  // 16 bytes
  const auto of_type = [&](const std::string& seventh) {
    return tensor_told(tensor_bytes("K\0K\x02\x85K\x01\x85\x89N"s + seventh, untyped));
  };
  EXPECT_EQ(of_type("ctorch\nfloat32\n"), "float32 (2,) strides (1,) from 0 of 4 in 7");
  EXPECT_EQ(of_type("ctorch\nint64\n"), "int64 (2,) strides (1,) from 0 of 2 in 7");
  EXPECT_EQ(of_type("N"), "uint8 (2,) strides (1,) from 0 of 16 in 7");
  EXPECT_EQ(of_type(""), "uint8 (2,) strides (1,) from 0 of 16 in 7");
  EXPECT_THAT(of_type("ccollections\nOrderedDict\n"),
              ::testing::StartsWith("a tensor has no type"));
}

TEST(PickledTensors, MayBeParameters) {
  const std::string tensor = tensor_bytes("K\0K\x02\x85K\x01\x85"s);
  const std::string parameter =
      "ctorch._utils\n_rebuild_parameter\n(" + tensor.substr(0, tensor.size() - 1) + "\x89NtR.";
  EXPECT_EQ(tensor_told(parameter), "int32 (2,) strides (1,) from 0 of 4 in 7");
  EXPECT_THAT(tensor_told("ctorch._utils\n_rebuild_parameter\n(NtR."),
              ::testing::StartsWith("it calls _rebuild_parameter as torch.save does not"));
  EXPECT_THAT(tensor_told("ctorch._utils\n_rebuild_parameter\n)R."),
              ::testing::StartsWith("it calls _rebuild_parameter as torch.save does not"));
}

TEST(KeysOfPickles, MayComeAgain) {
  const std::string bytes = "}(U\x01"s + "aK\x01U\x01" + "bK\x02U\x01" + "aK\x03K\x07K\x04u.";
  const Pickle pickle(std::as_bytes(std::span(bytes)), "p");
  EXPECT_EQ(pickle_get(pickle.root(), "a")->integer, 3) << "the last counts, as in Python";
  EXPECT_EQ(pickle_get(pickle.root(), "b")->integer, 2);
  EXPECT_EQ(pickle_get(pickle.root(), "c"), nullptr);
  EXPECT_EQ(pickle_get(*pickle_get(pickle.root(), "a"), "a"), nullptr) << "no dict";
}

}  // namespace
}  // namespace moesim
