// What all loops over dot products share that know of no call: the sizes of strips and panels, and memory.

#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <new>

#include "native/loops.hpp"

namespace dot {

using loops::kLanes;
using loops::load;
using loops::share;
using loops::store;
using loops::Vec;
using loops::View;
using loops::whole;

constexpr double kLog2e = 1.44269504088896340736, kLn2 = 0.69314718055994530942;
constexpr int64_t kStrip = loops::kRegisters == 32 ? 12 : 6;  // rows at once, by vectors
template <typename T>
constexpr int64_t kPanel = 2 * kLanes<T>;  // columns at once
template <typename T>
constexpr int64_t kTile = 96 * kPanel<T> / 8;  // keys: whole panels
constexpr int64_t kMostRows = 96, kMostStrips = 8;  // of a block, however its products are made

template <typename T>
constexpr T kNever = -std::numeric_limits<T>::infinity();

template <typename T>
struct Buffer {
    T* at;
    explicit Buffer(int64_t size) : at(static_cast<T*>(::operator new(size * sizeof(T) + 64, std::align_val_t{64}))) {}
    ~Buffer() { ::operator delete(at, std::align_val_t{64}); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
};

}  // namespace dot
