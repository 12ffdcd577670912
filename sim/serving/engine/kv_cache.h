// SPDX-License-Identifier: Apache-2.0
// KV blocks of one rank.
#pragma once

#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>
#include <vector>

#include "sim/serving/engine/engine_options.h"

namespace moesim {

/// What one sequence holds: its first chunks are shared by hash, the rest is its own.
struct HeldKv {
  std::vector<std::uint64_t> shared;  // hashes, from the first token on
  std::int64_t own_blocks = 0;
};

/// Blocks of one rank, with a cache of prefixes. A chunk is what one hash covers. Chunks that no
/// sequence holds stay until their blocks are needed: the one that was let go first leaves first,
/// and of one sequence the last chunk.
class KvCache {
 public:
  /// `chunk_tokens`: what a hash covers, a multiple of the block if prefixes are cached; 0: no
  /// hashes.
  KvCache(const KvOptions& options, std::int64_t chunk_tokens);

  /// Leading tokens of a prompt that are cached.
  std::int64_t cached(std::span<const std::uint64_t> hashes) const;
  /// Gives the sequence the cached chunks that lead its prompt; it holds nothing before.
  std::int64_t attach(HeldKv& held, std::span<const std::uint64_t> hashes);
  /// Makes room for so many tokens of a sequence in all; false if that is more than what is free
  /// and what can be evicted: then nothing changes.
  bool grow(HeldKv& held, std::int64_t tokens);
  /// The first `computed` tokens can be shared from now on. A chunk that another sequence computed
  /// meanwhile is held once.
  void publish(HeldKv& held, std::span<const std::uint64_t> hashes, std::int64_t computed);
  void release(HeldKv& held);
  /// From now on there are so many blocks. If more are held, fewer than none are available.
  void resize(std::int64_t blocks);
  /// Forgets all, as a rank that is lost does; no sequence holds anything.
  void clear();

  std::int64_t blocks_of(std::int64_t tokens) const { return options_.blocks_of(tokens); }
  /// Blocks that a sequence of so many tokens still takes from the available ones; shared
  /// chunks which only the cache keeps count.
  std::int64_t missing(std::span<const std::uint64_t> hashes, std::int64_t tokens) const;
  std::int64_t held_blocks(const HeldKv& held) const;
  std::int64_t capacity() const { return capacity_; }
  std::int64_t available() const { return free_ + idle_; }
  std::int64_t in_use() const { return capacity_ - available(); }
  std::int64_t free() const { return free_; }
  std::int64_t idle() const { return idle_; }

 private:
  struct Chunk {
    std::int64_t holders = 0;
    std::list<std::uint64_t>::iterator place;  // among those without holders
  };
  void hold(std::uint64_t hash);
  void evict(std::int64_t blocks);

  KvOptions options_;
  std::int64_t capacity_, free_;
  std::int64_t idle_ = 0;  // blocks of chunks without holders
  std::int64_t chunk_tokens_, chunk_blocks_;
  std::unordered_map<std::uint64_t, Chunk> chunks_;
  std::list<std::uint64_t> unheld_;  // the next to leave first
};

}  // namespace moesim
