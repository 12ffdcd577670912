// SPDX-License-Identifier: Apache-2.0
#include "sim/import/torch_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/base/text.h"
#include "sim/import/torch_file.h"

namespace moesim {
namespace {

using Kind = PickleValue::Kind;

class TorchWriter {
 public:
  explicit TorchWriter(const std::string& path) : file_(path) {}

  std::string text() {
    write(file_.root(), 0);
    return std::move(out_) + "\n";
  }

 private:
  void write(const PickleValue& value, int depth) {
    count(1);
    // A pickle can refer to a list within itself, and to one list many times.
    if (depth > max_nesting) refuse("has lists and dicts nested too deep");
    switch (value.kind) {
      case Kind::none:
        out_ += "null";
        return;
      case Kind::boolean:
        out_ += value.integer != 0 ? "true" : "false";
        return;
      case Kind::integer:
        out_ += fmt::format("{}", value.integer);
        return;
      case Kind::real:
        out_ += fmt::format("{}", value.real);
        return;
      case Kind::text:
        return write_text(value.node->text);
      case Kind::list:
      case Kind::tuple:
        return write_list(value.node->items, depth);
      case Kind::dict:
        return write_dict(value.node->items, depth);
      case Kind::tensor: {
        const NpyArray array = file_.load(value, "tensor");
        count(array.count());
        std::int64_t next = 0;
        return write_tensor(array, 0, next);
      }
      default:
        refuse("holds something other than numbers, texts, lists, dicts and tensors");
    }
  }

  void write_text(const std::string& text) {
    out_ += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    if (out_.size() > most_text) refuse("holds more than 256 MB of text");
  }

  void write_list(const std::vector<PickleValue>& items, int depth) {
    out_ += '[';
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += ", ";
      write(items[i], depth + 1);
    }
    out_ += ']';
  }

  /// A key and its value on each line, so that mistakes have one.
  void write_dict(const std::vector<PickleValue>& items, int depth) {
    out_ += '{';
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      if (i > 0) out_ += ",\n";
      const PickleValue& key = items[i];
      if (key.is(Kind::text)) {
        write_text(key.node->text);
      } else if (key.is(Kind::integer)) {
        out_ += fmt::format("\"{}\"", key.integer);
      } else {
        refuse("has a key that is neither a text nor a number");
      }
      out_ += ": ";
      write(items[i + 1], depth + 1);
    }
    out_ += '}';
  }

  void write_tensor(const NpyArray& array, std::size_t axis, std::int64_t& next) {
    if (axis == array.shape().size()) {
      out_ += array.type().is_integer() ? fmt::format("{}", array.integer(next))
                                        : fmt::format("{}", array.real(next));
      ++next;
      return;
    }
    // Of an empty tensor the other axes may be of any length.
    const std::int64_t length = array.count() > 0 ? array.shape()[axis] : 0;
    out_ += '[';
    for (std::int64_t i = 0; i < length; ++i) {
      if (i > 0) out_ += ", ";
      write_tensor(array, axis + 1, next);
    }
    out_ += ']';
  }

  void count(std::int64_t values) {
    values_ += values;
    if (values_ > most_values) refuse("holds over 16 million values");
  }

  [[noreturn]] void refuse(const std::string& what) const { throw error_in(file_.path(), what); }

  static constexpr std::int64_t most_values = 1 << 24;
  static constexpr std::size_t most_text = 256'000'000;
  TorchFile file_;
  std::string out_;
  std::int64_t values_ = 0;
};

}  // namespace

std::string torch_json(const std::string& path) { return TorchWriter(path).text(); }

}  // namespace moesim
