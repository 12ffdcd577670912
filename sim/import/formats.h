// SPDX-License-Identifier: Apache-2.0
// The formats that can be imported, one .cpp each; importer.cpp has their table.
#pragma once

namespace moesim {

class ImportSink;

/// DeepSeek ESFT: expert_weights_<layer>.txt[.gz], or a folder of them.
void import_esft(ImportSink& sink);
/// Arrays in one .npz or several .npy: ids, and if there are any sequence lengths and weights.
void import_npz(ImportSink& sink);
/// GPT-OSS expert fingerprinting: JSON files of one or more requests each, plain or gzip.
void import_gpt_oss(ImportSink& sink);
/// SGLang's expert distribution recorder, mode per_token: a .pt per rank.
void import_sglang_recorder(ImportSink& sink);
/// Routes that servers return with responses, in JSON or JSON lines.
void import_sglang_routes(ImportSink& sink);
void import_vllm_routes(ImportSink& sink);
void import_megatron_routes(ImportSink& sink);
/// TensorRT-LLM's raw expert ids per rank: safetensors.
void import_trtllm(ImportSink& sink);
/// Megatron-Core's router trace: JSON lines per rank.
void import_megatron_trace(ImportSink& sink);
/// Megatron-LM's proposed trace v1: folders of a manifest and tensors.
void import_trace_v1(ImportSink& sink);
/// Lists of tensors [token][choice], one per MoE layer, as RouterReplay keeps them.
void import_router_lists(ImportSink& sink);
/// The routed_experts of a verl or NeMo-RL batch.
void import_routed_batches(ImportSink& sink);
/// Router logits of Hugging Face transformers.
void import_hf_logits(ImportSink& sink);
/// Selection traces of core12345: JSON per request.
void import_core12345(ImportSink& sink);
/// FLAME-MoE's Parquet files, one per layer of a checkpoint.
void import_flame(ImportSink& sink);
/// TensorRT-LLM's routes per request: .npy or .pt.
void import_trtllm_routes(ImportSink& sink);

/// Logs in JSON lines, CSV or plain text of any program, and tables of counts.
void import_table(ImportSink& sink);

/// Counts in place of tokens: arrays, SGLang's modes stat and per_pass, TensorRT-LLM's statistics.
void import_counts(ImportSink& sink);
void import_sglang_counts(ImportSink& sink);
void import_trtllm_counts(ImportSink& sink);
/// Activation matrices of MoE-Infinity, one per sequence.
void import_moe_infinity(ImportSink& sink);
/// Loads that HarMoEny measured: CSV per rank and layer.
void import_harmoeny(ImportSink& sink);
/// UltraEP's load profiles: a manifest and chunks of .npz.
void import_ultraep(ImportSink& sink);

}  // namespace moesim
