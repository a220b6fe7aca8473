// stop_request.h: signals (system/stop_signals.h) as a wish that the run ends in order.
#pragma once

namespace meshrt {

/// While one of these lives, these signals are noted instead of ending the process, but those that are ignored already
/// (`nohup`). A second SIGINT ends it at once. Ranks that are threads of one process each have one.
class StopRequest {
 public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  /// The signal that came, or 0.
  static int signal();
};

}  // namespace meshrt
