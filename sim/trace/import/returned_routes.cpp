// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/import/returned_routes.h"

#include <fmt/format.h>

#include <memory>

#include "sim/base/gzip.h"
#include "sim/base/json.h"
#include "sim/trace/import/input_hash.h"
#include "sim/trace/import/line_file.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;
using UseResponse = std::function<void(const Json&, const std::string&)>;

void use_value(const Json& value, const std::string& where, const UseResponse& use) {
  if (value.is_object()) return use(value, where);
  if (!value.is_array()) throw error_in(where, "is no response: neither an object nor a list");
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::string item = fmt::format("{}, response {}", where, i);
    if (!value[i].is_object()) throw error_in(item, "is no object");
    use(value[i], item);
  }
}

/// Whether the first line is a whole JSON value: one per line, else one in all.
bool holds_lines(const std::string& path) {
  LineFile file(path);
  std::string line;
  return file.next(line) && Json::accept(line);
}

void read_responses(const std::string& path, ImportSink& sink, double before, double share,
                    const UseResponse& use) {
  if (!holds_lines(path)) {
    return use_value(parse_json(read_text_or_gzip(path), {path}), path, use);
  }
  LineFile file(path);
  for (std::string line; file.next(line);) {
    sink.progress(before + share * file.done());
    use_value(parse_json(line, {path, file.line_number()}),
              fmt::format("{}:{}", path, file.line_number()), use);
  }
}

/// Shape of nested lists by their first items.
std::vector<std::int64_t> shape_of(const Json& lists, std::size_t axes, const std::string& where) {
  std::vector<std::int64_t> shape;
  const Json* at = &lists;
  for (std::size_t axis = 0; axis < axes; ++axis) {
    if (!at->is_array())
      throw error_in(where, fmt::format("holds routes of {} axes, not {}", axis, axes));
    shape.push_back(std::ssize(*at));
    if (axis + 1 == axes) break;
    if (at->empty()) {
      shape.resize(axes, 0);
      return shape;
    }
    at = &at->front();
  }
  return shape;
}

void flatten(const Json& list, const std::vector<std::int64_t>& shape, std::size_t axis,
             std::vector<std::int32_t>& out, const std::string& where) {
  if (axis == shape.size()) {
    if (!list.is_number_integer() || list.get<std::int64_t>() != list.get<std::int32_t>()) {
      throw error_in(where, "holds routes that are no whole numbers");
    }
    return out.push_back(list.get<std::int32_t>());
  }
  if (!list.is_array() || std::ssize(list) != shape[axis]) {
    throw error_in(where, "holds routes of different lengths",
                   "every token has the same layers and choices");
  }
  for (const Json& item : list) flatten(item, shape, axis + 1, out, where);
}

}  // namespace

void for_each_response(ImportSink& sink, const UseResponse& use) {
  const auto files = input_files(sink.options().inputs);
  const double share = 1 / static_cast<double>(files.size());
  for (std::size_t i = 0; i < files.size(); ++i) {
    read_responses(files[i], sink, static_cast<double>(i) * share, share, use);
  }
}

const Json* json_at(const Json& value, std::initializer_list<const char*> keys) {
  const Json* at = &value;
  for (const char* key : keys) {
    if (!at->is_object()) return nullptr;
    const auto found = at->find(key);
    if (found == at->end() || found->is_null()) return nullptr;
    at = &*found;
  }
  return at;
}

NpyArray array_of_lists(const Json& lists, std::size_t axes, const std::string& where) {
  auto shape = shape_of(lists, axes, where);
  std::vector<std::int32_t> values;
  flatten(lists, shape, 0, values, where);
  return NpyArray::of(std::move(values), std::move(shape), where);
}

NpyArray array_of_bytes(std::vector<std::byte> bytes, NpyType type, const ImportOptions& options,
                        const std::string& where) {
  const auto layers =
      options.layers.empty() ? options.model_layers : static_cast<int>(options.layers.size());
  if (layers == 0 || options.top_k == 0) {
    throw error_in(where, "says neither layers nor top-k of its routes",
                   "give --model, or --layers FIRST:COUNT and --top-k");
  }
  const auto row = static_cast<std::size_t>(layers) * static_cast<std::size_t>(options.top_k) *
                   static_cast<std::size_t>(type.size);
  if (bytes.size() % row != 0) {
    throw error_in(where,
                   fmt::format("holds {} bytes of routes; a token of {} layers has {} choices of "
                               "{} each, {} bytes",
                               bytes.size(), layers, options.top_k, type.name(), row),
                   "another model, or ids of another type");
  }
  const auto tokens = static_cast<std::int64_t>(bytes.size() / row);
  const auto kept = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return NpyArray::view(type, {tokens, layers, options.top_k}, *kept, kept, where);
}

void add_request(ImportSink& sink, const NpyArray& ids, const std::string& where) {
  if (ids.shape().size() != 3) {
    throw error_in(
        where, fmt::format("holds routes {}, not [token][layer][choice]", shape_text(ids.shape())));
  }
  const std::int64_t tokens = ids.shape()[0];
  if (tokens == 0) return;
  if (tokens > std::numeric_limits<std::int32_t>::max()) throw error_in(where, "is too long");
  RoutedPass pass{where, ChoiceTable(ids, {}, "tlk"), {static_cast<std::int32_t>(tokens)}};
  pass.phase = Phase::mixed;
  sink.add(pass);
}

}  // namespace moesim
