#include "codegen/program/list_places.h"

namespace mesh {

ListPlaces::ListPlaces(const Program& program, const Steps& steps) : program_(program) {
  for (const Step& step : steps) {
    note(step, place_.size());
    place_.push_back(place_.size());
  }
}

void ListPlaces::note(const Step& step, size_t number) {
  const StepSets sets = sets_of(program_, step);
  for (const uint32_t memory : sets.reads) readers_[memory].push_back(number);
  for (const uint32_t memory : sets.writes) writers_[memory].push_back(number);
}

void ListPlaces::add_places(const std::unordered_map<uint32_t, Numbers>& users, uint32_t memory,
                            std::vector<size_t>& places) const {
  const auto found = users.find(memory);
  if (found == users.end()) return;
  for (const size_t step : found->second)
    if (place_[step] != nowhere) places.push_back(place_[step]);
}

std::vector<size_t> ListPlaces::writers(uint32_t memory) const {
  std::vector<size_t> places;
  add_places(writers_, memory, places);
  return places;
}

std::vector<size_t> ListPlaces::in_the_way(const StepSets& sets) const {
  std::vector<size_t> places;
  for (const uint32_t memory : sets.writes) add_places(readers_, memory, places);
  for (const auto* memories : {&sets.reads, &sets.writes})
    for (const uint32_t memory : *memories) add_places(writers_, memory, places);
  return places;
}

void ListPlaces::put_in(size_t at, const Step& step) {
  for (size_t& place : place_)
    if (place != nowhere && place >= at) ++place;
  stands(at, step);
}

void ListPlaces::rearranged(const std::vector<size_t>& now) {
  for (size_t& place : place_)
    if (place != nowhere) place = now[place];
}

void ListPlaces::stands(size_t at, const Step& step) {
  note(step, place_.size());
  place_.push_back(at);
}

void ListPlaces::moved(size_t from, size_t to) {
  for (size_t& place : place_)
    if (place == from) place = to;
    else if (to <= place && place < from) ++place;
}

}  // namespace mesh
