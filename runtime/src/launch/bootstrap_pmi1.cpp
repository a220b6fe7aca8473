// PMI-1, by which MPICH's Hydra serves the processes that it starts: lines of text over an inherited socket.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "launch/bootstrap.h"
#include "meshrt/failure.h"

namespace meshrt {

namespace {

constexpr int most_milliseconds = 120'000;  // until all ranks have come to a barrier
constexpr size_t longest_line = 16 << 10;

class Pmi1 {
 public:
  explicit Pmi1(int socket) : socket_(socket) {}

  /// Sends a command and returns the value of `key` in the answer `answer`.
  std::string ask(const std::string& command, const std::string& answer, const std::string& key = "") {
    const std::string line = command + "\n";
    if (write(socket_, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
      throw trouble(command, std::strerror(errno));
    const std::string said = read_line(command);
    std::string value;
    bool expected = false;
    std::istringstream words(said);
    for (std::string word; words >> word;) {
      if (word == "cmd=" + answer) expected = true;
      if (word.starts_with("rc=") && word != "rc=0") throw trouble(command, said);
      if (!key.empty() && word.starts_with(key + "=")) value = word.substr(key.size() + 1);
    }
    if (!expected || (!key.empty() && value.empty())) throw trouble(command, said);
    return value;
  }

 private:
  static Failure trouble(const std::string& command, const std::string& what) {
    return {Cause::environment, fmt::format("PMI-1 (mpiexec.hydra): `{}` is answered by `{}`", command, what)};
  }

  std::string read_line(const std::string& command) {
    std::string line;
    for (char c = 0; line.size() < longest_line;) {
      pollfd readable{socket_, POLLIN, 0};
      if (poll(&readable, 1, most_milliseconds) == 0) throw trouble(command, "nothing");
      const ssize_t length = read(socket_, &c, 1);
      if (length < 0 && errno == EINTR) continue;
      if (length <= 0) throw trouble(command, "the end of the connection");
      if (c == '\n') return line;
      line += c;
    }
    throw trouble(command, "a line without end");
  }

  int socket_;
};

class Pmi1Bootstrap : public Bootstrap {
 public:
  Pmi1Bootstrap(int rank, int ranks, int socket) : Bootstrap(rank), ranks_(ranks), service_(socket) {}

  std::string job() override {
    if (space_.empty()) {
      service_.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init");
      space_ = service_.ask("cmd=get_my_kvsname", "my_kvsname", "kvsname");
    }
    return "pmi-" + space_;
  }

  bool one_host() const override { return same_numbers("MPI_LOCALNRANKS", "PMI_SIZE"); }

  Meeting meet(const Meeting& mine) override {
    job();
    if (rank() == 0)
      service_.ask(fmt::format("cmd=put kvsname={} key=meshrt value={}", space_, as_word(mine)), "put_result");
    service_.ask("cmd=barrier_in", "barrier_out");
    const std::string word = service_.ask(fmt::format("cmd=get kvsname={} key=meshrt", space_), "get_result", "value");
    service_.ask("cmd=finalize", "finalize_ack");
    Meeting meeting = from_word(word);
    meeting.ranks = ranks_;
    return meeting;
  }

 private:
  int ranks_;
  Pmi1 service_;
  std::string space_;
};

}  // namespace

std::unique_ptr<Bootstrap> pmi1_bootstrap() {
  const auto socket = number_from_environment("PMI_FD"), rank = number_from_environment("PMI_RANK"),
             ranks = number_from_environment("PMI_SIZE");
  // Slurm's plug-in pmi2 has the same variables and one more, and speaks another language.
  if (!socket || !rank || !ranks || std::getenv("PMI_JOBID")) return nullptr;
  return std::make_unique<Pmi1Bootstrap>(static_cast<int>(*rank), static_cast<int>(*ranks), static_cast<int>(*socket));
}

}  // namespace meshrt
