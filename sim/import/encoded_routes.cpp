// SPDX-License-Identifier: Apache-2.0
#include "sim/import/encoded_routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>

#include "sim/base/error.h"
#include "sim/base/line_file.h"
#include "sim/import/base64.h"
#include "sim/import/file_content.h"
#include "sim/import/input_hash.h"

namespace moesim {
namespace {

constexpr std::string_view nemo_rl_mark = "nrlre1:";

NpyArray shaped(std::vector<std::byte> bytes, NpyType type, std::vector<std::int64_t> shape,
                const std::string& where) {
  const auto kept = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return NpyArray::view(type, std::move(shape), *kept, kept, where);
}

/// Elements of a shape; -1 for none, or for more than any response holds.
std::int64_t elements_of_routes(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t n : shape) {
    if (n < 0 || (n > 0 && count > (std::int64_t{1} << 40) / n)) return -1;
    count *= n;
  }
  return count;
}

std::vector<std::int64_t> shape_of(const JsonElement& routes, const std::string& where) {
  std::vector<std::int64_t> shape;
  simdjson::dom::array sizes;
  const auto list = json_at(routes, "shape");
  if (list && list->get(sizes) == simdjson::SUCCESS) {
    for (const JsonElement size : sizes) shape.push_back(json_number(size, 1 << 30));
  }
  if (shape.empty() || elements_of_routes(shape) < 0) {
    throw error_in(where, "holds routes without a sound 'shape'");
  }
  return shape;
}

/// The type whose bytes fill the shape, if one's do.
NpyType type_of_size(std::size_t bytes, std::int64_t elements) {
  for (const int size : {1, 2, 4}) {
    if (static_cast<std::int64_t>(bytes) == elements * size) return {size == 1 ? 'u' : 'i', size};
  }
  return {'i', 8};
}

/// {"data": text, "shape": [T, L, K], "dtype": maybe}: the text is base64 if its length is that of
/// the bytes in base64, else base85.
NpyArray object_of_routes(const JsonElement& routes, const std::string& where) {
  std::string_view text, name;
  const auto data = json_at(routes, "data");
  if (!data || data->get(text) != simdjson::SUCCESS) {
    throw error_in(where, "holds routes that are an object without text in 'data'");
  }
  const auto shape = shape_of(routes, where);
  const std::int64_t elements = elements_of_routes(shape);
  const auto dtype = json_at(routes, "dtype");
  if (dtype && dtype->get(name) != simdjson::SUCCESS) name = "(no text)";
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  const std::size_t in_base64 = text.size() / 4 * 3 - padding, in_base85 = text.size() * 4 / 5;
  for (const bool is_base64 : {true, false}) {
    const std::size_t size = is_base64 ? in_base64 : in_base85;
    const NpyType type = name.empty() ? type_of_size(size, elements) : type_of_routes(name, where);
    if (static_cast<std::int64_t>(size) != elements * type.size) continue;
    return shaped(is_base64 ? from_base64(text, where) : from_base85(text, where), type, shape,
                  where);
  }
  throw error_in(where, fmt::format("holds {} characters of routes, which fill no shape {}",
                                    text.size(), shape_text(shape)));
}

NpyArray nemo_rl_routes(std::string_view text, const std::string& where) {
  std::array<std::string_view, 3> parts;  // type, shape, bytes
  text.remove_prefix(nemo_rl_mark.size());
  for (auto& part : parts) {
    const std::size_t end = &part == &parts.back() ? text.size() : text.find(':');
    part = text.substr(0, end);
    text.remove_prefix(std::min(part.size() + 1, text.size()));
  }
  std::vector<std::int64_t> shape;
  for (std::string_view sizes = parts[1]; !sizes.empty();) {
    const std::size_t end = std::min(sizes.find('x'), sizes.size());
    shape.push_back(number_of_name(sizes.substr(0, end)));
    sizes.remove_prefix(std::min(end + 1, sizes.size()));
  }
  const NpyType type = type_of_routes(parts[0], where);
  auto bytes = from_base64(parts[2], where);
  const std::int64_t elements = shape.size() == 3 ? elements_of_routes(shape) : -1;
  if (elements < 0 || static_cast<std::int64_t>(bytes.size()) != elements * type.size) {
    throw error_in(where, fmt::format("holds {} bytes of routes, which fill no shape {}",
                                      bytes.size(), parts[1].substr(0, 40)));
  }
  return shaped(std::move(bytes), type, std::move(shape), where);
}

/// Whether the last token, and only that one, has expert 0 for every choice of every layer. Of one
/// choice a layer nobody can tell.
bool last_never_ran(const NpyArray& ids) {
  const std::int64_t row = ids.shape()[1] * ids.shape()[2], last = ids.count() - row;
  if (ids.shape()[2] < 2 || last < row || !ids.type().is_integer()) return false;
  const auto zeros = [&](std::int64_t first) {
    for (std::int64_t i = first; i < first + row; ++i) {
      if (ids.integer(i) != 0) return false;
    }
    return true;
  };
  return zeros(last) && !zeros(last - row);
}

/// Whether its lines are those of a log with JSON behind a time or the like.
bool has_json_behind_text(const std::string& path) {
  LineFile lines(path);
  std::string line;
  return lines.next(line) && line.find("{\"") != std::string::npos && line.ends_with('}');
}

}  // namespace

