// SPDX-License-Identifier: Apache-2.0
// What is wrong with a recording gets its message, and leaves nothing behind.
#include <gmock/gmock.h>

#include "tests/trace/formats.h"

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
     "has 3 layers but its map of slots is int64 (2, 10)"},
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
    {"dropped-tokens", "megatron-trace", "layer 2 has 1 microbatches but another layer has 2"},
    {"other-numbering", "megatron-trace", "has layers 5, 6, and does not say how they are counted"},
    {"uneven-rows", "megatron-trace", "has 5 rows of 10 ids in all where 5 x 3 are due"},
    {"version-2", "trace-v1", "is of schema version 2; 1 is read"},
    {"other-shape", "trace-v1", "holds int64 (9, 2) but the manifest says 9 tokens of 3 choices"},
    {"no-mask", "verl", "has no 'attention_mask': its padding is 0, a sound id"},
    {"hole-in-mask", "verl", "row 0 has padding between its tokens"},
    {"r2-beyond-uint8", "verl", "layer 1, token 0: expert 200 of a model with 8 experts"},
    {"logits-of-other-model", "hf-logits", "not logits [token][8 experts]"},
    {"no-number", "hf-logits", "token 0 has a logit that is no number"},
    {"layers-change", "core12345", "lacks layers of the prefill"},
    {"code", "verl", "holds a posix.system, which only its code can load"},
    {"beyond-storage", "nemo-rl", "reaches beyond its storage"},
    {"absurd-shape", "nemo-rl", "is a tensor (1099511627776, 1099511627776, 2) of 8 stored"},
    {"broadcast", "nemo-rl", "is a tensor (1073741824, 2, 2) of 8 stored elements"},
    {"old-torch", "nemo-rl", "is not a sound zip archive"},
    {"signed-wrap", "nemo-rl", "layer 1, token 0: expert -56 of a model with 8 experts"},
    {"gap-in-capture", "trtllm-routes", "token 3 has no routes"},
    {"flat-capture", "trtllm-routes", "holds routes (5, 2), not [token][MoE layer][choice]"},
    {"real-capture", "trtllm-routes", "holds float64; ids are integers"},
    {"flame-names", "flame", "is not named layer_<number from 1>.parquet"},
    {"flame-twice", "flame", "is a second file of layer 2"},
    {"flame-rows", "flame", "has 100 tokens but"},
    {"flame-columns", "flame", "has no column 'indices'"},
    {"flame-codec", "flame", "is compressed by codec 4"},
    {"flame-cut", "flame", "is no whole Parquet file"},
    {"matrix-axes", "moe-infinity", "has shape (3, 8); matrices are [sequence][layer][expert]"},
    {"matrix-experts", "moe-infinity", "has counts of 6 experts but the model has 8"},
    {"matrix-dense", "moe-infinity", "layer 0 is dense in the model but has counts"},
    {"matrix-share", "moe-infinity", "holds 0.5, which is no count"},
    {"matrix-dropped", "moe-infinity", "no whole tokens of 2 choices"},
    {"loads-rank", "harmoeny", "has no folder of rank 2"},
    {"loads-twice", "harmoeny", "0/moe_layer-0.csv:3: error: has iteration 0 twice"},
    {"loads-list", "harmoeny", "has no list of counts in its last column"},
    {"loads-layers", "harmoeny", "has other layers or iterations than rank 0"},
    {"loads-top-k", "harmoeny", "has 1 experts per token but top-k is 2"},
    {"loads-header", "harmoeny", "has no columns 'iteration' and 'expert distribution'"},
    {"profile-schema", "ultraep", "is not of schema ultra_ep_trace_v1"},
    {"profile-slots", "ultraep", "has 10 experts but the flags say 8"},
    {"profile-twice", "ultraep", "has layer 1 of microbatch 0 twice"},
    {"profile-short", "ultraep", "has loads of 1 records but layers of more"},
    {"per-token", "sglang-counts", "has no 'global_physical_count'"},
    {"counts-of-slots", "sglang-counts", "does not fit its map of slots int64 (3, 9)"},
    {"missing-counts", "trtllm-counts", "lacks layer 2 of iteration 30"},
    {"ids-for-counts", "trtllm-counts", "has no rank<r>.safetensors"},
    {"flat-counts", "counts", "has shape (8,); counts are [step][layer][expert]"}};

class TrapTest : public testing::TestWithParam<Trap> {};

TEST_P(TrapTest, IsRefusedWithItsMessage) {
  const Trap& trap = GetParam();
  const ScratchFolder scratch;
  const auto options = options_of(formats() + "/wrong/" + trap.name, scratch / "out");
  EXPECT_THAT(error_text([&] { import_trace(trap.kind, options); }),
              testing::HasSubstr(trap.message));
  EXPECT_TRUE(fs::is_empty(scratch.path()));
}

INSTANTIATE_TEST_SUITE_P(All, TrapTest, testing::ValuesIn(traps),
                         [](const auto& trap) { return test_name(trap.param.name); });

}  // namespace
}  // namespace moesim
