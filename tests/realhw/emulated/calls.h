// SPDX-License-Identifier: Apache-2.0
// Every call of CUDA, cuBLAS and NCCL by a rank: counted, and one of them may fail as planned.
#pragma once

#include <cuda_runtime_api.h>
#include <setjmp.h>

#include <map>
#include <string>
#include <vector>

namespace moesim::emulated {

enum class Mishap {
  none,
  fails,          // the call returns an error, and does nothing
  lost,           // so do all later ones of CUDA on its GPU, whose work is gone
  dies,           // the rank's process is gone
  skipped,        // it does nothing and returns success: a mistake that is planted
  in_background,  // of NCCL: the communicator has failed meanwhile
};
const char* name_of(Mishap mishap);

class Calls {
 public:
  static Calls& get();

  /// Forgets all of before, and has the rank's `number`-th call, counted from 0, meet the mishap.
  void plan(Mishap mishap, int rank, std::int64_t number);
  /// The same for the `number`-th call of this name.
  void plan(Mishap mishap, int rank, std::int64_t number, const std::string& name);
  /// A run begins: counts are from here on, what is planned stays.
  void begin();
  void forget() { plan(Mishap::none, -1, 0); }

  /// What a call meets: others may go first. Does not return if the rank dies.
  Mishap meet(const char* name);
  /// Of the GPU of this thread: success, unless it is lost.
  cudaError_t state() const;
  /// Where a thread goes that dies; null: it ends the program.
  static jmp_buf*& death();

  const std::vector<std::string>& of_rank(int rank) { return names_[rank]; }
  /// The name of the call that met the mishap; empty if none has.
  const std::string& struck() const { return struck_; }
  bool is_dead(int rank) const { return dead_ == rank; }

 private:
  Mishap mishap_ = Mishap::none;
  int rank_ = -1, dead_ = -1, lost_ = -1;
  std::int64_t number_ = 0;
  std::string name_, struck_;
  std::map<int, std::vector<std::string>> names_;
  std::map<int, std::map<std::string, std::int64_t>> counts_;
};

/// At the beginning of every function of CUDA: what it returns at once unless that is success. A
/// planted mistake is success, too: see is_skipped().
cudaError_t enter(cudaError_t planned, const char* name = __builtin_FUNCTION());
/// Whether the last call that entered does nothing.
bool is_skipped();

}  // namespace moesim::emulated
