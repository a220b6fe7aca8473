// tcp_stream.h: messages in one direction over one TCP connection. Each is a header (tag, bytes) and its bytes, which
// go from where they lie to where they are wanted, through no buffer but the kernel's, unless they come before they are
// wanted. Neither end ever waits in the kernel.
#pragma once
#include <chrono>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "system/descriptor.h"

namespace meshrt {

/// A message under way. What `data` points to must stay, and not be touched, until all bytes have moved.
struct TcpMessage {
  uint64_t tag = 0;
  std::byte* data = nullptr;
  int64_t bytes = 0;
  int64_t moved = 0;
  bool finished() const { return moved == bytes; }
};
using TcpMessages = std::deque<std::shared_ptr<TcpMessage>>;

/// What stands in front of each message.
struct TcpHeader {
  uint64_t tag = 0;
  int64_t bytes = 0;
};

/// What a connection begins with: who sends over it, and what only ranks of the job know.
struct TcpHello {
  uint64_t secret = 0;
  int64_t rank = 0;
};

/// The end that sends. Connects at its first message, to a socket's address in its bytes.
class SendingStream {
 public:
  SendingStream(std::string address, TcpHello hello) : address_(std::move(address)), hello_(hello) {}

  void push(std::shared_ptr<TcpMessage> message) { queue_.push_back(std::move(message)); }
  bool idle() const { return queue_.empty(); }
  /// Sends what the kernel takes.
  void progress();
  /// Why nothing can be sent any more; empty while it can.
  const std::string& why_lost() const { return why_lost_; }

 private:
  void connect();
  bool connected();
  bool send_some();
  void lose(int error);

  std::string address_;
  TcpHello hello_;
  Descriptor socket_;
  bool connected_ = false;
  size_t hello_sent_ = 0, header_sent_ = 0;
  TcpHeader header_;  // of the first message
  TcpMessages queue_;
  std::string why_lost_;
};

/// The end that receives.
class ReceivingStream {
 public:
  /// Posts a message that is to come, or takes one that came before it was wanted.
  void push(const std::shared_ptr<TcpMessage>& message);
  void accept(Descriptor socket) { socket_ = std::move(socket); }
  bool connected() const { return socket_.get() >= 0; }
  /// Whether anything is wanted of it.
  bool idle() const { return wanted_.empty(); }
  /// Receives what is there.
  void progress();
  const std::string& why_lost() const { return why_lost_; }

 private:
  struct Early {
    TcpMessage message;
    std::vector<std::byte> room;
  };

  void begin_message();
  bool receive(std::byte* to, size_t bytes, int64_t& moved);
  void finish_message();

  Descriptor socket_;
  int64_t header_received_ = 0;
  TcpHeader header_;
  TcpMessages wanted_;
  std::shared_ptr<TcpMessage> current_;  // under way, and wanted
  Early* current_early_ = nullptr;       // under way, and not wanted yet
  std::list<Early> early_;
  std::string why_lost_;
};

/// An accepted connection that has not said yet whose it is.
class TcpNewcomer {
 public:
  explicit TcpNewcomer(Descriptor socket) : socket_(std::move(socket)) {}
  /// Silent for so long that it has nothing to say.
  bool late() const { return std::chrono::steady_clock::now() - came_ > std::chrono::seconds(60); }
  enum class Said { nothing_yet, hello, nonsense };
  /// Reads on. `secret` is what a hello must know.
  Said look(uint64_t secret);
  int64_t rank() const { return hello_.rank; }
  Descriptor take() { return std::move(socket_); }

 private:
  Descriptor socket_;
  std::chrono::steady_clock::time_point came_ = std::chrono::steady_clock::now();
  TcpHello hello_;
  size_t received_ = 0;
};

}  // namespace meshrt
