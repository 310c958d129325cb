// Additive scores of blocks of queries and keys: v . tanh(a + b) and its derivatives, in registers.
//
// r = 1 / (1 + exp(-2 a) exp(-2 b)) is the sigmoid of 2 (a + b), so v . tanh(a + b) = 2 v . r - sum(v), and the
// derivative of tanh is 4 r (1 - r). Both sides lie in rows of a whole number of vectors, and v is 0 behind its end.

#pragma once

#include "native/loops.hpp"

namespace pairs {

using namespace loops;

constexpr int64_t kSome = 64;                      // keys whose sums are held before they are added up
constexpr int kRows = kRegisters == 32 ? 4 : 2;    // queries that share a load of a key; and of keys:
template <int R>
constexpr int kColumns = R == 1 ? 2 * kRows : 4;

// r of a vector of hidden units: of exp(-2 a) and exp(-2 b), or of a and b themselves where no product of such
// exponentials may be taken.
template <typename T, bool kExponential>
inline Vec<T> ratio(Vec<T> x, Vec<T> y) {
    if constexpr (kExponential) return inverse<T>(1 + x * y);
    constexpr T far = 80;  // beyond it r is 0 or 1
    Vec<T> sum = -2 * (x + y);
    sum = sum > far ? all<T>(far) : sum;
    sum = sum < -far ? all<T>(-far) : sum;
    return inverse<T>(1 + exponential<T>(sum));
}

// v . r of R queries and C keys, not yet added up over a vector's numbers; a row of `sums` is kSome long.
template <typename T, bool kExponential, int R, int C>
inline void block(int64_t wide, const T* x, const T* y, const T* v, Vec<T>* sums) {
    Vec<T> held[R][C] = {};
    for (int64_t h = 0; h < wide; h += kLanes<T>) {
        Vec<T> weight = load(v + h), rows[R];
        for (int r = 0; r < R; ++r) rows[r] = load(x + r * wide + h);
        for (int c = 0; c < C; ++c) {
            // One query takes its keys from memory faster than they come: the next ones are prefetched meanwhile.
            if constexpr (R == 1) __builtin_prefetch(y + (C + c) * wide + h);
            Vec<T> column = load(y + c * wide + h);
            for (int r = 0; r < R; ++r) held[r][c] += weight * ratio<T, kExponential>(rows[r], column);
        }
    }
    for (int r = 0; r < R; ++r)
        for (int c = 0; c < C; ++c) sums[r * kSome + c] = held[r][c];
}

// Scores of R queries and `keys` keys, to[r · stride + k] = 2 v . r - total.
template <typename T, bool kExponential, int R>
inline void scores_of(int64_t keys, int64_t wide, const T* x, const T* y, const T* v, T total, T* to, int64_t stride) {
    constexpr int L = kLanes<T>;
    alignas(kBytes) Vec<T> sums[R * kSome];
    for (int64_t begin = 0; begin < keys; begin += kSome) {
        int64_t count = std::min(kSome, keys - begin), k = 0;
        const T* from = y + begin * wide;
        for (; k + kColumns<R> <= count; k += kColumns<R>)
            block<T, kExponential, R, kColumns<R>>(wide, x, from + k * wide, v, sums + k);
        for (; k < count; ++k) block<T, kExponential, R, 1>(wide, x, from + k * wide, v, sums + k);
        for (int r = 0; r < R; ++r) {
            const Vec<T>* held = sums + r * kSome;
            T* row = to + r * stride + begin;
            for (k = 0; k + L <= count; k += L) store<T>(row + k, 2 * totals<T>(held + k) - total);
            for (; k < count; ++k) row[k] = 2 * sum<T>(held[k]) - total;
        }
    }
}

// Scores of any number of queries.
template <typename T, bool kExponential>
inline void scores(int64_t queries, int64_t keys, int64_t wide, const T* x, const T* y, const T* v, T total, T* to,
                   int64_t stride) {
    int64_t q = 0;
    for (; q + kRows <= queries; q += kRows)
        scores_of<T, kExponential, kRows>(keys, wide, x + q * wide, y, v, total, to + q * stride, stride);
    for (; q < queries; ++q)
        scores_of<T, kExponential, 1>(keys, wide, x + q * wide, y, v, total, to + q * stride, stride);
}

// What comes back to one vector of hidden units of R queries and `keys` keys, for gradients g of their scores: sums of
// g r (1 - r) over keys, times 4 v, to `into_x`, those over queries are added to `below`, and those of g r to `into_v`.
// The keys' vectors lie one behind the other, so that they do not push each other out of the cache.
template <typename T, bool kExponential, bool kAdd, int R>
inline void back_of(int64_t keys, int64_t wide, const T* x, const Vec<T>* y, Vec<T> slope, const T* g, int64_t stride,
                    T* into_x, Vec<T>* below, T* into_v) {
    Vec<T> rows[R], steep[R] = {}, whole[R] = {};
    for (int r = 0; r < R; ++r) rows[r] = load(x + r * wide);
    for (int64_t k = 0; k < keys; ++k) {
        Vec<T> column = y[k], over = below[k];
        for (int r = 0; r < R; ++r) {
            Vec<T> here = ratio<T, kExponential>(rows[r], column);
            Vec<T> part = g[r * stride + k] * here;
            whole[r] += part;
            part -= part * here;
            steep[r] += part;
            over += part;
        }
        below[k] = over;
    }
    for (int r = 1; r < R; ++r) whole[0] += whole[r];
    store<T>(into_v, load(into_v) + whole[0]);
    for (int r = 0; r < R; ++r) {
        T* to = into_x + r * wide;
        store<T>(to, kAdd ? load(to) + steep[r] * slope : steep[r] * slope);
    }
}

// The same of one query for all hidden units from `begin` to `end`, along its keys' rows as they lie in memory.
template <typename T, bool kExponential, bool kAdd>
inline void back_of_one(int64_t keys, int64_t wide, int64_t begin, int64_t end, const T* x, const T* y, const T* v,
                        const T* g, T* into_x, T* into_y, T* into_v, Vec<T>* scratch) {
    constexpr int L = kLanes<T>;
    int64_t vectors = (end - begin) / L;
    Vec<T>*steep = scratch, *whole = scratch + vectors;
    std::fill(scratch, scratch + 2 * vectors, Vec<T>{});
    for (int64_t k = 0; k < keys; ++k)
        for (int64_t n = 0, h = begin; n < vectors; ++n, h += L) {
            Vec<T> here = ratio<T, kExponential>(load(x + h), load(y + k * wide + h));
            Vec<T> part = g[k] * here;
            whole[n] += part;
            part -= part * here;
            steep[n] += part;
            T* to = into_y + k * wide + h;
            Vec<T> over = part * (4 * load(v + h));
            store<T>(to, kAdd ? load(to) + over : over);
        }
    for (int64_t n = 0, h = begin; n < vectors; ++n, h += L) {
        Vec<T> over = steep[n] * (4 * load(v + h));
        store<T>(into_x + h, kAdd ? load(into_x + h) + over : over);
        store<T>(into_v + h, load(into_v + h) + whole[n]);
    }
}

// Vectors of scratch that `back` wants.
template <typename T>
constexpr int64_t scratch_of(int64_t keys, int64_t wide) {
    return 2 * std::max(keys, wide / kLanes<T>);
}

// The same for any number of queries and the hidden units from `begin` to `end`, whole vectors: the gradients are
// written to `into_x` and `into_y`, or added there, and the sums of g r added to `into_v`.
template <typename T, bool kExponential, bool kAdd>
inline void back(int64_t queries, int64_t keys, int64_t wide, int64_t begin, int64_t end, const T* x, const T* y,
                 const T* v, const T* g, int64_t stride, T* into_x, T* into_y, T* into_v, Vec<T>* scratch) {
    if (queries == 1)
        return back_of_one<T, kExponential, kAdd>(keys, wide, begin, end, x, y, v, g, into_x, into_y, into_v, scratch);
    Vec<T>*columns = scratch, *below = scratch + keys;
    for (int64_t h = begin; h < end; h += kLanes<T>) {
        Vec<T> slope = 4 * load(v + h);
        for (int64_t k = 0; k < keys; ++k) columns[k] = load(y + k * wide + h), below[k] = Vec<T>{};
        int64_t q = 0;
        for (; q + kRows <= queries; q += kRows)
            back_of<T, kExponential, kAdd, kRows>(keys, wide, x + q * wide + h, columns, slope, g + q * stride, stride,
                                                  into_x + q * wide + h, below, into_v + h);
        for (; q < queries; ++q)
            back_of<T, kExponential, kAdd, 1>(keys, wide, x + q * wide + h, columns, slope, g + q * stride, stride,
                                              into_x + q * wide + h, below, into_v + h);
        for (int64_t k = 0; k < keys; ++k) {
            T* to = into_y + k * wide + h;
            store<T>(to, kAdd ? load(to) + below[k] * slope : below[k] * slope);
        }
    }
}

}  // namespace pairs
