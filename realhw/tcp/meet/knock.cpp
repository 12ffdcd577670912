// SPDX-License-Identifier: Apache-2.0
#include "realhw/tcp/meet/knock.h"

#include <fmt/format.h>

#include <algorithm>

namespace moesim {

std::string Knock::who() const {
  return stage_ == Stage::proof ? fmt::format("rank {} at {}", hello_.rank, from_.str())
                                : from_.str();
}

std::size_t Knock::wanted() const {
  switch (stage_) {
    case Stage::greeting:
      return sizeof(Greeting);
    case Stage::hello:
      return sizeof(Hello);
    case Stage::proof:
      break;
  }
  return sizeof(Hello) + proof_size;
}

/// A handful of bytes: they fit a new connection's buffer, or its reader does not read.
void Knock::say(const std::string& bytes) const {
  try {
    write_all(socket_, bytes, Clock::now());
  } catch (const std::exception& e) {
    throw Refusal(e.what());
  }
}

void Knock::check_greeting() const {
  Greeting greeting;
  std::memcpy(&greeting, bytes_.data(), sizeof greeting);
  if (!greeting.ours()) throw Refusal("it is not moesim-hw");
  if (greeting.version == rendezvous_version) return;
  say(bytes_of(Reply()));  // from which the guest sees it, too
  throw Refusal(fmt::format("it speaks version {} of the rendezvous, rank 0 {}", greeting.version,
                            rendezvous_version));
}

void Knock::answer(const TcpPlace& place) {
  std::memcpy(&hello_, bytes_.data(), sizeof hello_);
  const std::string nonce = fresh_nonce();
  std::copy(nonce.begin(), nonce.end(), reply_.nonce);
  say(bytes_of(reply_) + host_proof(place.secret, hello_, reply_));
}

void Knock::check_proof(const TcpPlace& place) const {
  const std::string proof = bytes_.substr(sizeof(Hello));
  if (same_proof(proof, guest_proof(place.secret, hello_, reply_))) return;
  throw Refusal(
      "another secret than rank 0's",
      fmt::format("rank 0 at {} has another secret than this rank {}", place.str(), hello_.rank));
}

std::optional<Hello> Knock::listen(const TcpPlace& place) {
  while (true) {
    try {
      read_some(socket_, wanted() - bytes_.size(), bytes_);
    } catch (const std::exception& e) {
      throw Refusal(e.what());
    }
    if (bytes_.size() < wanted()) return std::nullopt;
    switch (stage_) {
      case Stage::greeting:
        check_greeting();
        stage_ = Stage::hello;
        break;
      case Stage::hello:
        answer(place);
        stage_ = Stage::proof;
        break;
      case Stage::proof:
        check_proof(place);
        return hello_;
    }
  }
}

}  // namespace moesim
