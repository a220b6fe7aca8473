#include "watchdog.h"

#include <sys/time.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>

namespace mesh::fuzz {

namespace {

constexpr time_t longest_seconds = 10;  // of a processor

char text[64];
int output = STDERR_FILENO;

void ended_badly(int signal) {
  const char* how = signal == SIGVTALRM ? "no answer in time" : "crash";
  (void)!write(output, text, std::strlen(text));
  (void)!write(output, how, std::strlen(how));
  (void)!write(output, "\n", 1);
  _exit(1);
}

void end_at(int signal) {
  struct sigaction action = {};
  action.sa_handler = ended_badly;
  action.sa_flags = SA_ONSTACK;
  sigaction(signal, &action, nullptr);
}

}  // namespace

void watch(std::initializer_list<int> signals) {
  static char stack[1 << 16];  // a handler needs one where the stack overflows
  const stack_t alternative{stack, 0, sizeof stack};
  sigaltstack(&alternative, nullptr);
  for (const int signal : signals) end_at(signal);
  end_at(SIGVTALRM);
}

void run_next(uint64_t number) {
  std::snprintf(text, sizeof text, "mutant %llu: ", static_cast<unsigned long long>(number));
  const itimerval limit{{0, 0}, {longest_seconds, 0}};
  setitimer(ITIMER_VIRTUAL, &limit, nullptr);
}

void complain_to(int descriptor) { output = descriptor; }
int complaints() { return output; }

const char* running() { return text; }

}  // namespace mesh::fuzz
