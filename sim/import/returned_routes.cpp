// SPDX-License-Identifier: Apache-2.0
#include "sim/import/returned_routes.h"

#include <fmt/format.h>

#include <limits>
#include <memory>

#include "sim/import/file_content.h"
#include "sim/import/input_hash.h"

namespace moesim {

void for_each_response(ImportSink& sink, const UseResponse& use) {
  const auto files = input_files(sink.options().inputs);
  const double share = 1 / static_cast<double>(files.size());
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (form_of(files[i]) == FileForm::text) {
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
