// SPDX-License-Identifier: Apache-2.0
// Where the responses of inference servers have routes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/import/json_items.h"

namespace moesim {

/// What engines put next to a response or its choices: SGLang's meta_info of /generate and sglext
/// (also sgl_ext), Dynamo's nvext, there also under engine_data.
inline constexpr const char* extensions[] = {"meta_info", "sglext", "sgl_ext", "nvext"};

/// Choices, or as vLLM's LLM.generate calls them, outputs.
std::vector<JsonElement> choices_of(const JsonElement& response);

/// How many keys of the extensions have routes.
std::int64_t keys_in_extensions(const JsonElement& response);

/// The kind that reads the routes of a response; empty if it holds none that are known.
std::string kind_of_routes(const JsonElement& response);

/// The response in a line of a batch's output, {"custom_id": ..., "response": {"body": ...}}, or of
/// a log, {"request": ..., "response": ...}.
JsonElement body_of(JsonElement item);

/// How many keys of a value have routes, wherever they are.
std::int64_t keys_of_routes(const JsonElement& value, int depth = 0);

/// Whether a response has that key without a value.
bool holds_null(const JsonElement& response, const char* key);

}  // namespace moesim
