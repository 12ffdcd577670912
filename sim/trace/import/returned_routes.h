// SPDX-License-Identifier: Apache-2.0
// Responses of inference servers in JSON or JSON lines, and the arrays that stand in them.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "sim/trace/import/import_sink.h"
#include "sim/trace/npy.h"

namespace moesim {

/// Calls use(response, where) for every object of the inputs: a file holds one, a list of them, or
/// one per line, plain or gzip.
void for_each_response(ImportSink& sink,
                       const std::function<void(const nlohmann::ordered_json& response,
                                                const std::string& where)>& use);

/// The value of a path of keys ("meta_info", "routed_experts"), null where one is missing.
const nlohmann::ordered_json* json_at(const nlohmann::ordered_json& value,
                                      std::initializer_list<const char*> keys);

/// Nested lists of whole numbers. Throws Error unless they are a regular array of `axes` axes.
NpyArray array_of_lists(const nlohmann::ordered_json& lists, std::size_t axes,
                        const std::string& where);

/// Bytes without a shape as [token][layer][choice]: the model says layers and choices. Throws Error
/// where they are no whole number of tokens.
NpyArray array_of_bytes(std::vector<std::byte> bytes, NpyType type, const ImportOptions& options,
                        const std::string& where);

/// Hands over one request whose ids are [token][layer][choice].
void add_request(ImportSink& sink, const NpyArray& ids, const std::string& where);

}  // namespace moesim
