#include "launch/outbox.h"

namespace meshrt {

void Outbox::send(int socket, const Message& message) {
  flush(socket);
  if (overflown() || (waiting_.empty() && offer_message(socket, message))) return;
  bytes_ += message.bytes.size() + sizeof message;
  waiting_.push_back(message);
}

void Outbox::flush(int socket) {
  while (!waiting_.empty() && !overflown() && offer_message(socket, waiting_.front())) {
    bytes_ -= waiting_.front().bytes.size() + sizeof(Message);
    waiting_.pop_front();
  }
}

}  // namespace meshrt
