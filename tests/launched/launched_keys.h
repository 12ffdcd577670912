// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "sim/launched/launched.h"

namespace moesim {

/// The value of a key; "-" without it.
inline std::string value_in(const Launched& launched, const std::string& path) {
  const LaunchedKey* key = launched.find(path);
  return key == nullptr ? "-" : key->value;
}

/// Values of several keys, joined with blanks.
inline std::string values_in(const Launched& launched, std::initializer_list<const char*> paths) {
  std::string all;
  for (const char* path : paths) all += (all.empty() ? "" : " ") + value_in(launched, path);
  return all;
}

/// A launch of Megatron-LM on two nodes of eight GPUs with these flags more.
inline std::string megatron_launch(const std::string& flags) {
  return "torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py --num-layers 24 --hidden-size "
         "2880 "
         "--num-experts 32 --moe-router-topk 4 --seq-length 4096 --global-batch-size 64 --bf16 "
         "--moe-token-dispatcher-type alltoall " +
         flags;
}

}  // namespace moesim
