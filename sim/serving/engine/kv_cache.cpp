// SPDX-License-Identifier: Apache-2.0
#include "sim/serving/engine/kv_cache.h"

#include <algorithm>

namespace moesim {

KvCache::KvCache(const KvOptions& options, std::int64_t chunk_tokens)
    : options_(options),
      capacity_(options.capacity / options.block),
      free_(capacity_),
      chunk_tokens_(options.prefix_cache ? chunk_tokens : 0),
      chunk_blocks_(chunk_tokens_ / options.block) {}

std::int64_t KvCache::held_blocks(const HeldKv& held) const {
  return std::ssize(held.shared) * chunk_blocks_ + held.own_blocks;
}

std::int64_t KvCache::cached(std::span<const std::uint64_t> hashes) const {
  std::int64_t chunks = 0;
  while (chunks < std::ssize(hashes) &&
         chunks_.contains(hashes[static_cast<std::size_t>(chunks)])) {
    ++chunks;
  }
  return chunks * chunk_tokens_;
}

std::int64_t KvCache::missing(std::span<const std::uint64_t> hashes, std::int64_t tokens) const {
  std::int64_t blocks = blocks_of(tokens);
  for (const std::uint64_t hash : hashes) {
    const auto at = chunks_.find(hash);
    if (at == chunks_.end()) break;
    if (at->second.holders > 0) blocks -= chunk_blocks_;
  }
  return blocks;
}

void KvCache::hold(std::uint64_t hash) {
  Chunk& chunk = chunks_.at(hash);
  if (chunk.holders++ > 0) return;
  unheld_.erase(chunk.place);
  idle_ -= chunk_blocks_;
}

std::int64_t KvCache::attach(HeldKv& held, std::span<const std::uint64_t> hashes) {
  const std::int64_t tokens = cached(hashes);
  if (tokens == 0) return 0;
  for (const std::uint64_t hash : hashes.first(static_cast<std::size_t>(tokens / chunk_tokens_))) {
    hold(hash);
    held.shared.push_back(hash);
  }
  return tokens;
}

void KvCache::evict(std::int64_t blocks) {
  while (free_ < blocks) {
    chunks_.erase(unheld_.front());
    unheld_.pop_front();
    idle_ -= chunk_blocks_;
    free_ += chunk_blocks_;
  }
}

bool KvCache::grow(HeldKv& held, std::int64_t tokens) {
  const std::int64_t more = blocks_of(tokens) - held_blocks(held);
  if (more <= 0) return true;
  if (more > available()) return false;
  evict(more);
  free_ -= more;
  held.own_blocks += more;
  return true;
}

void KvCache::publish(HeldKv& held, std::span<const std::uint64_t> hashes, std::int64_t computed) {
  if (chunk_tokens_ == 0) return;
  const std::size_t chunks =
      std::min(hashes.size(), static_cast<std::size_t>(computed / chunk_tokens_));
  for (std::size_t i = held.shared.size(); i < chunks; ++i) {
    const auto [at, is_new] = chunks_.try_emplace(hashes[i]);
    if (is_new) {
      at->second.holders = 1;
    } else {
      hold(hashes[i]);
      free_ += chunk_blocks_;
    }
    held.own_blocks -= chunk_blocks_;
    held.shared.push_back(hashes[i]);
  }
}

void KvCache::release(HeldKv& held) {
  free_ += held.own_blocks;
  for (auto hash = held.shared.rbegin(); hash != held.shared.rend(); ++hash) {
    Chunk& chunk = chunks_.at(*hash);
    if (--chunk.holders > 0) continue;
    chunk.place = unheld_.insert(unheld_.end(), *hash);
    idle_ += chunk_blocks_;
  }
  held = {};
}

void KvCache::resize(std::int64_t blocks) {
  free_ += blocks - capacity_;
  capacity_ = blocks;
}

void KvCache::clear() {
  chunks_.clear();
  unheld_.clear();
  idle_ = 0;
  free_ = capacity_;
}

}  // namespace moesim
