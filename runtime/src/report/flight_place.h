// flight_place.h: where the file of a flight recorder lies: in this host's memory (/dev/shm) while its rank runs, so
// that a rank never waits for the disk of the run's folder, and never dies with it. In the folder is a link to it; at
// the end the file takes the link's place. At every moment a link in the folder leads to what is in memory: a rank may
// be killed at any of them, also by its launcher while it brings its file home, and then its launcher finishes that.
// What a killed launcher leaves, `meshrun postmortem` and the next run in the folder take away.
#pragma once
#include <string>

#include "system/descriptor.h"

namespace meshrt {

/// A new file of so many bytes for the recorder `path`, whose room is reserved; in the folder itself where there is no
/// /dev/shm, or no links. -1 where there is no room. What was there is removed.
Descriptor make_flight_file(const std::string& path, size_t bytes);

/// Moves what `path` leads to to its place, or finishes such a move that was stopped. Where that cannot be written,
/// everything stays as it is, and false.
bool bring_flight_home(const std::string& path);

/// What a rank of this host that is gone has left undone of its recorder `path`, however far it came.
void finish_flight(const std::string& path);

/// Removes the file and the links to it.
void drop_flight(const std::string& path);

/// Where in the memory of its host a recorder is, whose link is here and whose file is not; empty: that is not so.
std::string flight_elsewhere(const std::string& path);

}  // namespace meshrt
