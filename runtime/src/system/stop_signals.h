// stop_signals.h: the signals that ask a run to end in order, sent to whichever of its processes.
#pragma once
#include <algorithm>
#include <array>
#include <csignal>

namespace meshrt {

/// Clusters send SIGTERM and SIGUSR1 before they take a machine away, a terminal SIGINT for Ctrl-C and SIGHUP when it
/// is closed.
inline constexpr std::array stop_signals = {SIGTERM, SIGUSR1, SIGINT, SIGHUP};

inline bool is_stop_signal(int signal) { return std::ranges::count(stop_signals, signal) > 0; }

}  // namespace meshrt
