// heartbeat.h: that a rank's process is alive, told to its launcher every few seconds by a thread of its own: however
// long a step takes, the rank counts as well, but one that is stopped or whose host hangs falls silent. In turn a rank
// ends when its launcher is gone: nobody else would tell it that another rank has died.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <mutex>
#include <string>
#include <thread>

#include "system/descriptor.h"

namespace meshrt {

/// What a rank says that ends because of it.
constexpr auto launcher_has_ended = "the launcher of this job has ended";

class Heartbeat {
 public:
  /// Beats over the control socket while it lives. Throws what longest_silence throws; Failure (Cause::environment).
  explicit Heartbeat(int socket);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  /// Tells the launcher of this process where its flight recorder writes; false where it has no launcher.
  static bool tell_recorder(const std::string& path);

 private:
  void run();
  void beat();
  void end_with_launcher() const;

  int socket_;
  Descriptor stop_;  ///< readable: the thread is to end
  std::chrono::milliseconds period_;
  std::mutex mutex_;
  std::string recorder_;
  std::thread thread_;
};

/// How long a rank may be silent: MESHRT_HEARTBEAT in seconds, else 12; zero: for ever. Throws Failure (Cause::usage).
std::chrono::milliseconds longest_silence();

/// What the kernel says of a silent process of this host: "it is stopped (SIGSTOP, or Ctrl-Z)". Empty: nothing special.
std::string state_of(pid_t process);
/// Whether a debugger holds it: then silence is no fault.
bool is_debugged(pid_t process);

}  // namespace meshrt
