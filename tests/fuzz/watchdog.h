// watchdog.h: what cannot be caught, a crash or no answer in time, ends a fuzzer with the number of the mutant.
#pragma once
#include <cstdint>
#include <initializer_list>

namespace mesh::fuzz {

/// From now on the process ends with code 1 at these signals, and where a mutant takes more than ten seconds of a
/// processor: on stderr the mutant's number, and how it ended.
void watch(std::initializer_list<int> signals);

/// The mutant that begins now.
void run_next(uint64_t number);

/// Where this and others write what was found: stderr, or a descriptor of the caller's.
void complain_to(int descriptor);
int complaints();

/// "mutant 17: ", to be written by whoever else ends the process.
const char* running();

}  // namespace mesh::fuzz
