// SPDX-License-Identifier: Apache-2.0
// Who may ask the page's server: only who has the token that moesim printed, from this machine.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/explore/http.h"

namespace moesim {

/// 128 random bits in hex. Throws std::system_error if the system has none.
std::string random_token();

/// Compares in a time that depends on the lengths only.
bool equal_secrets(const std::string& a, const std::string& b);

/// Checks, before a body is read:
/// - the method is GET or POST, the body has a length, is not compressed and not too long;
/// - the Host names this server, so that no name of another site leads here (DNS rebinding);
/// - an Origin, if there is one, is this server's own, and browsers say of no other site;
/// - the token is there: in the header X-Moesim-Token, or for the page itself in its address.
class Access {
 public:
  Access(std::string token, int port);

  /// What a request is refused with; nothing if it may pass.
  std::optional<HttpAnswer> check(const HttpRequest& request) const;

 private:
  bool is_here(const std::string& host) const;
  bool has_token(const HttpRequest& request) const;

  std::string token_;
  std::string port_;
};

/// What browsers are told with every answer: nothing is kept, framed or loaded from elsewhere.
std::vector<std::pair<std::string, std::string>> page_headers();

/// An answer that says what is wrong: {"error": TEXT, "hint": TEXT}.
HttpAnswer refusal(int status, const std::string& error, const std::string& hint = "");

}  // namespace moesim
