// slow_wire: joins interfaces like a switch whose cables are long: every frame arrives DELAY seconds after it was sent,
// or, with probability LOSS, never.
//
//   slow_wire DELAY LOSS SEED TAP...
//
// TAP... are numbers of open, nonblocking files of tap interfaces with IFF_VNET_HDR. Each line on stdin is answered by
// one on stdout: the number of frames carried so far, and of those lost. Ends with stdin or on SIGTERM, after such a
// line.
//
// It takes little processor time, so that what it joins can be measured beside it. Where nothing is to be lost, a
// packet that TCP leaves to the interface to cut (up to 64 KiB) is carried whole, as one frame. Else frames are as
// long as on a cable, since each of them is lost or not by itself.
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using HardwareAddress = std::array<unsigned char, 6>;

/// A frame on its way, behind the header by which the kernel says what is still to be cut and summed in it.
struct Frame {
  static constexpr int header = 10;  // virtio_net_hdr: its own file does not compile as C++
  static constexpr size_t shortest = header + 2 * sizeof(HardwareAddress);

  HardwareAddress address(size_t place) const {
    HardwareAddress found;
    std::memcpy(found.data(), bytes.data() + header + place * found.size(), found.size());
    return found;
  }
  HardwareAddress target() const { return address(0); }
  HardwareAddress sender() const { return address(1); }

  Clock::time_point arrival;
  size_t port = 0;  ///< it came from
  size_t length = 0;
  std::array<unsigned char, header + (68 << 10)> bytes;
};

class Wire {
 public:
  Wire(Clock::duration delay, double loss, uint64_t seed, std::span<const int> taps)
      : delay_(delay), loses_(loss), dice_(seed), taps_(taps) {}

  /// Takes what a port has, up to some frames: others must not wait for it for long.
  void take(size_t port) {
    constexpr int most = 8;
    for (int taken = 0; taken < most; ++taken) {
      std::unique_ptr<Frame> frame = spare();
      const ssize_t length = read(taps_[port], frame->bytes.data(), frame->bytes.size());
      if (length < static_cast<ssize_t>(Frame::shortest)) return spares_.push_back(std::move(frame));
      port_of_[frame->sender()] = port;
      if (loses_(dice_)) {
        ++lost_;
        spares_.push_back(std::move(frame));
        continue;
      }
      frame->arrival = Clock::now() + delay_;
      frame->port = port;
      frame->length = static_cast<size_t>(length);
      under_way_.push_back(std::move(frame));
    }
  }

  /// Lets arrive what is due. How long nothing is from now on; negative: nothing is under way.
  std::chrono::nanoseconds deliver() {
    while (!under_way_.empty()) {
      if (const auto wait = under_way_.front()->arrival - Clock::now(); wait.count() > 0) return wait;
      deliver(*under_way_.front());
      spares_.push_back(std::move(under_way_.front()));
      under_way_.pop_front();
    }
    return std::chrono::nanoseconds(-1);
  }

  void say_counts() const {
    std::printf("%lld %lld\n", static_cast<long long>(carried_), static_cast<long long>(lost_));
    std::fflush(stdout);
  }

 private:
  std::unique_ptr<Frame> spare() {
    if (spares_.empty()) return std::unique_ptr<Frame>(new Frame);  // its bytes as they are: most are never used
    std::unique_ptr<Frame> frame = std::move(spares_.back());
    spares_.pop_back();
    return frame;
  }

  /// To the port that its target has sent from, or to all others.
  void deliver(const Frame& frame) {
    const auto found = port_of_.find(frame.target());
    for (size_t port = 0; port < taps_.size(); ++port) {
      if (found == port_of_.end() ? port == frame.port : port != found->second) continue;
      ++carried_;
      // An interface that is down takes nothing, which is no fault of the wire.
      [[maybe_unused]] const ssize_t taken = write(taps_[port], frame.bytes.data(), frame.length);
    }
  }

  Clock::duration delay_;
  std::bernoulli_distribution loses_;
  std::mt19937_64 dice_;
  std::span<const int> taps_;
  int64_t carried_ = 0, lost_ = 0;
  std::map<HardwareAddress, size_t> port_of_;
  std::deque<std::unique_ptr<Frame>> under_way_;  // all take as long, so they arrive in the order in which they come
  std::vector<std::unique_ptr<Frame>> spares_;
};

/// A file that can be read when SIGTERM has come.
int file_of_termination() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  return signalfd(-1, &signals, SFD_CLOEXEC);
}

/// A cable does not wait until a processor is free. What is refused is done without: then frames may come late.
void hurry() {
  const sched_param least{.sched_priority = sched_get_priority_min(SCHED_FIFO)};
  sched_setscheduler(0, SCHED_FIFO, &least);
  prctl(PR_SET_TIMERSLACK, 1UL);
}

int fail(const char* what) {
  std::perror(what);
  return 1;
}

}  // namespace

int main(int count, char** words) {
  if (count < 5) {
    std::fputs("usage: slow_wire DELAY LOSS SEED TAP...\n", stderr);
    return 2;
  }
  const std::chrono::duration<double> delay(std::atof(words[1]));
  const double loss = std::atof(words[2]);
  std::vector<int> taps;
  std::vector<pollfd> files{{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0},
                            {.fd = file_of_termination(), .events = POLLIN, .revents = 0}};
  const size_t first_tap = files.size();
  for (int word = 4; word < count; ++word) {
    const int tap = std::atoi(words[word]);
    const unsigned offloads = loss > 0 ? 0 : TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6;
    if (ioctl(tap, TUNSETVNETHDRSZ, &Frame::header) != 0 || ioctl(tap, TUNSETOFFLOAD, offloads) != 0)
      return fail(words[word]);
    taps.push_back(tap);
    files.push_back({.fd = tap, .events = POLLIN, .revents = 0});
  }
  hurry();
  Wire wire(std::chrono::duration_cast<Clock::duration>(delay), loss, std::strtoull(words[3], nullptr, 10), taps);
  for (;;) {
    const std::chrono::nanoseconds idle = wire.deliver();
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(idle);
    const timespec timeout{.tv_sec = seconds.count(), .tv_nsec = (idle - seconds).count()};
    if (ppoll(files.data(), files.size(), idle.count() < 0 ? nullptr : &timeout, nullptr) < 0 && errno != EINTR)
      return fail("poll");
    for (size_t file = first_tap; file < files.size(); ++file) {
      if (files[file].revents & POLLIN) wire.take(file - first_tap);
      if (files[file].revents & (POLLERR | POLLHUP | POLLNVAL)) files[file].fd = -1;  // its host is gone
    }
    if (files[1].revents) break;
    if (!files[0].revents) continue;
    std::array<char, 64> lines;
    const ssize_t length = read(STDIN_FILENO, lines.data(), lines.size());
    if (length <= 0) break;
    for (ssize_t i = 0; i < length; ++i)
      if (lines[static_cast<size_t>(i)] == '\n') wire.say_counts();
  }
  wire.say_counts();
  return 0;
}
