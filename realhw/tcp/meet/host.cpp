// SPDX-License-Identifier: Apache-2.0
#include "realhw/tcp/meet/host.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string_view>

#include "sim/base/error.h"

namespace moesim {
namespace {

/// One that is gone is noticed later.
void tell(const Socket& guest, const Verdict& verdict) {
  try {
    write_verdict(guest, verdict, Clock::now());
  } catch (const std::exception&) {
  }
}

}  // namespace

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

std::vector<Socket> RendezvousHost::take_in() {
  const Address address = addresses(place_).front();
  require_secret(place_, address);
  const Socket listener = listen_at(address);
  try {
    while (joined_ < place_.ranks) {
      if (Clock::now() >= deadline_) throw std::runtime_error(missing(address));
      wait(listener);
      attend();
      welcome(listener);
    }
  } catch (const Error& e) {
    tell_all({Verdict::bad_input, e.diagnostics().front().message});
    throw;
  } catch (const std::exception& e) {
    tell_all({Verdict::run_failed, e.what()});
    throw;
  }
  tell_all({});
  return std::move(guests_);
}

/// Until somebody knocks or speaks, or the next deadline.
void RendezvousHost::wait(const Socket& listener) const {
  std::vector<pollfd> polled;
  Clock::time_point next = deadline_;
  const auto room = knocks_.empty() ? Clock::now() : knocks_.front().arrived() + least_stay;
  if (knocks_.size() < most_knocks_ || room <= Clock::now()) {
    polled.push_back({listener.fd(), POLLIN, 0});
  } else {
    next = std::min<Clock::time_point>(next, room);
  }
  for (const Knock& knock : knocks_) {
    polled.push_back({knock.socket().fd(), POLLIN, 0});
    next = std::min(next, knock.deadline());
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
  poll(polled.data(), polled.size(), static_cast<int>(std::clamp<long>(left, 0, 1000)));
}

/// From the address that holds the most places: one that has not said who it is, else any; the one
/// that has been here longest. So a flood takes places from itself. None if all have just come.
std::list<Knock>::iterator RendezvousHost::who_makes_room() {
  const Clock::time_point before = Clock::now() - least_stay;
  std::map<std::string_view, int> places;
  int most = 0;
  for (const Knock& knock : knocks_) most = std::max(most, ++places[knock.host()]);
  auto chosen = knocks_.end();
  for (auto knock = knocks_.begin(); knock != knocks_.end() && knock->arrived() <= before;
       ++knock) {
    if (places[knock->host()] < most) continue;
    if (!knock->has_said()) return knock;
    if (chosen == knocks_.end()) chosen = knock;
  }
  return chosen;
}

void RendezvousHost::welcome(const Socket& listener) {
  constexpr int at_once = 64;  // then whoever has knocked is heard
  for (int i = 0; i < at_once; ++i) {
    const bool full = knocks_.size() == most_knocks_;
    const auto leaves = full ? who_makes_room() : knocks_.end();
    if (full && leaves == knocks_.end()) return;
    auto guest = accept_now(listener);
    if (!guest) return;
    if (full) {
      refuse(*leaves, Refusal("it made room for others"));
      knocks_.erase(leaves);
    }
    const auto deadline =
        std::min<Clock::time_point>(deadline_, Clock::now() + rendezvous_patience);
    knocks_.emplace_back(std::move(guest->first), guest->second, deadline);
  }
}

void RendezvousHost::attend() {
  for (auto knock = knocks_.begin(); knock != knocks_.end();) {
    knock = attend(*knock) ? knocks_.erase(knock) : std::next(knock);
  }
}

/// Whether it has been dealt with. A mistake of one who knows the secret throws.
bool RendezvousHost::attend(Knock& knock) {
  std::optional<Hello> hello;
  try {
    hello = knock.listen(place_);
    if (!hello && Clock::now() >= knock.deadline())
      throw Refusal("it did not end its greeting in time");
  } catch (const Refusal& refusal) {
    refuse(knock, refusal);
    return true;
  }
  if (hello) join(knock, *hello);
  return hello.has_value();
}

void RendezvousHost::join(Knock& knock, const Hello& hello) {
  const auto rank = static_cast<std::size_t>(hello.rank);
  const std::string from = knock.from().str();
  std::string mistake;
  if (hello.ranks != static_cast<std::uint32_t>(place_.ranks)) {
    mistake = fmt::format("rank {} at {} was started as one of {} ranks, rank 0 as one of {}", rank,
                          from, hello.ranks, place_.ranks);
  } else if (rank == 0 || rank >= guests_.size()) {
    mistake = fmt::format("{} says to be rank {}", from, rank);
  } else if (guests_[rank].open()) {
    mistake = fmt::format("two processes say to be rank {}, the second at {}", rank, from);
  }
  if (!mistake.empty()) {
    tell(knock.socket(), {Verdict::bad_input, mistake});
    throw Error(mistake, "every process needs a rank of its own and the same number of ranks");
  }
  tell(knock.socket(), {});
  guests_[rank] = knock.leave();
  ++joined_;
}

/// In a flood only the first are named: neither the terminal nor the memory is theirs.
void RendezvousHost::refuse(const Knock& knock, const Refusal& refusal) {
  if (!refusal.heard().empty()) tell(knock.socket(), {Verdict::bad_input, refusal.heard()});
  if (++refused_ > most_named) return;
  const std::string why = fmt::format("{}: {}", knock.who(), refusal.what());
  fmt::print(stderr, "moesim-hw: refused {}\n", why);
  refusals_ += fmt::format("; refused {}", why);
}

void RendezvousHost::tell_all(const Verdict& verdict) const {
  for (const Socket& guest : guests_) {
    if (guest.open()) tell(guest, verdict);
  }
}

std::string RendezvousHost::missing(const Address& address) const {
  std::string ranks;
  int count = 0;
  for (std::size_t rank = 1; rank < guests_.size(); ++rank) {
    if (guests_[rank].open()) continue;
    if (++count <= 8) ranks += fmt::format("{}{}", count == 1 ? "" : ", ", rank);
  }
  if (count > 8) ranks += fmt::format(" and {} more", count - 8);
  std::string text =
      fmt::format("rank{} {} did not come to rank 0 at {} within {:g} s{}", count == 1 ? "" : "s",
                  ranks, address.str(), place_.limit.count(), refusals_);
  if (refused_ > most_named) text += fmt::format("; refused {} more", refused_ - most_named);
  return text;
}

}  // namespace moesim
