// SPDX-License-Identifier: Apache-2.0
#include "sim/serving/deployment/rate_match.h"

#include <algorithm>
#include <utility>

namespace moesim {

RateMatch match_rates(const PoolRate& prompts, const PoolRate& decode, int gpus) {
  RateMatch best;
  for (int p = 1; p * prompts.gpus < gpus; ++p) {
    for (int d = 1; p * prompts.gpus + d * decode.gpus <= gpus; ++d) {
      const int used = p * prompts.gpus + d * decode.gpus;
      const double rate = std::min(p * prompts.requests_per_second, d * decode.requests_per_second);
      const double per_gpu = rate / used;
      if (std::pair(per_gpu, rate) >
          std::pair(best.requests_per_second_per_gpu, best.requests_per_second)) {
        best = {p, d, rate, per_gpu};
      }
    }
  }
  return best;
}

}  // namespace moesim
