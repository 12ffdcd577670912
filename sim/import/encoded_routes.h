// SPDX-License-Identifier: Apache-2.0
// Routes in JSON responses of inference servers, in whatever form: lists, bytes as text, or bytes
// with their shape.
#pragma once

#include <functional>
#include <string>

#include "sim/import/import_sink.h"
#include "sim/import/importer.h"
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

/// Hands over one request whose ids are [token][layer][choice], without a last row of zeros: that
/// of the token that was sampled and never ran.
void add_request(ImportSink& sink, const NpyArray& ids, const std::string& where);

/// Routes [token][layer][choice] of
/// - nested lists (vLLM 0.21),
/// - base64 of an .npy file (vLLM 0.22 and later),
/// - base64 of bytes without a shape, of `type` (SGLang, also behind Dynamo),
/// - an object {"data", "shape"} of base64 or base85 (Dynamo before vLLM, prime-rl),
/// - "nrlre1:<type>:<T>x<L>x<K>:<base64>" (NeMo-RL).
/// Throws Error for anything else.
NpyArray encoded_routes(const JsonElement& routes, NpyType type, const ImportOptions& options,
                        const std::string& where);

/// "int32" and the like. Throws Error for other names.
NpyType type_of_routes(std::string_view name, const std::string& where);

}  // namespace moesim
