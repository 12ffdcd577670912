// SPDX-License-Identifier: Apache-2.0
#include "sim/import/torch_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "sim/base/error.h"
#include "sim/import/file_content.h"

namespace moesim {
namespace {

using Kind = PickleValue::Kind;

/// Elements of a shape, -1 if there are too many for any file.
std::int64_t elements_of(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t n : shape) {
    if (n < 0 || (n > 0 && count > std::numeric_limits<std::int64_t>::max() / 16 / n)) return -1;
    count *= n;
  }
  return count;
}

/// Whether a tensor begins in its storage and no step between elements is longer than that;
/// afterwards none leaves 64 bits.
bool steps_inside(const PickleTensor& tensor) {
  if (tensor.first < 0 || tensor.first > tensor.storage_size ||
      tensor.strides.size() != tensor.shape.size()) {
    return false;
  }
  for (std::size_t axis = 0; axis < tensor.shape.size(); ++axis) {
    if (tensor.shape[axis] < 2) continue;  // no step
    if (tensor.strides[axis] < 0 || tensor.strides[axis] > tensor.storage_size) return false;
  }
  return true;
}

/// Whether elements follow each other in C order.
bool is_dense(const PickleTensor& tensor) {
  std::int64_t stride = 1;
  for (std::size_t axis = tensor.shape.size(); axis-- > 0;) {
    if (tensor.shape[axis] > 1 && tensor.strides[axis] != stride) return false;
    stride *= tensor.shape[axis];
  }
  return true;
}

/// Calls use(element, place in the storage) in C order; false at the first place beyond it.
template <class Use>
bool for_each_element(const PickleTensor& tensor, std::int64_t count, const Use& use) {
  std::vector<std::int64_t> at(tensor.shape.size(), 0);
  std::int64_t from = tensor.first;
  for (std::int64_t i = 0; i < count; ++i) {
    if (from < 0 || from >= tensor.storage_size) return false;
    use(i, from);
    for (std::size_t axis = at.size(); axis-- > 0;) {
      if (tensor.shape[axis] == 1) continue;
      from += tensor.strides[axis];
      if (++at[axis] < tensor.shape[axis]) break;
      from -= tensor.strides[axis] * at[axis];
      at[axis] = 0;
    }
  }
  return true;
}

/// What a value is, by name.
std::string names_of(const PickleValue& value) {
  if (value.is_list()) return fmt::format("a list of {}", value.node->items.size());
  if (value.is(Kind::tensor)) {
    const PickleTensor& tensor = value.node->tensor;
    return fmt::format("a tensor {} {}", tensor.type.name(), shape_text(tensor.shape));
  }
  if (!value.is(Kind::dict)) return "a value that is neither a tensor, a list nor a dict";
  std::vector<std::string> keys;
  for (std::size_t i = 0; i + 1 < value.node->items.size(); i += 2) {
    const PickleValue& key = value.node->items[i];
    keys.push_back(key.is(Kind::text) ? key.node->text : "(no text)");
  }
  return keys.empty() ? "a dict without keys" : "the keys " + some_of(keys);
}

}  // namespace

bool is_of_draft_model(const PickleValue& record) {
  const PickleValue* gatherer = pickle_get(record, "gatherer_key");
  return gatherer != nullptr && gatherer->is(Kind::text) && gatherer->node->text != "primary";
}

TorchFile::TorchFile(const std::string& path) : path_(path), archive_(path) {
  const std::string ending = "/data.pkl";
  for (const auto& member : archive_.members()) {
    members_[member.name] = member;
    if (member.name.ends_with(ending)) {
      folder_ = member.name.substr(0, member.name.size() - ending.size());
    }
  }
  const auto pickle = members_.find(folder_ + ending);
  if (pickle == members_.end())
    throw error_in(path, "is not a torch.save file: data.pkl is missing");
  const auto bytes = archive_.read(pickle->second);
  pickle_ = std::make_unique<const Pickle>(bytes, path);
  if (const auto order = members_.find(folder_ + "/byteorder"); order != members_.end()) {
    const auto word = archive_.read(order->second);
    if (word.size() != 6 || std::memcmp(word.data(), "little", 6) != 0) {
      throw error_in(path, "holds big-endian numbers");
    }
  }
}

