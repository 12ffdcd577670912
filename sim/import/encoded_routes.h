// SPDX-License-Identifier: Apache-2.0
// Routes that a JSON response carries in whatever form: lists, bytes as text, or bytes with their
// shape.
#pragma once

#include <string>

#include "sim/import/importer.h"
#include "sim/import/json_items.h"
#include "sim/trace/npy.h"

namespace moesim {

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
