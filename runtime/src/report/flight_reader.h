// flight_reader.h: what flight recorders have kept, after the fact: of one rank for the launcher's verdict, of a whole
// run for `meshrun postmortem`.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace meshrt {

struct RecordedCall {
  uint64_t number = 0;
  int64_t begun = 0, ended = 0;  ///< nanoseconds since 1970; ended 0: under way
  int64_t step = 0;
  bool started = false;  ///< without waiting for it
  std::string text;      ///< "all_reduce of 'loss' (1 x f32, sum) at gpt.mesh:52"
};

struct Flight {
  int rank = 0, ranks = 0, pid = 0;
  std::string host, program, failure;
  int64_t step = 0;
  std::string action;               ///< of a pipeline's row, "1F3"; empty: none
  std::string awaited;              ///< the call that it waits in; empty: none
  bool finished = false;            ///< in order
  std::vector<RecordedCall> calls;  ///< the last ones, oldest first
};

/// Nothing when the file is none of a recorder.
std::optional<Flight> read_flight(const std::string& path);

/// The folder of the run that a recorder's file is in.
std::string folder_of_recorder(const std::string& path);

/// "in step 12; its last call, all_reduce of 'loss' ..., was done"; empty when there is nothing to tell.
std::string last_words(const Flight& flight);

/// Where ranks are, those in one call together: "rank 2 is in step 3 in all_reduce of ...; ranks 0, 1 are ...".
std::string whereabouts(const std::vector<Flight>& flights);

/// What became of a run: a verdict, then each rank with its last calls. Throws Failure (Cause::data) when `folder`
/// holds no flight recorders.
std::string postmortem(const std::string& folder);

}  // namespace meshrt
