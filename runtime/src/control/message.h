// message.h: what launchers and ranks tell each other, and how it travels between processes of one host: a pair of
// sockets that keep messages apart (packets, so one is read whole or not at all). Between hosts see link.h.
//
// A rank's order: it gets `welcome`; it sends `joined`, then any number of `exchange` (an all-gather of bytes through
// the launcher, with which transports make contact and part), then `finished` or `failed`.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace meshrt {

enum class MessageKind : int32_t {
  // Between a rank and the launcher of its host, which passes all but the first on to and from the coordinator.
  welcome,   ///< launcher: Welcome and, for the arena, two descriptors
  joined,    ///< rank
  exchange,  ///< rank: its bytes; launcher: the bytes of one rank, for each rank in order
  finished,  ///< rank: it leaves the job in order; launcher: rank `value` has
  failed,    ///< rank: Cause as `value` (internal_error for none), and the message
  beat,      ///< rank: it is alive, see heartbeat.h; the bytes: where its flight recorder writes, if it has one

  // Between the agent of a host and the coordinator.
  challenge = 100,  ///< coordinator: a number that was never used, to be hashed with the job's token
  proof,            ///< agent: that it has the token, and Hello
  admitted,         ///< coordinator: that it has the token too
  start,            ///< coordinator: HostJob
  refused,          ///< coordinator: the proof is wrong; agent: why it cannot start them
  entered,          ///< agent: a rank runs there; `value` is its process. A rank that another launcher started, to its
                    ///< agent: `value` is the rank, the bytes a word that only this job knows and its CPUs
                    ///< (cpu_list_text)
  ended,            ///< agent: a rank's process has; `value` is waitpid's status
  signal,  ///< coordinator: pass signal `value` on to the ranks; agent: it has got this one, which asks the job to end
  alive,   ///< both: nothing to say
};
constexpr int32_t internal_error = -1;

struct Message {
  MessageKind kind = MessageKind::joined;
  int32_t value = 0;
  std::string bytes;
};

constexpr size_t most_bytes = 128 << 10;  ///< of one message within a host

/// Sends one message; false when the other side is gone. `descriptors` travel along (at most 2). Throws Failure
/// (Cause::environment) when it is too long.
bool send_message(int socket, const Message& message, const std::vector<int>& descriptors = {});

/// The same, but never waits: false when there is no room. To a side that is gone nothing is sent.
bool offer_message(int socket, const Message& message);

enum class Received { message, nothing, closed };
/// Receives one message if there is one.
Received receive_message(int socket, Message& message, std::vector<int>* descriptors = nullptr);

}  // namespace meshrt