void for_each_response(ImportSink& sink, const UseResponse& use) {
  const auto files = input_files(sink.options().inputs);
  const double share = 1 / static_cast<double>(files.size());
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (form_of(files[i]) == FileForm::text) {
      if (has_json_behind_text(files[i])) {
        throw error_in(files[i], "has other text before the JSON of its lines",
                       "leave it out: sed 's/^[^{]*//'", 1);
      }
      throw error_in(files[i], content_of(files[i]) + ", no responses in JSON",
                     "kind 'table' reads CSV and logs");
    }
    JsonItems items(files[i]);
    while (items.next()) {
      sink.progress((static_cast<double>(i) + items.done()) * share);
      if (!items.item().is_object()) {
        throw error_in(items.path(), "is not a response: it is not an object", "", items.line());
      }
      use(items.item(), items.where());
    }
  }
}

NpyArray array_of_bytes(std::vector<std::byte> bytes, NpyType type, const ImportOptions& options,
                        const std::string& where) {
  auto layers =
      options.layers.empty() ? options.model_layers : static_cast<int>(options.layers.size());
  if (layers == 0 || options.top_k == 0) {
    throw error_in(where, "says neither layers nor top-k of its routes",
                   "give --model, or --layers FIRST:COUNT and --top-k");
  }
  const auto row_of = [&](int count) {
    return static_cast<std::size_t>(count) * static_cast<std::size_t>(options.top_k) *
           static_cast<std::size_t>(type.size);
  };
  const std::size_t row = row_of(layers);
  const int with_mtp = layers + options.mtp_layers;
  if (bytes.size() % row != 0 && options.layers.empty() && bytes.size() % row_of(with_mtp) == 0) {
    layers = with_mtp;
  } else if (bytes.size() % row != 0) {
    throw error_in(where,
                   fmt::format("holds {} bytes of routes; a token of {} layers has {} choices of "
                               "{} each, {} bytes",
                               bytes.size(), layers, options.top_k, type.name(), row),
                   "another model, ids of another type, or layers of multi-token prediction that "
                   "the model does not have ('mtp')");
  }
  const auto tokens = static_cast<std::int64_t>(bytes.size() / row_of(layers));
  const auto kept = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return NpyArray::view(type, {tokens, layers, options.top_k}, *kept, kept, where);
}

void add_request(ImportSink& sink, const NpyArray& ids, const std::string& where) {
  if (ids.shape().size() != 3) {
    throw error_in(
        where, fmt::format("holds routes {}, not [token][layer][choice]", shape_text(ids.shape())));
  }
  const bool without_last = last_never_ran(ids);
  const std::int64_t tokens = ids.shape()[0] - (without_last ? 1 : 0);
  if (tokens == 0) return;
  if (without_last) sink.drop("of last tokens that never ran: all zeros", ids.shape()[1]);
  if (tokens > std::numeric_limits<std::int32_t>::max()) throw error_in(where, "is too long");
  RoutedPass pass{
      where, ChoiceTable(ids, {}, "tlk").part(0, tokens), {static_cast<std::int32_t>(tokens)}};
  pass.phase = Phase::mixed;
  sink.add(pass);
}

NpyType type_of_routes(std::string_view name, const std::string& where) {
  if (name == "int64") return {'i', 8};
  if (name == "int32") return {'i', 4};
  if (name == "int16") return {'i', 2};
  if (name == "int8") return {'i', 1};
  if (name == "uint16") return {'u', 2};
  if (name == "uint8") return {'u', 1};
  throw error_in(where, fmt::format("holds routes of the unknown type \"{}\"", name.substr(0, 40)));
}

NpyArray encoded_routes(const JsonElement& routes, NpyType type, const ImportOptions& options,
                        const std::string& where) {
  if (routes.is_array()) return array_of_lists(routes, 3, where);
  if (routes.is_object()) return object_of_routes(routes, where);
  std::string_view text;
  if (routes.get(text) != simdjson::SUCCESS) {
    throw error_in(where, "holds routes that are not base64 text");
  }
  if (text.starts_with(nemo_rl_mark)) return nemo_rl_routes(text, where);
  auto bytes = from_base64(text, where);
  constexpr std::string_view npy = "\x93NUMPY";
  const auto* const start = reinterpret_cast<const char*>(bytes.data());
  if (std::string_view(start, std::min(bytes.size(), npy.size())) == npy) {
    return NpyArray::parse(std::move(bytes), where);
  }
  return array_of_bytes(std::move(bytes), type, options, where);
}

}  // namespace moesim
