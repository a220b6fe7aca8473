#include "launch/secret.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "launch/munge.h"
#include "meshrt/failure.h"
#include "system/descriptor.h"

namespace meshrt {

namespace {

std::string secret_variable(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

// What a credential carries: that it is ours, for this connection, and its token.
std::string credential_text(const std::string& nonce, const Token& token) { return "meshrt " + nonce + token.text(); }

// In the first line of a file that nobody else can read; nothing where there is no file.
std::optional<Token> token_in_file(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0 && errno == ENOENT) return std::nullopt;
  struct stat status {};
  if (file.get() < 0 || fstat(file.get(), &status) != 0)
    throw Failure(Cause::usage, fmt::format("the token file {} cannot be read: {}", path, std::strerror(errno)));
  if (!S_ISREG(status.st_mode) || status.st_uid != geteuid() || (status.st_mode & 077) != 0)
    throw Failure(Cause::usage, fmt::format("the token file {0} has to be a file of this user that nobody else can "
                                            "read: chmod 600 {0}",
                                            path));
  char room[4096];
  const ssize_t length = read(file.get(), room, sizeof room);
  std::string text(room, static_cast<size_t>(length > 0 ? length : 0));
  text.resize(std::min(text.size(), text.find_first_of("\r\n")));
  return Token::chosen(text, "the token in " + path);
}

}  // namespace

Secret::Pass Secret::draw_pass(const std::string& nonce) const {
  if (token_) return {*token_, ""};
  const Token token = Token::draw();
  return {token, munge_encode(credential_text(nonce, token))};
}

std::optional<Token> Secret::open(const std::string& credential, const std::string& nonce) const {
  if (token_) return token_;
  if (!credential.starts_with("MUNGE:")) return std::nullopt;
  const std::optional<std::string> text = munge_decode(credential);
  const std::string expected = credential_text(nonce, Token());
  if (!text || text->size() != expected.size()) return std::nullopt;
  const Token token = Token::from(std::string_view(*text).substr(expected.size() - Token().text().size()));
  return *text == credential_text(nonce, token) ? std::optional(token) : std::nullopt;
}

std::optional<Token> token_from_environment() {
  if (const std::string token = secret_variable("MESHRT_TOKEN"); !token.empty())
    return Token::chosen(token, "MESHRT_TOKEN");
  const std::string path = secret_variable("MESHRT_TOKEN_FILE");
  if (path.empty()) return std::nullopt;
  const std::optional<Token> token = token_in_file(path);
  if (!token) throw Failure(Cause::usage, fmt::format("MESHRT_TOKEN_FILE: there is no file {}", path));
  return token;
}

namespace {

struct SecretSource {
  std::string name;
  Secret secret;
};

SecretSource find_secret(const std::string& job) {
  if (secret_variable("MESHRT_TOKEN") == "none") return {"none is asked for (MESHRT_TOKEN=none)", Token::from(job)};
  if (const auto token = token_from_environment())
    return {secret_variable("MESHRT_TOKEN").empty() ? "MESHRT_TOKEN_FILE" : "MESHRT_TOKEN", *token};
  if (const std::string home = secret_variable("HOME"); !home.empty())
    if (const auto token = token_in_file(home + "/.meshrt-token")) return {"~/.meshrt-token", *token};
  if (munge_is_there()) return {"MUNGE", Secret::of_user()};
  throw Failure(
      Cause::environment,
      "the hosts of this job share no secret, so that anybody on their network could join it. Write one where "
      "all of them have it: `(umask 077; openssl rand -hex 16 >~/.meshrt-token)`; or run munge on them, set "
      "MESHRT_TOKEN_FILE or MESHRT_TOKEN, or start the job by `srun --mpi=pmix`, mpirun or meshrun, which pass "
      "one on. MESHRT_TOKEN=none lets everybody in");
}

}  // namespace

Secret shared_secret(const std::string& job) { return find_secret(job).secret; }
std::string secret_source() { return find_secret("").name; }

}  // namespace meshrt