std::shared_ptr<const std::vector<std::byte>> TorchFile::storage(const std::string& key) const {
  if (last_ && key == last_key_) return last_;
  const auto member = members_.find(folder_ + "/data/" + key);
  if (member == members_.end()) throw error_in(path_, fmt::format("lacks the storage '{}'", key));
  last_.reset();  // one at a time
  last_ = std::make_shared<const std::vector<std::byte>>(archive_.read(member->second));
  last_key_ = key;
  return last_;
}

NpyArray TorchFile::load(const PickleValue& value, const std::string& name) const {
  if (!value.is(Kind::tensor)) throw error_in(path_, fmt::format("{} is not a tensor", name));
  PickleTensor tensor = value.node->tensor;
  const std::string where = fmt::format("{}/{}", path_, name);
  const std::int64_t count = elements_of(tensor.shape);
  if (count == 0) return NpyArray::view(tensor.type, tensor.shape, {}, nullptr, where);
  const Error beyond = error_in(where, "reaches beyond its storage", "the file is damaged");
  const auto check_fits = [&] {
    if (count < 0 || count > tensor.storage_size) {
      throw error_in(where,
                     fmt::format("has shape {} but only {} stored elements",
                                 shape_text(tensor.shape), tensor.storage_size),
                     "save tensor.contiguous() if it was expanded");
    }
    if (!steps_inside(tensor)) throw beyond;
  };
  check_fits();
  const auto bytes = storage(tensor.storage);
  const auto size = static_cast<std::size_t>(tensor.type.size);
  tensor.storage_size =
      std::min(tensor.storage_size, static_cast<std::int64_t>(bytes->size() / size));
  check_fits();  // what the pickle says of its storage need not be so
  if (is_dense(tensor) && tensor.first + count <= tensor.storage_size) {
    const auto part = std::span(*bytes).subspan(static_cast<std::size_t>(tensor.first) * size,
                                                static_cast<std::size_t>(count) * size);
    return NpyArray::view(tensor.type, tensor.shape, part, bytes, where);
  }
  const auto copy =
      std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(count) * size);
  if (!for_each_element(tensor, count, [&](std::int64_t to, std::int64_t from) {
        std::memcpy(copy->data() + static_cast<std::size_t>(to) * size,
                    bytes->data() + static_cast<std::size_t>(from) * size, size);
      })) {
    throw beyond;
  }
  return NpyArray::view(tensor.type, tensor.shape, *copy, copy, where);
}

std::string TorchFile::names() const { return names_of(root()); }

const PickleValue& TorchFile::at(const PickleValue& dict, const std::string& key) const {
  const PickleValue* const value = pickle_get(dict, key);
  if (value == nullptr) {
    throw error_in(path_, fmt::format("has no '{}' but {}", key, names_of(dict)));
  }
  return *value;
}

std::int64_t TorchFile::integer_at(const PickleValue& dict, const std::string& key) const {
  const PickleValue& value = at(dict, key);
  if (!value.is(Kind::integer)) throw error_in(path_, fmt::format("'{}' is not a number", key));
  return value.integer;
}

NpyArray TorchFile::load_at(const PickleValue& dict, const std::string& key) const {
  return load(at(dict, key), key);
}

const std::vector<PickleValue>& TorchFile::items(const PickleValue& value,
                                                 const std::string& name) const {
  if (!value.is_list()) throw error_in(path_, fmt::format("{} is not a list", name));
  return value.node->items;
}

std::vector<std::int32_t> TorchFile::integers(const PickleValue& value,
                                              const std::string& name) const {
  std::vector<std::int32_t> numbers;
  for (const PickleValue& item : items(value, name)) {
    if (!item.is(Kind::integer) || item.integer != static_cast<std::int32_t>(item.integer)) {
      throw error_in(path_, fmt::format("{} holds something that is not a 32-bit integer", name));
    }
    numbers.push_back(static_cast<std::int32_t>(item.integer));
  }
  return numbers;
}

}  // namespace moesim
