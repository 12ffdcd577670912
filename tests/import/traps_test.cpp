// SPDX-License-Identifier: Apache-2.0
// What is wrong with a recording gets its message, and leaves nothing behind.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/error_of.h"
#include "tests/import/formats.h"

namespace moesim {
namespace {

namespace fs = std::filesystem;

struct Trap {
  const char* name;
  const char* kind;
  const char* message;
};

const std::vector<Trap> traps = {
    {"slot-beyond-map", "sglang-recorder", "layer 1, token 0: expert 12 of a model with 8 experts"},
    {"dense-layer-chose", "sglang-recorder",
     "layer 0 is dense in the model but token 0 chose expert 1"},
    {"lengths-beyond", "sglang-recorder", "its requests add up to 9 tokens but the ids have 5"},
    {"pass-twice", "sglang-recorder", "pass 7 of rank 0 is recorded twice"},
    {"per-pass", "sglang-recorder", "holds counts of passes (mode per_pass)"},
    {"stat", "sglang-recorder", "holds counts of experts (mode stat)"},
    {"one-layer-recorded", "sglang-recorder",
     "layer 2, token 0: expert -1 of a model with 8 experts"},
    {"map-of-other-layers", "sglang-recorder",
     "has 3 layers, but its map from slots to experts is int64 (2, 10)"},
    {"other-model", "sglang-routes", "a token of 3 layers has 2 choices of int32 each, 24 bytes"},
    {"not-base64", "sglang-routes", "holds text that is not base64"},
    {"unknown-dtype", "sglang-routes", "holds routes of the unknown type \"int4\""},
    {"narrow-ids", "sglang-routes", "layer 0 is dense in the model but token 0 chose expert 300"},
    {"shared-expert", "sglang-routes", "layer 1, token 0: expert 8 of a model with 8 experts"},
    {"stale-zeros", "sglang-routes", "layer 1, token 5: expert 0 is chosen twice"},
    {"ragged", "vllm-routes", "holds routes of different lengths"},
    {"wrapped", "vllm-routes", "layer 1, token 0: expert 255 of a model with 8 experts"},
    {"object-npy", "vllm-routes", "holds Python objects"},
    {"slots-in-meta", "trtllm", "has 10 experts but the flags say 8"},
    {"missing-layer", "trtllm", "lacks layer 2 of iteration 30"},
    {"counts-only", "trtllm", "has no rank<r>_raw.safetensors"},
    {"dropped-tokens", "megatron-trace", "layer 2 has 1 microbatch but another layer has 2"},
    {"other-numbering", "megatron-trace", "has layers 5, 6, and does not say how they are counted"},
    {"uneven-rows", "megatron-trace", "has 5 rows of 10 ids in all where 5 x 3 are due"},
    {"version-2", "trace-v1", "is of schema version 2; 1 is read"},
    {"other-shape", "trace-v1", "holds int64 (9, 2) but the manifest says 9 tokens of 3 choices"},
    {"no-mask", "verl", "has no 'attention_mask': its padding is 0, a sound id"},
    {"hole-in-mask", "verl", "row 0 has padding between its tokens"},
    {"r2-beyond-uint8", "verl", "layer 1, token 0: expert 200 of a model with 8 experts"},
    {"logits-of-other-model", "hf-logits", "not logits [token][8 experts]"},
    {"no-number", "hf-logits", "token 0 has a logit that is not a number"},
    {"layers-change", "core12345", "lacks layers of the prefill"},
    {"code", "verl", "holds a posix.system, which only its code can load"},
    {"beyond-storage", "nemo-rl", "reaches beyond its storage"},
    {"absurd-shape", "nemo-rl", "has shape (1099511627776, 1099511627776, 2) but only 8 stored"},
    {"broadcast", "nemo-rl", "has shape (1073741824, 2, 2) but only 8 stored elements"},
    {"old-torch", "nemo-rl", "is a bare pickle, or of a torch.save before its zip form, not a .pt"},
    {"signed-wrap", "nemo-rl", "layer 1, token 0: expert -56 of a model with 8 experts"},
    {"gap-in-capture", "trtllm-routes", "token 3 has no routes"},
    {"flat-capture", "trtllm-routes", "holds routes (5, 2), not [token][MoE layer][choice]"},
    {"real-capture", "trtllm-routes", "holds float64; ids are integers"},
    {"capture-twice-real", "flame", "holds float32 (3, 2), float32 (3, 2), not scores and indices"},
    {"capture-uneven", "flame", "layer 3 has no file of this name"},
    {"capture-none", "flame", "nor folders of layers with .pt; it holds a/"},
    {"flame-names", "flame", "is not named layer_<number from 1>.parquet"},
    {"flame-twice", "flame", "is a second file of layer 2"},
    {"flame-rows", "flame", "has 100 tokens but"},
    {"flame-columns", "flame", "has no column 'indices'"},
    {"flame-codec", "flame", "is compressed by codec 4"},
    {"flame-cut", "flame", "is not a whole Parquet file"},
    {"matrix-axes", "moe-infinity", "has shape (3, 8); matrices are [sequence][layer][expert]"},
    {"matrix-experts", "moe-infinity", "has counts of 6 experts but the model has 8"},
    {"matrix-dense", "moe-infinity", "layer 0 is dense in the model but has counts"},
    {"matrix-share", "moe-infinity", "holds 0.5, which is not a count"},
    {"matrix-dropped", "moe-infinity", "add up to 8 in layer 2 but to 10 in the first layer"},
    {"loads-rank", "harmoeny", "has no folder of rank 2"},
    {"loads-twice", "harmoeny", "0/moe_layer-0.csv:3: error: has iteration 0 twice"},
    {"loads-list", "harmoeny", "has no list of counts in its last column"},
    {"loads-layers", "harmoeny", "has other layers or iterations than rank 0"},
    {"loads-top-k", "harmoeny", "has 1 experts per token but top-k is 2"},
    {"loads-header", "harmoeny",
     ".csv:1: error: has no columns 'iteration' and 'expert distribution'"},
    {"loads-column", "harmoeny", "has no columns 'iteration' and 'expert distribution'"},
    {"profile-schema", "ultraep", "is not of schema ultra_ep_trace_v1"},
    {"profile-slots", "ultraep", "has 10 experts but the flags say 8"},
    {"profile-twice", "ultraep", "has layer 1 of microbatch 0 twice"},
    {"profile-short", "ultraep", "has loads of 1 records but layers of more"},
    {"per-token", "sglang-counts", "has no 'global_physical_count'"},
    {"counts-of-slots", "sglang-counts",
     "does not fit its map from slots to experts, int64 (3, 9)"},
    {"missing-counts", "trtllm-counts", "lacks layer 2 of iteration 30"},
    {"ids-for-counts", "trtllm-counts", "has no rank<r>.safetensors"},
    {"flat-counts", "counts", "has shape (8,); counts are [layer][expert]"},
    {"npz-flat", "npz", "has shape (9,); ids have three axes: token, layer, choice"},
    {"npz-one-layer", "npz", "has 1 layer but the model has 2 MoE layers"},
    {"npz-two-ids", "npz", "several arrays could be the ids"},
    {"npz-weights", "npz", "has shape (9, 2) but the ids have (9, 2, 2)"},
    {"npz-lengths", "npz", "is not a list of sequence lengths"},
    {"npz-negative", "npz", "sequence 1 has length -1"},
    {"npz-twice", "npz", "two arrays are named 'ids'"},
    {"negative-counts", "counts", "source 0 has a count of -1"},
    {"profile-layer", "ultraep", "record 0 is of layer -1, microbatch 0"},
    {"profile-axes", "ultraep", "has loads (8,), not [record][expert]"},
    {"profile-experts", "ultraep", "has no sound 'num_global_logical_experts'"},
    {"profile-lists", "ultraep", "for the layers but"},
    {"loads-line", "harmoeny", "0/moe_layer-0.csv:2: error: is not an iteration with its counts"},
    {"loads-name", "harmoeny", "is not named moe_layer-<number>.csv"},
    {"loads-meta", "harmoeny", "has no sound 'num_experts'"},
    {"element-text", "core12345", "element 0: error: is not an object of layers"},
    {"element-layer", "core12345", "element 0: error: 'x' is not a layer number"},
    {"element-dense", "core12345", "element 0: error: has no layer with experts"},
    {"prefill-uneven", "core12345", "layer 2 has (2, 2) but the first has 2 choices of 1 tokens"},
    {"late-layer", "core12345", "element 1: error: has layer 2, which the prefill has not"},
    {"esft-name/first.txt", "esft", "is not named expert_weights_<layer>.txt"},
    {"esft-twice", "esft", "is a second file of layer 1"},
    {"esft-sequences", "esft", "layer 2 has 1 sequence but layer 1 has 2"},
    {"gzip-cut", "esft", "is cut short or damaged"},
    {"router-layer", "gpt-oss", "router_data: 'level_1' is not a layer"},
    {"router-negative", "gpt-oss", "token_0: layer_1 chose expert -1"},
    {"router-new-layer", "gpt-oss", "token_1: has layer_3 but the first token has not"},
    {"router-probs", "gpt-oss", "token_0: layer_1 has 1 probabilities for 2 experts"},
    {"router-empty", "gpt-oss", "token_0 chose no experts"},
    {"router-top-k", "gpt-oss", "has 3 experts per token but top-k is 2"},
    {"steps-back", "megatron-trace", "jsonl:3: error: step 2 comes after step 3"},
    {"several-ranks", "megatron-trace",
     "router_trace_rank0.jsonl:2: error: holds lines of several ranks"},
    {"prompt-shape", "vllm-routes",
     "holds routes (1, 2, 2) of the prompt but (1, 3, 2) of what follows"},
    {"routes-axes", "vllm-routes", "holds routes (5, 2), not [token][layer][choice]"},
    {"routes-flat", "megatron-routes", "holds routes of 2 axes, not 3"},
    {"routes-real", "megatron-routes", "holds routes that are not whole numbers"},
    {"response-number", "megatron-routes", "is not a response: it is not an object"},
    {"response-cut", "megatron-routes", "not JSON"},
    {"response-list", "megatron-routes", "expected ',' or ']' after an item of the list"},
    {"recorder-axes", "sglang-recorder", "its ids are (5, 8), not [layer][token][choice]"},
    {"recorder-lengths", "sglang-recorder",
     "extend_seq_lens holds something that is not a 32-bit integer"},
    {"mask-shape", "verl", "is not a mask of 2 sequences of 7 columns"},
    {"batch-axes", "verl", "is not [token][layer][choice] or a padded batch"},
    {"big-endian", "verl", "holds big-endian numbers"},
    {"pickle-set", "verl", "operation 0x8f is not one that torch.save needs"},
    {"no-pickle", "verl", "is not a torch.save file: data.pkl is missing"},
    {"no-storage", "verl", "lacks the storage '0'"},
    {"slot-map", "sglang-counts", "slot 0 holds expert 12 of 8"},
    {"manifest-key", "trace-v1", "has no sound 'topk'"},
    {"ranks-real", "trace-v1", "not a rank per token"},
    {"ranks-descend", "trace-v1", "token 5 is of rank 0; ranks ascend"},
    {"ranks-negative", "trace-v1", "token 0 is of rank -1; ranks ascend"},
    {"manifests-differ", "trace-v1", "in tokens, top-k or experts"},
    {"manifest-twice", "trace-v1", "is a second folder of layer 1"},
    {"log-unknown", "table", "is JSON with the keys alpha, beta; none is known to hold"},
    {"log-columns", "table", "is text with the columns alpha, beta; none is known"},
    {"log-no-layer", "table", "a.csv:2: error: does not say its layer"},
    {"log-cells", "table", "a.csv:2: error: has cells for some of its 2 columns only"},
    {"log-apart", "table", "no token has routes of all layers 1, 2"},
    {"log-three", "table", "has 3 experts per token but top-k is 2"},
    {"log-uneven", "table", "a.jsonl:2: error: has 1 expert ids where the rows before have 2"},
    {"log-run", "table", "has 3 rows of layer 1 in a row: no tokens of 2 choices"},
    {"log-beyond", "table", "layer 1: counts expert 9 of a model with 8 experts"},
    {"log-text", "table", "a.csv:2: error: field 'expert' holds 'none', not expert ids"},
    {"log-facts", "table", "has 16 experts but the flags say 8"},
    {"log-binary", "table", "is binary, of no form that is known, no JSON lines or CSV"},
    {"no-routes", "sglang-routes", "has routed_experts; the keys of the first are id, choices"},
    {"counts-of-nothing", "sglang-counts", "is JSON with the keys alpha"},
    {"counts-placement", "sglang-counts", "a placement: it holds no counts"},
    {"shape-of-nothing", "vllm-routes",
     "holds 4 characters of routes, which fill no shape (7, 2, 2)"},
    {"coded-short", "vllm-routes", "holds 3 bytes of routes, which fill no shape 5x2x2"},
    {"text-for-torch", "router-lists", "is text with the columns layer, expert, not a .pt or .npz"},
    {"text-for-responses", "sglang-routes",
     "is text with the columns layer, expert, no responses in JSON"},
    {"json-for-torch", "nemo-rl", "is JSON with the keys logical_count, not a .pt or .npz"},
    {"tensor-name", "trtllm", "is not named <iteration>_<layer>"},
    {"iteration-gap", "trtllm", "lacks iteration 31: 32 follows 30"},
    {"more-layers", "trtllm", "has 2 layers in iteration 31 but 1 in the first"},
    {"other-iteration", "trtllm", "has iteration 31, which"},
    {"fewer-iterations", "trtllm", "has 1 iterations but"},
    {"rank-twice", "trtllm", "is a second file of rank 0"},
    {"meta-number", "trtllm", "has no number 'num_experts'"},
    {"meta-no-experts", "trtllm", "has 0 experts"},
    {"meta-no-choice", "trtllm", "has 0 experts per token"},
    {"tensor-fields", "trtllm", "lacks dtype, shape or data_offsets"},
    {"tensor-beyond", "trtllm", "lies beyond the end of the file"},
    {"header-cut", "trtllm", "is not a safetensors file: its header is cut short"}};

class TrapTest : public testing::TestWithParam<Trap> {};

TEST_P(TrapTest, IsRefusedWithItsMessage) {
  const Trap& trap = GetParam();
  const ScratchFolder scratch;
  const auto options = options_of(formats() + "/wrong/" + trap.name, scratch / "out");
  EXPECT_THAT(error_of([&] { import_trace(trap.kind, options); }),
              testing::HasSubstr(trap.message));
  EXPECT_TRUE(fs::is_empty(scratch.path()));
}

INSTANTIATE_TEST_SUITE_P(All, TrapTest, testing::ValuesIn(traps),
                         [](const auto& trap) { return test_name(trap.param.name); });

/// What llama.cpp's eval-callback prints of two layers: chosen experts, next to other tensors whose
/// numbers are whole, too.
std::string printed_tensors(const std::string& rows) {
  std::string text;
  for (const char* layer : {"1", "2"}) {
    for (const char* name : {"ffn_moe_argsort", "ffn_moe_topk", "ffn_moe_weights_sum"}) {
      text +=
          fmt::format("ggml_debug: {}-{} = (i32) VIEW(a-{}{{8, 5, 1, 1}}, }}) = {{2, 5, 1, 1}}\n",
                      name, layer, layer);
      text +=
          std::string(name) == "ffn_moe_topk" ? rows : "  [\n   [\n    [ 1.0000],\n   ],\n  ]\n";
      text += "  sum = 1.000000\n";
    }
  }
  return text;
}

TEST(TensorsOfLlama, AreReadUnlessTheyLeaveValuesOut) {
  const ScratchFolder scratch;
  const auto options = options_of(scratch / "in", scratch / "out");
  write_bytes(scratch / "in/a.log", printed_tensors("  [\n    [ 3, 4],\n    [ 5, 6],\n  ]\n"));
  EXPECT_THAT(import_trace("table", options).report, testing::HasSubstr("tokens     2\n"));
  write_bytes(scratch / "in/a.log",
              printed_tensors("  [\n    [ 3, 4],\n    ..., \n    [ 5, 6],\n  ]\n"));
  const auto again = options_of(scratch / "in", scratch / "other");
  EXPECT_THAT(error_of([&] { import_trace("table", again); }),
              testing::HasSubstr("a.log:11: error: leaves values of ffn_moe_topk out"));
}

}  // namespace
}  // namespace moesim
