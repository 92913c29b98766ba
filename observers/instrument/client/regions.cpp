// SPDX-License-Identifier: GPL-2.0-or-later
// libtare-instrument-regions.so: preloaded into programs that the tool records, it has the
// functions of regions.hpp, and hands each call on to the tool.

#include "regions.hpp"

#include <valgrind.h>

#include <cstddef>
#include <cstdint>

#include "requests.h"

namespace tare::instrument {
namespace {

using regions::Region;

std::uintptr_t Ask(std::uintptr_t request, std::uintptr_t first = 0, const void* second = nullptr,
                   std::uintptr_t third = 0, std::uintptr_t fourth = 0,
                   const void* fifth = nullptr) {
  return VALGRIND_DO_CLIENT_REQUEST_EXPR(0, request, first, second, third, fourth, fifth);
}

// Where no frame is given it is that of the function here.
#define FRAME (frame != nullptr ? frame : __builtin_frame_address(0))

Region Create(Region parent, const void* frame) {
  return static_cast<Region>(Ask(REQUEST_CREATE, parent, FRAME));
}

void Allocate(Region region, const void* object, std::size_t bytes, std::size_t usable,
              const void* frame) {
  Ask(REQUEST_ALLOCATE, region, object, bytes, usable, FRAME);
}

void Free(const void* object, const void*) { Ask(REQUEST_FREE, 0, object); }
void Clear(Region region, const void*) { Ask(REQUEST_CLEAR, region); }
void Destroy(Region region, const void*) { Ask(REQUEST_DESTROY, region); }
void BeginOwn() { Ask(REQUEST_BEGIN_OWN); }
void EndOwn() { Ask(REQUEST_END_OWN); }

}  // namespace
}  // namespace tare::instrument

extern "C" __attribute__((
    visibility("default"))) constinit const tare::regions::Recorder tare_recorder_regions = {
    .create = tare::instrument::Create,
    .allocate = tare::instrument::Allocate,
    .free = tare::instrument::Free,
    .clear = tare::instrument::Clear,
    .destroy = tare::instrument::Destroy,
    .begin_own = tare::instrument::BeginOwn,
    .end_own = tare::instrument::EndOwn,
};
