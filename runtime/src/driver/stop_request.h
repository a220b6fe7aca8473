// stop_request.h: SIGTERM and SIGUSR1 as a wish that the run ends in order: clusters send them before they take a
// machine away.
#pragma once

namespace meshrt {

/// While one of these lives, the two signals are noted instead of ending the process. Ranks that are threads of one
/// process each have one.
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
