// Products with the rows of one window: its scores, its weighted sum, and the backward pass of both.

#pragma once

#include "native/loops.hpp"

namespace local_rows {

using namespace loops;

constexpr int kSome = 4;  // rows at a time

// out[w] = one · row w
template <typename T>
void dots(const T* one, const T* row, int64_t step, int64_t count, int64_t width, T* out) {
    constexpr int L = kLanes<T>;
    int64_t full = width / L * L;
    auto some = [&](int64_t w, auto number) {
        constexpr int N = decltype(number)::value;
        Vec<T> sums[N] = {};
        const T* from = row + w * step;
        for (int64_t c = 0; c < full; c += L) {
            Vec<T> x = load(one + c);
            for (int n = 0; n < N; ++n) sums[n] += x * load(from + n * step + c);
        }
        for (int n = 0; n < N; ++n) {
            T total = halved<T>(sums[n]);
            for (int64_t c = full; c < width; ++c) total += one[c] * from[n * step + c];
            out[w + n] = total;
        }
    };
    int64_t w = 0;
    for (; w + kSome <= count; w += kSome) some(w, std::integral_constant<int, kSome>());
    for (; w < count; ++w) some(w, std::integral_constant<int, 1>());
}

// out = sum of the rows, each times its weight
template <typename T>
void mix(const T* weight, const T* row, int64_t step, int64_t count, int64_t width, T* out) {
    constexpr int L = kLanes<T>;
    auto some = [&](int64_t w, auto number) {
        constexpr int N = decltype(number)::value;
        const T* from = row + w * step;
        int64_t c = 0;
        for (; c + L <= width; c += L) {
            Vec<T> sums = w ? load(out + c) : Vec<T>{};
            for (int n = 0; n < N; ++n) sums += weight[w + n] * load(from + n * step + c);
            store(out + c, sums);
        }
        for (; c < width; ++c) {
            T total = w ? out[c] : T(0);
            for (int n = 0; n < N; ++n) total += weight[w + n] * from[n * step + c];
            out[c] = total;
        }
    };
    if (!count) std::fill(out, out + width, T(0));
    int64_t w = 0;
    for (; w + kSome <= count; w += kSome) some(w, std::integral_constant<int, kSome>());
    for (; w < count; ++w) some(w, std::integral_constant<int, 1>());
}

// row w += weight · one
template <typename T>
void spread(const T* weight, const T* one, int64_t step, int64_t count, int64_t width, T* row) {
    constexpr int L = kLanes<T>;
    for (int64_t w = 0; w < count; ++w, row += step) {
        int64_t c = 0;
        for (; c + L <= width; c += L) store(row + c, load(row + c) + weight[w] * load(one + c));
        for (; c < width; ++c) row[c] += weight[w] * one[c];
    }
}

// Whether a number is not finite: 0 if none is, else NaN.
template <typename T>
T nonfinite(const T* numbers, int64_t count) {
    constexpr int L = kLanes<T>;
    Vec<T> sums = {};
    int64_t c = 0;
    for (; c + L <= count; c += L) sums += load(numbers + c) * T(0);
    T total = halved<T>(sums);
    for (; c < count; ++c) total += numbers[c] * T(0);
    return total;
}

}  // namespace local_rows
