// Products with a window of rows for each query: scores of its keys, what it reads of them, and the gradients of both.
//
// The window of query q begins at row first[q] and is `window` rows long; nothing is copied. Queries are gone through
// in the order of their windows, so that rows that several of them attend to are read from a cache. Each of the three is the
// gradient of the other two (see local.py). The softmax over such windows in one pass is in softmax.hpp.
//
#include "local/softmax.hpp"

namespace {

using namespace local_rows;

using Windows = abi::LocalWindows;

// work(query, where its window begins) for some of all queries; `apart` are the strides of items and of rows
template <typename Work>
void in_order(const Windows& s, const int64_t* apart, int64_t begin, int64_t end, const Work& work) {
    for (int64_t at = begin; at < end; ++at) {
        int64_t q = s.order[at];
        work(q, q / s.queries * apart[0] + s.first[q] * apart[1]);
    }
}

// out (batch, queries, window) = each query's left · each row of its window
template <typename T>
void all_dots(const abi::LocalDots<T>& s) {
    int64_t all = s.batch * s.queries;
    share(all, 1, s.threads, all * s.window * s.width, [&](int64_t begin, int64_t end) {
        in_order(s, s.matrix_strides, begin, end, [&](int64_t q, int64_t row) {
            dots(s.left + q * s.width, s.matrix + row, s.matrix_strides[1], s.window, s.width, s.out + q * s.window);
        });
    });
}

// out (batch, queries, width) = sum of the window's rows, each times its weight
template <typename T>
void all_mix(const abi::LocalMix<T>& s) {
    int64_t all = s.batch * s.queries;
    share(all, 1, s.threads, all * s.window * s.width, [&](int64_t begin, int64_t end) {
        in_order(s, s.matrix_strides, begin, end, [&](int64_t q, int64_t row) {
            mix(s.weights + q * s.window, s.matrix + row, s.matrix_strides[1], s.window, s.width, s.out + q * s.width);
        });
    });
}

// Adds to each row of the window the query's left times its weight; threads share items, whose rows no other one has.
template <typename T>
void all_spread(const abi::LocalSpread<T>& s) {
    share(s.batch, 1, s.threads, s.batch * s.queries * s.window * s.width, [&](int64_t begin, int64_t end) {
        in_order(s, s.into_strides, begin * s.queries, end * s.queries, [&](int64_t q, int64_t row) {
            spread(s.weights + q * s.window, s.left + q * s.width, s.into_strides[1], s.window, s.width, s.into + row);
        });
    });
}

}  // namespace

#define REGARD_LOCAL(NAME, T)                                                                            \
    extern "C" void local_dots_##NAME(const abi::LocalDots<T>& call) { all_dots(call); }                 \
    extern "C" void local_mix_##NAME(const abi::LocalMix<T>& call) { all_mix(call); }                    \
    extern "C" void local_spread_##NAME(const abi::LocalSpread<T>& call) { all_spread(call); }           \
    extern "C" bool local_attend_##NAME(const abi::LocalAttend<T>& call) {                               \
        return local_softmax::forward(call);                                                             \
    }                                                                                                    \
    extern "C" void local_attend_backward_##NAME(const abi::LocalAttendBackward<T>& call) {              \
        local_softmax::backward(call);                                                                   \
    }                                                                                                    \
    extern "C" bool local_predict_##NAME(const abi::LocalPredict<T>& call) {                             \
        return local_softmax::predict(call);                                                             \
    }                                                                                                    \
    extern "C" void local_predict_backward_##NAME(const abi::LocalPredictBackward<T>& call) {            \
        local_softmax::predict_backward(call);                                                           \
    }

REGARD_LOCAL(float32, float)
REGARD_LOCAL(float64, double)
