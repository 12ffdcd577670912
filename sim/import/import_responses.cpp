// SPDX-License-Identifier: Apache-2.0
// Routes that inference servers return with a response: SGLang (routed_experts_capturer.py), vLLM
// (routed_experts_capturer.py and its successors) and Megatron's server (moe_topk_indices).
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "sim/base/figures.h"
#include "sim/import/encoded_routes.h"
#include "sim/import/file_content.h"
#include "sim/import/formats.h"
#include "sim/import/input_hash.h"
#include "sim/import/response_parts.h"
#include "sim/import/streamed_routes.h"
#include "sim/import/table_rows.h"

namespace moesim {
namespace {

/// Reads what a response holds and returns whether there were routes.
using ReadRoutes = bool (*)(RequestRoutes&, const JsonElement&, const std::string&);

/// The type that SGLang's response names, int32 without.
NpyType sglang_type(const JsonElement& beside, const std::string& where) {
  const auto named = json_at(beside, "routed_experts_dtype");
  std::string_view name = "int32";
  if (named && named->get(name) != simdjson::SUCCESS) name = "(no text)";
  return type_of_routes(name, where);
}

bool add_routes(RequestRoutes& requests, const JsonElement& beside, const std::string& where) {
  const auto routes = json_at(beside, "routed_experts");
  if (!routes) return false;
  requests.uses_keys(1);
  requests.begin_at(json_number(json_at(*routes, "start"), 1 << 30));
  const NpyArray ids =
      encoded_routes(*routes, sglang_type(beside, where), requests.options(), where);
  requests.check_layers(*routes, ids, where);
  requests.add(ids, where);
  return true;
}

bool extension_routes(RequestRoutes& requests, const JsonElement& response,
                      const std::string& where) {
  bool found = false;
  for (const char* key : extensions) {
    const auto beside = json_at(response, key);
    if (!beside) continue;
    const bool here = add_routes(requests, *beside, where);
    const auto data = json_at(*beside, "engine_data");
    if (here && data && json_at(*data, "routed_experts")) requests.uses_keys(1);
    found = found || here || (data && add_routes(requests, *data, where));
  }
  return found;
}

NpyArray vllm_array(const JsonElement& routes, const RequestRoutes& requests,
                    const std::string& where) {
  return encoded_routes(routes, {'i', 4}, requests.options(), where);
}

/// vLLM's own, or what Dynamo makes of it.
bool vllm_response(RequestRoutes& requests, const JsonElement& response, const std::string& where) {
  if (!add_routes(requests, response, where)) return extension_routes(requests, response, where);
  requests.uses_keys(keys_in_extensions(response));
  return true;
}

bool megatron_response(RequestRoutes& requests, const JsonElement& response,
                       const std::string& where) {
  const auto routes = json_at(response, "moe_topk_indices");
  if (!routes) return false;
  requests.uses_keys(1);
  requests.add(array_of_lists(*routes, 3, where), where);
  return true;
}

/// One list after the other along the tokens.
NpyArray joined(const NpyArray& a, const NpyArray& b, const std::string& where) {
  if (a.shape()[0] == 0) return b;
  if (b.shape()[0] == 0) return a;
  if (a.shape()[1] != b.shape()[1] || a.shape()[2] != b.shape()[2]) {
    throw error_in(where, fmt::format("holds routes {} of the prompt but {} of what follows",
                                      shape_text(a.shape()), shape_text(b.shape())));
  }
  std::vector<std::int32_t> values;
  for (const NpyArray* part : {&a, &b}) {
    for (std::int64_t i = 0; i < part->count(); ++i) {
      values.push_back(static_cast<std::int32_t>(part->integer(i)));
    }
  }
  return NpyArray::of(std::move(values), {a.shape()[0] + b.shape()[0], a.shape()[1], a.shape()[2]},
                      where);
}

/// vLLM 0.21 has the prompt's routes next to the choices, from which the first continues, or in
/// each; of a response without choices next to its own.
bool vllm_prompt(RequestRoutes& requests, const JsonElement& response, const std::string& where) {
  constexpr const char* key = "prompt_routed_experts";
  const auto array_at = [&](const JsonElement& value, const char* name) {
    const auto routes = json_at(value, name);
    if (!routes) return std::optional<NpyArray>();
    requests.uses_keys(1);
    return std::optional(vllm_array(*routes, requests, where));
  };
  std::vector<JsonElement> choices = choices_of(response);
  const auto has_prompt = [&](const JsonElement& part) { return json_at(part, key).has_value(); };
  if (!has_prompt(response) && std::ranges::none_of(choices, has_prompt)) return false;
  std::optional<NpyArray> before = array_at(response, key);
  if (choices.empty()) choices.push_back(response);
  for (const JsonElement& choice : choices) {
    if (choices.size() > 1 || json_at(response, "choices") || json_at(response, "outputs")) {
      requests.choose(choice);
      if (auto own = array_at(choice, key)) before = std::move(own);
    }
    const auto after = array_at(choice, "routed_experts");
    if (!after) continue;
    requests.add(before ? joined(*before, *after, where) : *after, where);
    before.reset();
  }
  if (before) requests.add(*before, where);
  return true;
}

/// Whether a whole response of one choice says that it has other tokens. The last one may lack
/// routes, as nothing follows it.
bool contradicts_usage(const JsonElement& response, std::int64_t tokens) {
  if (choices_of(response).size() > 1) return false;
  auto usage = json_at(response, "usage");
  if (!usage) usage = json_at(response, "meta_info");
  if (!usage) return false;
  constexpr std::int64_t most = 1 << 30;
  const std::int64_t prompt = json_number(json_at(*usage, "prompt_tokens"), most);
  const std::int64_t completion = json_number(json_at(*usage, "completion_tokens"), most);
  if (prompt < 0 || completion < 0) return false;
  return tokens != prompt + completion && tokens != prompt + completion - 1;
}

void import_routes(ImportSink& sink, const char* what, ReadRoutes read, ReadRoutes whole) {
  std::int64_t without = 0, with = 0, odd = 0, null = 0, unread = 0;
  std::string where_unread;
  RequestRoutes requests(sink);
  std::vector<std::string> keys;  // of the first without
  std::string other_kind;
  for_each_response(sink, [&](const JsonElement& item, const std::string& where) {
    const JsonElement response = body_of(item);
    requests.begin(response);
    bool found = whole != nullptr && whole(requests, response, where);
    if (!found) {
      found = read(requests, response, where);
      for (const JsonElement& choice : choices_of(response)) {
        requests.choose(choice);
        found |= read(requests, choice, where);
      }
    }
    if (!found && keys.empty()) keys = json_keys(response);
    if (!found && other_kind.empty()) other_kind = kind_of_routes(response);
    if (found) ++with;
    if (found && keys_of_routes(item) > requests.keys_used() && unread++ == 0) where_unread = where;
    if (found && !requests.in_chunks() && contradicts_usage(response, requests.tokens())) ++odd;
    if (!found && holds_null(response, what)) ++null;
    if (!found && !requests.in_chunks()) ++without;
  });
  without += requests.finish();
  if (with == 0 && !other_kind.empty()) {
    throw error_in(sink.options().inputs.front(),
                   "has responses with routes in a form that this kind does not read",
                   fmt::format("kind '{}' reads them", other_kind));
  }
  if (with == 0 && null > 0) {
    throw error_in(
        sink.options().inputs.front(),
        fmt::format("{} is null in {}: nothing was returned", what, counted(null, "response")),
        "the server was started without returning routes, or requests did not ask");
  }
  if (with == 0 && without > 0) {
    throw error_in(
        sink.options().inputs.front(),
        fmt::format("none of its {} responses has {}; the keys of the first are {}", without, what,
                    some_of(keys)),
        "requests must ask for routes; moesim list importers says which kind reads what");
  }
  if (odd > 0) {
    sink.warn({Severity::warning, sink.options().inputs.front(), 0, 0,
               fmt::format("the usage of {} counts other tokens than the routes have",
                           counted(odd, "response")),
               "", "cut, or of cached prompts: routes are taken as they are"});
  }
  if (unread > 0) {
    sink.warn(
        {Severity::warning, where_unread, 0, 0,
         fmt::format("{} more routes than are read: next to others, or in an object that is "
                     "not a response",
                     unread == 1 ? "1 response has" : fmt::format("{} responses have", unread)),
         "", "moesim list importers says which kind reads what"});
  }
  if (without > 0) {
    sink.warn({Severity::warning, sink.options().inputs.front(), 0, 0,
               fmt::format("{} responses have no {}", without, what), "",
               "requests that were preempted or did not ask for them"});
  }
}

}  // namespace

void import_sglang_routes(ImportSink& sink) {
  sink.experts();
  import_routes(sink, "routed_experts", extension_routes, nullptr);
}

void import_vllm_routes(ImportSink& sink) {
  // Community loggers of vLLM write rows, no responses.
  const auto files = input_files(sink.options().inputs);
  if (!files.empty() && holds_json_rows(files.front())) return add_tables(files, sink);
  sink.experts();
  import_routes(sink, "routed_experts", vllm_response, vllm_prompt);
}

void import_megatron_routes(ImportSink& sink) {
  sink.experts();
  import_routes(sink, "moe_topk_indices", megatron_response, nullptr);
}

}  // namespace moesim
