// Additive scores of all pairs of a query and a key, forward and backward; see pairs.hpp for the pairs themselves.
//
// Sides are rows of `wide` numbers, whole vectors: exp(-2 a) and exp(-2 b) where `exponential` says so, else a and b.

#include <mutex>

#include "pairs.hpp"

namespace {

using namespace loops;

// to = exp(-2 x) for x cut off at ±cut. Returns the largest |x|, or NaN where there is a NaN or an infinite number.
template <typename T>
T side(int64_t size, int64_t threads, T cut, const T* from, T* to) {
    constexpr int L = kLanes<T>;
    T found = 0;
    std::mutex own;
    share(size, L, threads, size * 16, [&](int64_t begin, int64_t end) {
        Vec<T> most = {}, wrong = {};
        auto one = [&](Vec<T> x) {
            most = larger<T>(larger<T>(most, x), -x);
            wrong += x * 0;
            x = x > cut ? all<T>(cut) : x;
            x = x < -cut ? all<T>(-cut) : x;
            return exponential<T>(-2 * x);
        };
        int64_t i = begin;
        for (; i + L <= end; i += L) store<T>(to + i, one(load(from + i)));
        if (i < end) {
            T last[L] = {};
            std::copy(from + i, from + end, last);
            store<T>(last, one(load(last)));
            std::copy(last, last + (end - i), to + i);
        }
        T here = largest<T>(most) + sum<T>(wrong);
        std::lock_guard<std::mutex> guard(own);
        found = here <= found ? found : here <= here || found <= found ? here : found;
    });
    return found;
}

template <typename T, bool kExponential>
void forward(int64_t items, int64_t queries, int64_t keys, int64_t wide, int64_t threads, const T* x, const T* y,
             const T* v, T* out) {
    T total = 0;
    for (int64_t h = 0; h < wide; ++h) total += v[h];
    int64_t blocks = (queries + pairs::kRows - 1) / pairs::kRows;
    share(items * blocks, 1, threads, items * queries * keys * wide, [=](int64_t begin, int64_t end) {
        for (int64_t at = begin; at < end; ++at) {
            int64_t item = at / blocks, q = at % blocks * pairs::kRows, row = item * queries + q;
            pairs::scores<T, kExponential>(std::min<int64_t>(pairs::kRows, queries - q), keys, wide, x + row * wide,
                                           y + item * keys * wide, v, total, out + row * keys, keys);
        }
    });
}

// Writes dx and dy, adds the sums of g r to dv. Threads share hidden units, so that no two write to one place.
template <typename T, bool kExponential>
void backward(int64_t items, int64_t queries, int64_t keys, int64_t wide, int64_t threads, const T* x, const T* y,
              const T* v, const T* g, T* dx, T* dy, T* dv) {
    share(wide, kLanes<T>, threads, items * queries * keys * wide, [=](int64_t begin, int64_t end) {
        std::vector<Vec<T>> scratch(2 * keys);
        for (int64_t item = 0; item < items; ++item) {
            int64_t row = item * queries * wide, column = item * keys * wide;
            pairs::back<T, kExponential, false>(queries, keys, wide, begin, end, x + row, y + column, v,
                                                g + item * queries * keys, keys, dx + row, dy + column, dv,
                                                scratch.data());
        }
    });
}

}  // namespace

#define REGARD_ADDITIVE(NAME, T)                                                                                      \
    extern "C" T additive_side_##NAME(int64_t size, int64_t threads, T cut, const T* from, T* to) {                   \
        return side<T>(size, threads, cut, from, to);                                                                 \
    }                                                                                                                 \
    extern "C" void additive_forward_##NAME(int64_t items, int64_t queries, int64_t keys, int64_t wide,               \
                                            int64_t threads, bool exponential, const T* x, const T* y, const T* v,    \
                                            T* out) {                                                                 \
        (exponential ? forward<T, true> : forward<T, false>)(items, queries, keys, wide, threads, x, y, v, out);      \
    }                                                                                                                 \
    extern "C" void additive_backward_##NAME(int64_t items, int64_t queries, int64_t keys, int64_t wide,              \
                                             int64_t threads, bool exponential, const T* x, const T* y, const T* v,   \
                                             const T* g, T* dx, T* dy, T* dv) {                                       \
        (exponential ? backward<T, true> : backward<T, false>)(items, queries, keys, wide, threads, x, y, v, g, dx,   \
                                                               dy, dv);                                               \
    }

REGARD_ADDITIVE(float32, float)
REGARD_ADDITIVE(float64, double)
