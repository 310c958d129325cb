// Additive scores of all pairs of a query and a key, forward and backward, in one pass over each pair.
//
// Given x = exp(-2 a) of the queries and y = exp(-2 b) of the keys, r = 1 / (1 + x y) is the sigmoid of 2 (a + b), so
// v . tanh(a + b) = 2 v . r - sum(v), and the derivative of tanh is 4 r (1 - r). No product overflows: see additive.py.
//
#include "loops.hpp"

namespace {

constexpr int64_t kWide = 16;          // sums side by side, two registers of eight floats

using loops::share;

template <typename T>
T score(int64_t hidden, const T* __restrict x, const T* __restrict y, const T* __restrict v) {
    T sums[kWide] = {0};
    int64_t h = 0;
    for (; h + kWide <= hidden; h += kWide)
        for (int64_t i = 0; i < kWide; ++i) sums[i] += v[h + i] / (1 + x[h + i] * y[h + i]);
    T sum = 0;
    for (; h < hidden; ++h) sum += v[h] / (1 + x[h] * y[h]);
    for (int64_t i = 0; i < kWide; ++i) sum += sums[i];
    return sum;
}

// x (items, queries, hidden), y (items, keys, hidden), v (hidden) -> out (items, queries, keys)
template <typename T>
void forward(int64_t items, int64_t queries, int64_t keys, int64_t hidden, int64_t threads, const T* x, const T* y,
             const T* v, T* out) {
    T total = 0;
    for (int64_t h = 0; h < hidden; ++h) total += v[h];
    share(items * queries, 1, threads, items * queries * keys * hidden, [=](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row)
            for (int64_t k = 0; k < keys; ++k)
                out[row * keys + k] =
                    2 * score(hidden, x + row * hidden, y + (row / queries * keys + k) * hidden, v) - total;
    });
}

// Adds the sums of g r (1 - r) over keys to dx and over queries to dy, and those of g r to dv. Threads share hidden
// units, so that no two write to one place.
template <typename T>
void backward(int64_t items, int64_t queries, int64_t keys, int64_t hidden, int64_t threads, const T* x, const T* y,
              const T* g, T* dx, T* dy, T* dv) {
    share(hidden, kWide, threads, items * queries * keys * hidden, [=](int64_t begin, int64_t end) {
        int64_t count = end - begin;
        T* __restrict into_v = dv + begin;
        for (int64_t row = 0; row < items * queries; ++row) {
            const T* __restrict a = x + row * hidden + begin;
            T* __restrict into_a = dx + row * hidden + begin;
            for (int64_t k = 0; k < keys; ++k) {
                int64_t at = (row / queries * keys + k) * hidden + begin;
                const T* __restrict b = y + at;
                T* __restrict into_b = dy + at;
                T given = g[row * keys + k];
                for (int64_t h = 0; h < count; ++h) {
                    T r = 1 / (1 + a[h] * b[h]);
                    T part = given * r;
                    into_v[h] += part;
                    part -= part * r;
                    into_a[h] += part;
                    into_b[h] += part;
                }
            }
        }
    });
}

}  // namespace

#define REGARD_ADDITIVE(NAME, T)                                                                                      \
    extern "C" void additive_forward_##NAME(int64_t items, int64_t queries, int64_t keys, int64_t hidden,             \
                                            int64_t threads, const T* x, const T* y, const T* v, T* out) {            \
        forward<T>(items, queries, keys, hidden, threads, x, y, v, out);                                              \
    }                                                                                                                 \
    extern "C" void additive_backward_##NAME(int64_t items, int64_t queries, int64_t keys, int64_t hidden,            \
                                             int64_t threads, const T* x, const T* y, const T* g, T* dx, T* dy,       \
                                             T* dv) {                                                                 \
        backward<T>(items, queries, keys, hidden, threads, x, y, g, dx, dy, dv);                                      \
    }

REGARD_ADDITIVE(float32, float)
REGARD_ADDITIVE(float64, double)
