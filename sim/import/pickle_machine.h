// SPDX-License-Identifier: Apache-2.0
// The machine that pickles are programs of, and the names that pickles of tensors refer to.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/error.h"
#include "sim/import/pickle.h"
#include "sim/trace/npy.h"

namespace moesim {

/// Element types by the name of the storage class ("FloatStorage") or dtype ("float32").
std::optional<NpyType> torch_type(std::string_view name);

/// Whether a global is a type or a function that only puts a tensor together.
bool is_harmless(std::string_view global);

/// Less all that calls or imports.
class PickleMachine {
  using Kind = PickleValue::Kind;

 public:
  PickleMachine(std::span<const std::byte> bytes, const std::string& file, Pickle& made)
      : bytes_(bytes), file_(file), made_(made) {}

  void run() {
    while (step()) {
    }
    if (stack_.size() != 1) throw damaged("it ends with values left over");
    made_.root_ = stack_.back();
  }

 private:
  Error damaged(const std::string& what) const {
    return error_in(file_, fmt::format("holds a damaged pickle: {} (byte {})", what, at_));
  }
  std::string_view take(std::size_t count) {
    if (bytes_.size() - at_ < count) throw damaged("it is cut short");
    const auto* const from = reinterpret_cast<const char*>(bytes_.data()) + at_;
    at_ += count;
    return {from, count};
  }
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string_view line() {
    const auto* const from = reinterpret_cast<const char*>(bytes_.data()) + at_;
    const auto* const end = static_cast<const char*>(std::memchr(from, '\n', bytes_.size() - at_));
    if (end == nullptr) throw damaged("it is cut short");
    const auto text = take(static_cast<std::size_t>(end - from));
    ++at_;
    return text;
  }
  PickleNode& new_node(Kind kind) {
    made_.nodes_.emplace_back();
    PickleValue value;
    value.kind = kind;
    value.node = &made_.nodes_.back();
    stack_.push_back(value);
    return made_.nodes_.back();
  }
  PickleValue pop() {
    if (stack_.empty()) throw damaged("a value is missing");
    const PickleValue value = stack_.back();
    stack_.pop_back();
    if (value.is(Kind::mark)) throw damaged("a value is missing");
    return value;
  }
  /// The values since the last mark, which goes with them.
  std::vector<PickleValue> pop_marked() {
    std::size_t mark = stack_.size();
    while (mark > 0 && !stack_[mark - 1].is(Kind::mark)) --mark;
    if (mark == 0) throw damaged("a mark is missing");
    std::vector<PickleValue> values(stack_.begin() + static_cast<std::ptrdiff_t>(mark),
                                    stack_.end());
    stack_.resize(mark - 1);
    return values;
  }
  PickleNode& top(Kind kind) {
    if (stack_.empty() || !stack_.back().is(kind)) throw damaged("a list or dict is missing");
    return const_cast<PickleNode&>(*stack_.back().node);
  }
  void push_integer(std::int64_t value, Kind kind = Kind::integer) {
    PickleValue v;
    v.kind = kind;
    v.integer = value;
    stack_.push_back(v);
  }
  void push_text(std::size_t size) {
    const auto text = take(size);
    new_node(Kind::text).text = text;
  }
  void append(std::vector<PickleValue> values, Kind kind) {
    auto& items = top(kind).items;
    if (kind == Kind::dict && values.size() % 2 != 0) throw damaged("a key has no value");
    items.insert(items.end(), values.begin(), values.end());
  }
  void push_tuple(std::vector<PickleValue> items) {
    new_node(Kind::tuple).items = std::move(items);
  }
  void push_tuple_of(int count) {
    std::vector<PickleValue> items(static_cast<std::size_t>(count));
    for (auto item = items.rbegin(); item != items.rend(); ++item) *item = pop();
    push_tuple(std::move(items));
  }
  void remember(std::uint64_t key) {
    if (stack_.empty()) throw damaged("a value is missing");
    memo_[key] = stack_.back();
  }
  void recall(std::uint64_t key) {
    const auto at = memo_.find(key);
    if (at == memo_.end()) throw damaged("it refers to nothing");
    stack_.push_back(at->second);
  }
  void push_global(std::string_view module, std::string_view name) {
    const std::string global = fmt::format("{}.{}", module, name);
    if (!is_harmless(global)) {
      throw error_in(file_,
                     fmt::format("holds a {}, which only its code can load", global.substr(0, 100)),
                     "save only tensors, lists, dicts, numbers and texts");
    }
    new_node(Kind::global).text = name;
  }
  void push_long(std::size_t size) {
    if (size > 8) throw damaged("a number is too large");
    const auto digits = take(size);
    std::uint64_t value = 0;
    for (std::size_t i = size; i-- > 0;) value = value << 8 | static_cast<unsigned char>(digits[i]);
    if (size > 0 && size < 8 && (static_cast<unsigned char>(digits[size - 1]) & 0x80) != 0) {
      value |= ~std::uint64_t{0} << (8 * size);
    }
    push_integer(static_cast<std::int64_t>(value));
  }
  const PickleNode& node_of(const PickleValue& value, Kind kind, const char* what) const {
    if (!value.is(kind)) throw damaged(what);
    return *value.node;
  }
  std::int64_t integer_of(const PickleValue& value) const {
    if (!value.is(Kind::integer)) throw damaged("a tensor has no number where one is due");
    return value.integer;
  }
  /// ("storage", class, key, device, elements)
  void push_storage() {
    const PickleValue id = pop();
    if (!id.is_list() || id.node->items.size() != 5) throw damaged("a storage is not one of torch");
    const auto& parts = id.node->items;
    const auto type = torch_type(node_of(parts[1], Kind::global, "a storage has no type").text);
    if (!type) throw damaged("a storage has no type");
    PickleTensor storage{*type,
                         node_of(parts[2], Kind::text, "a storage has no key").text,
                         integer_of(parts[4]),
                         0,
                         {},
                         {}};
    if (storage.storage_size < 0) throw damaged("a storage has a negative size");
    if (storage.storage_size > std::int64_t{1} << 48) throw damaged("a storage is too large");
    new_node(Kind::storage).tensor = std::move(storage);
  }
  std::vector<std::int64_t> integers_of(const PickleValue& value) const {
    constexpr std::size_t most_axes = 16;
    if (!value.is_list() || value.node->items.size() > most_axes)
      throw damaged("a tensor has no shape");
    std::vector<std::int64_t> numbers;
    for (const PickleValue& item : value.node->items) numbers.push_back(integer_of(item));
    return numbers;
  }
  /// _rebuild_tensor_v2(storage, first, shape, strides, ...), v3 with the type as seventh.
  void push_tensor(const std::vector<PickleValue>& of) {
    if (of.size() < 4) throw damaged("a tensor is incomplete");
    PickleTensor tensor = node_of(of[0], Kind::storage, "a tensor has no storage").tensor;
    tensor.first = integer_of(of[1]);
    tensor.shape = integers_of(of[2]);
    tensor.strides = integers_of(of[3]);
    if (of.size() > 6 && of[6].is(Kind::global)) {
      const auto type = torch_type(of[6].node->text);
      if (!type) throw damaged("a tensor has no type");
      tensor.storage_size = tensor.storage_size * tensor.type.size / type->size;
      tensor.type = *type;
    }
    new_node(Kind::tensor).tensor = std::move(tensor);
  }
  void call() {
    const PickleValue arguments = pop();
    const PickleValue function = pop();
    const std::string& name =
        node_of(function, Kind::global, "it calls something that is not a function").text;
    if (!arguments.is_list()) throw damaged("a call has no arguments");
    const auto& of = arguments.node->items;
    if (name == "OrderedDict" && of.empty()) {
      new_node(Kind::dict);
    } else if (name == "_rebuild_parameter" && !of.empty() && of[0].is(Kind::tensor)) {
      stack_.push_back(of[0]);
    } else if (name.starts_with("_rebuild_tensor")) {
      push_tensor(of);
    } else {
      throw damaged(fmt::format("it calls {} as torch.save does not", name));
    }
  }
  bool step();
  bool build(char code);

  std::span<const std::byte> bytes_;
  const std::string& file_;
  Pickle& made_;
  std::size_t at_ = 0;
  std::vector<PickleValue> stack_;
  std::map<std::uint64_t, PickleValue> memo_;
};

}  // namespace moesim
