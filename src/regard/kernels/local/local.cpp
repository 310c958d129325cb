// Products with a window of rows for each query: scores of its keys, what it reads of them, and the gradients of both.
//
// The window of query q begins at row first[q] and is `window` rows long; nothing is copied. Queries are gone through
// in the order of their windows, so that rows that several of them attend to are read from a cache. Each of the three is the
// gradient of the other two (see local.py). The softmax over such windows in one pass is in softmax.hpp.
//
#include "local/softmax.hpp"

namespace {

using namespace local_rows;

struct Sizes {
    int64_t batch, queries, window, width, threads;
    int64_t rows[2];  // strides of the rows: of items, of rows
};

// work(query, where its window begins) for some of all queries
template <typename Work>
void in_order(const Sizes& s, const int64_t* first, const int64_t* order, int64_t begin, int64_t end,
              const Work& work) {
    for (int64_t at = begin; at < end; ++at) {
        int64_t q = order[at];
        work(q, q / s.queries * s.rows[0] + first[q] * s.rows[1]);
    }
}

// out (batch, queries, window) = each query's left · each row of its window
template <typename T>
void all_dots(const Sizes& s, const T* left, const T* rows, const int64_t* first, const int64_t* order, T* out) {
    int64_t all = s.batch * s.queries;
    share(all, 1, s.threads, all * s.window * s.width, [=](int64_t begin, int64_t end) {
        in_order(s, first, order, begin, end, [&](int64_t q, int64_t row) {
            dots(left + q * s.width, rows + row, s.rows[1], s.window, s.width, out + q * s.window);
        });
    });
}

// out (batch, queries, width) = sum of the window's rows, each times its weight
template <typename T>
void all_mix(const Sizes& s, const T* weights, const T* rows, const int64_t* first, const int64_t* order, T* out) {
    int64_t all = s.batch * s.queries;
    share(all, 1, s.threads, all * s.window * s.width, [=](int64_t begin, int64_t end) {
        in_order(s, first, order, begin, end, [&](int64_t q, int64_t row) {
            mix(weights + q * s.window, rows + row, s.rows[1], s.window, s.width, out + q * s.width);
        });
    });
}

// Adds to each row of the window the query's left times its weight; threads share items, whose rows no other one has.
template <typename T>
void all_spread(const Sizes& s, const T* weights, const T* left, const int64_t* first, const int64_t* order, T* into) {
    share(s.batch, 1, s.threads, s.batch * s.queries * s.window * s.width, [=](int64_t begin, int64_t end) {
        in_order(s, first, order, begin * s.queries, end * s.queries, [&](int64_t q, int64_t row) {
            spread(weights + q * s.window, left + q * s.width, s.rows[1], s.window, s.width, into + row);
        });
    });
}

}  // namespace

#define REGARD_LOCAL(NAME, T)                                                                                         \
    extern "C" void local_dots_##NAME(const Sizes* s, const int64_t* first, const int64_t* order, const T* left,      \
                                      const T* rows, T* out) {                                                        \
        all_dots<T>(*s, left, rows, first, order, out);                                                               \
    }                                                                                                                 \
    extern "C" void local_mix_##NAME(const Sizes* s, const int64_t* first, const int64_t* order, const T* weights,    \
                                     const T* rows, T* out) {                                                         \
        all_mix<T>(*s, weights, rows, first, order, out);                                                             \
    }                                                                                                                 \
    extern "C" void local_spread_##NAME(const Sizes* s, const int64_t* first, const int64_t* order, const T* weights, \
                                        const T* left, T* into) {                                                     \
        all_spread<T>(*s, weights, left, first, order, into);                                                         \
    }                                                                                                                 \
    extern "C" int local_attend_##NAME(const local_softmax::Call* s, const T* center, const int64_t* lengths,           \
                                     const T* left, const T* key, const T* value, T* context, T* scores,              \
                                     int64_t* first, int64_t* order) {                                                \
        return local_softmax::forward<T>(*s, center, lengths, left, key, value, context, scores, first, order);       \
    }                                                                                                                 \
    extern "C" void local_attend_backward_##NAME(                                                                       \
        const local_softmax::Call* s, const T* center, const int64_t* lengths, const T* left, const T* key,           \
        const T* value, const T* scores, const int64_t* first, const int64_t* order, const T* above,                  \
        const T* above_scores, T* to_left, T* to_key, T* to_value, T* to_center) {                                    \
        local_softmax::backward<T>(*s, center, lengths, left, key, value, scores, first, order, above, above_scores,  \
                                   to_left, to_key, to_value, to_center);                                             \
    }                                                                                                                 \
    extern "C" int local_predict_##NAME(const local_softmax::Predicted* s, const T* hidden, const T* vector,          \
                                        const int64_t* lengths, T* center) {                                          \
        return local_softmax::predict<T>(*s, hidden, vector, lengths, center);                                        \
    }                                                                                                                 \
    extern "C" void local_predict_backward_##NAME(const local_softmax::Predicted* s, const T* hidden,                 \
                                                  const T* vector, const int64_t* lengths, const T* center,           \
                                                  const T* above, T* to_hidden, T* to_vector) {                       \
        local_softmax::predict_backward<T>(*s, hidden, vector, lengths, center, above, to_hidden, to_vector);         \
    }

REGARD_LOCAL(float32, float)
REGARD_LOCAL(float64, double)
