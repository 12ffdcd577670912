// SPDX-License-Identifier: Apache-2.0
// Imports about 100 MB of routes of DeepSeek-V3 (61 layers, top-8 of 256) in several formats;
// bytes_per_second is input per CPU time, writing and hashing included.
#include <benchmark/benchmark.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "sim/import/importer.h"
#include "sim/trace/npy.h"

namespace moesim {
namespace {

namespace fs = std::filesystem;

constexpr int layers = 61, dense = 3, experts = 256, top_k = 8;
constexpr int request_tokens = 2001;  // whole groups of base64

/// Ids [token][layer][choice]; the dense layers are zeros. Choices are an arithmetic row from a
/// random start, so that they differ.
std::vector<std::int32_t> request(std::uint64_t& state) {
  std::vector<std::int32_t> ids;
  for (int row = 0; row < request_tokens * layers; ++row) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const auto first = static_cast<std::int32_t>(state >> 40);
    const auto stride = static_cast<std::int32_t>(2 * (state >> 33 & 63) + 1);
    for (int k = 0; k < top_k; ++k) {
      ids.push_back(row % layers < dense ? 0 : (first + k * stride) % experts);
    }
  }
  return ids;
}

std::string base64(std::span<const std::byte> bytes) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const auto at = [&](std::size_t k) { return static_cast<unsigned>(bytes[i + k]); };
    const unsigned bits = at(0) << 16 | at(1) << 8 | at(2);
    for (int shift = 18; shift >= 0; shift -= 6) text += digits[bits >> shift & 63];
  }
  return text;
}

std::string list(const std::vector<std::int32_t>& ids) {
  std::string text = "[";
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const bool token = i % (layers * top_k) == 0, layer = i % top_k == 0;
    if (i > 0) text += token ? "]],[[" : layer ? "],[" : ",";
    if (i == 0) text += "[[";
    text += std::to_string(ids[i]);
  }
  return text + "]]]";
}

std::string line_of(const std::string& kind, const std::vector<std::int32_t>& ids) {
  if (kind == "sglang-routes") {
    return R"({"meta_info": {"routed_experts": ")" + base64(std::as_bytes(std::span(ids))) +
           "\"}}\n";
  }
  return R"({"choices": [{"moe_topk_indices": )" + list(ids) + "}]}\n";
}

/// About 100 MB of one format, written once.
std::string input_of(const std::string& kind) {
  const fs::path folder = fs::temp_directory_path() / "moesim-import-bench";
  const std::string path = (folder / kind).string() + (kind == "npy" ? ".npy" : ".jsonl");
  if (fs::exists(path)) return path;
  fs::create_directories(folder);
  std::ofstream out(path, std::ios::binary);
  std::uint64_t state = 1;
  if (kind == "npy") {
    constexpr int requests = 25;
    const std::array<std::int64_t, 3> shape = {requests * request_tokens, layers, top_k};
    out << npy_header({'i', 4}, shape);
    for (int r = 0; r < requests; ++r) {
      const auto ids = request(state);
      out.write(reinterpret_cast<const char*>(ids.data()), std::ssize(ids) * 4);
    }
    return path;
  }
  while (out.tellp() < 100'000'000) out << line_of(kind, request(state));
  return path;
}

void import_bench(benchmark::State& state, const std::string& kind) {
  ImportOptions options;
  options.inputs = {input_of(kind)};
  options.output = (fs::temp_directory_path() / "moesim-import-bench/out").string();
  options.experts = experts;
  options.top_k = top_k;
  options.model_layers = layers;
  options.order = "tlk";
  for (int l = dense; l < layers; ++l) options.moe_layers.push_back(l);
  for (auto _ : state) {
    fs::remove_all(options.output);
    import_trace(kind, options);
  }
  fs::remove_all(options.output);
  state.SetBytesProcessed(static_cast<std::int64_t>(fs::file_size(options.inputs[0])) *
                          state.iterations());
}

}  // namespace
}  // namespace moesim

int main(int argc, char** argv) {
  for (const char* kind : {"sglang-routes", "megatron-routes", "npy"}) {
    benchmark::RegisterBenchmark(kind, [kind](benchmark::State& state) {
      moesim::import_bench(state, kind);
    })->Unit(benchmark::kMillisecond);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
