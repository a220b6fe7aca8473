// exit_on_signal.cpp: preloaded into the ranks by kill.py, so that one may leave as a program does that calls exit(1), at any moment: SIGUSR1
// makes a thread of its own call it. (A signal handler could call it inside malloc, and exit frees.)
#include <csignal>
#include <cstdlib>
#include <thread>

namespace {

struct Waiter {
  Waiter() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    sigprocmask(SIG_BLOCK, &signals, nullptr);
    std::thread([signals] {
      int signal = 0;
      sigwait(&signals, &signal);
      std::exit(1);
    }).detach();
  }
};

const Waiter waiter;

}  // namespace
