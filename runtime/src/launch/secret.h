// secret.h: what those who may join a job have, and nobody else: one token that all know, or that they are processes of
// one user, for which MUNGE vouches. Of that, a token is made for each connection.
#pragma once
#include <optional>
#include <string>

#include "system/token.h"

namespace meshrt {

class Secret {
 public:
  /// A token that all know.
  Secret(const Token& token) : token_(token) {}  // NOLINT(google-explicit-constructor): the usual one
  /// All are processes of this user.
  static Secret of_user() { return Secret(); }

  /// One word, and back.
  std::string text() const { return token_ ? token_->text() : "munge"; }
  static Secret from(const std::string& text) { return text == "munge" ? of_user() : Secret(Token::from(text)); }

  /// For one connection: its token, and what gives it to the coordinator, who has drawn `nonce` (empty where it knows).
  struct Pass {
    Token token;
    std::string credential;
  };
  /// Throws Failure (Cause::environment) when there is no MUNGE.
  Pass draw_pass(const std::string& nonce) const;
  /// The coordinator's side: the token of who has sent this credential; nothing for a stranger's.
  std::optional<Token> open(const std::string& credential, const std::string& nonce) const;

 private:
  Secret() = default;

  std::optional<Token> token_;
};

/// Of jobs whose launcher passes no secret on (bare Slurm, torchrun): MESHRT_TOKEN; the file MESHRT_TOKEN_FILE, or
/// ~/.meshrt-token, which only its owner may read; or MUNGE. With MESHRT_TOKEN=none, what follows from the name of the
/// job, which everybody can know. Throws Failure: (Cause::usage) for a file that others can read, or a token that is
/// too short, (Cause::environment) where there is none of these.
Secret shared_secret(const std::string& job);

/// Which of these it is: "MUNGE". Throws as shared_secret does.
std::string secret_source();

/// The token of MESHRT_TOKEN or MESHRT_TOKEN_FILE; nothing where neither is set. Throws Failure (Cause::usage).
std::optional<Token> token_from_environment();

}  // namespace meshrt
