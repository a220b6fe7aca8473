// shared_list.h: a list whose copies share its elements until one of them is changed: placements are copied and
// compared far more often than changed.
#pragma once
#include <algorithm>
#include <compare>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <vector>

namespace mesh {

/// Reads as a std::vector does. What may change an element, the iterators of a list that is not const among them, first
/// gives the list elements of its own: a reference from there is not kept beyond the next copy of the list.
template <class T>
class SharedList {
 public:
  using value_type = T;
  using iterator = typename std::vector<T>::iterator;
  using const_iterator = typename std::vector<T>::const_iterator;

  SharedList() = default;
  explicit SharedList(size_t size) : SharedList(std::vector<T>(size)) {}
  SharedList(std::initializer_list<T> elements) : SharedList(std::vector<T>(elements)) {}
  SharedList(std::vector<T> elements) {
    if (!elements.empty()) elements_ = std::make_shared<std::vector<T>>(std::move(elements));
  }

  size_t size() const { return elements_ ? elements_->size() : 0; }
  bool empty() const { return size() == 0; }
  const T& operator[](size_t at) const { return (*elements_)[at]; }
  const_iterator begin() const { return elements_ ? elements_->cbegin() : const_iterator{}; }
  const_iterator end() const { return elements_ ? elements_->cend() : const_iterator{}; }

  T& operator[](size_t at) { return own()[at]; }
  iterator begin() { return elements_ ? own().begin() : iterator{}; }
  iterator end() { return elements_ ? own().end() : iterator{}; }
  void push_back(T element) { own().push_back(std::move(element)); }
  void push_front(T element) { own().insert(own().begin(), std::move(element)); }
  void pop_front() { own().erase(own().begin()); }

  bool operator==(const SharedList& other) const {
    return elements_ == other.elements_ || (size() == other.size() && std::equal(begin(), end(), other.begin()));
  }
  std::compare_three_way_result_t<T> operator<=>(const SharedList& other) const {
    if (elements_ == other.elements_) return std::strong_ordering::equal;
    return std::lexicographical_compare_three_way(begin(), end(), other.begin(), other.end());
  }

 private:
  std::vector<T>& own() {
    if (!elements_) elements_ = std::make_shared<std::vector<T>>();
    else if (elements_.use_count() > 1) elements_ = std::make_shared<std::vector<T>>(*elements_);
    return *elements_;
  }

  std::shared_ptr<std::vector<T>> elements_;  // none: empty
};

}  // namespace mesh
