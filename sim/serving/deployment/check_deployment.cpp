// SPDX-License-Identifier: Apache-2.0
#include "sim/serving/deployment/check_deployment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/base/error.h"

namespace moesim {
namespace {

void check_engine(const EngineOptions& engine, const RequestLog& log) {
  if (engine.kv.prefix_cache && log.prefix_tokens % engine.kv.block != 0) {
    throw Error(
        fmt::format("blocks of {} tokens do not divide the {} tokens that a prefix hash covers",
                    engine.kv.block, log.prefix_tokens),
        fmt::format("choose a block size that divides {}, or prefix_cache: false",
                    log.prefix_tokens));
  }
  if (std::ssize(engine.gained) != engine.drafts + 1) {
    throw Error(fmt::format("{} drafts need {} shares of tokens gained per pass, not {}",
                            engine.drafts, engine.drafts + 1, engine.gained.size()));
  }
  const double sum = std::accumulate(engine.gained.begin(), engine.gained.end(), 0.0);
  if (std::abs(sum - 1) > 1e-6) {
    throw Error(fmt::format("the shares of tokens gained per pass sum to {}, not to 1", sum));
  }
  if (engine.max_tokens < 1 + engine.drafts) {
    throw Error(fmt::format("a pass of {} tokens holds no sequence with {} drafts",
                            engine.max_tokens, engine.drafts));
  }
}

void check_request(const EngineOptions& engine, const ServingRequest& request, std::size_t number) {
  const std::int64_t tokens = request.input + request.output + engine.drafts;
  const std::int64_t blocks = (tokens + engine.kv.block - 1) / engine.kv.block;
  if (blocks > engine.kv.capacity / engine.kv.block) {
    throw Error(fmt::format("request {} needs {} tokens of KV cache, but a rank holds {}", number,
                            tokens, engine.kv.capacity),
                "give the KV cache more memory, use more GPUs per rank, or leave the request out");
  }
  // A sequence that was preempted computes its answer so far as a prompt. None is if blocks of all
  // answers are kept free.
  const bool never_preempted = std::min(engine.kv.reserve.initial, engine.kv.reserve.least) >= 1;
  const std::int64_t longest = never_preempted ? request.input : request.input + request.output;
  if (!engine.chunked_prefill && longest > std::min(engine.max_tokens, engine.chunk)) {
    throw Error(fmt::format("request {} has {} tokens, but a pass computes {} of a prompt", number,
                            longest, std::min(engine.max_tokens, engine.chunk)),
                "allow chunked prefill, or more tokens per pass");
  }
}

/// `prompts_only`: another pool gives all tokens but the first.
void check_pool(const ServingPool& pool, const RequestLog& log, bool prompts_only) {
  check_engine(pool.engine, log);
  for (std::size_t i = 0; i < log.requests.size(); ++i) {
    ServingRequest request = log.requests[i];
    if (prompts_only) request.output = 1;
    check_request(pool.engine, request, i);
  }
}

}  // namespace

void check_deployment(const Deployment& deployment, const RequestLog& log) {
  check_pool(deployment.pool, log, deployment.decode.has_value());
  if (deployment.decode) {
    check_pool(*deployment.decode, log, false);
    if (deployment.transfers == nullptr) {
      throw Error("pools for prompts and for decoding need links between them");
    }
  }
  for (const RankLoss& loss : deployment.losses) {
    if (loss.instance >= deployment.pool.instances || loss.rank >= deployment.pool.engine.ranks) {
      throw Error(fmt::format(
          "rank {} of instance {} cannot be lost: there are {} instances of {} ranks", loss.rank,
          loss.instance, deployment.pool.instances, deployment.pool.engine.ranks));
    }
  }
}

}  // namespace moesim
