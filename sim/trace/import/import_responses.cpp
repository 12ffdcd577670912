// SPDX-License-Identifier: Apache-2.0
// Routes that inference servers return with a response: SGLang (routed_experts_capturer.py), vLLM
// (routed_experts_capturer.py and its successors) and Megatron's server (moe_topk_indices).
#include <fmt/format.h>

#include "sim/trace/import/base64.h"
#include "sim/trace/import/formats.h"
#include "sim/trace/import/returned_routes.h"

namespace moesim {
namespace {

/// Reads what a response holds and returns whether there were routes.
using ReadRoutes = bool (*)(ImportSink&, const JsonElement&, const std::string&);

std::string_view text_of(const JsonElement& value, const std::string& where) {
  std::string_view text;
  if (value.get(text) == simdjson::SUCCESS) return text;
  throw error_in(where, "holds routes that are no base64 text");
}

/// The type that SGLang's response names, int32 without.
NpyType sglang_type(const JsonElement& beside, const std::string& where) {
  const auto named = json_at(beside, "routed_experts_dtype");
  std::string_view name = "int32";
  if (named && named->get(name) != simdjson::SUCCESS) name = "(no text)";
  if (name == "int32") return {'i', 4};
  if (name == "uint16") return {'u', 2};
  if (name == "uint8") return {'u', 1};
  throw error_in(where, fmt::format("holds routes of the unknown type \"{}\"", name));
}

bool sglang_routes(ImportSink& sink, const JsonElement& beside, const std::string& where) {
  const auto routes = json_at(beside, "routed_experts");
  if (!routes) return false;
  const NpyType type = sglang_type(beside, where);
  add_request(
      sink,
      array_of_bytes(from_base64(text_of(*routes, where), where), type, sink.options(), where),
      where);
  return true;
}

/// meta_info of /generate, or sglext (also sgl_ext), of the response or of its choices.
bool sglang_response(ImportSink& sink, const JsonElement& response, const std::string& where) {
  bool found = false;
  for (const char* key : {"meta_info", "sglext", "sgl_ext"}) {
    const auto beside = json_at(response, key);
    if (beside) found |= sglang_routes(sink, *beside, where);
  }
  return found;
}

std::vector<JsonElement> choices_of(const JsonElement& response) {
  simdjson::dom::array choices;
  const auto list = json_at(response, "choices");
  if (!list || list->get(choices) != simdjson::SUCCESS) return {};
  return {choices.begin(), choices.end()};
}

/// A choice's routes: a list of lists (0.21), or base64 of an .npy file (0.22 and later).
NpyArray vllm_array(const JsonElement& routes, const std::string& where) {
  if (!routes.is_string()) return array_of_lists(routes, 3, where);
  return NpyArray::parse(from_base64(text_of(routes, where), where), where);
}

bool vllm_response(ImportSink& sink, const JsonElement& response, const std::string& where) {
  const auto routes = json_at(response, "routed_experts");
  if (!routes) return false;
  add_request(sink, vllm_array(*routes, where), where);
  return true;
}

bool megatron_response(ImportSink& sink, const JsonElement& response, const std::string& where) {
  const auto routes = json_at(response, "moe_topk_indices");
  if (!routes) return false;
  add_request(sink, array_of_lists(*routes, 3, where), where);
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

/// vLLM 0.21 has the prompt's routes beside the choices; the first choice goes on from them.
bool vllm_prompt(ImportSink& sink, const JsonElement& response, const std::string& where) {
  const auto prompt = json_at(response, "prompt_routed_experts");
  if (!prompt) return false;
  const NpyArray before = vllm_array(*prompt, where);
  bool first = true;
  for (const JsonElement& choice : choices_of(response)) {
    const auto routes = json_at(choice, "routed_experts");
    if (!routes) continue;
    const NpyArray after = vllm_array(*routes, where);
    add_request(sink, first ? joined(before, after, where) : after, where);
    first = false;
  }
  if (first) add_request(sink, before, where);
  return true;
}

void import_routes(ImportSink& sink, const char* what, ReadRoutes read, ReadRoutes whole) {
  std::int64_t without = 0;
  for_each_response(sink, [&](const JsonElement& response, const std::string& where) {
    bool found = whole != nullptr && whole(sink, response, where);
    if (!found) {
      found = read(sink, response, where);
      for (const JsonElement& choice : choices_of(response)) found |= read(sink, choice, where);
    }
    without += found ? 0 : 1;
  });
  if (without > 0) {
    sink.warn({Severity::warning, sink.options().inputs.front(), 0, 0,
               fmt::format("{} responses have no {}", without, what), "",
               "requests that were preempted or did not ask for them"});
  }
}

}  // namespace

void import_sglang_routes(ImportSink& sink) {
  sink.experts();
  import_routes(sink, "routed_experts", sglang_response, nullptr);
}

void import_vllm_routes(ImportSink& sink) {
  sink.experts();
  import_routes(sink, "routed_experts", vllm_response, vllm_prompt);
}

void import_megatron_routes(ImportSink& sink) {
  sink.experts();
  import_routes(sink, "moe_topk_indices", megatron_response, nullptr);
}

}  // namespace moesim
