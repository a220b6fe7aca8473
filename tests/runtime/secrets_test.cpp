// The secret that the hosts of a job share: tokens, their files, and jobs that have none.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "launch/bootstrap.h"
#include "launch/secret.h"
#include "meshrt/failure.h"
#include "system/token.h"
#include "test_files.h"
#include "variables.h"

namespace meshrt::test {

namespace {

TEST(Token, HashesAsItsAuthorsSay) {
  std::string bytes;
  for (char c = 0; c < 15; ++c) bytes += c;
  EXPECT_EQ(siphash({0x0706050403020100, 0x0f0e0d0c0b0a0908}, bytes), 0xa129ca6149be45e5);
}

// What follows a number's eight bytes is hashed as if it stood behind them.
TEST(Token, HashesNumberedPieces) {
  const SipKey key{1, 2};
  for (const std::string& piece : {std::string(), std::string("abc"), std::string(29, 'x')})
    EXPECT_EQ(siphash(key, 0x0706050403020100, piece), siphash(key, std::string("\0\1\2\3\4\5\6\7", 8) + piece));
}

TEST(Token, ShortOnesAreRefused) {
  EXPECT_EQ(failure_of([] { Token::chosen("swordfish", "MESHRT_TOKEN"); }),
            "MESHRT_TOKEN has 9 characters, and who sees it used could find it by trying; at least 16 are needed, as "
            "`openssl rand -hex 16` prints them");
  EXPECT_EQ(Token::chosen("sixteen letters!", "X").text(), Token::from("sixteen letters!").text());
}

TEST(Token, ComesBackFromItsText) {
  const Token token = Token::draw();
  EXPECT_EQ(Token::from(token.text()).text(), token.text());
  EXPECT_NE(Token::draw().text(), token.text());
  EXPECT_EQ(Token::from("our job").text(), Token::from("our job").text());
  EXPECT_NE(Token::from("our job").text(), Token::from("our job!").text());
}

/// A home without MUNGE, and what is said of its secrets.
class Secrets : public testing::Test {
 protected:
  Secrets() {
    char name[] = "/tmp/meshrt-test-home-XXXXXX";
    home_ = mkdtemp(name);
    setenv("HOME", home_.c_str(), 1);
    setenv("MESHRT_MUNGE_SOCKET", (home_ + "/none").c_str(), 1);
  }
  ~Secrets() override {
    std::filesystem::remove_all(home_);
    setenv("HOME", before_.c_str(), 1);
    unsetenv("MESHRT_MUNGE_SOCKET");
  }
  std::string write(const char* name, const char* text, mode_t mode) const {
    const std::string path = home_ + "/" + name;
    std::ofstream(path) << text;
    chmod(path.c_str(), mode);
    return path;
  }

  std::string home_, before_ = std::getenv("HOME") ? std::getenv("HOME") : "/";
};

TEST_F(Secrets, AJobOfSeveralHostsWithoutOneIsRefused) {
  for (const Pairs& launcher : {slurm_two, torchrun_two}) {
    const Variables set(launcher);
    const auto found = find_bootstrap();
    const std::string said = failure_of([&] { found->given_secret(); });
    EXPECT_TRUE(said.starts_with("the hosts of this job share no secret")) << said;
    EXPECT_NE(said.find("openssl rand -hex 16 >~/.meshrt-token"), std::string::npos) << said;
  }
  const Variables set(slurm_two + Pairs{{"MESHRT_TOKEN", "none"}});
  const auto found = find_bootstrap();
  EXPECT_EQ(found->given_secret()->text(), Token::from(found->job()).text());
}

TEST_F(Secrets, OneHostNeedsNone) {
  const Variables set(slurm_two + Pairs{{"SLURM_STEP_NUM_NODES", "1"}});
  const auto found = find_bootstrap();
  EXPECT_NO_THROW(found->given_secret());
  EXPECT_TRUE(found->meet({{}, Token(), 0}).coordinator.at(0).is_local_name());
}

TEST_F(Secrets, FilesAreOfTheirOwnerAlone) {
  const Variables set({});
  const std::string path = write(".meshrt-token", "0123456789abcdef0123456789abcdef\n", 0644);
  EXPECT_EQ(failure_of([] { shared_secret("job"); }), "the token file " + path +
                                                          " has to be a file of this user that nobody else can read: "
                                                          "chmod 600 " +
                                                          path);
  chmod(path.c_str(), 0600);
  EXPECT_EQ(shared_secret("job").text(), "0123456789abcdef0123456789abcdef");
  const std::string other = write("other", "fedcba9876543210fedcba9876543210", 0600);
  setenv("MESHRT_TOKEN_FILE", other.c_str(), 1);
  EXPECT_EQ(shared_secret("job").text(), "fedcba9876543210fedcba9876543210");
  const std::string brief = write("brief", "secret\n", 0600);
  setenv("MESHRT_TOKEN_FILE", brief.c_str(), 1);
  EXPECT_TRUE(failure_of([] { shared_secret("job"); }).starts_with("the token in " + brief + " has 6 characters"));
  setenv("MESHRT_TOKEN_FILE", "/no/such/file", 1);
  EXPECT_EQ(failure_of([] { shared_secret("job"); }), "MESHRT_TOKEN_FILE: there is no file /no/such/file");
  setenv("MESHRT_TOKEN", "a word of this job", 1);
  EXPECT_EQ(shared_secret("job").text(), Token::from("a word of this job").text());
}

}  // namespace

}  // namespace meshrt::test
