// control.h: what the launcher and its ranks tell each other: one socket pair per rank (packets, so a message is read
// whole or not at all), inherited by the rank and named in MESHRT_CONTROL. Nothing has a path, so nothing is left
// behind.
//
// Order: the launcher sends `welcome`; a rank sends `joined`, then any number of `exchange` (an all-gather of bytes
// through the launcher, with which transports make contact and part), then `finished` or `failed`.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "meshrt/failure.h"

namespace meshrt {

enum class MessageKind : int32_t {
  welcome,   ///< launcher: Welcome and, for the arena, two descriptors
  joined,    ///< rank
  exchange,  ///< rank: its bytes; launcher: the bytes of rank `value`, for each rank in order
  finished,  ///< rank: it leaves the job in order; launcher: rank `value` has
  failed,    ///< rank: Cause as `value` (internal_error for none), and the message
};
constexpr int32_t internal_error = -1;

struct Message {
  MessageKind kind = MessageKind::joined;
  int32_t value = 0;
  std::string bytes;
};

struct Welcome {
  int32_t rank = 0, ranks = 0;
  int32_t cpus = 0;      ///< that all ranks of this host may use together
  int32_t over_ucx = 0;  ///< 1: UCX, no descriptors; 0: descriptors of the segment and of the arena
};

/// Sends one message; false when the other side is gone. `descriptors` travel along (at most 2).
bool send_message(int socket, const Message& message, const std::vector<int>& descriptors = {});

enum class Received { message, nothing, closed };
/// Receives one message if there is one.
Received receive_message(int socket, Message& message, std::vector<int>* descriptors = nullptr);

/// A rank's end.
class Control {
 public:
  /// The socket that MESHRT_CONTROL names, or -1 outside of a job.
  static int inherited_socket();

  explicit Control(int socket);
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  const Welcome& welcome() const { return welcome_; }
  int segment_file() const { return descriptors_.at(0); }
  int arena_file() const { return descriptors_.at(1); }

  /// Everybody's bytes, by rank. `idle` is called while it waits. Throws Failure (Cause::timeout).
  std::vector<std::string> exchange(const std::string& bytes, std::chrono::nanoseconds timeout,
                                    const std::function<void()>& idle);

  /// Takes in what the launcher has sent since. Throws Failure (Cause::environment) when the launcher is gone.
  void look();
  bool has_finished(int rank) const { return finished_[rank]; }

  void finished() { send_message(socket_, {MessageKind::finished, 0, {}}); }
  void failed(int32_t cause, const std::string& what) { send_message(socket_, {MessageKind::failed, cause, what}); }

 private:
  int socket_;
  Welcome welcome_;
  std::vector<int> descriptors_;
  std::vector<std::string> gathered_;
  std::vector<bool> finished_;
};

}  // namespace meshrt
