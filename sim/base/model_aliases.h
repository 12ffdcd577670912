// SPDX-License-Identifier: Apache-2.0
// Names of models with the architecture and sizes of one that is shipped, and what else to do.
#pragma once

#include <array>
#include <string_view>
#include <utility>

namespace moesim {

/// Pairs of a name in lower case and the shipped model.
inline constexpr std::array<std::pair<std::string_view, std::string_view>, 15> model_aliases = {{
    {"deepseek-r1", "deepseek-v3"},
    {"deepseek-v3.1", "deepseek-v3"},
    {"deepseek-v2.5", "deepseek-v2"},
    {"deepseek-coder-v2-lite", "deepseek-v2-lite"},
    {"deepseek-coder-v2", "deepseek-v2"},
    {"kimi-k2-thinking", "kimi-k2.5"},
    {"kimi-k2.6", "kimi-k2.5"},
    {"mixtral-8x7b", "mixtral-8x7b-e8k2"},
    {"olmoe-1b-7b", "olmoe"},
    {"llama-4-maverick-17b-128e", "llama-4-maverick"},
    {"meta-llama-3-8b", "llama-3-8b"},
    {"meta-llama-3-70b", "llama-3-70b"},
    {"llama-3.1-70b", "llama-3-70b"},
    {"llama-3.1-405b", "llama-3-405b"},
    {"meta-llama-3.1-8b", "llama-3.1-8b"},
}};

/// What to do about a model that is not shipped.
inline constexpr std::string_view model_import_hint =
    "moesim model import config.json -o my-model.yaml makes a model of any Hugging Face config; ";

}  // namespace moesim
