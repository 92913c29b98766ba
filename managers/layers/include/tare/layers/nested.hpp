// Allocators in allocators: one that is cleared clears those in it.

#pragma once

#include "tare/layers/concepts.hpp"

namespace tare::layers {

template <Clearable Super>
class Nested : public Super {
 public:
  Nested() = default;
  explicit Nested(Nested& parent) : parent_(&parent), next_(parent.first_child_) {
    if (next_ != nullptr) next_->previous_ = this;
    parent.first_child_ = this;
  }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;
  // Those in this one are cleared, and have no parent from then on.
  ~Nested() {
    ClearChildren();
    while (first_child_ != nullptr) first_child_->Leave();
    Leave();
  }

  void Clear() {
    ClearChildren();
    Super::Clear();
  }

 private:
  void ClearChildren() {
    for (Nested* child = first_child_; child != nullptr; child = child->next_) child->Clear();
  }

  void Leave() {
    if (parent_ == nullptr) return;
    (previous_ != nullptr ? previous_->next_ : parent_->first_child_) = next_;
    if (next_ != nullptr) next_->previous_ = previous_;
    parent_ = nullptr;
  }

  Nested* parent_ = nullptr;
  Nested* first_child_ = nullptr;
  Nested* next_ = nullptr;
  Nested* previous_ = nullptr;
};

}  // namespace tare::layers
