// SPDX-License-Identifier: Apache-2.0
// How many instances compute prompts and how many decode.
#pragma once

namespace moesim {

/// What one instance of a pool does when it is never idle.
struct PoolRate {
  double requests_per_second = 0;
  int gpus = 1;
};

struct RateMatch {
  int prompt_instances = 0, decode_instances = 0;
  double requests_per_second = 0;          // of the slower pool
  double requests_per_second_per_gpu = 0;  // 0: not even one instance of each fits
};

/// The pools of at most `gpus` GPUs with the most requests per second and GPU; of equal ones those
/// with the most requests per second.
RateMatch match_rates(const PoolRate& prompts, const PoolRate& decode, int gpus);

}  // namespace moesim
