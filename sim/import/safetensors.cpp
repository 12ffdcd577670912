// SPDX-License-Identifier: Apache-2.0
#include "sim/import/safetensors.h"

#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "sim/base/error.h"
#include "sim/base/json.h"

namespace moesim {
namespace {

std::optional<NpyType> safetensors_type(const std::string& name) {
  static const std::map<std::string, NpyType> types = {
      {"BOOL", {'u', 1}}, {"U8", {'u', 1}},  {"I8", {'i', 1}},  {"U16", {'u', 2}},
      {"I16", {'i', 2}},  {"U32", {'u', 4}}, {"I32", {'i', 4}}, {"U64", {'u', 8}},
      {"I64", {'i', 8}},  {"F16", {'f', 2}}, {"F32", {'f', 4}}, {"F64", {'f', 8}},
      {"BF16", {'b', 2}}};
  const auto at = types.find(name);
  return at == types.end() ? std::nullopt : std::optional(at->second);
}

/// {"dtype": "I64", "shape": [2, 3], "data_offsets": [0, 48]}
NpyArray read_tensor(const nlohmann::ordered_json& entry, const std::string& name,
                     std::span<const std::byte> data, const std::shared_ptr<const void>& memory) {
  std::vector<std::int64_t> shape;
  std::vector<std::uint64_t> ends;
  std::optional<NpyType> type;
  try {
    type = safetensors_type(entry.at("dtype").get<std::string>());
    for (const auto& n : entry.at("shape")) {
      if (!n.is_number_unsigned()) throw error_in(name, "has a shape of no whole numbers");
      shape.push_back(n.get<std::int64_t>());
    }
    for (const auto& n : entry.at("data_offsets")) ends.push_back(n.get<std::uint64_t>());
  } catch (const nlohmann::json::exception&) {
    throw error_in(name, "lacks dtype, shape or data_offsets");
  }
  if (!type) throw error_in(name, "holds elements of an unsupported type");
  if (ends.size() != 2 || ends[0] > ends[1] || ends[1] > data.size()) {
    throw error_in(name, "lies beyond the end of the file", "the file is cut short or damaged");
  }
  return NpyArray::view(*type, std::move(shape), data.subspan(ends[0], ends[1] - ends[0]), memory,
                        name);
}

}  // namespace

Safetensors::Safetensors(const std::string& path)
    : path_(path), file_(std::make_shared<const MappedFile>(path)) {
  const auto bytes = file_->bytes();
  std::uint64_t length = 0;
  if (bytes.size() >= sizeof(length)) std::memcpy(&length, bytes.data(), sizeof(length));
  if (bytes.size() < sizeof(length) || length > bytes.size() - sizeof(length)) {
    throw error_in(path, "is not a safetensors file: its header is cut short");
  }
  const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + sizeof(length),
                                length);
  const auto json = parse_json(header, {path});
  if (!json.is_object())
    throw error_in(path, "is not a safetensors file: its header is not an object");
  const auto data = bytes.subspan(sizeof(length) + length);
  for (const auto& [name, entry] : json.items()) {
    if (name == "__metadata__") continue;
    tensors_.emplace(name, read_tensor(entry, path + "/" + name, data, file_));
  }
}

}  // namespace moesim
