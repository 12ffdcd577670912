// SPDX-License-Identifier: Apache-2.0
#include "sim/serving/deployment/check_deployment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/base/units.h"

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
    throw Error(fmt::format("{}: {} shares of tokens gained per pass, not {}",
                            counted(engine.drafts, "draft"), engine.drafts + 1,
                            engine.gained.size()));
  }
  const double sum = std::accumulate(engine.gained.begin(), engine.gained.end(), 0.0);
  if (std::abs(sum - 1) > 1e-6) {
    throw Error(fmt::format("the shares of tokens gained per pass sum to {}, not to 1", sum));
  }
  if (engine.max_tokens < 1 + engine.drafts) {
    throw Error(fmt::format("a pass of {} holds no sequence with {}",
                            counted(engine.max_tokens, "token"), counted(engine.drafts, "draft")));
  }
}

void check_block(const KvOptions& kv) {
  if (kv.block <= kv.capacity) return;
  throw Error(
      fmt::format("a block of {} tokens is larger than the KV cache of a rank, which holds {}",
                  kv.block, kv.capacity),
      "kv: {block: 16}");
}

void check_request(const EngineOptions& engine, const ServingRequest& request, std::size_t number) {
  const std::int64_t tokens = request.input + request.output + engine.drafts;
  const std::int64_t blocks = engine.kv.blocks_of(tokens);
  if (blocks > engine.kv.capacity / engine.kv.block) {
    const std::string states = blocks * engine.kv.block - tokens < engine.kv.block
                                   ? ""
                                   : fmt::format(" and states or windows as large as {} more",
                                                 blocks * engine.kv.block - tokens);
    throw Error(fmt::format("request {} needs {} tokens of KV cache{}, but a rank holds {}", number,
                            tokens, states, engine.kv.capacity),
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
  check_block(pool.engine.kv);
  for (std::size_t i = 0; i < log.requests.size(); ++i) {
    ServingRequest request = log.requests[i];
    if (prompts_only) request.output = 1;
    check_request(pool.engine, request, i);
  }
}

void check_loss(const Deployment& deployment, const RankLoss& loss) {
  if (loss.decodes && !deployment.decode) {
    throw Error("a loss of the instances that decode, but all instances do both",
                "leave out 'pool', or say instances: {prefill: .., decode: ..}");
  }
  const ServingPool& pool = loss.decodes ? *deployment.decode : deployment.pool;
  if (loss.instance < pool.instances && loss.rank + loss.ranks <= pool.engine.ranks) return;
  const std::string which =
      loss.ranks == 1 ? fmt::format("rank {}", loss.rank)
                      : fmt::format("ranks {} to {}", loss.rank, loss.rank + loss.ranks - 1);
  throw Error(fmt::format("{} of instance {} cannot be lost: there are {} instances of {} ranks",
                          which, loss.instance, pool.instances, pool.engine.ranks));
}

/// Engines must get something done between losses.
void check_rate(const Deployment& deployment, const LossRate& rate) {
  for (const ServingPool* pool :
       {&deployment.pool, deployment.decode ? &*deployment.decode : nullptr}) {
    if (pool == nullptr) continue;
    if (pool->engine.ranks % rate.ranks != 0) {
      int fewer = std::min(rate.ranks, pool->engine.ranks);
      while (pool->engine.ranks % fewer != 0) --fewer;
      throw Error(
          fmt::format("{} ranks are lost at once, which do not divide the {} of an instance",
                      rate.ranks, pool->engine.ranks),
          fmt::format("ranks: {}; as many as a node has, if a node is lost", fewer));
    }
    const double parts = static_cast<double>(pool->engine.ranks) / rate.ranks;
    const Seconds least = (rate.recovery + rate.back) * (2 * parts);
    if (rate.between >= least) continue;
    throw Error(
        fmt::format("an instance loses ranks every {}, and they are gone for {}",
                    to_string(rate.between * (1 / parts)), to_string(rate.recovery + rate.back)),
        fmt::format("'every' of at least {}", to_string(least)));
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
  for (const RankLoss& loss : deployment.losses) check_loss(deployment, loss);
  if (deployment.loss_rate) check_rate(deployment, *deployment.loss_rate);
}

}  // namespace moesim
