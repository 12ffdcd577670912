// SPDX-License-Identifier: Apache-2.0
#include "tests/realhw/emulated/calls.h"

#include <cstdlib>

#include "tests/realhw/emulated/runtime.h"

namespace moesim::emulated {
namespace {

thread_local bool skipped = false;

}  // namespace

const char* name_of(Mishap mishap) {
  static constexpr const char* names[] = {"none", "fails",   "lost",
                                          "dies", "skipped", "in background"};
  return names[static_cast<std::size_t>(mishap)];
}

Calls& Calls::get() {
  static Calls& calls = *new Calls;
  return calls;
}

void Calls::plan(Mishap mishap, int rank, std::int64_t number) { plan(mishap, rank, number, ""); }

void Calls::plan(Mishap mishap, int rank, std::int64_t number, const std::string& name) {
  *this = {};
  mishap_ = mishap;
  rank_ = rank;
  number_ = number;
  name_ = name;
}

void Calls::begin() {
  struck_.clear();
  dead_ = lost_ = -1;
  names_.clear();
  counts_.clear();
}

jmp_buf*& Calls::death() {
  static thread_local jmp_buf* here = nullptr;
  return here;
}

cudaError_t Calls::state() const {
  const bool lost = Turns::host() >= 0 && lost_ == Turns::host();
  return lost ? cudaErrorIllegalAddress : cudaSuccess;
}

Mishap Calls::meet(const char* name) {
  const int host = Turns::host();
  if (host < 0) return Mishap::none;
  Turns::current()->pass();
  auto& names = names_[host];
  const std::int64_t number =
      name_.empty() ? static_cast<std::int64_t>(names.size()) : counts_[host][name];
  names.emplace_back(name);
  ++counts_[host][name];
  const bool strikes = mishap_ != Mishap::none && host == rank_ && number == number_ &&
                       (name_.empty() || name_ == name);
  if (!strikes) return Mishap::none;
  struck_ = name;
  if (mishap_ == Mishap::lost || mishap_ == Mishap::dies) {
    Runtime::get().drop_work(host);  // the number of its GPU
  }
  if (mishap_ == Mishap::lost) lost_ = host;
  if (mishap_ == Mishap::dies) {
    dead_ = host;
    if (death() == nullptr) std::abort();
    _longjmp(*death(), 1);
  }
  return mishap_;
}

cudaError_t enter(cudaError_t planned, const char* name) {
  const Mishap mishap = Calls::get().meet(name);
  skipped = mishap == Mishap::skipped;
  cudaError_t error = Calls::get().state();
  if (mishap == Mishap::fails) error = planned;
  if (error != cudaSuccess) Runtime::get().last_error() = error;
  return error;
}

bool is_skipped() { return skipped; }

}  // namespace moesim::emulated
