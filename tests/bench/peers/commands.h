// commands.h: how tests/bench/collectives drives a rank of any library: rank r reads lines "COLLECTIVE BYTES REPEATS"
// from FOLDER/NAME.r.in, makes the calls and answers in FOLDER/NAME.r.out with the seconds of each, or with "-" where
// the library lacks it. Between commands it sleeps in the read, so that the others have the processors.
#pragma once
#include <chrono>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace bench {

constexpr long most_bytes = 64l << 20;  // of a buffer

/// A rank of one library. A call works on floats: of an all-reduce, a broadcast and a reduce-scatter `bytes` are those
/// of the whole, of an all-gather of the result, of an all-to-all those that each rank sends.
struct Peer {
  virtual ~Peer() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  virtual float* input(const std::string& collective, long count) = 0;   ///< that the call will read, of `count` floats
  virtual const float* output(const std::string& collective) const = 0;  ///< that it has written
  virtual void barrier() = 0;
  virtual bool call(const std::string& collective, long count) = 0;  ///< false: the library lacks it
};

/// Floats that the call reads on each rank.
inline long inputs_of(const std::string& collective, long count, int ranks) {
  return collective == "all_gather" ? count / ranks : count;
}

inline std::string measure(Peer& peer, const std::string& collective, long bytes, int repeats) {
  using Clock = std::chrono::steady_clock;
  const long count = bytes / static_cast<long>(sizeof(float)), given = inputs_of(collective, count, peer.ranks());
  std::ostringstream answer;
  constexpr int warm_up = 2;
  for (int i = -warm_up; i < repeats; ++i) {
    // The owner writes its input before each call, as a step does: its cache lines are this core's alone.
    float* input = peer.input(collective, given);
    for (long k = 0; k < given; ++k) input[k] = static_cast<float>(peer.rank() + 1);
    peer.barrier();
    const auto start = Clock::now();
    if (!peer.call(collective, count)) return "-";
    const std::chrono::duration<double> time = Clock::now() - start;
    if (i >= 0) answer << time.count() << " ";
  }
  const float sum = static_cast<float>(peer.ranks() * (peer.ranks() + 1)) / 2;
  const float expected = collective == "all_reduce" || collective == "reduce_scatter" ? sum : 1;
  if (collective != "copy" && peer.output(collective)[0] != expected) return "wrong";
  return answer.str();
}

inline void serve(Peer& peer, const std::string& folder, const std::string& name) {
  const std::string file = folder + "/" + name + "." + std::to_string(peer.rank());
  std::ifstream commands(file + ".in");
  std::ofstream answers(file + ".out");
  for (std::string line; std::getline(commands, line);) {
    std::istringstream words(line);
    std::string collective;
    long bytes = 0;
    int repeats = 0;
    if (words >> collective >> bytes >> repeats) answers << measure(peer, collective, bytes, repeats) << std::endl;
  }
}

}  // namespace bench
