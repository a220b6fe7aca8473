// signals.h: the signals of a launcher as a descriptor, while this lives. Those that are ignored, as `nohup` has it for
// SIGHUP, stay so. A reader of its output that goes away (SIGPIPE) ends no job.
#pragma once
#include <sys/signalfd.h>

#include <csignal>
#include <vector>

#include "system/descriptor.h"
#include "system/stop_signals.h"

namespace meshrt {

class Signals {
 public:
  Signals() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    for (const int signal : stop_signals)
      if (!is_ignored(signal)) sigaddset(&set, signal);
    if (!is_ignored(SIGQUIT)) sigaddset(&set, SIGQUIT);
    pthread_sigmask(SIG_BLOCK, &set, &before_);
    pipe_before_ = std::signal(SIGPIPE, SIG_IGN);
    descriptor_ = Descriptor(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  ~Signals() {
    std::signal(SIGPIPE, pipe_before_);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int descriptor() const { return descriptor_.get(); }
  /// Those that ask the job to end, in their order.
  std::vector<int> read() const {
    std::vector<int> signals;
    for (signalfd_siginfo info; ::read(descriptor(), &info, sizeof info) == sizeof info;)
      if (info.ssi_signo != SIGCHLD) signals.push_back(static_cast<int>(info.ssi_signo));
    return signals;
  }

 private:
  static bool is_ignored(int signal) {
    struct sigaction action {};
    return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
  }

  sigset_t before_{};
  void (*pipe_before_)(int) = SIG_DFL;
  Descriptor descriptor_;
};

}  // namespace meshrt
