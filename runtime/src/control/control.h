// control.h: a rank's end of its socket to the launcher of its host: inherited from meshrun and named in
// MESHRT_CONTROL, or made to the agent of a foreign job. Nothing has a path, so nothing is left behind.
#pragma once
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "control/heartbeat.h"
#include "control/message.h"
#include "control/welcome.h"
#include "system/descriptor.h"

namespace meshrt {

class Control {
 public:
  /// The socket that MESHRT_CONTROL names, or -1 outside of a job.
  static int inherited_socket();

  /// Waits for the launcher's welcome.
  explicit Control(Descriptor socket);

  const Welcome& welcome() const { return welcome_; }
  int segment_file() const { return descriptors_.at(0); }
  int arena_file() const { return descriptors_.at(1); }

  /// Everybody's bytes, by rank. `idle` is called while it waits. Throws Failure (Cause::timeout).
  std::vector<std::string> exchange(const std::string& bytes, std::chrono::nanoseconds timeout,
                                    const std::function<void()>& idle);

  /// Takes in what the launcher has sent since. Throws Failure (Cause::environment) when the launcher is gone.
  void look();
  bool has_finished(int rank) const { return finished_[rank]; }

  void finished() { send_message(socket_.get(), {MessageKind::finished, 0, {}}); }
  /// False when the launcher is gone, and nobody hears it.
  bool failed(int32_t cause, const std::string& what) {
    return send_message(socket_.get(), {MessageKind::failed, cause, what.substr(0, most_bytes)});
  }

 private:
  Descriptor socket_;
  Welcome welcome_;
  std::vector<int> descriptors_;
  std::vector<std::string> gathered_;
  std::vector<bool> finished_;
  std::optional<Heartbeat> heartbeat_;  // ends before the socket is closed
};

}  // namespace meshrt
