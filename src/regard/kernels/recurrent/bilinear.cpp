// What each item's queries read at its own keys, weighed by the softmax of their products, forward and backward: what
// padding masks out is neither computed nor read.

#include <cmath>
#include <numeric>

#include "native/loops.hpp"

namespace {

using namespace loops;

// Items lie one after the other: of queries each has `counts`, without gaps; of keys, which are the values too, each has
// room for `room`, of which the first `lengths` are its own. Rows of weights are `stride` apart, a multiple of a vector.
using Sizes = abi::BilinearSizes;

// C (rows × columns) = A · Bᵀ, sums over vectors and then over their numbers.
template <typename T, int M, int N>
inline void dots(int64_t width, const T* a, int64_t am, const T* b, int64_t bn, T* c, int64_t cm) {
    constexpr int L = kLanes<T>;
    const int64_t vectors = width / L * L;
    Vec<T> sums[M][N] = {};
    for (int64_t k = 0; k < vectors; k += L) {
        Vec<T> column[N];
        for (int n = 0; n < N; ++n) column[n] = load(b + n * bn + k);
        for (int m = 0; m < M; ++m) {
            Vec<T> row = load(a + m * am + k);
            for (int n = 0; n < N; ++n) sums[m][n] += row * column[n];
        }
    }
    for (int m = 0; m < M; ++m)
        for (int n = 0; n < N; ++n) {
            T total = halved<T>(sums[m][n]);
            for (int64_t k = vectors; k < width; ++k) total += a[m * am + k] * b[n * bn + k];
            c[m * cm + n] = total;
        }
}
template <typename T, int M>
inline void dots_of_rows(int64_t columns, int64_t width, const T* a, int64_t am, const T* b, int64_t bn, T* c,
                         int64_t cm) {
    int64_t n = 0;
    for (; n + 4 <= columns; n += 4) dots<T, M, 4>(width, a, am, b + n * bn, bn, c + n, cm);
    for (; n < columns; ++n) dots<T, M, 1>(width, a, am, b + n * bn, bn, c + n, cm);
}
template <typename T>
void all_dots(int64_t rows, int64_t columns, int64_t width, const T* a, int64_t am, const T* b, int64_t bn, T* c,
              int64_t cm) {
    int64_t m = 0;
    for (; m + 4 <= rows; m += 4) dots_of_rows<T, 4>(columns, width, a + m * am, am, b, bn, c + m * cm, cm);
    for (; m < rows; ++m) dots_of_rows<T, 1>(columns, width, a + m * am, am, b, bn, c + m * cm, cm);
}

// C (rows × width) = [C +] A · B, of any width.
template <typename T, bool kAdd>
void read(int64_t rows, int64_t width, int64_t depth, const T* a, int64_t am, int64_t ak, const T* b, int64_t bk, T* c,
          int64_t cm) {
    const int64_t vectors = width / kLanes<T> * kLanes<T>;
    multiply<T, kAdd>(rows, vectors, depth, a, am, ak, b, bk, c, cm);
    if (vectors == width) return;
    for (int64_t m = 0; m < rows; ++m)
        for (int64_t n = vectors; n < width; ++n) {
            T total = kAdd ? c[m * cm + n] : 0;
            for (int64_t k = 0; k < depth; ++k) total += a[m * am + k * ak] * b[k * bk + n];
            c[m * cm + n] = total;
        }
}

// Replaces the scores of `keys` keys by their weights, 0 in the rest of the last vector.
template <typename T>
void softmax(int64_t keys, T* row) {
    constexpr int L = kLanes<T>;
    const int64_t end = whole<T>(keys);
    std::fill(row + keys, row + end, -std::numeric_limits<T>::infinity());
    Vec<T> most = load(row), sums = {};
    for (int64_t i = L; i < end; i += L) most = larger<T>(most, load(row + i));
    const T top = largest<T>(most);
    for (int64_t i = 0; i < end; i += L) {
        Vec<T> power = exponential<T>(load(row + i) - top);
        sums += power;
        store<T>(row + i, power);
    }
    const T share = 1 / sum<T>(sums);
    for (int64_t i = 0; i < end; i += L) store<T>(row + i, load(row + i) * share);
}

// In place of what came back to the weights what comes back to their scores.
template <typename T>
void softmax_backward(int64_t keys, const T* weights, T* row) {
    constexpr int L = kLanes<T>;
    const int64_t end = whole<T>(keys);
    std::fill(row + keys, row + end, T(0));
    Vec<T> sums = {};
    for (int64_t i = 0; i < end; i += L) sums += load(weights + i) * load(row + i);
    const T mean = sum<T>(sums);
    for (int64_t i = 0; i < end; i += L) store<T>(row + i, load(weights + i) * (load(row + i) - mean));
}

// work(item, its first query, how many it has, how many keys)
template <typename Work>
void for_each_item(const Sizes& sizes, const Work& work) {
    const int64_t* counts = sizes.counts;
    const int64_t cost = sizes.queries * sizes.room * sizes.width * 4;
    share(sizes.batch, 1, sizes.threads, cost, [&](int64_t begin, int64_t end) {
        int64_t first = std::accumulate(counts, counts + begin, int64_t(0));
        for (int64_t item = begin; item < end; first += counts[item++]) work(item, first, counts[item], sizes.lengths[item]);
    });
}

// `compared` are the queries, as wide as the keys. `weights` and `context` are filled, the latter with 0 where an item has
// no key.
template <typename T>
void forward(const abi::BilinearForward<T>& call) {
    const int64_t width = call.width, stride = call.stride, apart = call.context_strides[0];
    for_each_item(call, [=](int64_t item, int64_t first, int64_t count, int64_t length) {
        const T *queries = call.compared + first * width, *own = call.keys + item * call.room * width;
        T* rows = call.weights + first * stride;
        all_dots<T>(count, length, width, queries, width, own, width, rows, stride);
        if (length)
            for (int64_t m = 0; m < count; ++m) softmax<T>(length, rows + m * stride);
        read<T, false>(count, width, length, rows, stride, 1, own, width, call.context + first * apart, apart);
    });
}

// `grad_output` is what came back to the context; `to_compared` and `to_keys` are filled, with 0 where there is no key.
template <typename T>
void backward(const abi::BilinearBackward<T>& call) {
    const int64_t width = call.width, stride = call.stride, apart = call.grad_output_strides[0];
    for_each_item(call, [=](int64_t item, int64_t first, int64_t count, int64_t length) {
        const T *queries = call.compared + first * width, *own = call.keys + item * call.room * width;
        const T *rows = call.weights + first * stride, *came = call.grad_output + first * apart;
        T *to_own = call.to_keys + item * call.room * width, *to_compared = call.to_compared + first * width;
        std::vector<T> slopes(count * stride);
        all_dots<T>(count, length, width, came, apart, own, width, slopes.data(), stride);
        if (length)
            for (int64_t m = 0; m < count; ++m) softmax_backward<T>(length, rows + m * stride, slopes.data() + m * stride);
        read<T, false>(count, width, length, slopes.data(), stride, 1, own, width, to_compared, width);
        read<T, false>(length, width, count, rows, 1, stride, came, apart, to_own, width);
        read<T, true>(length, width, count, slopes.data(), 1, stride, queries, width, to_own, width);
        std::fill(to_own + length * width, to_own + call.room * width, T(0));
    });
}

}  // namespace

#define REGARD_BILINEAR(NAME, T)                                                                          \
    extern "C" void bilinear_forward_##NAME(const abi::BilinearForward<T>& call) { forward(call); }      \
    extern "C" void bilinear_backward_##NAME(const abi::BilinearBackward<T>& call) { backward(call); }

REGARD_BILINEAR(float32, float)
REGARD_BILINEAR(float64, double)
