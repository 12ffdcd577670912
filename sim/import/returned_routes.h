// SPDX-License-Identifier: Apache-2.0
// Responses of inference servers in JSON or JSON lines, and the arrays that are in them.
#pragma once

#include <functional>
#include <string>

#include "sim/import/import_sink.h"
#include "sim/import/json_items.h"
#include "sim/trace/npy.h"

namespace moesim {

using UseResponse = std::function<void(const JsonElement& response, const std::string& where)>;

/// Calls `use` for every object of the inputs: a file holds one, a list of them, or one per line,
/// plain or gzip.
void for_each_response(ImportSink& sink, const UseResponse& use);

/// Bytes without a shape as [token][layer][choice]: the model says layers and choices. Throws Error
/// if they are not a whole number of tokens.
NpyArray array_of_bytes(std::vector<std::byte> bytes, NpyType type, const ImportOptions& options,
                        const std::string& where);

/// Hands over one request whose ids are [token][layer][choice].
void add_request(ImportSink& sink, const NpyArray& ids, const std::string& where);

}  // namespace moesim
