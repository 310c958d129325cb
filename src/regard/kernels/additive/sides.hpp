// The two sides of additive scores, for one item: what a pair's product is taken of.
//
// Exponentials overflow, tanh does not, so one side must be narrow, perhaps once its middle, hidden unit by hidden unit,
// went over to the other one; that one may be cut off, for beyond it tanh is ±1. Else both are given on as they are.

#pragma once

#include "native/loops.hpp"

namespace pairs {

using namespace loops;

template <typename T>
constexpr T kReach = std::is_same_v<T, float> ? T(17) : T(160);  // the widest narrow side
template <typename T>
constexpr T kCut = std::is_same_v<T, float> ? T(26.5) : T(180);  // their sum is below half the logarithm of the largest

// The largest |x|, NaN where there is a NaN or an infinite number.
template <typename T>
inline T width(int64_t size, const T* x) {
    Vec<T> most = {}, wrong = {};
    for (int64_t i = 0; i < size; i += kLanes<T>) {
        Vec<T> here = load(x + i);
        most = larger<T>(larger<T>(most, here), -here);
        wrong += here * 0;
    }
    return largest<T>(most) + sum<T>(wrong);
}

// to = exp(-2 (x + sign · middle)) for the hidden units from `begin` to `end`, the sum cut off.
template <typename T>
inline void exponentials(int64_t rows, int64_t wide, int64_t begin, int64_t end, T sign, const T* middle, const T* x,
                         T* to) {
    for (int64_t row = 0; row < rows; ++row)
        for (int64_t h = begin; h < end; h += kLanes<T>) {
            Vec<T> here = load(x + row * wide + h) + sign * load(middle + h);
            here = here > kCut<T> ? all<T>(kCut<T>) : here;
            here = here < -kCut<T> ? all<T>(-kCut<T>) : here;
            store<T>(to + row * wide + h, exponential<T>(-2 * here));
        }
}

// The middle of each hidden unit, and whether the side is narrow about it.
template <typename T>
inline bool centred(int64_t rows, int64_t wide, const T* x, T* middle) {
    bool narrow = true;
    for (int64_t h = 0; h < wide; h += kLanes<T>) {
        Vec<T> low = load(x + h), high = low, wrong = {};
        for (int64_t row = 0; row < rows; ++row) {
            Vec<T> here = load(x + row * wide + h);
            low = here < low ? here : low;
            high = larger<T>(high, here);
            wrong += here * 0;
        }
        Vec<T> half = high / 2 - low / 2;
        store<T>(middle + h, low + half);
        narrow = narrow && largest<T>(half) + sum<T>(wrong) < kReach<T>;
    }
    return narrow;
}

// An item's sides, made in memory that is used again for the next one.
template <typename T>
struct Sides {
    std::vector<T> query, key, middle;
    const T *x, *y;
    bool exponential;

    // `a` are all queries, `b` all keys of the item; `kept` is exp(-2 b) where that was made before, else null. Made are
    // the queries of `rows` from `first` on and all keys, in the hidden units from `begin` to `end`.
    void make(int64_t queries, int64_t keys, int64_t wide, int64_t first, int64_t rows, int64_t begin, int64_t end,
              const T* a, const T* b, const T* kept) {
        if (query.size() < size_t(rows * wide)) query.resize(rows * wide);
        middle.assign(wide, 0);
        x = query.data(), exponential = true;
        T sign = 1;
        if (kept == nullptr) {
            if (key.size() < size_t(keys * wide)) key.resize(keys * wide);
            y = key.data();
            if (!(width<T>(keys * wide, b) <= kReach<T>) && !(width<T>(queries * wide, a) <= kReach<T>)) {
                if (!centred<T>(keys, wide, b, middle.data())) {
                    sign = -1;
                    exponential = centred<T>(queries, wide, a, middle.data());
                }
            }
            if (!exponential) {
                x = a + first * wide, y = b;
                return;
            }
            exponentials<T>(keys, wide, begin, end, -sign, middle.data(), b, key.data());
        } else {
            y = kept;
        }
        exponentials<T>(rows, wide, begin, end, sign, middle.data(), a + first * wide, query.data());
    }
};

}  // namespace pairs
