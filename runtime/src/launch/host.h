// host.h: a host of a job as the coordinator sees it: the processes of this one (local_ranks.h), or those behind an
// agent (remote_host.h).
#pragma once
#include <poll.h>

#include <string>
#include <vector>

#include "control/message.h"

namespace meshrt {

constexpr int every_rank = -1;  ///< of a host: to whom a message goes

/// A process has ended, but its status is known to another launcher alone.
constexpr int unknown_status = -1;

/// What a host tells.
class HostEvents {
 public:
  virtual ~HostEvents() = default;
  virtual void entered(int rank, int pid) = 0;  ///< a process runs as this rank
  virtual void received(int rank, const Message& message) = 0;
  virtual void ended(int rank, int status) = 0;  ///< the process has, with waitpid's status; the rank says nothing more
  virtual void asked_to_end(int host, int signal) = 0;      ///< its launcher has got this signal
  virtual void lost(int host, const std::string& why) = 0;  ///< the whole host is out of reach
};

class Host {
 public:
  virtual ~Host() = default;

  /// Whether its ranks are processes of this host, which can be looked at.
  virtual bool is_here() const { return false; }
  /// Adds what has to be polled.
  virtual void watch(std::vector<pollfd>& watched) const = 0;
  /// Milliseconds that the poll may last; -1: as long as it likes.
  virtual int patience() const = 0;
  /// Takes in what has happened and tells it.
  virtual void advance() = 0;

  /// To one of its ranks, or to every_rank.
  virtual void send(int rank, const Message& message) = 0;
  /// To its ranks and what they have started.
  virtual void signal(int number) = 0;
  /// SIGKILL, also to what ranks that have ended have left behind.
  virtual void clear() = 0;
  /// Prints what the ranks have printed.
  virtual void flush() = 0;
};

}  // namespace meshrt
